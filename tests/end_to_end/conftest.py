"""One server with an endless run for the tests that hurt it."""

from collections.abc import Iterator

import pytest

from tests.end_to_end.server import UNHURRIED, RunningServer


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that trains CartPole without a goal, with two local clients; every test leaves it training."""
    server = RunningServer(tmp_path_factory.mktemp("server"))
    try:
        server.start_run(overrides={**UNHURRIED, "checkpoint.every_updates": 2, "ppo.round_timeout": 5.0})
        yield server
    finally:
        server.close()
