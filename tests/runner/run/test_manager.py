"""The end of a run is written down as soon as that is possible, whatever was in the way."""

import json
import logging
import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from soulsgui.config.layers import as_settings
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import NoCheckpointError, UsageError
from soulsgui.runner.access.roster import ClientRoster
from soulsgui.runner.api.library_commands import HANDLERS
from soulsgui.runner.events import EventLog
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.manager import RunManager, remember_active
from soulsgui.runner.run.queue import entry_of
from soulsgui.runner.run.record import ActiveRun, RunRecord
from soulsgui.runner.run.services import RunContext
from soulsgui.runner.run.session import RunSession
from soulsgui.runner.run.start import beginning, choose_checkpoint
from soulsgui.runner.server.reader import ServerState
from soulsgui.wire.control import CheckpointInfo, CheckpointParams, ErrorCode, RunStartParams
from soulsgui.wire.keys import TELEMETRY, TRAINER, Keys
from soulsgui.wire.manifest import CONFIG, MANIFEST, sha256_of
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.node import NodeState, Verdict
from tests.runner.fake_program import save


async def nobody(*_: Any) -> None:
    """Nothing lives, nobody is let in, nobody is told."""


@pytest.fixture
def context(folders: Folders) -> RunContext:
    """What a run needs of a runner that finds no process of an earlier one."""
    folders.server.mkdir(parents=True)
    supervisor: Any = SimpleNamespace(
        adopt=nobody, orphans=list, statuses=list, outcome_of=lambda _: None, running=lambda _: False
    )
    bus: Any = SimpleNamespace(let_clients_rest=nobody)
    probe: Any = nobody
    roster, server_state = ClientRoster(Keys("test:")), ServerState(lambda _: None)
    events = EventLog(folders.server / "events.jsonl", lambda _: None)
    library = Library(folders.runs)
    return RunContext(folders, library, supervisor, bus, roster, server_state, events, probe, nobody)


@pytest.fixture
def run(context: RunContext) -> RunFolder:
    """A run that an earlier runner was ending."""
    run = context.library.create("one", 0.0)
    context.library.write_settings(run, Settings())
    context.library.write_record(run, RunRecord(id=run.run_id, state="running"))
    remember_active(context.folders, ActiveRun(run_id=run.run_id, clients=[], ending="stopped"))
    return run


@pytest.fixture
def manager(context: RunContext, run: RunFolder) -> RunManager:
    return RunManager(context, Layer("--set"))


@pytest.mark.allow_warnings
@pytest.mark.parametrize("trouble", [OSError("full"), ValueError("a defect")], ids=str)
async def test_what_is_owed_is_tried_again_until_it_is_written(
    context: RunContext,
    run: RunFolder,
    manager: RunManager,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    trouble: Exception,
) -> None:
    caplog.set_level(logging.INFO)
    choose_checkpoint(run, "checkpoint")
    write = context.library.write_record

    def fail_at_the_end(run: RunFolder, record: RunRecord) -> None:
        if record.reached:
            raise trouble
        write(run, record)

    with monkeypatch.context() as patched:
        patched.setattr(context.library, "write_record", fail_at_the_end)
        assert not await manager.adopt()
        assert manager.over.is_set()
        assert (manager.session, manager.record.reached) == (None, "stopped")
        for now in (0.0, 10.0):
            manager.turn(now, 0.0)
    assert caplog.text.count("can't be written") == 1
    assert not context.library.record(run).reached
    manager.turn(20.0, 0.0)
    assert context.library.record(run).reached == "stopped"
    assert run.chosen is None
    assert "is written" in caplog.text


@pytest.mark.allow_warnings
async def test_a_choice_that_could_not_be_taken_back_is_taken_back_later(
    context: RunContext, run: RunFolder, manager: RunManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_checkpoint(run, "checkpoint")

    def fail(*_: Any, **__: Any) -> None:
        raise PermissionError("in use")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", fail)
        await manager.adopt()
    assert manager.over.is_set()
    assert run.chosen is not None
    manager.turn(20.0, 0.0)
    assert run.chosen is None
    assert context.library.record(run).reached == "stopped"


async def test_a_run_of_which_nothing_lives_was_interrupted_and_is_so_once(
    context: RunContext, run: RunFolder, manager: RunManager
) -> None:
    remember_active(context.folders, ActiveRun(run_id=run.run_id, clients=[]))
    assert not await manager.adopt()
    record = context.library.record(run)
    assert (record.state, record.reached) == ("stopped", "stopped")
    assert "without stopping" in record.error
    (event,) = context.events.since(0)
    assert (event.level, event.what) == ("error", f"Run {run.run_id} was interrupted")
    assert not await manager.adopt()
    assert context.events.since(0) == [event]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.timeout(10)
async def test_a_pipe_in_place_of_what_says_which_run_goes_on_is_refused_at_once(
    context: RunContext, manager: RunManager
) -> None:
    (active,) = context.folders.server.glob("active_run.json")
    active.unlink()
    os.mkfifo(active)
    with pytest.raises(OSError, match=r"active_run\.json is a pipe or a device"):
        await manager.adopt()


def test_a_run_that_begins_within_a_turn_has_gone_on_for_no_time(context: RunContext, run: RunFolder) -> None:
    turn = time.monotonic()
    session = RunSession(context, run, Settings(), RunRecord(id=run.run_id, seconds=5.0))
    assert session.look(turn, 0.0) is None
    assert session.record.seconds == 5.0


async def test_the_goal_that_the_attempt_before_reached_does_not_end_a_run_that_is_resumed(
    context: RunContext, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Telemetry is there seconds before the trainer is, and tells what the attempt before has reached.
    def tell(name: str, attempt: int) -> None:
        verdict = Verdict(reached=True, reached_with=475.5) if name == TELEMETRY else None
        nodes[name] = NodeState(
            name=name, instance=Instance(), tick=1, run_id=run.run_id, attempt=attempt, verdict=verdict
        )

    async def all_live(**_: Any) -> list[str]:
        return [TELEMETRY]

    nodes: dict[str, NodeState] = {}
    record = RunRecord(id=run.run_id, state="starting", attempt=1)
    session = RunSession(context, run, Settings(), record)
    monkeypatch.setattr(context.server_state, "node_of", lambda name, _: nodes.get(name))
    monkeypatch.setattr(context.bus, "call", nobody, raising=False)
    monkeypatch.setattr(context.bus, "keys", Keys("test:"), raising=False)
    monkeypatch.setattr("soulsgui.runner.run.session.spaces_are_known", lambda _: True)
    monkeypatch.setattr(session.services, "start", nobody)
    await session.resume("previous/1")
    tell(TELEMETRY, attempt=1)
    assert session.look(time.monotonic(), 0.0) is None
    # The next runner, after a crash of this one, knows no less.
    taken_over = RunSession(context, run, Settings(), record, session.left())
    monkeypatch.setattr(taken_over.services, "adopt", all_live)
    await taken_over.adopt(session.left())
    sessions = (session, taken_over)
    assert [one.look(time.monotonic(), 0.0) for one in sessions] == [None, None]
    tell(TRAINER, attempt=2)
    assert [one.look(time.monotonic(), 0.0) for one in sessions] == [None, None]
    tell(TELEMETRY, attempt=2)
    assert [one.look(time.monotonic(), 0.0) for one in sessions] == [("mean_return", "")] * 2


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (redis.ResponseError("MISCONF Redis is configured to save RDB snapshots"), False),
        (redis.ConnectionError("Connection refused"), False),
        (redis.TimeoutError("Timeout reading from socket"), True),
        (Refused(ErrorCode.NO_ANSWER, "The trainer did not answer"), True),
    ],
    ids=["disk full", "connection lost", "no reply", "trainer busy"],
)
async def test_a_change_that_reached_nobody_is_none(
    context: RunContext, run: RunFolder, monkeypatch: pytest.MonkeyPatch, error: Exception, waits: bool
) -> None:
    async def fail(*_: object) -> None:
        raise error

    session, before = (
        RunSession(context, run, Settings(), context.library.record(run)),
        run.config.read_bytes(),
    )
    monkeypatch.setattr(context.bus, "ask", fail, raising=False)
    if waits:
        assert await session.apply({"ppo.learning_rate": 1e-4}) is None
        assert context.events.newest(1)[0].what.endswith("as soon as the trainer can")
    else:
        with pytest.raises(type(error)):
            await session.apply({"ppo.learning_rate": 1e-4})
        assert context.events.since(0) == []
    assert (run.config.read_bytes() != before) is waits


@pytest.mark.parametrize("learner", [("ppo", ""), ("sac", "tqc")])
async def test_what_another_agent_saved_is_not_loaded(
    context: RunContext, run: RunFolder, manager: RunManager, learner: tuple[str, str]
) -> None:
    other = context.library.create("two", 1.0)
    context.library.write_settings(other, Settings())
    context.library.write_record(other, RunRecord(id=other.run_id))
    save(other.manual_saves / "1", other, "manual", 100, learner=learner)
    settings = as_settings({"algorithm": "sac", "sac.agent": "crossq"})
    manager.session = RunSession(context, run, settings, context.library.record(run))
    runner: Any = SimpleNamespace(run_manager=manager, library=context.library)
    load: Any = HANDLERS["checkpoint.load"]
    with pytest.raises(Refused, match="a different environment, algorithm, agent or network"):
        await load(runner, CheckpointParams(path="manual_save/1", run=other.run_id), None)
    assert run.chosen is None


def test_no_run_begins_from_what_another_agent_saved(context: RunContext, run: RunFolder) -> None:
    target = run.manual_saves / "1"
    save(target, run, "manual", 100)
    (target / CONFIG).write_bytes(run.config.read_bytes())
    manifest = json.loads((target / MANIFEST).read_bytes())
    manifest["files"][CONFIG] = {"sha256": sha256_of(target / CONFIG), "size": run.config.stat().st_size}
    (target / MANIFEST).write_text(json.dumps(manifest))
    asked = RunStartParams(from_checkpoint=f"{run.run_id}/manual_save/1", overrides={"algorithm": "sac"})
    with pytest.raises(UsageError, match="trained with ppo: sac can't continue from it"):
        beginning(context.folders, context.library, asked, Layer("--set"))


async def test_a_run_from_a_checkpoint_tells_which_steps_are_not_its_own(
    run: RunFolder, manager: RunManager
) -> None:
    save(run.manual_saves / "1", run, "manual", 100)
    entry = entry_of(1, Settings(), checkpoint=str(run.manual_saves / "1"))
    session, work = await manager._begin_new(entry, Settings())
    work.close()
    assert session.record.begun_env_steps == 100
    session, work = await manager._begin_new(entry_of(2, Settings()), Settings())
    work.close()
    assert session.record.begun_env_steps == 0


async def test_a_checkpoint_is_not_loaded_into_a_run_that_was_begun_meanwhile(
    context: RunContext, run: RunFolder, manager: RunManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(run.manual_saves / "1", run, "manual", 100)
    manager.session = RunSession(context, run, Settings(), context.library.record(run))
    get, told = context.library.checkpoints.get_resumable, []

    def slowly(run: RunFolder, checkpoint: str) -> CheckpointInfo:
        second = context.library.create("two", 1.0)
        manager.session = RunSession(context, second, Settings(), RunRecord(id=second.run_id))
        return get(run, checkpoint)

    async def note(*told_what: object) -> None:
        told.append(told_what)

    monkeypatch.setattr(context.library.checkpoints, "get_resumable", slowly)
    monkeypatch.setattr(context.bus, "ask", note, raising=False)
    monkeypatch.setattr(context.supervisor, "restart", note, raising=False)
    monkeypatch.setattr(context.supervisor, "wait_ready", note, raising=False)
    runner: Any = SimpleNamespace(run_manager=manager, library=context.library)
    load: Any = HANDLERS["checkpoint.load"]
    with pytest.raises(Refused, match="has ended"):
        await load(runner, CheckpointParams(path="manual_save/1", run=run.run_id), None)
    assert told == []
    assert run.chosen is None


async def test_a_checkpoint_that_is_thrown_away_while_the_run_is_saved_is_not_gone_on_from(
    context: RunContext, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(run.history / "1", run, "history", 100)

    async def save_slowly(*_: object) -> None:
        shutil.rmtree(run.history / "1")

    monkeypatch.setattr(context.bus, "ask", save_slowly, raising=False)
    session = RunSession(context, run, Settings(), context.library.record(run))
    with pytest.raises(NoCheckpointError, match="history/1 was deleted"):
        await session.load("history/1")
    assert run.chosen is None
    assert context.events.since(0) == []
