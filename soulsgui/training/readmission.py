"""Sessions that an earlier trainer admitted, and with which this one goes on."""

import logging
import time
from collections.abc import Iterable
from typing import cast

import redis

from soulsgui.training.roster import Roster
from soulsgui.training.sessions import Sessions
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)


class Readmission:
    """Finds clients that beat with a session nobody here knows, and admits it again by its grant.

    Args:
        keys: Key names.
        run_id: The run.
        roster: Who is there.
        sessions: The clients' sessions.
    """

    def __init__(self, keys: Keys, run_id: str, roster: Roster, sessions: Sessions) -> None:
        self._keys = keys
        self._run_id = run_id
        self._roster = roster
        self._sessions = sessions
        self._over: dict[str, str] = {}  # sessions nobody has to ask for again, by client

    def look(self, connection: redis.Redis) -> set[str]:
        """Go on with sessions that nobody here knows, but were admitted before.

        Returns:
            Clients whose grant is no longer the one that they were told.

        Raises:
            redis.RedisError: The server is away.
        """
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
                logger.info("%s goes on with session %s", client, grant.session)
                if grant.resting != self._sessions.resting or grant.greedy is not None:
                    to_tell.add(client)
        return to_tell

    def newest_entries(self, connection: redis.Redis, clients: Iterable[str]) -> dict[str, EntryId]:
        """Return the id of the newest entry ever put on the stream of each client that has one.

        Raises:
            redis.RedisError: The server is away.
        """
        names = list(clients)
        pipeline = connection.pipeline(transaction=False)
        for client in names:
            pipeline.xinfo_stream(self._keys.chunks(client))
        streams = pipeline.execute(raise_on_error=False)
        return {
            client: EntryId.parse(stream["last-generated-id"])
            for client, stream in zip(names, streams, strict=True)
            if not isinstance(stream, Exception)
        }
