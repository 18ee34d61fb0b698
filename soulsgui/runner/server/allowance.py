"""What an invited client may have the server do, over all its connections: bytes either way, and commands.

Both are counted in seconds of one token bucket. Small commands cost the server little each and are cheap to
send, so their words are counted, not only their bytes. Pure: time is passed in.
"""

WORDS_PER_S = 100_000
"""Words of commands in a second: more than a client and its inference server have to say."""

BYTES_PER_S = 64e6
"""Bytes in a second, sent and received: half of what a network of a gigabit carries."""

BURST_S = 4.0
"""So much may be used at once after a pause: 20 MB of weights a dozen times over."""

FLOOD_S = 5.0
"""Who sends as many words as it may for so long floods."""

_NEARLY = 0.8


class Allowance:
    """A token bucket, in seconds; it begins full."""

    def __init__(self, now: float) -> None:
        self._left_s = BURST_S
        self._at = now
        self._words = 0
        self._looked_at = now
        self._many_since: float | None = None

    def spend(self, size: int, words: int, now: float) -> None:
        """Take off what so many bytes and words cost, whether there is so much or not."""
        self._left_s = min(BURST_S, self._left_s + now - self._at) - size / BYTES_PER_S - words / WORDS_PER_S
        self._at = now
        self._words += words

    def wait_s(self, now: float) -> float:
        """Return for how long nothing more may be spent; 0 while something may."""
        return max(0.0, self._at - now - self._left_s)

    def floods(self, now: float) -> bool:
        """Whether as many words as may be were sent for a while; asked once a second."""
        many = self._words > _NEARLY * WORDS_PER_S * (now - self._looked_at)
        if not many:
            self._many_since = None
        elif self._many_since is None:
            self._many_since = self._looked_at
        self._words, self._looked_at = 0, now
        return self._many_since is not None and now - self._many_since >= FLOOD_S
