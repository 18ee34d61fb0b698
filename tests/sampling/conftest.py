"""A server of one test alone, that may be harmed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from soulsgui.wire.connection import connect
from tests.faults.server import FaultyServer, faulty_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FaultyServer]:
    with faulty_server(tmp_path) as running:
        yield running


@pytest.fixture
def connection(server: FaultyServer) -> Iterator[redis.Redis]:
    client = connect(server.address)
    yield client
    client.close()
