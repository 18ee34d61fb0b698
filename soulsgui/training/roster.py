"""Which clients there are, and what each says of itself; read from the server now and then."""

import time

import redis

from soulsgui.training.rounds import LEFT, OFF_THE_LIST
from soulsgui.training.session import Session
from soulsgui.wire.beats import BeatReader, clients_of
from soulsgui.wire.fleet import LATE_S, BeatClock
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat

_AWAY_PHASES = ("restarting", "paused", "finishing", "stopping")


class Roster:
    """The trainer's view of the clients.

    Args:
        keys: Key names.

    Attributes:
        clients: Everyone who is listed, sorted.
        beats: The newest beat of each, by client.
    """

    def __init__(self, keys: Keys) -> None:
        self.clients: list[str] = []
        self.beats: dict[str, Heartbeat] = {}
        self._listed: set[str] = set()
        self._said: dict[str, bytes] = {}
        self._reader = BeatReader(keys)
        self._keys = keys
        self._clock = BeatClock()
        self._read_at: float | None = None

    def start_over(self) -> None:
        """After the server was away: that nobody could be heard of meanwhile is no client's silence."""
        if self._read_at is not None:
            self._clock.leave_out(time.monotonic() - self._read_at)

    def read(self, connection: redis.Redis) -> None:
        """Read the list of clients and their beats.

        Raises:
            redis.RedisError: The server is away.
        """
        self.clients = clients_of(connection, self._keys)
        self._listed = set(self.clients)
        for gone in set(self.beats) - self._listed:
            del self.beats[gone], self._said[gone]
            self._clock.forget(gone)
        ages = self._ages_of_new(connection)
        said = self._reader.read(connection, self.clients)
        self._read_at = now = time.monotonic()
        for client, data in zip(self.clients, said, strict=True):
            if data == self._said.get(client):
                continue  # the same as before: nothing moved
            beat = Heartbeat.read(data)
            if beat is not None and beat.client == client:
                self.beats[client], self._said[client] = beat, data
                self._clock.observe(beat, ages.get(client, 0.0), now)

    def _ages_of_new(self, connection: redis.Redis) -> dict[str, float]:
        """Return how old the beats of those are that were not seen before, by the server's clock."""
        new = [client for client in self.clients if client not in self.beats]
        if not new:
            return {}
        pipeline = connection.pipeline(transaction=False)
        for client in new:
            pipeline.pttl(self._keys.beat(client))
        left = pipeline.execute(raise_on_error=False)
        return {
            client: EXPIRY_S - left_ms / 1000
            for client, left_ms in zip(new, left, strict=True)
            if isinstance(left_ms, int)
        }

    def why_not(self, session: Session) -> str:
        """Return why a session can't take part in a round; empty when it can."""
        now = time.monotonic()
        beat = self.beats.get(session.client)
        if beat is None or beat.session != session.id:
            # What an older process under the same name said does not count; a new one beats soon.
            return "silent" if now - session.began_at > LATE_S else ""
        if beat.leaving:
            return LEFT
        if beat.phase in _AWAY_PHASES:
            return beat.phase
        age = self._clock.age_s(session.client, now)
        return "silent" if age is not None and age > LATE_S else ""

    def gone(self, session: Session) -> str:
        """Return why a member of a round won't deliver any more; empty while it may.

        A silent one may come back: for it there is the deadline.
        """
        if session.client not in self._listed:
            return OFF_THE_LIST
        reason = self.why_not(session)
        return "" if reason == "silent" else reason
