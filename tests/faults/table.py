"""The table of faults, from what the tests told. Pure."""

import statistics
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from tests.faults.promises import Promise

Note = tuple[str, str, float]
"""`injected`, `lost` or `recovered`; what; how often, how many, or how many seconds."""

HEADS = ("", "passed", "injected", "lost", "recovery", "test")
_GAP = "  "
_LEAST = 70
_SHARES = (0.45, 0.3, 0.25)
"""Of the width that is left for what was injected, what was lost and the recovery."""


@dataclass(frozen=True)
class Told:
    """What came of one test.

    Attributes:
        test: Its id, as `tests/faults/test_flood.py::test_it[1]`.
        passed: Whether it passed.
        notes: What it told.
    """

    test: str
    passed: bool
    notes: tuple[Note, ...] = ()


def lines(promises: Mapping[str, Promise], told: Iterable[Told], width: int) -> list[str]:
    """Return the table.

    Args:
        promises: By their name.
        told: The tests of the session; those of no promise are left out, unless they told of a fault.
        width: Columns of the terminal; names of tests may go beyond it.
    """
    by_test: dict[str, list[Told]] = {}
    for one in told:
        by_test.setdefault(one.test.partition("[")[0].removeprefix("tests/"), []).append(one)
    rows = [
        (name, *_cells(by_test[test]), test.rpartition("::")[2])
        for name, promise in promises.items()
        for test in promise.tests
        if test in by_test
    ]
    kept = {test for promise in promises.values() for test in promise.tests}
    rows += [
        ("", *_cells(all_), test.rpartition("::")[2])
        for test, all_ in by_test.items()
        if test not in kept and any(one.notes for one in all_)
    ]
    return list(_drawn([HEADS, *rows], width))


def _cells(all_: Sequence[Told]) -> tuple[str, str, str, str]:
    """Return how many passed, what was injected, what was lost and the recovery, of all forms of a test."""
    passed = sum(one.passed for one in all_)
    notes = [note for one in all_ for note in one.notes]
    injected = Counter(what for kind, what, _ in notes if kind == "injected")
    lost: dict[str, float] = {}
    for kind, what, count in notes:
        if kind == "lost":
            lost[what] = lost.get(what, 0.0) + count
    seconds = [number for kind, _, number in notes if kind == "recovered"]
    return (
        str(passed) if passed == len(all_) else f"{passed} of {len(all_)}",
        "; ".join(what if count == 1 else f"{count} × {what}" for what, count in injected.items()),
        "; ".join(f"{count:,.0f} {what}" for what, count in lost.items()),
        _recovery(seconds),
    )


def _recovery(seconds: Sequence[float]) -> str:
    if not seconds:
        return ""
    if len(seconds) == 1:
        return f"{seconds[0]:.2f} s"
    return f"{max(seconds):.2f} s at most, {statistics.median(seconds):.2f} s median of {len(seconds)}"


def _drawn(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Draw rows under each other; what is long goes on below, but for the last cell."""
    narrow = [max(len(row[column]) for row in rows) for column in (0, 1)]
    left = max(_LEAST, width - sum(narrow) - len(_GAP) * 4)
    widths = [*narrow, *(round(left * share) for share in _SHARES)]
    for row in rows:
        cells = [textwrap.wrap(cell, wide) or [""] for cell, wide in zip(row, widths, strict=False)]
        for number, parts in enumerate(zip_longest(*cells, fillvalue="")):
            line = _GAP.join(part.ljust(wide) for part, wide in zip(parts, widths, strict=True))
            yield f"{line}{_GAP}{row[-1] if number == 0 else ''}".rstrip()
