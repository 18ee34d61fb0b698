import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import UsageError
from soulsgui.process import SUPERVISED_ENV, child_env, own_command
from soulsgui.runner.run.services import RunServices, client_health, client_name, node_health
from soulsgui.runner.services.outcome import Outcome
from soulsgui.runner.services.service import Health
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import Heartbeat, InferenceFigures
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
    said: dict[str, Any] = {"tick": 5, "phase": "saving", "detail": "d", "error": "e", "farewell": "f"}
    state.state = NodeState(name="trainer", instance=Instance(), **said)
    assert check() == Health(ready=True, **said)


def test_client_is_ready_when_its_own_process_beats() -> None:
    state = FakeState()
    check = client_health("client-1", state, state)

    def beat(pid: int) -> Heartbeat:
        return Heartbeat(client="client-1", instance=Instance(pid=pid), counter=3, leaving=True)

    for nothing_of_it in (None, beat(1)):
        state.last_beat = nothing_of_it
        assert not check().ready
    state.last_beat = beat(os.getpid())
    health = check()
    assert (health.ready, health.tick, bool(health.farewell)) == (True, 3, True)
    state.process = None
    assert not check().ready


def test_an_inference_server_lives_as_long_as_it_looks_for_requests() -> None:
    state = FakeState()
    check = client_health("inference-1", state, state)

    def tick(counter: int, turns: int) -> int | None:
        instance, figures = Instance(pid=os.getpid()), InferenceFigures(turns=turns)
        state.last_beat = Heartbeat(
            client="inference-1", instance=instance, counter=counter, inference=figures
        )
        return check().tick

    assert tick(1, 5) == tick(2, 5), "its heartbeat goes on"
    assert tick(3, 6) != tick(2, 5)


@pytest.fixture
def services(folders: Folders) -> RunServices:
    context: Any = SimpleNamespace(folders=folders, roster=FakeState(), server_state=FakeState())
    context.supervisor = context.bus = context.let_in = None
    return RunServices(context, RunFolder(folders.runs / "r"), Settings(), [client_name(2)])


NODES = ("trainer", "telemetry", "evaluator")


def test_command_lines_name_run_and_server_and_no_secret(folders: Folders, services: RunServices) -> None:
    run, server = folders.runs / "r", folders.server
    expected = ("--run", str(run), "--server-file", str(server / "redis.json"))
    assert services.names == [*NODES, "client-2"]
    for node in NODES:
        assert services.spec(node).argv == (sys.executable, "-P", "-m", "soulsgui", node, *expected)
    client = services.spec("client-2")
    its_file = str(server / "local" / "client-2.json")
    assert client.argv[4:] == ("client", "--name", "client-2", "--server-file", its_file)
    assert client.log_path == run / "logs" / "client-2.log"
    assert client.tier > services.spec("trainer").tier


def test_inference_servers_are_started_before_the_clients_and_know_the_server(folders: Folders) -> None:
    context: Any = SimpleNamespace(folders=folders, roster=FakeState(), server_state=FakeState())
    context.supervisor = None
    central = {"inference": "server", "central": {"inference_servers": 2}, "evaluation": {"every_updates": 0}}
    settings = Settings.model_validate(central)
    services = RunServices(context, RunFolder(folders.runs / "r"), settings, [client_name(1)])
    assert services.names == ["trainer", "telemetry", "inference-1", "inference-2", "client-1"]
    spec = services.spec("inference-2")
    server_file = str(folders.server / "redis.json")
    assert spec.argv[4:] == ("inference", "--name", "inference-2", "--server-file", server_file)
    assert (spec.kind, spec.tier) == ("inference", services.spec("client-1").tier)


@pytest.mark.processes
async def test_curves_that_telemetry_did_not_live_to_write_are_written_at_the_end(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder(folders.runs / "r")
    run.root.mkdir(parents=True)
    writes = "import pathlib, sys; pathlib.Path(sys.argv[2], 'telemetry.json').write_text(sys.argv[1])"
    monkeypatch.setattr("soulsgui.runner.run.services.PROGRAM", (sys.executable, "-c", writes, "figure"))
    outcomes = {"telemetry": Outcome(None, 9, 1.0, asked_to_stop=False)}

    async def stop(*_: str, **__: Any) -> None:
        pass

    supervisor = SimpleNamespace(stop=stop, running=lambda _: False, outcome_of=outcomes.get)
    context: Any = SimpleNamespace(folders=folders, supervisor=supervisor)
    services = RunServices(context, run, Settings(), [])
    await services.end(save=True)
    assert not run.series.exists(), "there is nothing to write"
    run.store.touch()
    outcomes["telemetry"] = Outcome(0, None, 1.0, asked_to_stop=True, farewell="ended as asked")
    await services.end(save=True)
    assert not run.series.exists(), "it did so itself"
    outcomes["telemetry"] = Outcome(None, 9, 1.0, asked_to_stop=False)
    await services.end(save=True)
    assert run.series.read_text() == "figure"


def test_nodes_refuse_settings_for_good_and_clients_are_tried_again(services: RunServices) -> None:
    refusal = UsageError.exit_code
    assert ConfigError([]).exit_code == refusal
    codes = {name: services.spec(name).refusal_code for name in services.names}
    assert codes == dict.fromkeys(NODES, refusal) | {"client-2": None}
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
