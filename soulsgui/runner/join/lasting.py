"""Which changes of a client's state are worth a line in the terminal. Pure: time is passed in."""

_LASTS_S = 5.0


class Lasting:
    """Tells what is new, but for waits that are soon over: with PPO each round ends in one.

    Args:
        shown: The state that needs no line.
    """

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._waits_since: float | None = None

    def is_news(self, state: str, now: float) -> bool:
        """Whether a state is another one than was told last, and no short wait; it then counts as told.

        Args:
            state: State of the client, and what it plays.
            now: Monotonic time, seconds.
        """
        if not state.startswith("waiting"):
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = now
        if state == self._shown or (self._waits_since is not None and now - self._waits_since < _LASTS_S):
            return False
        self._shown = state
        return True
