"""What the tests of faults are given: `report`, which says what became of a fault.

    def test_a_killed_trainer_is_back(report: Report) -> None:
        report.injected("10 kills of the trainer")
        ...
        report.lost(0, "steps")
        report.recovered(1.3)

What was noted is printed at the end of the session, also when the tests ran in other processes (xdist).
"""

import pytest

from tests.faults.report import Report

_PROPERTY = "fault"


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
