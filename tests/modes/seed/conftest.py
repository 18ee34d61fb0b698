"""An inference server in a thread, its trainer moved by hand, and clients written by hand."""

from collections.abc import Iterator

import pytest

from soulsgui.wire.connection import Address
from tests.modes.seed.serving import HandClient, HandTrainer, ServingThread


@pytest.fixture
def trainer(redis_address: Address, request: pytest.FixtureRequest) -> Iterator[HandTrainer]:
    made = HandTrainer(redis_address, **getattr(request, "param", {}))
    yield made
    made.close()


@pytest.fixture
def serving(redis_address: Address, trainer: HandTrainer) -> Iterator[ServingThread]:
    trainer.publish(1)
    with ServingThread(redis_address) as server:
        yield server


@pytest.fixture
def client(trainer: HandTrainer) -> HandClient:
    return HandClient(trainer, "c")
