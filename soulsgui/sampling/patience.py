"""How long to wait before an environment that failed is made anew. Pure: time is passed in."""

FIRST_S = 0.5
LONGEST_S = 30.0
HEALTHY_S = 60.0


class Patience:
    """Pauses that double from failure to failure, until the environment was well for a while."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._well_since: float | None = None

    def failed(self) -> float:
        """Count a failure; return the pause before the next try, seconds."""
        self._well_since = None
        pause_s: float = FIRST_S * 2.0 ** min(self._in_a_row, 30)
        self._in_a_row += 1
        return min(pause_s, LONGEST_S)

    def works(self, now: float) -> bool:
        """Take note that the environment works.

        Args:
            now: Monotonic time, seconds.

        Returns:
            Whether it has just been well for long enough that its failures are forgotten.
        """
        if not self._in_a_row:
            return False
        if self._well_since is None:
            self._well_since = now
        if now - self._well_since < HEALTHY_S:
            return False
        self._in_a_row = 0
        return True
