"""Servers of one test alone, that may be harmed, and a trainer with a client that plays for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from soulsgui.wire.connection import Address, connect
from tests.faults.server import FaultyServer, faulty_server
from tests.sampling.free_trainer import FreeTrainer, PlayingClient, playing_client


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FaultyServer]:
    with faulty_server(tmp_path) as running:
        yield running


@pytest.fixture
def keeping_server(tmp_path: Path) -> Iterator[FaultyServer]:
    with faulty_server(tmp_path, keeps_data=True) as running:
        yield running


@pytest.fixture
def connection(server: FaultyServer) -> Iterator[redis.Redis]:
    client = connect(server.address)
    yield client
    client.close()


@pytest.fixture
def trainer(redis_address: Address, request: pytest.FixtureRequest) -> Iterator[FreeTrainer]:
    """A trainer that has published its first weights; `free_trainer.settings` changes its settings."""
    made = FreeTrainer(redis_address, **getattr(request, "param", {}))
    made.publish(1)
    yield made
    made.close()


@pytest.fixture
def client(redis_address: Address) -> Iterator[PlayingClient]:
    with playing_client(redis_address) as playing:
        yield playing
