"""Writes checkpoints aside, so that the learner does not wait for the disk."""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from soulsgui.errors import CheckpointError
from soulsgui.training.checkpoint import Checkpoint, UnsavedError, write_checkpoint

logger = logging.getLogger(__name__)

Done = Callable[[CheckpointError | None], None]


@dataclass(frozen=True)
class _Order:
    target: Path
    checkpoint: Checkpoint
    done: Done


class Saver(threading.Thread):
    """One thread that writes one checkpoint after the other."""

    def __init__(self) -> None:
        super().__init__(name="saver", daemon=True)
        self._orders: queue.Queue[_Order | None] = queue.Queue()

    def save(self, target: Path, checkpoint: Checkpoint, done: Done) -> None:
        """Order a checkpoint; it must not change any more.

        Args:
            target: Its folder.
            checkpoint: What to write.
            done: Called in the writing thread, with the error when there was one.
        """
        self._orders.put(_Order(target, checkpoint, done))

    def busy(self) -> bool:
        """Whether an order is waiting or being written."""
        return self._orders.unfinished_tasks > 0

    def finish(self) -> None:
        """Wait until everything that was ordered is written."""
        self._orders.join()

    def close(self) -> None:
        """Write what was ordered, and end."""
        self._orders.put(None)
        self.join()

    def run(self) -> None:
        """Write until closed."""
        while (order := self._orders.get()) is not None:
            error: CheckpointError | None = None
            try:
                write_checkpoint(order.target, order.checkpoint)
            except CheckpointError as failure:
                error = failure
                logger.error("%s", failure)
            except Exception as failure:
                # The thread must live: without it no checkpoint would be written any more.
                error = UnsavedError(order.target, repr(failure))
                logger.exception("%s", error.message)
            try:
                order.done(error)
            except Exception:
                logger.exception("what follows the checkpoint %s went wrong", order.target)
            self._orders.task_done()
        self._orders.task_done()
