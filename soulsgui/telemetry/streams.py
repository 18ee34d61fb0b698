"""The episode streams of all clients of the roster."""

import redis

from soulsgui.telemetry.intake import Reason, Refusal
from soulsgui.wire.beats import clients_of
from soulsgui.wire.group_reader import GroupReader
from soulsgui.wire.keys import TELEMETRY_GROUP, Keys

BATCH_ENTRIES = 4096
"""Entries read at once, over all streams."""

_LEAST_PER_STREAM = 16


class EpisodeStreams(GroupReader):
    """What the telemetry group reads. Used by one thread.

    Args:
        keys: Key names.
    """

    def __init__(self, keys: Keys) -> None:
        super().__init__(TELEMETRY_GROUP, keys.episodes, _per_stream)
        self._keys = keys

    def discover(self, connection: redis.Redis) -> None:
        """Follow the roster: read new clients' streams too, forget those of clients that are gone.

        Raises:
            redis.RedisError: The server is away or refuses.
        """
        self.set_clients(connection, clients_of(connection, self._keys))

    def take_refusals(self) -> list[Refusal]:
        """Return the streams newly set aside since the last call."""
        return [Refusal(client, Reason.WRONG_TYPE) for client in self.take_unusable()]


def _per_stream(streams: int) -> int:
    return max(_LEAST_PER_STREAM, BATCH_ENTRIES // streams)
