"""Which clients there are, what each says of itself, and with which sessions a new trainer goes on."""

import logging
import time
from collections.abc import Sequence
from typing import cast

import redis

from soulsgui.training.intake.sessions import LEFT, OFF_THE_LIST, Session, Sessions
from soulsgui.wire.beats import LATE_S, BeatClock, BeatReader, clients_of
from soulsgui.wire.keys import EntryId, Keys
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)

_AWAY_PHASES = ("restarting", "paused", "finishing", "stopping")


class Roster:
    """The trainer's view of the clients."""

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
        """Read the list of clients and their beats."""
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
        """Return why a member of a round won't deliver any more; empty while it may come back."""
        if session.client not in self._listed:
            return OFF_THE_LIST
        reason = self.why_not(session)
        return "" if reason == "silent" else reason  # for a silent one there is the deadline of the round


class Readmission:
    """Finds clients that beat with a session nobody here knows, and admits it again by its grant."""

    def __init__(self, keys: Keys, run_id: str, roster: Roster, sessions: Sessions) -> None:
        self._keys, self._run_id = keys, run_id
        self._roster, self._sessions = roster, sessions
        self._over: dict[str, str] = {}  # sessions nobody has to ask for again, by client

    def look(self, connection: redis.Redis) -> set[str]:
        """Go on with sessions that were admitted before; return the clients whose grant has changed."""
        beats, known = self._roster.beats, self._sessions.by_client
        self._over = {client: session for client, session in self._over.items() if client in beats}
        strangers = [
            client
            for client, beat in beats.items()
            if beat.session and client not in known and self._over.get(client) != beat.session
        ]
        if not strangers:
            return set()
        grants = cast("list[bytes | None]", connection.mget([self._keys.grant(name) for name in strangers]))
        newest = self.newest_entries(connection, strangers)
        # Such a session never goes on; asked for once it has told whether its client was cut off.
        self._over |= {
            client: beats[client].session
            for client in strangers
            if beats[client].leaving or beats[client].run_id != self._run_id
        }
        to_tell = set()
        for client, data in zip(strangers, grants, strict=True):
            grant = Grant.read(data)
            if grant is None or client not in newest:
                continue  # no stream, or something else under its name: there is nothing to go on with
            if self._sessions.readmit(client, grant, beats[client], newest[client], time.monotonic()):
                logger.info("%s continues with session %s", client, grant.session)
                if grant.resting != self._sessions.resting or grant.greedy is not None:
                    to_tell.add(client)
        return to_tell

    def keep_out(self, connection: redis.Redis) -> None:
        """Keep those cut off that were so, and have no session to go on with."""
        names = [client for client in self._roster.clients if client not in self._sessions.by_client]
        grants = cast("list[bytes | None]", connection.mget(map(self._keys.grant, names)) if names else [])
        for client, data in zip(names, grants, strict=True):
            if (grant := Grant.read(data)) is not None and grant.status == "quarantined":
                self._sessions.cut_off(client, grant.reason)

    def newest_entries(self, connection: redis.Redis, clients: Sequence[str]) -> dict[str, EntryId]:
        """Return the id of the newest entry ever put on the stream of each client that has one."""
        pipeline = connection.pipeline(transaction=False)
        for client in clients:
            pipeline.xinfo_stream(self._keys.chunks(client))
        streams = pipeline.execute(raise_on_error=False)
        return {
            client: EntryId.parse(stream["last-generated-id"])
            for client, stream in zip(clients, streams, strict=True)
            if not isinstance(stream, Exception)
        }
