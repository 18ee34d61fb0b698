"""An intake with what surrounds it, for tests: every chunk that passes is taken over."""

import math
from collections import Counter

import numpy as np
import redis

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Ints
from soulsgui.training.intake.checks import Codes
from soulsgui.training.intake.chunks import Accepted, Owned, Steps
from soulsgui.training.intake.reader import Intake
from soulsgui.training.intake.sessions import Session
from soulsgui.training.publisher import Publisher, TrainingPosition
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.server_config import ServerConfig
from tests.training.players import Player
from tests.wire.chunks import CONTRACT, RUN

SPACES = SpacesSpec(BoxSpec((2,), "float32"), DiscreteSpec(2))
CONFIG = ServerConfig(run_id=RUN, attempt=1, contract=CONTRACT, spaces=SPACES.to_json(), policy={})


class IntakeOfTest:
    def __init__(self, connection: redis.Redis, keys: Keys) -> None:
        self.connection = connection
        self.publisher = Publisher(keys, CONFIG)
        self.publisher.prepare(TrainingPosition(1, 0, 0, 0), {"w": np.zeros(1, np.float32)})
        self.publisher.publish(connection, {})
        self.used: Counter[str] = Counter()  # transitions, by client
        self.losses: list[tuple[str, str]] = []
        self.intake = Intake(keys, CONFIG, SPACES, self.publisher, 10**6, self)

    def refused_late(self, model_ids: Ints, lengths: Steps) -> None:
        pass

    def judge(self, owned: Owned) -> Codes:
        return np.zeros(owned.segments.count, np.uint8)

    def wants(self, session: Session) -> float:
        return math.inf

    def admit(self, session: Session, lengths: Steps, model_ids: Ints, codes: Codes) -> None:
        pass

    def insert(self, accepted: Accepted) -> None:
        for number, steps in zip(accepted.clients, accepted.segments.length, strict=True):
            self.used[accepted.names[number]] += int(steps)

    def lost(self, client: str, reason: str) -> None:
        self.losses.append((client, reason))

    def forget(self, client: str) -> int:
        return self.used.pop(client, 0)

    def turn(self) -> None:
        self.look_around()
        for _ in range(3):
            self.intake.take(self.connection, 0)

    def look_around(self) -> None:
        """Look around, whenever that was done last."""
        self.intake._next_look = 0.0
        self.intake.look_around(self.connection, often=True)

    def rejected(self) -> dict[str, int]:
        return self.intake.sessions.refusals().total


def joined(trainer: IntakeOfTest, player: Player) -> Player:
    player.hello()
    player.beat()
    trainer.turn()
    return player
