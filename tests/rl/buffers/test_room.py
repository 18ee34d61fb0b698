"""Observations of a replay memory in a file: they are the same, they come back, and a full disk has words."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.environments.spaces import BoxSpec
from soulsgui.errors import MemoryGoneError, StorageError
from soulsgui.frame_stacks import FrameStacks
from soulsgui.rl.buffers import room
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.rl.buffers.room import FileRoom, Room

WHOLE, STACKED = BoxSpec((3,), "float32"), BoxSpec((3, 2, 2), "uint8", (0,), (255,))
CAPACITY = 40


def memory(box: BoxSpec, folder: Path | None, limit: int = 0) -> UniformReplay:
    return UniformReplay(CAPACITY, box, 2, room=Room() if folder is None else FileRoom(folder, limit))


def fill(ring: UniformReplay, box: BoxSpec, seed: int, segments: int) -> None:
    """Add random segments."""
    rng = np.random.default_rng(seed)
    for length in rng.integers(1, 7, segments).tolist():
        obs: Any = rng.normal(size=(length + 1, 3)).astype(np.float32)
        if box is STACKED:
            frames = rng.integers(0, 256, (length + 3, 2, 2), np.uint8)
            obs = FrameStacks(frames, np.arange(length + 1), 3, 1)
        action = rng.integers(2, size=length)
        masks = rng.random((length + 1, 2)) < 0.5
        reward = rng.normal(size=length).astype(np.float32)
        ring.add(obs, np.array([length]), action, reward, np.ones(1, np.bool_), masks)


def assert_alike(one: UniformReplay, other: UniformReplay) -> None:
    draws = [
        ring.windows(ring.draw(100, np.random.default_rng(1)), np.zeros(0, np.int64), 1, 0.9)
        for ring in (one, other)
    ]
    for found, expected in zip(*draws, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("box", [WHOLE, STACKED])
@pytest.mark.parametrize("segments", [4, 60])
def test_a_file_holds_what_memory_would_and_is_gone_on_with(
    box: BoxSpec, segments: int, tmp_path: Path
) -> None:
    plain, mapped = memory(box, None), memory(box, tmp_path / "replay")
    for ring in (plain, mapped):
        fill(ring, box, 0, segments)
    assert (tmp_path / "replay" / "observations").stat().st_size > 0
    assert_alike(mapped, plain)
    state = mapped.state()
    assert not {"obs", "frames"} & set(state)
    mapped.close(leave=True)

    again = memory(box, tmp_path / "replay")
    again.load_state(state)
    assert_alike(again, plain)
    for ring in (plain, again):
        fill(ring, box, 1, 30)
    assert_alike(again, plain)
    again.close()
    assert not (tmp_path / "replay").exists()


def test_what_was_written_to_since_is_not_gone_on_with(tmp_path: Path) -> None:
    ring = memory(WHOLE, tmp_path / "replay")
    fill(ring, WHOLE, 0, 5)
    early = ring.state()
    fill(ring, WHOLE, 1, 5)
    ring.close(leave=True)
    fresh = memory(WHOLE, tmp_path / "replay")
    with pytest.raises(MemoryGoneError, match="written to since"):
        fresh.load_state(early)
    assert len(fresh) == 0
    fill(fresh, WHOLE, 2, 5)  # takes the place of what was left
    late = fresh.state()
    fresh.close(leave=True)
    killed = memory(WHOLE, tmp_path / "replay")
    killed.load_state(late)
    with pytest.raises(MemoryGoneError):  # it runs, or was killed: nobody knows what it has written
        memory(WHOLE, tmp_path / "replay").load_state(late)


def test_within_the_limit_there_is_no_file(tmp_path: Path) -> None:
    ring = memory(WHOLE, tmp_path / "replay", limit=CAPACITY * 3 * 4)
    fill(ring, WHOLE, 0, 60)
    assert not (tmp_path / "replay").exists()
    state = ring.state()
    ring.close(leave=True)
    other = memory(WHOLE, None)
    other.load_state(state)
    assert_alike(ring, other)


def test_a_disk_that_is_too_small_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_free_bytes", lambda folder: 1000)
    ring = memory(WHOLE, tmp_path / "replay")
    with pytest.raises(StorageError, match=r"0\.3 GB .* 0\.0 GB are free.*learner\.memory_limit"):
        fill(ring, WHOLE, 0, 1)
    assert not (tmp_path / "replay").exists()


@pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the system takes disk only when it is written to"
)
def test_a_disk_that_fills_up_ends_in_words_and_not_in_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[int, int]] = []

    def allocate(file: int, begin: int, size: int) -> None:
        taken.append((begin, size))
        if len(taken) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    ring = memory(WHOLE, tmp_path / "replay")
    with pytest.raises(StorageError, match="are free"):
        fill(ring, WHOLE, 0, 60)
    ends = [begin + size for begin, size in taken]
    assert [begin for begin, _ in taken[1:]] == ends[:-1]  # without a gap
    ring.close()
