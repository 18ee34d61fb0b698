"""The owner's pause, kept in a file: it outlives the window, the client and the runner."""

import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from soulsgui.system import write_private
from soulsgui.wire.messages.owner import OwnerPause, OwnerState

logger = logging.getLogger(__name__)


class KeptPause:
    """The pause that the owner of this machine wants, until it is ended or has run out.

    Args:
        path: Where it is kept.
        wall_clock: Seconds since the epoch.
    """

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall_clock = wall_clock
        self._pause: OwnerPause | None = None
        with contextlib.suppress(OSError):
            self._pause = OwnerPause.read(path.read_bytes())

    @property
    def wish(self) -> OwnerState:
        """What is wanted of the client now."""
        if self._pause is None or self._has_run_out(self._pause):
            return "run"
        return "pause_after_episode" if self._pause.after_episode else "pause"

    @property
    def until(self) -> float | None:
        """When it ends by itself, seconds since the epoch; None when it does not, or there is none."""
        return self._pause.until if self._pause is not None and self.wish != "run" else None

    def begin(self, after_episode: bool, for_s: float | None) -> None:
        """Pause from now on.

        Args:
            after_episode: Whether the client may end the episodes it is in first.
            for_s: Seconds until it ends by itself; None for not at all.

        Raises:
            OSError: The file can't be written.
        """
        until = self._wall_clock() + for_s if for_s is not None else None
        pause = OwnerPause(after_episode=after_episode, until=until)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_private(self._path, pause.to_json().encode())
        self._pause = pause

    def end(self) -> None:
        """Pause no longer.

        Raises:
            OSError: The file can't be removed.
        """
        self._path.unlink(missing_ok=True)
        self._pause = None

    def forget_if_over(self) -> None:
        """Forget a pause that has run out.

        Raises:
            OSError: The file can't be removed.
        """
        if self._pause is not None and self._has_run_out(self._pause):
            logger.info("the pause is over")
            self.end()

    def _has_run_out(self, pause: OwnerPause) -> bool:
        return pause.until is not None and self._wall_clock() >= pause.until
