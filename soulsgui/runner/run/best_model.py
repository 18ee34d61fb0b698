"""Has the best model saved: telemetry finds it, the trainer holds its weights."""

import asyncio
import logging
import time

import redis

from soulsgui.runner.bus import ANSWER_LIMIT_S, Bus
from soulsgui.runner.refusal import Refused
from soulsgui.wire.commands import NodeCommand
from soulsgui.wire.connection import AWAY
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.keys import TRAINER
from soulsgui.wire.messages.node import Verdict

logger = logging.getLogger(__name__)

_GAP_S = 1.0
_SETTLE_S = 1.0


class BestModel:
    """Asks the trainer to save the best model: once per change, one save at a time.

    Args:
        bus: The way to the trainer.
        saved: Model id and score of the one that is saved already.

    Attributes:
        oldest: Id of the oldest weights that the trainer may still hold: those of earlier attempts are gone.
    """

    def __init__(self, bus: Bus, saved: tuple[int, float] | None = None) -> None:
        self.oldest = float("-inf")
        self._bus = bus
        self._saved = saved
        self._outstanding: tuple[int, float] | None = None
        self._last_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def due(self, verdict: Verdict | None, now: float, hurry: bool = False) -> tuple[int, float] | None:
        """Return (model id, score) to save now, or None; what is returned counts as being saved.

        In a hurry it is the last one, which waits neither for a gap nor for an answer.
        """
        if verdict is None or verdict.best_model_id is None or verdict.best_score is None:
            return None
        best = (verdict.best_model_id, verdict.best_score)
        if best in (self._saved, self._outstanding) or verdict.best_model_id < self.oldest:
            return None
        if not hurry and (self._outstanding is not None or now - self._last_at < _GAP_S):
            return None
        self._outstanding, self._last_at = best, now
        return best

    def answered(self, delivered: bool) -> None:
        """Note that the save was answered (or that nobody will answer)."""
        if delivered:
            self._saved = self._outstanding
        self._outstanding = None

    def look(self, verdict: Verdict | None, now: float) -> None:
        """Ask for a save if one is due."""
        due = self.due(verdict, now)
        if verdict is not None and due is not None:
            self._asking = asyncio.create_task(self._ask(*due, verdict.best_by))

    async def settle(self) -> None:
        """Return when what was asked for is answered, or after a moment."""
        if self._asking is not None and not self._asking.done():
            await asyncio.wait({self._asking}, timeout=_SETTLE_S)

    async def save_last(self, verdict: Verdict | None) -> None:
        """Ask for the last one, without the usual gap, and return when it is answered."""
        due = self.due(verdict, time.monotonic(), hurry=True)
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
            self.answered(delivered)
