"""An intake, and a client moved by hand."""

from functools import partial
from pathlib import Path

import pytest
import redis

from soulsgui.process import SUPERVISED_ENV
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from tests.faults.waiting import LIMIT_S
from tests.training.nodes import RunNode, running_node
from tests.training.players import Player
from tests.training.taking import IntakeOfTest, joined


@pytest.fixture(autouse=True)
def _supervised(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a runner: who plays stands on its list."""
    for name, value in SUPERVISED_ENV.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def run_node(redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunNode:
    """Nobody is absent because this test, which moves its players by hand, has no time for their beats."""
    monkeypatch.setattr("soulsgui.training.intake.roster.LATE_S", LIMIT_S)
    return partial(running_node, redis_address, tmp_path)


@pytest.fixture
def trainer(redis_client: redis.Redis, keys: Keys) -> IntakeOfTest:
    return IntakeOfTest(redis_client, keys)


@pytest.fixture
def player(redis_client: redis.Redis, keys: Keys, trainer: IntakeOfTest) -> Player:
    return Player(redis_client, keys)


@pytest.fixture
def member(trainer: IntakeOfTest, player: Player) -> Player:
    """A player that was let in."""
    return joined(trainer, player)
