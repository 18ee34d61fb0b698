"""How old samples were, in buckets."""

import numpy as np
import pytest

from soulsgui.training.staleness import StalenessCount
from soulsgui.wire.messages.node import STALENESS_BOUNDS, Staleness


def counted(*lags: int) -> Staleness:
    count = StalenessCount()
    count.accept(np.array(lags, np.int64), np.ones(len(lags), np.int32))
    return count.told


def test_accepted_and_late_transitions_are_counted_apart_by_their_lag() -> None:
    count = StalenessCount()
    count.accept(np.array([0, 1, 3, 4, 5, 33], np.int64), np.array([3, 1, 1, 1, 10, 7], np.int32))
    count.refuse(np.array([512, 513, 600], np.int64), np.array([1, 2, 2], np.int32))
    told = count.told
    assert told.bounds == list(STALENESS_BOUNDS)
    assert dict(zip(told.bounds, told.accepted, strict=False)) == dict.fromkeys(STALENESS_BOUNDS, 0) | {
        0: 3, 1: 1, 4: 2, 6: 10, 48: 7
    }  # fmt: skip
    assert told.late == [0] * (len(STALENESS_BOUNDS) - 1) + [1, 4]


def test_counts_add_up() -> None:
    count = StalenessCount()
    for _ in range(3):
        count.accept(np.array([1, 0], np.int64), np.array([2, 5], np.int32))
    assert count.told.accepted[:2] == [15, 6]
    assert Staleness.read(count.told.to_json()) == count.told


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (Staleness(), ""),
        (counted(0, 0, 0), ""),
        (counted(0, 0, 0, 7), "half of the samples 0 updates old, 95 % at most 8"),
        (counted(9, 10, 20, 30), "half of the samples at most 12 updates old, 95 % at most 32"),
        (counted(9, 700), "half of the samples at most 12 updates old, 95 % more than 512"),
    ],
)
def test_the_ages_are_told_in_words(told: Staleness, words: str) -> None:
    assert told.words() == words
