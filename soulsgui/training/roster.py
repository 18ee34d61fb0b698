"""Which clients there are, and what each says of itself; read from the server now and then."""

import time
from typing import cast

import redis

from soulsgui.wire.fleet import LATE_S, BeatClock
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat

_AWAY_PHASES = ("paused", "finishing", "stopping")


class Roster:
    """The trainer's view of the clients.

    Args:
        keys: Key names.
    """

    def __init__(self, keys: Keys) -> None:
        self.clients: list[str] = []
        self.beats: dict[str, Heartbeat] = {}
        self._keys = keys
        self._clock = BeatClock()

    def read(self, connection: redis.Redis) -> None:
        """Read the list of clients and their beats.

        Raises:
            redis.RedisError: The server is away.
        """
        names = cast("list[bytes]", connection.hkeys(self._keys.clients))
        self.clients = sorted(name.decode() for name in names)
        if not self.clients:
            return
        pipeline = connection.pipeline(transaction=False)
        for client in self.clients:
            pipeline.get(self._keys.beat(client))
            pipeline.pttl(self._keys.beat(client))
        replies = pipeline.execute(raise_on_error=False)
        now = time.monotonic()
        for client, data, left_ms in zip(self.clients, replies[::2], replies[1::2], strict=True):
            beat = Heartbeat.read(data) if isinstance(data, bytes) else None
            if beat is not None and beat.client == client:
                self.beats[client] = beat
                self._clock.observe(beat, EXPIRY_S - int(left_ms) / 1000, now)

    def why_not(self, client: str, session: str) -> str:
        """Return why a session can't take part in a round; empty when it can.

        Args:
            client: The client.
            session: Its session: what an older process under the same name said does not count.
        """
        beat = self.beats.get(client)
        if beat is None or beat.session != session:
            return ""  # it has only just said hello
        if beat.leaving:
            return "left"
        if beat.phase in _AWAY_PHASES:
            return beat.phase
        age = self._clock.age_s(client, time.monotonic())
        return "silent" if age is not None and age > LATE_S else ""

    def gone(self, client: str, session: str) -> str:
        """Return why a member of a round won't deliver any more; empty while it may.

        A silent one may come back: for it there is the deadline.
        """
        reason = self.why_not(client, session)
        return "" if reason == "silent" else reason
