"""A client's progress in its log: for whoever looks at the terminal it runs in."""

import logging

from soulsgui.sampling.progress import Progress

logger = logging.getLogger(__name__)

_EVERY_S = 30.0


class ProgressLog:
    """Logs now and then how far a client has come.

    Args:
        progress: What it knows of itself.
        now: Monotonic time, seconds; the first line comes half a minute later.
    """

    def __init__(self, progress: Progress, now: float) -> None:
        self._progress = progress
        self._told_at = now

    def look(self, now: float) -> None:
        """Log a line if one is due.

        Args:
            now: Monotonic time, seconds.
        """
        if now - self._told_at < _EVERY_S:
            return
        self._told_at = now
        mean = self._progress.mean_return
        returns = f", mean return {mean:.1f}" if mean is not None else ""
        logger.info("%s%s", made_words(self._progress), returns)


def made_words(progress: Progress) -> str:
    """Return what a client has made in all, such as "2,048 steps (16 dropped), 1 episode"."""
    dropped = f" ({progress.dropped:,} dropped)" if progress.dropped else ""
    late = f", {progress.late_steps:,} late" if progress.late_steps else ""
    by_hand = f", {progress.human_steps:,} by hand" if progress.human_steps else ""
    steps = f"{_counted(progress.env_steps, 'step')}{dropped}{late}{by_hand}"
    return f"{steps}, {_counted(progress.episodes, 'episode')}"


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" + ("" if count == 1 else "s")
