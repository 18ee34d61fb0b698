"""What the trainer and the intake need of a learner, whatever it learns with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import redis
from numpy.typing import NDArray

from soulsgui.rl.agents.base import Agent
from soulsgui.training.intake.chunks import Taker

if TYPE_CHECKING:
    from soulsgui.training.attempt import Attempt

BLOCK_MS = 50
"""How long to wait for samples before everything else is looked after."""

Memory = Mapping[str, NDArray[Any]]


class Learner(Taker, Protocol):
    """An agent, what it learns from, and when it does.

    Attributes:
        family: Family of the algorithm (`wire.messages.server_config`).
        remembered_ids: Of how many of the newest weights samples are accepted.
    """

    family: str
    remembered_ids: int

    @property
    def agent(self) -> Agent:
        """What learns."""

    def begin(self, attempt: Attempt) -> None:
        """Use an attempt's server and clients from now on."""

    def read(self, connection: redis.Redis) -> None:
        """Take what came, and wait a little for the first of it."""

    def update(self, seconds: float) -> None:
        """Do what is due: begin or close a round, update until other things are due, publish, save."""

    def finish(self) -> None:
        """Put on the curves what was not told yet."""

    def close(self, keep_memory: bool) -> None:
        """Let go of threads and files; a memory that is kept can be gone on with."""

    def weights(self, published: bool = True) -> dict[str, NDArray[Any]]:
        """Return the weights that clients and the evaluator get, or else those that a checkpoint holds."""

    def state(self, with_memory: bool) -> tuple[dict[str, float], Memory]:
        """Return how far learner and clients are in step, and its memory, if that is wanted."""

    def load(self, pacing: Mapping[str, float], memory: Memory) -> None:
        """Go on with a memory, in step as it was then."""
