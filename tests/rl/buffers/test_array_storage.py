"""Observations of a replay memory in a file: they are the same, they come back, and a full disk has words."""

import errno
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.observations import ObservationSpec, Part, PartsSpec
from soulsgui.errors import MemoryGoneError, StorageError
from soulsgui.experience.frame_stacks import FrameStacks, Pictures
from soulsgui.rl.buffers import array_storage
from soulsgui.rl.buffers.array_storage import ArrayStorage, FileStorage
from soulsgui.rl.buffers.replay import UniformReplay

WHOLE, STACKED = BoxSpec((3,), "float32"), BoxSpec((3, 2, 2), "uint8", (0,), (255,))
BESIDE = PartsSpec((Part(("image",), STACKED), Part(("numbers",), WHOLE)))
CAPACITY = 40
SIZE = {"numbers": 3 * 4, "frame": 2 * 2, "mask": 2}
"""Bytes of what a row holds; of a stack it holds one frame."""


def memory(box: ObservationSpec, folder: Path | None, limit: int = 0) -> UniformReplay:
    return UniformReplay(
        CAPACITY, box, 2, storage=ArrayStorage() if folder is None else FileStorage(folder, limit)
    )


def fill(ring: UniformReplay, box: ObservationSpec, seed: int, segments: int) -> None:
    """Add random segments."""
    rng = np.random.default_rng(seed)
    for length in rng.integers(1, 7, segments).tolist():
        obs: Any = rng.normal(size=(length + 1, 3)).astype(np.float32)
        if box is not WHOLE:
            frames = rng.integers(0, 256, (length + 3, 2, 2), np.uint8)
            stacks = FrameStacks(frames, np.arange(length + 1), 3, 1)
            obs = stacks if box is STACKED else Pictures(stacks, obs)
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


@pytest.mark.parametrize("box", [WHOLE, STACKED, BESIDE], ids=["numbers", "stacks", "both"])
@pytest.mark.parametrize("segments", [4, 60])
def test_a_file_is_as_memory_and_goes_on(box: ObservationSpec, segments: int, tmp_path: Path) -> None:
    plain, mapped = memory(box, None), memory(box, tmp_path / "replay")
    for ring in (plain, mapped):
        fill(ring, box, 0, segments)
    assert (tmp_path / "replay" / "observations").stat().st_size > 0
    assert_alike(mapped, plain)
    state = mapped.state()
    assert not {"obs", "frames", "numbers", "action_mask"} & set(state)
    mapped.close(leave=True)

    again = memory(box, tmp_path / "replay")
    again.load_state(state)
    assert_alike(again, plain)
    for ring in (plain, again):
        fill(ring, box, 1, 30)
    assert_alike(again, plain)
    again.close()
    assert not (tmp_path / "replay").exists()
    empty = memory(box, None)
    empty.load_state(memory(box, None).state())
    fill(empty, box, 0, 1)
    assert len(empty)


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


@pytest.mark.parametrize(
    ("box", "row"),
    [
        (WHOLE, SIZE["numbers"] + SIZE["mask"]),
        (STACKED, SIZE["frame"] + SIZE["mask"]),
        (BESIDE, sum(SIZE.values())),
    ],
    ids=["numbers", "stacks", "both"],
)
def test_another_limit_of_all_that_is_seen_moves_it(box: ObservationSpec, row: int, tmp_path: Path) -> None:
    ring = memory(box, tmp_path / "replay", limit=CAPACITY * row)
    fill(ring, box, 0, 60)
    assert not (tmp_path / "replay").exists()
    state = ring.state()
    ring.close(leave=True)
    other = memory(box, None)
    other.load_state(state)
    assert_alike(ring, other)
    smaller = memory(box, tmp_path / "replay", limit=CAPACITY * row - 1)
    smaller.load_state(state)
    assert (tmp_path / "replay" / "observations").exists()
    # Nothing of what is seen is left in memory beside the file.
    rows = smaller._rows
    kept = [array for array in (rows._frames, rows._numbers, rows._masks) if array is not None]
    assert all(isinstance(_root(array), mmap.mmap) for array in kept)
    assert_alike(smaller, other)
    state = smaller.state()
    smaller.close(leave=True)
    larger = memory(box, tmp_path / "replay", limit=CAPACITY * row)
    larger.load_state(state)
    assert not (tmp_path / "replay").exists()
    assert_alike(larger, other)
    for memories in (larger, other):
        fill(memories, box, 1, 30)
    assert_alike(larger, other)
    assert "file" not in larger.state()


def _root(array: Any) -> Any:
    """Return what an array is a view of in the end."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array


@pytest.mark.allow_warnings
def test_a_file_that_can_not_be_sealed_goes_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    ring = memory(WHOLE, tmp_path / "replay")
    fill(ring, WHOLE, 0, 5)
    monkeypatch.setattr(Path, "write_text", full)
    ring.close(leave=True)
    assert not (tmp_path / "replay").exists()
    assert "No space left on device. Make room there" in caplog.text


@pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the system takes disk only when it is written to"
)
def test_a_disk_that_fills_up_ends_in_words_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int]] = []

    def allocate(file: int, begin: int, size: int) -> None:
        taken.append((begin, size))
        if len(taken) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    ring = memory(WHOLE, tmp_path / "replay")
    with pytest.raises(StorageError, match="are free"):
        fill(ring, WHOLE, 0, 60)
    # Observations and masks by turns, each without a gap.
    assert [begin for begin, _ in taken[:2]] == [0, 4096]
    for column in (taken[::2], taken[1::2]):
        (begin, size), following = column
        assert following[0] == begin + size
    ring.close()
    # One that is too small is said before anything is written.
    monkeypatch.setattr(array_storage, "_free_bytes", lambda folder: 1000)
    ring = memory(WHOLE, tmp_path / "another")
    with pytest.raises(StorageError, match=r"0\.3 GB .* 0\.0 GB are free.*learner\.memory_limit"):
        fill(ring, WHOLE, 0, 1)
    assert not (tmp_path / "another").exists()
