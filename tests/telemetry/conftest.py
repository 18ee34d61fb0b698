from collections.abc import Iterator
from pathlib import Path

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.wire.connection import Address
from tests.telemetry.helpers import Stage, make_run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run's folder; no figure is drawn in the middle of a test."""
    return make_run(tmp_path, telemetry={"figure_every_episodes": 10**9})


@pytest.fixture
def stage(redis_address: Address) -> Iterator[Stage]:
    """The server as the other processes use it."""
    stage = Stage(redis_address)
    yield stage
    stage.redis.close()
