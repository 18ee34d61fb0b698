"""The history of a run: checkpoints from all its length, thinned evenly as it grows."""

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from soulsgui.config.paths import RunFolder
from soulsgui.config.sections.run import CheckpointSettings
from soulsgui.errors import CheckpointError
from soulsgui.wire.manifest import PINNED, read_manifest

logger = logging.getLogger(__name__)


class Kept(NamedTuple):
    """A checkpoint of the history."""

    created: float
    pinned: bool
    path: Path


def surplus(kept: Sequence[Kept], most: int) -> list[Path]:
    """Return which to remove so that at most so many stay beside the pinned ones, evenly apart in time."""
    left, gone = sorted(kept), []
    while sum(not one.pinned for one in left) > most:
        # The one that is missed least: between its neighbours the smallest gap opens. First and last stay.
        inner = [place for place in range(1, len(left) - 1) if not left[place].pinned]
        if not inner:
            break
        least = min(inner, key=lambda place: left[place + 1].created - left[place - 1].created)
        gone.append(left.pop(least).path)
    return gone


class History:
    """Says when a checkpoint is due for the history of a run, and thins it."""

    def __init__(self, run: RunFolder, settings: CheckpointSettings) -> None:
        self._run, self._settings = run, settings
        self._last: tuple[int, float] | None = None  # updates, and when

    def due(self, updates: int, now: float) -> bool:
        """Whether one is due after so many updates; it counts as saved then."""
        every, minutes = self._settings.history_updates, self._settings.history_minutes
        before, at = self._last or (updates, now)  # the first look begins to count
        by_updates = every is not None and updates // every > before // every
        by_time = minutes is not None and now - at >= 60.0 * minutes
        due = updates > before and (by_updates or by_time)
        self._last = (updates, now) if due else (before, at)
        return due

    def thin(self) -> None:
        """Remove what is too many; a damaged one is left to whoever looks at it."""
        kept, chosen = [], self._run.chosen
        for path in self._run.history.glob("[!.]*"):
            try:
                stays = path == chosen or (path / PINNED).exists()
                kept.append(Kept(read_manifest(path).created, stays, path))
            except CheckpointError as error:
                logger.debug("%s is left alone: %s", path, error)
        for path in surplus(kept, self._settings.history_kept):
            shutil.rmtree(path, ignore_errors=True)
