"""An inference server in a thread, its trainer moved by hand, and clients written by hand."""

from collections.abc import Iterator

import pytest

from soulsgui.modes.seed import served_run
from soulsgui.wire.connection import Address
from tests.faults.waiting import LIMIT_S
from tests.modes.seed.serving import HandClient, HandTrainer, ServingThread


@pytest.fixture(autouse=True)
def _nobody_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written by hand beats while a test waits: a busy machine may stop that for some seconds."""
    monkeypatch.setattr(served_run, "LATE_S", LIMIT_S)


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
