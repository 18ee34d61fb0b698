"""The disk of the run's folder is full, and only that: training pauses, says so, and goes on by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from soulsgui.errors import CheckpointError
from soulsgui.training import desk
from soulsgui.training.checkpoint import read_checkpoint
from soulsgui.wire.connection import Address
from tests.faults.small_disk import fill, small_disk
from tests.faults.waiting import until
from tests.training.nodes import RunningNode, join, next_round, play, running_node, small_settings

pytestmark = pytest.mark.allow_warnings


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(desk, "_AGAIN_FIRST_S", 0.05)
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
        tick = node.node._state().tick
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
