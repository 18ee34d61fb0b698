"""What a test of a fault tells: what was injected, what was lost, how long recovery took.

What was told is printed at the end of the session, for each promise (`tests.faults.promises`) and test, also
when the tests ran in other processes (xdist).
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from tests.faults.promises import PROMISES

Note = tuple[str, str, float]
"""`injected`, `lost` or `recovered`; what; how often, how many, or how many seconds."""

_PROPERTY = "fault"


@dataclass
class Report:
    """Gathers the facts of one test; the fixture `report` has them printed at the end."""

    notes: list[Note] = field(default_factory=list)

    def injected(self, what: str) -> None:
        """Note what was done to the system; the same words again are counted."""
        self.notes.append(("injected", what, 1.0))

    def lost(self, count: int, what: str) -> None:
        self.notes.append(("lost", what, float(count)))

    def recovered(self, seconds: float) -> None:
        self.notes.append(("recovered", "", seconds))


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    made = Report()
    request.node.user_properties.append((_PROPERTY, made.notes))  # carried along with the test's outcome
    return made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = [
        (one.nodeid, kind == "passed", [note for name, notes in one.user_properties for note in notes])
        for kind in ("passed", "failed")
        for one in terminalreporter.getreports(kind)
        if any(name == _PROPERTY for name, _ in one.user_properties)
    ]
    if told:
        terminalreporter.section("faults: what was injected, what was lost, how long recovery took")
        for line in lines(PROMISES, told):
            terminalreporter.line(line)


def lines(
    promises: Mapping[str, list[str]], told: Iterable[tuple[str, bool, Iterable[Note]]]
) -> Iterator[str]:
    """Yield the lines about each test (id, passed, notes) of each promise, then about tests of none."""
    passed: dict[str, list[bool]] = defaultdict(list)
    notes: dict[str, list[Note]] = defaultdict(list)
    for test, well, more in told:  # all forms of a test as one
        name = test.partition("[")[0].removeprefix("tests/")
        passed[name].append(well)
        notes[name] += map(tuple, more)  # lists, where they came from another process
    kept = [(name, test) for name, tests in promises.items() for test in tests if test in passed]
    others = [("", test) for test in passed if test not in {test for _, test in kept}]
    for name, test in kept + others:
        yield f"{name:>4}  {sum(passed[test])} of {len(passed[test])} passed  {test.rpartition('::')[2]}"
        for kind, words in zip(("injected", "lost", "recovery"), _facts(notes[test]), strict=True):
            if words:
                yield f"      {kind}: {words}"


def _facts(notes: list[Note]) -> tuple[str, str, str]:
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, what, number in notes:
        sums[kind][what] += number  # type: ignore[assignment]
    seconds = [number for kind, _, number in notes if kind == "recovered"]
    middle = f" at most, {statistics.median(seconds):.2f} s median of {len(seconds)}" if seconds[1:] else ""
    return (
        "; ".join(what if n == 1 else f"{n:.0f} × {what}" for what, n in sums["injected"].items()),
        "; ".join(f"{count:,.0f} {what}" for what, count in sums["lost"].items()),
        f"{max(seconds):.2f} s{middle}" if seconds else "",
    )
