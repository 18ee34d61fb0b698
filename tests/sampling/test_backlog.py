"""What waits: in order, measured, and taken out as far as a credit goes."""

import pytest

from soulsgui.sampling.backlog import Backlog, Credit, Parcel, covered

MOST = 2**62


def _backlog() -> Backlog:
    backlog = Backlog()
    for size, steps in ((4, 10), (2, 20), (2, 30)):
        backlog.add(Parcel(b"x" * size, steps))
    return backlog


@pytest.mark.parametrize(
    ("credit", "count"),
    [
        (Credit(MOST, MOST, MOST), 3),
        (Credit(2, MOST, MOST), 2),
        (Credit(MOST, 6, MOST), 2),
        (Credit(MOST, 5, MOST), 1),
        (Credit(MOST, MOST, 59), 2),
        (Credit(MOST, MOST, 30), 2),
        (Credit(1, 1, 1), 1),
        (Credit(0, MOST, MOST), 0),
        (Credit(MOST, 0, MOST), 0),
        (Credit(MOST, MOST, -5), 0),
    ],
)
def test_a_credit_covers_what_fits_and_one_at_least_while_any_is_left(credit: Credit, count: int) -> None:
    backlog = _backlog()
    assert covered([], credit) == 0
    taken = backlog.take(credit)
    assert [parcel.steps for parcel in taken] == [10, 20, 30][:count]
    assert len(backlog) == 3 - count
    assert backlog.steps == sum([10, 20, 30][count:])
    assert backlog.size == sum([4, 2, 2][count:])


def test_the_oldest_goes_first() -> None:
    backlog = _backlog()
    assert [backlog.take_oldest().steps for _ in range(3)] == [10, 20, 30]
    assert (len(backlog), backlog.size, backlog.steps) == (0, 0, 0)
