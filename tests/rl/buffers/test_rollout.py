"""The layout of an on-policy round."""

import numpy as np

from soulsgui.experience.segments import Segments
from soulsgui.rl.buffers.rollout import BPTTChunks
from tests.experience.segments import segments_of


def round_of(lengths: list[int], joined: list[bool] | None) -> Segments:
    """Return a round whose observation rows are numbered."""
    steps, segments = sum(lengths), len(lengths)
    return segments_of(
        obs=np.arange(steps + segments, dtype=np.float32)[:, None],
        length=np.array(lengths),
        joined=None if joined is None else np.array(joined),
    )


def test_chains_are_cut_into_stretches_whatever_their_segments_were() -> None:
    # Rows 0 to 2 (one behind), 3 to 6 (one behind), 7 and 8: the first two segments are one chain of 5 steps.
    found = BPTTChunks.of(round_of([2, 3, 1], [False, True, False]), 3)
    assert found.length.tolist() == [3, 2, 1]
    assert found.place.tolist() == [0, 1, 0]
    assert found.segment.tolist() == [0, 0, 2]
    assert found.goes_on.tolist() == [True, False, False]
    assert found.steps.tolist() == [[0, 1, 2], [3, 4, 4], [5, 5, 5]]
    assert found.rows.tolist() == [[0, 1, 3, 4], [4, 5, 6, 6], [7, 8, 8, 8]]
    assert found.ends().tolist() == [False, False, False, False, True, True]
    assert found.valid(2).tolist() == [[True, True], [True, True], [True, False]]


def test_a_stretch_that_ends_with_its_chain_is_not_followed_by_an_empty_one() -> None:
    found = BPTTChunks.of(round_of([4, 2], None), 2)
    assert found.length.tolist() == [2, 2, 2]
    assert found.rows.tolist() == [[0, 1, 2], [2, 3, 4], [5, 6, 7]]
    assert found.goes_on.tolist() == [True, False, False]
