"""Command lines, environments and checks of the services."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.errors import UsageError
from soulsgui.process import SUPERVISED_ENV, child_env, own_command
from soulsgui.runner.family import Family
from soulsgui.runner.services import RunServices, client_health, client_name, node_health
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.node import NodeState


class FakeView:
    """Knows one node, one client, one pid."""

    def __init__(self) -> None:
        self.state: NodeState | None = None
        self.last_beat: Heartbeat | None = None
        self.process: int | None = os.getpid()

    def node(self, _name: str) -> NodeState | None:
        return self.state

    def beat(self, _client: str) -> Heartbeat | None:
        return self.last_beat

    def pid(self, _service: str) -> int | None:
        return self.process


def test_node_is_ready_once_it_has_said_something() -> None:
    view = FakeView()
    check = node_health("trainer", view)
    assert not check().ready
    view.state = NodeState(
        name="trainer", instance=Instance(), tick=5, phase="saving", detail="d", error="e", farewell="f"
    )
    health = check()
    assert (health.ready, health.tick, health.phase) == (True, 5, "saving")
    assert (health.detail, health.error, health.farewell) == ("d", "e", "f")


def test_client_is_ready_when_its_own_process_beats() -> None:
    view = FakeView()
    check = client_health("client-1", view)
    assert not check().ready
    view.last_beat = Heartbeat(client="client-1", instance=Instance(pid=1), counter=3)
    assert not check().ready
    view.last_beat = Heartbeat(client="client-1", instance=Instance(pid=os.getpid()), counter=3, leaving=True)
    health = check()
    assert (health.ready, health.tick, bool(health.farewell)) == (True, 3, True)
    view.process = None
    assert not check().ready


def test_family_is_the_process_and_its_children() -> None:
    family, parent = Family(), psutil.Process().ppid()
    assert family.includes(os.getpid(), os.getpid())
    assert family.includes(parent, os.getpid())
    assert family.includes(parent, os.getpid())
    assert not family.includes(os.getpid(), parent)
    assert not family.includes(None, os.getpid())
    assert not family.includes(os.getpid(), 0)
    assert not family.includes(os.getpid(), 2**22 + 1)


def test_command_lines_hold_no_secret_and_name_run_and_server(tmp_path: Path) -> None:
    folders, run = Folders(tmp_path / "c", tmp_path / "d"), RunFolder(tmp_path / "d" / "runs" / "r")
    services = RunServices(folders, run, FakeView())
    expected = ("--run", str(run.root), "--server-file", str(folders.server / "redis.json"))
    assert services.trainer().argv == (sys.executable, "-P", "-m", "soulsgui", "trainer", *expected)
    assert services.telemetry().argv == (sys.executable, "-P", "-m", "soulsgui", "telemetry", *expected)
    client = services.client(client_name(2))
    own = str(folders.server / "local" / "client-2.json")
    assert client.argv[4:] == ("client", "--name", "client-2", "--server-file", own)
    assert client.log_path == run.logs / "client-2.log"
    assert client.tier > services.trainer().tier


def test_nodes_refuse_settings_for_good_and_clients_are_tried_again(tmp_path: Path) -> None:
    services = RunServices(Folders(tmp_path, tmp_path), RunFolder(tmp_path), FakeView())
    nodes = (services.trainer(), services.telemetry(), services.evaluator())
    assert {spec.refusal_code for spec in nodes} == {UsageError.exit_code, ConfigError([]).exit_code}
    assert services.client(client_name(1)).refusal_code is None


def test_all_that_is_started_knows_that_a_runner_keeps_the_list_of_clients(tmp_path: Path) -> None:
    services = RunServices(Folders(tmp_path, tmp_path), RunFolder(tmp_path), FakeView())
    started = (services.trainer(), services.telemetry(), services.evaluator(), services.client("client-1"))
    assert all(spec.env.items() >= SUPERVISED_ENV.items() for spec in started)


def test_frozen_program_is_its_own_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert own_command("trainer") == [sys.executable, "trainer"]


def test_children_find_the_package_and_keep_to_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    env = child_env()
    assert env["PYTHONUNBUFFERED"] == env["OMP_NUM_THREADS"] == "1"
    first, *others = env["PYTHONPATH"].split(os.pathsep)
    assert (Path(first) / "soulsgui" / "__init__.py").exists()
    assert others == ["elsewhere"]
