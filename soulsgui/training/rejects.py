"""A small ring of the last refused chunks, for people to look at."""

import time
from collections import Counter, deque
from collections.abc import Callable

import redis

from soulsgui.printable import printable
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.rejects import HEAD_BYTES, Reject, Rejects

KEPT = 64
KEPT_OF_A_KIND = 8
"""Of each client and reason: one client that fails all the time must not hide what others sent."""

_EVERY_S = 0.5


class RejectRing:
    """Keeps the last refused chunks and writes them where the runner finds them.

    Args:
        keys: Key names.
        run_id: The run.
        clock: Wall time, seconds since the epoch.
    """

    def __init__(self, keys: Keys, run_id: str, clock: Callable[[], float] = time.time) -> None:
        self._key = keys.rejects
        self._run_id = run_id
        self._clock = clock
        self._ring: deque[Reject] = deque()
        self._kinds: Counter[tuple[str, str]] = Counter()
        self._changed = False
        self._next_write = 0.0

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._ring)

    def add(
        self, client: str, entry: bytes, payload: bytes, reason: str, segments: int = 1, detail: str = ""
    ) -> None:
        """Keep a refused chunk.

        Args:
            client: Who sent it.
            entry: Id of its entry.
            payload: The chunk; only its beginning is kept.
            reason: Why it was refused.
            segments: How many of its segments were.
            detail: More about it in words.
        """
        kind = (client, reason)
        if self._kinds[kind] >= KEPT_OF_A_KIND:
            oldest = next(one for one in self._ring if (one.client, one.reason) == kind)
            self._ring.remove(oldest)
            self._kinds[kind] -= 1
        elif len(self._ring) >= KEPT:
            gone = self._ring.popleft()
            self._kinds[gone.client, gone.reason] -= 1
        self._ring.append(
            Reject(
                client=client,
                entry=entry.decode(errors="replace"),
                reason=reason,
                segments=segments,
                time=self._clock(),
                size=len(payload),
                head=payload[:HEAD_BYTES].hex(),
                detail=printable(detail),
            )
        )
        self._kinds[kind] += 1
        self._changed = True

    def load(self, connection: redis.Redis) -> None:
        """Go on with what an earlier trainer of this run kept.

        Raises:
            redis.RedisError: The server is away.
        """
        # MGET answers nil for a key of another type.
        (data,) = connection.mget([self._key])
        found = Rejects.read(data)
        if found is not None and found.run_id == self._run_id:
            self._ring = deque(found.rejects[-KEPT:])
            self._kinds = Counter((one.client, one.reason) for one in self._ring)

    def flush(self, connection: redis.Redis, now: float) -> None:
        """Write the ring when it has changed, but not too often.

        Args:
            connection: The server.
            now: Monotonic time, seconds.

        Raises:
            redis.RedisError: It was not written; it is tried again.
        """
        if not self._changed or now < self._next_write:
            return
        self._next_write = now + _EVERY_S
        connection.set(self._key, Rejects(run_id=self._run_id, rejects=list(self._ring)).to_json())
        self._changed = False
