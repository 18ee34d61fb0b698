"""Whom an inference server waits for."""

import math

import pytest

from soulsgui.modes.seed.batching import BatchCandidate, awaited, expected, fitting

DELAY_S = 0.1
NEVER = BatchCandidate("never", 1, math.inf, math.inf)
SLOW = BatchCandidate("slow", 1, 0.5, 0.02)
FIRST = BatchCandidate("first", 2, 0.03, 0.02)
LAST = BatchCandidate("last", 2, 0.01, 0.02)


def test_who_asked_lately_is_expected_in_that_order() -> None:
    assert expected([LAST, NEVER, SLOW, FIRST], DELAY_S) == [FIRST, LAST]
    assert expected([LAST], 0.0) == []


def test_none_is_expected_whose_pauses_are_long_as_to_the_wait() -> None:
    halting = LAST._replace(name="halting", pause_s=0.06)
    assert expected([halting, LAST], DELAY_S) == [LAST]
    assert awaited([halting, FIRST], 4, DELAY_S) == "first", "it is looked for, and not waited for"
    assert fitting([halting, FIRST], 2, DELAY_S) == ["first"]
    assert expected([halting, LAST], 2 * DELAY_S) == [halting, LAST]


@pytest.mark.parametrize(
    ("waiting", "room", "whom"),
    [
        ([LAST, FIRST], 4, "last"),
        ([LAST, FIRST, SLOW], 5, "last"),
        ([LAST, FIRST, SLOW], 4, None),  # the slow one would not be looked for: it might never be served
        ([LAST, NEVER], 2, None),
        ([SLOW, NEVER], 8, None),
    ],
)
def test_one_is_waited_for_only_where_all_others_are_looked_for(
    waiting: list[BatchCandidate], room: int, whom: str | None
) -> None:
    assert awaited(waiting, room, DELAY_S) == whom
    assert whom is None or sorted(fitting(waiting, room, DELAY_S)) == sorted(one.name for one in waiting)


def test_who_is_expected_comes_first_and_none_beyond_the_room_of_the_batch() -> None:
    assert fitting([NEVER, SLOW, LAST, FIRST], 5, DELAY_S) == ["first", "last", "never"]
    assert fitting([NEVER, LAST, FIRST], 3, DELAY_S) == ["first", "never"]
    assert fitting([LAST, FIRST], 1, DELAY_S) == []
