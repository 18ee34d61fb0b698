import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pytest
import redis

from soulsgui.config.paths import RunFolder
from soulsgui.config.sections.run import CheckpointSettings
from soulsgui.errors import CheckpointError
from soulsgui.training import checkpoint_manager, command_handler
from soulsgui.training.checkpoint import Checkpoint, UnsavedError, read_checkpoint
from soulsgui.training.checkpoint_manager import CheckpointManager, score_of
from soulsgui.training.command_handler import CommandHandler
from soulsgui.training.history import History
from soulsgui.wire.connection import Address, Backoff
from soulsgui.wire.keys import Keys
from soulsgui.wire.manifest import NOTE, PINNED, Manifest
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.node_commands import NodeAnswer, NodeCommand
from tests.faults.checkpoint_writer import checkpoint
from tests.faults.small_disk import fill, small_disk
from tests.faults.waiting import LIMIT_S, until
from tests.training.nodes import (
    answers_of,
    ask_node,
    found,
    join,
    next_round,
    play,
    running_node,
    small_settings,
)

pytestmark = pytest.mark.allow_warnings


class _Node:
    """What the manager needs of a trainer; it stands at update 5, and `gamer-01` is cut off."""

    name = "trainer"

    def __init__(self) -> None:
        self.agent = SimpleNamespace(updates=5)
        self.attempt = SimpleNamespace(intake=SimpleNamespace(release=lambda client: client == "gamer-01"))

    @property
    def updates(self) -> int:
        return self.agent.updates

    def snapshot(
        self, kind: str, score: float | None = None, note: str = "", buffer: bool = False
    ) -> Checkpoint:
        made = checkpoint(self.updates, size=4)
        info = made.info.model_copy(update={"kind": kind, "score": score})
        return replace(made, info=info, note=note)

    def weights_snapshot(self, model_id: int, score: float | None, scored_by: str) -> Checkpoint:
        if model_id > self.updates:
            raise CheckpointError(f"Model {model_id} is gone.")
        made = checkpoint(model_id, size=4)
        info = made.info.model_copy(update={"kind": "best", "score": score, "resumable": False})
        return replace(made, info=info)

    def wait(self, seconds: float, why: str) -> None:
        """Nothing is done here."""

    def hold(self, seconds: float) -> None:
        """Nobody is granted anything here."""

    def shutdown(self, _: Any = None) -> None:
        """Nothing runs here."""


class _Managed:
    def __init__(self, connection: redis.Redis, keys: Keys, root: Path) -> None:
        self.connection, self.keys, self.run = connection, keys, RunFolder(root)
        self.node: Any = _Node()
        settings = CheckpointSettings(history_minutes=None)
        self.saved: list[tuple[Manifest, Path]] = []
        self.manager = CheckpointManager(
            self.node, self.run, keys, settings, lambda info, path: self.saved.append((info, path))
        )
        self.commands = CommandHandler(self.node, keys, self.manager)
        self.closed = False

    def ask(self, command: str, **args: Any) -> NodeAnswer:
        return self.answer(ask_node(self.connection, self.keys, command, **args))

    def answer(self, command_id: str) -> NodeAnswer:
        def look() -> list[NodeAnswer]:
            if not self.closed:
                self.look()
            return answers_of(self.connection, self.keys, command_id)

        (answer,) = found(look, "the answer")
        return answer

    def look(self) -> None:
        self.manager.look(self.connection)
        self.commands.look(self.connection)

    def close(self, save: bool = False) -> None:
        if not self.closed:
            self.closed = True
            self.manager.close(save)
            self.commands.answer(self.connection)


@pytest.fixture
def managed(
    redis_client: redis.Redis, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[_Managed]:
    monkeypatch.setattr(command_handler, "_EVERY_S", 0.0)
    monkeypatch.setattr(checkpoint_manager, "_SCORE_EVERY_S", 0.0)
    made = _Managed(redis_client, keys, tmp_path)
    yield made
    made.close()


def _fail_once(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    write, errors = checkpoint_manager.write_checkpoint, [error]

    def fail_once(target: Path, made: Checkpoint, keep: Sequence[Path]) -> None:
        if errors:
            raise errors.pop()
        write(target, made, keep)

    monkeypatch.setattr(checkpoint_manager, "write_checkpoint", fail_once)


def test_two_are_kept_that_the_current_one_replaced_and_one_where_each_holds_a_replay_memory(
    managed: _Managed,
) -> None:
    def save(update: int, memory: bool = False) -> list[int]:
        managed.node.agent.updates = update
        made = managed.node.snapshot("current")
        held = {"obs": np.zeros(3, np.float32)} if memory else {}
        saved = threading.Event()
        managed.manager.save(replace(made, memory=held), lambda *_: saved.set())
        assert saved.wait(LIMIT_S)
        places = managed.run.checkpoint, *managed.run.older
        return [read_checkpoint(place).info.updates for place in places if place.exists()]

    assert [save(update) for update in range(1, 5)] == [[1], [2, 1], [3, 2, 1], [4, 3, 2]]
    assert [save(5, memory=True), save(6, memory=True)] == [[5, 4], [6, 5]]
    assert save(7) == [7, 6, 5]


def test_on_a_slow_disk_one_regular_checkpoint_waits_at_most_and_who_asks_is_answered(
    managed: _Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, begun, go_on = checkpoint_manager.write_checkpoint, threading.Event(), threading.Event()

    def slowly(target: Path, made: Checkpoint, keep: Sequence[Path]) -> None:
        begun.set()
        assert go_on.wait(LIMIT_S)
        write(target, made, keep)

    snapshot, made = managed.node.snapshot, WeakValueDictionary[int, Checkpoint]()

    def remembered(*args: Any) -> Checkpoint:
        made[managed.node.updates] = checkpoint = snapshot(*args)
        return checkpoint

    def reach(*updates: int) -> None:
        for managed.node.agent.updates in updates:
            managed.manager.save_current()
            assert begun.wait(LIMIT_S)

    monkeypatch.setattr(checkpoint_manager, "write_checkpoint", slowly)
    monkeypatch.setattr(managed.node, "snapshot", remembered)
    reach(1, 2, 3, 4)
    assert list(made) == [1, 4], "the others take no memory any more"
    asked = ask_node(managed.connection, managed.keys, "save", kind="manual")
    managed.look()
    reach(5, 6)
    go_on.set()
    assert managed.answer(asked).ok
    managed.close()
    written = [(info.kind, info.updates) for info, _ in managed.saved]
    assert written == [("current", 1), ("manual", 4), ("current", 6)]


def test_saves_are_answered_with_their_path_and_stand_side_by_side(managed: _Managed) -> None:
    answer = managed.ask("save", kind="manual", note="before supper", score=7.5)
    path = managed.run.root / answer.result["path"]
    assert (answer.ok, path.parent) == (True, managed.run.manual_saves)
    info = read_checkpoint(path).info
    assert (info.kind, info.updates, info.score) == ("manual", 5, 7.5)
    assert (path / NOTE).read_text() == "before supper"
    # Of one second.
    asked = [ask_node(managed.connection, managed.keys, "save", kind="manual") for _ in range(4)]
    assert len({managed.answer(one).result["path"] for one in asked}) == 4
    assert len(list(managed.run.manual_saves.iterdir())) == 5
    assert managed.ask("save", kind="best", model_id=3, score=99.0).result == {"path": "best_model"}
    info = read_checkpoint(managed.run.best_model).info
    assert (info.model_id, info.score, info.resumable) == (3, 99.0, False)
    assert [info.kind for info, _ in managed.saved] == ["manual"] * 5 + ["best"]


@pytest.mark.parametrize(
    ("command", "args", "reason"),
    [
        ("save", {"kind": "best", "model_id": 9}, "is gone"),
        ("save", {"kind": "best"}, "model_id"),
        ("save", {"kind": "best", "model_id": "x"}, "invalid literal"),
        ("save", {"kind": "bset"}, "there is no kind of checkpoint called “bset”"),
        ("release", {"client": "gamer-02"}, "gamer-02 is not cut off"),
        ("release", {}, "is not cut off"),
        ("hold", {}, "seconds"),
        ("snooze", {}, "there is no command called “snooze”"),
    ],
)
def test_what_can_not_be_done_is_said(
    managed: _Managed, monkeypatch: pytest.MonkeyPatch, command: str, args: dict[str, Any], reason: str
) -> None:
    asked = NodeCommand.model_construct(id="1", command=command, args=args)
    with monkeypatch.context() as patched:
        patched.setattr(managed.commands._reader, "poll", lambda _: [asked])
        managed.look()
    answer = managed.answer("1")
    assert not answer.ok
    assert reason in answer.error
    assert managed.saved == []
    assert managed.ask("release", client="gamer-01").ok


@pytest.mark.parametrize(
    ("args", "name"), [({"kind": "current"}, "checkpoint"), ({"kind": "best", "model_id": 3}, "best_model")]
)
def test_what_found_no_room_is_saved_later_and_once(
    managed: _Managed, monkeypatch: pytest.MonkeyPatch, args: dict[str, Any], name: str
) -> None:
    manager = managed.manager
    _fail_once(monkeypatch, CheckpointError("no space", "Free some."))
    answer = managed.ask("save", **args)
    assert (answer.ok, answer.error, manager.last_error) == (
        False,
        "no space\nFree some.",
        "no space" * (name == "checkpoint"),
    )
    assert (manager.last_current, managed.saved) == (None, [])
    manager._again = Backoff(0.01, 0.01)
    _fail_once(monkeypatch, UnsavedError(managed.run.root, "no space left", disk_full=True))
    assert not managed.ask("save", **args).ok

    def looked_until_saved() -> bool:
        manager.look(managed.connection)
        return bool(managed.saved) and not manager.saving

    until(looked_until_saved, "it is saved")
    assert manager.last_error == ""
    assert (manager.last_current is not None) is (name == "checkpoint")
    manager._next_try = 0.0
    manager.look(managed.connection)
    assert not manager.saving
    assert [path.name for _, path in managed.saved] == [name]


@pytest.mark.parametrize(
    ("save", "fails", "saved"), [(True, False, [5, 6]), (False, False, [5]), (True, True, [6])]
)
def test_the_end_writes_what_was_ordered_and_saves_what_is_newer(
    managed: _Managed, monkeypatch: pytest.MonkeyPatch, save: bool, fails: bool, saved: list[int]
) -> None:
    if fails:
        _fail_once(monkeypatch, CheckpointError("no space"))
    telemetry = NodeState(name="telemetry", instance=Instance(), tick=1, run_id=managed.run.run_id)
    told = telemetry.model_copy(update={"mean_return": 33.5}).to_json()
    managed.connection.set(managed.keys.node("telemetry"), told)
    managed.manager.look(managed.connection)
    managed.manager.save_current()
    managed.node.agent.updates = 6
    managed.close(save=save)
    assert [info.updates for info, _ in managed.saved] == saved
    info = read_checkpoint(managed.run.checkpoint).info
    assert (info.updates, info.score) == (saved[-1], 33.5), "with the return that telemetry tells"
    assert score_of(managed.connection, managed.keys, "another run") is None


def test_writing_goes_on_after_every_error_in_the_order_of_the_orders(
    managed: _Managed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _fail_once(monkeypatch, MemoryError("a defect"))
    manager, written = managed.manager, []

    def follow(info: Manifest, path: Path) -> None:
        written.append(info.updates)
        if info.updates == 7:
            raise ValueError("another defect")

    monkeypatch.setattr(manager, "_on_saved", follow)
    gate, write = threading.Event(), checkpoint_manager.write_checkpoint
    monkeypatch.setattr(
        checkpoint_manager, "write_checkpoint", lambda *order: gate.wait(LIMIT_S) and write(*order)
    )
    for updates in (6, 7, 8, 9):
        managed.node.agent.updates = updates
        manager.save_current(lambda *_: None)  # asked for: each of them
    assert manager.saving
    gate.set()
    until(lambda: not manager.saving, "all is written")
    assert written == [7, 8, 9]
    assert read_checkpoint(managed.run.checkpoint).info.updates == 9
    assert ["a defect" in caplog.text, "another defect" in caplog.text] == [True, True]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(checkpoint_manager, "_AGAIN_FIRST_S", 0.05)
    with small_disk(tmp_path / "disk", "2m") as folder:
        yield folder


def test_training_pauses_while_the_disk_is_full_and_goes_on(redis_address: Address, disk: Path) -> None:
    with running_node(redis_address, disk, small_settings(checkpoint__every_updates=1)) as node:
        player = join(node)
        last = play(player)
        node.wait_for(lambda now: now.checkpoint_env_steps is not None, "the first checkpoint")
        filler = fill(disk)
        last = play(player, last=last)
        state = node.wait_for(lambda now: now.unsaved, "it says that it can't save")
        assert (state.phase, state.detail) == ("paused", state.unsaved)
        assert str(node.run.root) in state.unsaved
        assert "MB free" in state.unsaved
        assert read_checkpoint(node.run.checkpoint).info.updates == 1
        # What is delivered now waits on the server.
        share = next_round(player, last)
        player.deliver(share.steps // player.num_envs)
        tick = node.node.state().tick
        state = node.wait_for(lambda now: now.tick > tick + 5, "it lives")
        assert (state.updates, state.phase) == (2, "paused")
        filler.unlink()
        node.wait_for_updates(3)
        state = node.wait_for(lambda now: not now.unsaved, "it says that it can save")
        assert state.error == ""
        until(lambda: node.node.attempt.checkpoints.last_current.updates == 3, "the newest is saved")
        assert read_checkpoint(node.run.checkpoint).info.updates == 3


def test_a_best_model_is_saved_later_and_a_stop_says_it_can_not(redis_address: Address, disk: Path) -> None:
    with running_node(redis_address, disk) as node:
        last = play(join(node), rounds=2)
        node.wait_for_updates(2)
        filler = fill(disk)
        assert not node.answer(node.ask("save", kind="best", model_id=last, score=3.5)).ok
        filler.unlink()
        until(node.run.best_model.exists, "the best model")
        assert read_checkpoint(node.run.best_model).info.score == 3.5
        filler = fill(disk)
        assert not node.answer(node.ask("save", kind="manual")).ok
        stop = node.ask("stop")
        node.join()
        answer = node.answer(stop)
        assert not answer.ok
        assert f"no space left on {disk}" in answer.error
        assert "Free some space" in answer.error
        assert node.told().unsaved.startswith("not saved yet: no space left on")
        assert not node.run.checkpoint.exists()
        filler.unlink()


def test_the_history_keeps_checkpoints_of_all_its_length(managed: _Managed) -> None:
    settings = CheckpointSettings(history_updates=2, history_kept=3)
    managed.manager._history = History(managed.run, settings)
    for updates in range(5, 20):
        managed.node.agent.updates = updates
        managed.look()
        until(lambda: not managed.manager.saving, "it is written")
        if updates == 8:
            (managed.run.history / "8" / PINNED).touch()
    kept = sorted(int(path.name) for path in managed.run.history.iterdir())
    assert kept[0] == 6
    assert kept[-1] == 18
    assert 8 in kept
    assert len(kept) == 4
    assert {info.kind for info, _ in managed.saved} == {"history"}
    assert read_checkpoint(managed.run.history / "18").info.updates == 18
    managed.node.agent.updates = 8
    managed.manager.save(managed.node.snapshot("history"))
    until(lambda: not managed.manager.saving, "nothing is written any more")
    assert (managed.run.history / "8" / PINNED).exists(), "a pinned one is not replaced"
