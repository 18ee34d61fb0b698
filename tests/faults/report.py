"""What a test of a fault prints: what was injected, what was lost, how long recovery took.

    def test_a_killed_trainer_is_back(report: Report) -> None:
        report.injected("10 kills of the trainer")
        ...
        report.lost(0, "steps")
        report.recovered(1.3)

What was noted is printed at the end of the session, also when the tests ran in other processes (xdist).
"""

from dataclasses import dataclass, field

import pytest

_PROPERTY = "fault"


@dataclass
class Report:
    """Gathers the facts of one test; the fixture `report` prints them at its end."""

    lines: list[str] = field(default_factory=list)

    def injected(self, what: str) -> None:
        """Note what was done to the system."""
        self.lines.append(f"injected: {what}")

    def lost(self, count: int, what: str) -> None:
        """Note what was lost by it."""
        self.lines.append(f"lost: {count:,} {what}")

    def recovered(self, seconds: float) -> None:
        """Note how long it took until all was well again."""
        self.lines.append(f"recovered in {seconds:.2f} s")


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Notes what was injected, what was lost and how long recovery took; printed at the end."""
    made = Report()
    request.node.user_properties.append((_PROPERTY, made.lines))  # carried along with the test's outcome
    return made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests noted."""
    finished = [one for kind in ("passed", "failed") for one in terminalreporter.getreports(kind)]
    noted = [
        (one.nodeid, lines) for one in finished for name, lines in one.user_properties if name == _PROPERTY
    ]
    if noted:
        terminalreporter.section("faults")
        for test, lines in noted:
            terminalreporter.line(f"{test.rpartition('/')[2]}: {'; '.join(lines)}")
