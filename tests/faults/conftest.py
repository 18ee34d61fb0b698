"""The promises of reliability: each test says what was injected, what was lost, how long recovery took.

It is printed at the end of the session, also when tests ran in other processes (xdist).
"""

import pytest

from tests.faults.report import FAULT, Report


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Notes what was injected, what was lost and how long recovery took."""
    return Report(request.node.user_properties)  # carried along with the test's result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests noted."""
    finished = [one for kind in ("passed", "failed") for one in terminalreporter.getreports(kind)]
    told = {one.nodeid: [text for name, text in one.user_properties if name == FAULT] for one in finished}
    if any(told.values()):
        terminalreporter.section("faults")
        for test, lines in told.items():
            if lines:
                terminalreporter.line(f"{test.rpartition('::')[2]}: {'; '.join(map(str, lines))}")
