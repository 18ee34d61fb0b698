"""Chunk numbers: repeats and gaps are told, in bounded memory."""

from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.training.numbers import ChunkNumbers


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=80))
def test_each_number_is_taken_once_and_gaps_are_counted(numbers: list[int]) -> None:
    known, seen = ChunkNumbers(), set()
    for number in numbers:
        assert known.take(number) == (number not in seen)
        seen.add(number)
        assert known.missing == max(seen) + 1 - len(seen)


def test_after_a_restart_the_first_number_is_the_beginning() -> None:
    known = ChunkNumbers(below=None)
    assert known.missing == 0
    assert known.take(500)
    assert not known.take(499)  # before the restart it was taken or lost: never trained twice
    assert known.take(502)
    assert known.missing == 1


def test_a_gap_is_given_up_after_a_while_and_stays_counted() -> None:
    known = ChunkNumbers()
    for number in range(10, 5000):
        assert known.take(number)
    assert known.missing == 10
    assert known.below == 5000
    assert not known.take(3)


def test_numbers_far_apart_do_not_fill_the_memory() -> None:
    known = ChunkNumbers()
    for n in range(20_000):
        assert known.take(n * 10**12)
    assert len(known._beyond) <= 1024
    assert known.missing == 19_999 * 10**12 + 1 - 20_000
