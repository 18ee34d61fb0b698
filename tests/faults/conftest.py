"""What the tests of faults are given."""

import sys
from collections.abc import Iterator

import pytest

from tests.faults.report import Report


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Iterator[Report]:
    """Notes what was injected, what was lost and how long recovery took; printed at the end (`-s`, `-rP`)."""
    made = Report()
    yield made
    sys.stdout.write(f"\n{request.node.name}: {'; '.join(made.lines)}\n")
