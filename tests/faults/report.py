"""What a test of a fault tells: what was injected, what was lost, how long recovery took.

    def test_a_killed_trainer_is_back(report: Report) -> None:
        report.injected("a kill of the trainer")
        ...
        report.lost(0, "steps")
        report.recovered(1.3)

What was told stands in one table at the end of the session (`tests.faults.table`), a row for each promise and
test (`tests.faults.promises`), also when the tests ran in other processes (xdist).
"""

import shutil
from dataclasses import dataclass, field

import pytest

from tests.faults.promises import PROMISES
from tests.faults.table import Note, Told, lines

_PROPERTY = "fault"


@dataclass
class Report:
    """Gathers the facts of one test; the fixture `report` has them printed at the end."""

    notes: list[Note] = field(default_factory=list)

    def injected(self, what: str) -> None:
        """Note what was done to the system; the same words again are counted."""
        self.notes.append(("injected", what, 1.0))

    def lost(self, count: int, what: str) -> None:
        """Note what was lost by it."""
        self.notes.append(("lost", what, float(count)))

    def recovered(self, seconds: float) -> None:
        """Note how long it took until all was well again."""
        self.notes.append(("recovered", "", seconds))


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Notes what was injected, what was lost and how long recovery took; printed at the end."""
    made = Report()
    request.node.user_properties.append((_PROPERTY, made.notes))  # carried along with the test's outcome
    return made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests told, if any of them told of a fault."""
    told = [
        Told(one.nodeid, kind == "passed", tuple(_notes(one.user_properties)))
        for kind in ("passed", "failed")
        for one in terminalreporter.getreports(kind)
    ]
    if any(one.notes for one in told):
        terminalreporter.section("faults: what was injected, what was lost, how long recovery took")
        for line in lines(PROMISES, told, shutil.get_terminal_size((140, 24)).columns):
            terminalreporter.line(line)


def _notes(properties: "list[tuple[str, object]]") -> list[Note]:
    """Return the notes among the properties of a test; lists, where they came from another process."""
    found = [value for name, value in properties if name == _PROPERTY]
    return [(kind, what, number) for notes in found for kind, what, number in notes]  # type: ignore[attr-defined]
