"""Checkpoints on order: commands are answered when they are on disk, or can't be."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from soulsgui.config.paths import RunFolder
from soulsgui.errors import CheckpointError
from soulsgui.training import checkpoint_manager
from soulsgui.training.checkpoint import Checkpoint, read_checkpoint
from soulsgui.training.checkpoint_manager import CheckpointManager, Saver, score_of
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.manifest import NOTE, Manifest
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.node_commands import NodeAnswer, NodeCommand, read_answer, send_command
from tests.faults.checkpoint_writer import checkpoint
from tests.faults.small_disk import fill, small_disk
from tests.faults.waiting import LIMIT_S, until
from tests.training.nodes import RunningNode, join, next_round, play, running_node, small_settings


class _Node:
    """What the desk needs of a node; it stands at update 5."""

    def __init__(self) -> None:
        self.updates = 5
        self.stopped = False

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

    def rest(self) -> None:
        self.rests = True

    def release(self, client: str) -> bool:
        return client == "gamer-01"

    def shutdown(self, _: Any = None) -> None:
        self.stopped = True


class _Desk:
    """A desk with what surrounds it."""

    def __init__(self, connection: redis.Redis, keys: Keys, root: Path) -> None:
        self.connection = connection
        self.keys = keys
        self.run = RunFolder(root)
        self.node = _Node()
        self.saved: list[tuple[Manifest, Path]] = []
        self.desk = CheckpointManager(
            self.node, self.run, keys, "trainer", lambda info, path: self.saved.append((info, path))
        )
        self.closed = False

    def ask(self, command: str, **args: Any) -> str:
        asked = NodeCommand.model_validate({"command": command, "args": args})
        send_command(self.connection, self.keys, "trainer", asked)
        return asked.id

    def answer(self, command_id: str) -> NodeAnswer:
        found: list[NodeAnswer] = []

        def look() -> bool:
            if not self.closed:
                self.desk.look(self.connection)
            entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", self.connection.xrange(self.keys.done))
            answers = [read_answer(fields) for _, fields in entries]
            found[:] = [answer for answer in answers if answer is not None and answer.id == command_id]
            return bool(found)

        until(look, "the answer")
        assert len(found) == 1
        return found[0]

    def close(self, save: bool = False) -> None:
        if not self.closed:
            self.closed = True
            self.desk.close(self.connection, save)


@pytest.fixture
def desk(
    redis_client: redis.Redis, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[_Desk]:
    monkeypatch.setattr(checkpoint_manager, "_EVERY_S", 0.0)
    monkeypatch.setattr(checkpoint_manager, "_SCORE_EVERY_S", 0.0)
    made = _Desk(redis_client, keys, tmp_path)
    yield made
    made.close()


def test_saves_are_answered_with_their_path_and_stand_side_by_side(desk: _Desk) -> None:
    answer = desk.answer(desk.ask("save", kind="manual", note="before supper", score=7.5))
    assert answer.ok
    path = desk.run.root / answer.result["path"]
    assert path.parent == desk.run.manual_saves
    found = read_checkpoint(path)
    assert (found.info.kind, found.info.updates, found.info.score) == ("manual", 5, 7.5)
    assert (path / NOTE).read_text() == "before supper"
    ids = [desk.ask("save", kind="manual") for _ in range(4)]  # of one second
    assert len({desk.answer(command_id).result["path"] for command_id in ids}) == 4
    assert len(list(desk.run.manual_saves.iterdir())) == 5
    best = desk.answer(desk.ask("save", kind="best", model_id=3, score=99.0))
    assert best.result == {"path": "best_model"}
    info = read_checkpoint(desk.run.best_model).info
    assert (info.model_id, info.score, info.resumable) == (3, 99.0, False)
    assert [info.kind for info, _ in desk.saved] == ["manual"] * 5 + ["best"]


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"kind": "best", "model_id": 9}, "is gone"),
        ({"kind": "best"}, "model_id"),
        ({"kind": "best", "model_id": "x"}, "invalid literal"),
        ({"kind": "bset"}, "there is no kind of checkpoint called 'bset'"),
    ],
)
def test_what_can_not_be_saved_is_answered_in_words(desk: _Desk, args: dict[str, Any], reason: str) -> None:
    answer = desk.answer(desk.ask("save", **args))
    assert not answer.ok
    assert reason in answer.error
    assert desk.saved == []


@pytest.mark.allow_warnings
def test_a_full_disk_is_answered_told_and_forgotten(desk: _Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    write = checkpoint_manager.write_checkpoint

    def fail(target: Path, made: Checkpoint) -> None:
        raise CheckpointError("no space", "Free some.")

    monkeypatch.setattr(checkpoint_manager, "write_checkpoint", fail)
    answer = desk.answer(desk.ask("save", kind="current"))
    assert (answer.ok, answer.error, desk.desk.last_error) == (False, "no space\nFree some.", "no space")
    assert desk.desk.last_current is None
    monkeypatch.setattr(checkpoint_manager, "write_checkpoint", write)
    assert desk.answer(desk.ask("save", kind="current")).ok
    assert desk.desk.last_error == ""
    assert desk.desk.last_current is not None


def test_stop_saves_ends_and_answers(desk: _Desk) -> None:
    stop = desk.ask("stop")
    desk.desk.look(desk.connection)
    assert desk.node.stopped
    desk.close(save=True)
    assert desk.answer(stop).ok
    assert read_checkpoint(desk.run.checkpoint).info.updates == 5
    assert len(desk.saved) == 1  # not once more at the end


@pytest.mark.parametrize(("save", "saved"), [(True, [5, 6]), (False, [5])])
def test_the_end_writes_what_was_ordered_and_saves_what_is_newer(
    desk: _Desk, save: bool, saved: list[int]
) -> None:
    desk.desk.save_current()
    desk.node.updates = 6
    desk.close(save=save)
    assert [info.updates for info, _ in desk.saved] == saved


@pytest.mark.allow_warnings
def test_the_end_tries_again_what_could_not_be_saved(desk: _Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    write = checkpoint_manager.write_checkpoint
    calls = 0

    def fail_once(target: Path, made: Checkpoint) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise CheckpointError("no space")
        write(target, made)

    monkeypatch.setattr(checkpoint_manager, "write_checkpoint", fail_once)
    desk.desk.save_current()
    desk.close(save=True)
    assert read_checkpoint(desk.run.checkpoint).info.updates == 5


def test_regular_checkpoints_carry_the_return_telemetry_tells(desk: _Desk) -> None:
    state = NodeState(name="telemetry", instance=Instance(), tick=1, run_id=desk.run.run_id, mean_return=33.5)
    desk.connection.set(desk.keys.node("telemetry"), state.to_json())
    desk.desk.look(desk.connection)
    desk.desk.save_current()
    desk.close()
    assert read_checkpoint(desk.run.checkpoint).info.score == 33.5
    assert score_of(desk.connection, desk.keys, "another run") is None


def test_the_newest_state_is_kept_aside_when_going_on_from_an_older_one(desk: _Desk) -> None:
    desk.desk.keep_current_aside("nothing there yet")
    assert not desk.run.manual_saves.exists()
    assert desk.answer(desk.ask("save", kind="current")).ok
    desk.desk.keep_current_aside("the newest")
    (kept,) = desk.run.manual_saves.iterdir()
    assert read_checkpoint(kept).info.updates == 5
    assert (kept / NOTE).read_text() == "the newest"
    assert not desk.run.checkpoint.exists()


@pytest.mark.allow_warnings
def test_the_writing_thread_outlives_every_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = checkpoint_manager.write_checkpoint

    def fail(target: Path, made: Checkpoint) -> None:
        raise MemoryError("a defect")

    monkeypatch.setattr(checkpoint_manager, "write_checkpoint", fail)
    saver = Saver()
    saver.start()
    told: list[CheckpointError | None] = []
    saver.save(tmp_path / "a", checkpoint(1, size=1), told.append)
    saver.finish()
    monkeypatch.setattr(checkpoint_manager, "write_checkpoint", write)

    def fail_too(_: CheckpointError | None) -> None:
        raise ValueError("another defect")

    saver.save(tmp_path / "b", checkpoint(1, size=1), fail_too)
    saver.save(tmp_path / "c", checkpoint(1, size=1), told.append)
    saver.finish()
    assert not saver.busy()
    saver.close()
    assert "a defect" in str(told[0])
    assert told[1] is None
    assert read_checkpoint(tmp_path / "c").info.updates == 1


def test_orders_are_written_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, order = threading.Event(), []

    def write(target: Path, made: Checkpoint) -> None:
        assert gate.wait(LIMIT_S)
        order.append(target.name)

    monkeypatch.setattr(checkpoint_manager, "write_checkpoint", write)
    saver = Saver()
    saver.start()
    for name in ("a", "b", "c"):
        saver.save(tmp_path / name, checkpoint(1, size=1), lambda _: None)
    assert saver.busy()
    gate.set()
    saver.close()
    assert order == ["a", "b", "c"]


def test_a_release_is_answered_with_whether_there_was_anything_to_release(desk: _Desk) -> None:
    assert desk.answer(desk.ask("release", client="gamer-01")).ok
    answer = desk.answer(desk.ask("release", client="gamer-02"))
    assert (answer.ok, answer.error) == (False, "gamer-02 is not cut off")
    assert not desk.answer(desk.ask("release")).ok


def test_a_command_nobody_knows_is_answered_so_and_saves_nothing(
    desk: _Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = NodeCommand.model_construct(id="1", command="snooze", args={})
    monkeypatch.setattr(desk.desk._reader, "poll", lambda _: [asked])
    desk.desk.look(desk.connection)
    monkeypatch.undo()
    answer = desk.answer("1")
    assert (answer.ok, answer.error) == (False, "there is no command called 'snooze'")
    assert desk.saved == []


pytestmark = pytest.mark.allow_warnings


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(checkpoint_manager, "_AGAIN_FIRST_S", 0.05)
    with small_disk(tmp_path / "disk", "2m") as folder:
        yield folder


def until_unsaved(node: RunningNode) -> None:
    state = node.wait_for(lambda now: now.unsaved, "it says that it can't save")
    assert state.phase == "paused"
    assert state.detail == state.unsaved
    assert str(node.run.root) in state.unsaved
    assert "MB free" in state.unsaved


def updates_saved(folder: Path) -> int | None:
    """Updates of a checkpoint, None when it was exchanged for a newer one while it was being read."""
    try:
        return read_checkpoint(folder).info.updates
    except CheckpointError:
        return None


def test_training_pauses_while_the_disk_is_full_and_goes_on_when_it_is_not(
    redis_address: Address, disk: Path
) -> None:
    with running_node(redis_address, disk, small_settings(checkpoint__every_updates=1)) as node:
        player = join(node)
        last = play(player)
        node.wait_for(lambda now: now.checkpoint_env_steps is not None, "the first checkpoint")
        filler = fill(disk)
        last = play(player, last=last)
        until_unsaved(node)
        assert read_checkpoint(node.run.checkpoint).info.updates == 1
        # What is delivered now waits on the server.
        share = next_round(player, last)
        player.deliver(share.steps // player.num_envs)
        tick = node.node.state().tick
        state = node.wait_for(lambda now: now.tick > tick + 5, "it lives")
        assert (state.updates, state.phase) == (2, "paused")
        filler.unlink()
        state = node.wait_for_updates(3)
        state = node.wait_for(lambda now: not now.unsaved, "it says that it can save")
        assert state.error == ""
        until(lambda: updates_saved(node.run.checkpoint) == 3, "the newest is saved")


def test_a_stop_that_can_not_save_says_so(
    redis_address: Address, redis_client: redis.Redis, disk: Path
) -> None:
    with running_node(redis_address, disk) as node:
        player = join(node)
        play(player)
        node.wait_for_updates(1)
        filler = fill(disk)
        saved = node.answer(node.ask("save", kind="manual"))
        assert not saved.ok
        stop = node.ask("stop")
        node.join()
        answer = node.answer(stop)
        assert not answer.ok
        assert f"no space left on {disk}" in answer.error
        assert "Free some space" in answer.error
        assert node.told().unsaved.startswith("not saved yet: no space left on")
        assert not node.run.checkpoint.exists()
        filler.unlink()


def test_a_best_model_that_found_no_room_is_saved_later(redis_address: Address, disk: Path) -> None:
    with running_node(redis_address, disk) as node:
        player = join(node)
        last = play(player, rounds=2)
        node.wait_for_updates(2)
        filler = fill(disk)
        assert not node.answer(node.ask("save", kind="best", model_id=last, score=3.5)).ok
        filler.unlink()
        until(node.run.best_model.exists, "the best model")
        assert read_checkpoint(node.run.best_model).info.score == 3.5
