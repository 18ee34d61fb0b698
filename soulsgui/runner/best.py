"""Has the best model saved: telemetry finds it, the trainer holds its weights."""

import asyncio
import logging
import time

import redis

from soulsgui.runner.bus import Bus
from soulsgui.runner.crew import ANSWER_LIMIT_S
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run import BestModel
from soulsgui.wire.commands import NodeCommand
from soulsgui.wire.connection import AWAY
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.keys import TRAINER
from soulsgui.wire.messages.node import Verdict

logger = logging.getLogger(__name__)

_SETTLE_S = 1.0


class BestKeeper:
    """Asks the trainer to save the best model whenever there is a better one.

    Args:
        bus: The way to the trainer.
        saved: Model id and score of the one that is saved already.
    """

    def __init__(self, bus: Bus, saved: tuple[int, float] | None) -> None:
        self._bus = bus
        self._best = BestModel(saved)
        self._asking: asyncio.Task[None] | None = None

    def await_attempt(self) -> None:
        """Order nothing before the trainer has begun an attempt: what is best now, another process held."""
        self._best.oldest = float("inf")

    def attempt_began(self, first_model_id: int) -> None:
        """Take note that the trainer holds no weights older than these."""
        self._best.oldest = first_model_id

    def look(self, verdict: Verdict | None, now: float) -> None:
        """Ask for a save if one is due.

        Args:
            verdict: What telemetry says.
            now: Monotonic time, seconds.
        """
        due = self._best.due(verdict, now)
        if verdict is not None and due is not None:
            self._asking = asyncio.create_task(self._ask(*due, verdict.best_by))

    async def settle(self) -> None:
        """Return when what was asked for is answered, or after a moment."""
        if self._asking is not None and not self._asking.done():
            await asyncio.wait({self._asking}, timeout=_SETTLE_S)

    async def last(self, verdict: Verdict | None) -> None:
        """Ask for the last one, without the usual gap, and return when it is answered."""
        due = self._best.due(verdict, time.monotonic(), hurry=True)
        if verdict is not None and due is not None:
            await self._ask(*due, verdict.best_by)

    async def _ask(self, model_id: int, score: float, scored_by: str) -> None:
        args = {"kind": "best", "model_id": model_id, "score": score, "scored_by": scored_by}
        delivered = False
        try:
            await self._bus.ask(TRAINER, NodeCommand(command="save", args=args), ANSWER_LIMIT_S)
            delivered = True
        except Refused as error:
            # A refusal is final: the weights are gone. Without an answer it is asked again.
            delivered = error.code == ErrorCode.FAILED
            logger.info("the best model stays as it is: %s", error.message)
        except (redis.RedisError, *AWAY) as error:
            logger.info("the best model was not saved: %s", error)
        finally:
            self._best.answered(delivered)
