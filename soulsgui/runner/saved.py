"""Whether a run is saved: what its trainer says while it goes on, what lies on the disk at its end."""

from collections.abc import Iterable

from soulsgui.runner.run import RunRecord
from soulsgui.runner.words import count_words
from soulsgui.wire.control import CheckpointInfo
from soulsgui.wire.messages.node import NodeState


class SaveNews:
    """Tells when the trainer begins, and when it ceases, to be unable to save."""

    def __init__(self) -> None:
        self._unsaved = False

    def of(self, trainer: NodeState | None) -> tuple[str, str] | None:
        """Return what is new, and what to do about it (empty for good news); None when nothing is.

        Args:
            trainer: Its newest state.
        """
        if trainer is None or bool(trainer.unsaved) == self._unsaved:
            return None
        self._unsaved = bool(trainer.unsaved)
        if not self._unsaved:
            return "is saved again", ""
        if trainer.phase == "paused":
            return f"is {trainer.unsaved}", "Free some space; training goes on by itself."
        return f"is {trainer.unsaved}", "Mend the cause; it is tried again by itself."


def loss_words(record: RunRecord, checkpoints: Iterable[CheckpointInfo], why: str) -> str:
    """Say what of a run that has ended no checkpoint holds; empty when everything is saved.

    Args:
        record: What is known of the run.
        checkpoints: Its checkpoints.
        why: Why it was not saved.
    """
    newest = max(
        (info for info in checkpoints if info.resumable),
        key=lambda info: (info.attempt, info.updates),
        default=None,
    )
    updates = record.updates - (newest.updates if newest is not None else 0)
    if updates <= 0:
        return ""
    steps = max(record.env_steps - (newest.env_steps if newest is not None else 0), 0)
    return f"the last {count_words(updates, 'update')} ({count_words(steps, 'step')}) are lost: {why}"
