"""Command lines, environments and checks of the services."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.errors import UsageError
from soulsgui.process import SUPERVISED_ENV, child_env, own_command
from soulsgui.runner.run.services import RunServices, client_health, client_name, node_health
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.node import NodeState


class FakeState:
    """Knows one node, one client, one pid: server, roster and supervisor in one."""

    def __init__(self) -> None:
        self.state: NodeState | None = None
        self.last_beat: Heartbeat | None = None
        self.process: int | None = os.getpid()

    def node(self, _name: str) -> NodeState | None:
        return self.state

    def beat(self, _client: str) -> Heartbeat | None:
        return self.last_beat

    def pid_of(self, _service: str) -> int | None:
        return self.process


def test_node_is_ready_once_it_has_said_something() -> None:
    state = FakeState()
    check = node_health("trainer", state)
    assert not check().ready
    state.state = NodeState(
        name="trainer", instance=Instance(), tick=5, phase="saving", detail="d", error="e", farewell="f"
    )
    health = check()
    assert (health.ready, health.tick, health.phase) == (True, 5, "saving")
    assert (health.detail, health.error, health.farewell) == ("d", "e", "f")


def test_client_is_ready_when_its_own_process_beats() -> None:
    state = FakeState()
    check = client_health("client-1", state, state)
    assert not check().ready
    state.last_beat = Heartbeat(client="client-1", instance=Instance(pid=1), counter=3)
    assert not check().ready
    state.last_beat = Heartbeat(
        client="client-1", instance=Instance(pid=os.getpid()), counter=3, leaving=True
    )
    health = check()
    assert (health.ready, health.tick, bool(health.farewell)) == (True, 3, True)
    state.process = None
    assert not check().ready


def services_of(root: Path) -> RunServices:
    nothing: Any = None
    context: Any = SimpleNamespace(
        folders=Folders(root / "c", root / "d"),
        supervisor=nothing,
        bus=nothing,
        roster=FakeState(),
        server_state=FakeState(),
        let_in=nothing,
    )
    return RunServices(context, RunFolder(root / "d" / "runs" / "r"), [client_name(2)], evaluates=True)


def test_command_lines_hold_no_secret_and_name_run_and_server(tmp_path: Path) -> None:
    services, server = services_of(tmp_path), tmp_path / "d" / "server"
    run = tmp_path / "d" / "runs" / "r"
    expected = ("--run", str(run), "--server-file", str(server / "redis.json"))
    assert services.names == ["trainer", "telemetry", "evaluator", "client-2"]
    for node in ("trainer", "telemetry", "evaluator"):
        assert services.spec(node).argv == (sys.executable, "-P", "-m", "soulsgui", node, *expected)
    client = services.spec("client-2")
    assert client.argv[4:] == (
        "client", "--name", "client-2", "--server-file", str(server / "local" / "client-2.json")
    )  # fmt: skip
    assert client.log_path == run / "logs" / "client-2.log"
    assert client.tier > services.spec("trainer").tier


def test_nodes_refuse_settings_for_good_clients_are_tried_again_and_all_know_of_their_runner(
    tmp_path: Path,
) -> None:
    services = services_of(tmp_path)
    nodes = [services.spec(name) for name in ("trainer", "telemetry", "evaluator")]
    assert {spec.refusal_code for spec in nodes} == {UsageError.exit_code, ConfigError([]).exit_code}
    assert services.spec("client-2").refusal_code is None
    assert all(services.spec(name).env.items() >= SUPERVISED_ENV.items() for name in services.names)


def test_children_find_the_package_and_keep_to_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    env = child_env()
    assert env["PYTHONUNBUFFERED"] == env["OMP_NUM_THREADS"] == "1"
    first, *others = env["PYTHONPATH"].split(os.pathsep)
    assert (Path(first) / "soulsgui" / "__init__.py").exists()
    assert others == ["elsewhere"]
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert own_command("trainer") == [sys.executable, "trainer"], "a frozen program is its own command"
