"""The promises of reliability: each test says what was injected, what was lost, how long recovery took.

    def test_a_killed_trainer_is_back(report: Report) -> None:
        ...
        report("10 kills of the trainer", lost="0 steps", recovered_s=1.3)

Every such line is printed at the end of the session, also when tests ran in other processes (xdist).
"""

from typing import Protocol

import pytest

_PROPERTY = "fault"


class Report(Protocol):
    """Takes down what became of a fault."""

    def __call__(self, injected: str, lost: str = "nothing", recovered_s: float | None = None) -> None:
        """Take down a line.

        Args:
            injected: What was done, in words.
            lost: What was lost by it, in words.
            recovered_s: Seconds until all was well again; None where nothing had to recover.
        """


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Takes down lines that are printed at the end of the session."""

    def tell(injected: str, lost: str = "nothing", recovered_s: float | None = None) -> None:
        recovery = "" if recovered_s is None else f"; recovered in {recovered_s:.2f} s"
        line = f"{request.node.name}: injected {injected}; lost {lost}{recovery}"
        request.node.user_properties.append((_PROPERTY, line))  # carried along with the test's report

    return tell


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests took down."""
    finished = [one for kind in ("passed", "failed") for one in terminalreporter.getreports(kind)]
    lines = [text for one in finished for name, text in one.user_properties if name == _PROPERTY]
    if lines:
        terminalreporter.section("faults")
        for line in lines:
            terminalreporter.line(line)
