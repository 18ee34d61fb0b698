"""How old segments were, in buckets."""

import numpy as np

from soulsgui.training.checks import CODES, GOOD, LEFT_OUT
from soulsgui.training.staleness import StalenessCount
from soulsgui.wire.messages.chunk import Reason
from soulsgui.wire.messages.node import STALENESS_BOUNDS, Staleness

LATE, SHAPE = CODES[Reason.LATE], CODES[Reason.SHAPE]


def test_accepted_and_late_segments_are_counted_apart_by_their_lag() -> None:
    count = StalenessCount()
    lags = [0, 0, 1, 2, 3, 4, 5, 8, 9, 256, 257, 300, 0]
    codes = [GOOD] * 9 + [LATE] * 3 + [GOOD]
    count.take(300 - np.array(lags, np.int64), 300, np.array(codes, np.uint8))
    told = count.told
    assert told.bounds == list(STALENESS_BOUNDS) == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert told.accepted == [3, 1, 1, 2, 2, 1, 0, 0, 0, 0, 0]
    assert told.late == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]


def test_ids_that_were_never_published_and_other_segments_have_no_lag() -> None:
    count = StalenessCount()
    ids = np.array([6, 2**62, -1, -(2**63), 5, 5], np.int64)
    count.take(ids, 5, np.array([LATE, LATE, LATE, LATE, LEFT_OUT, SHAPE], np.uint8))
    assert count.told == StalenessCount().told
    assert sum(count.told.late) == 0


def test_counts_add_up() -> None:
    count = StalenessCount()
    for _ in range(3):
        count.take(np.array([4, 5], np.int64), 5, np.array([GOOD, GOOD], np.uint8))
    assert count.told.accepted[:2] == [3, 3]
    assert Staleness.read(count.told.to_json()) == count.told
