"""Who is there: the clients of a server, and the beats of many of them at once, over and over."""

from collections.abc import Sequence
from typing import Any, cast

import redis

from soulsgui.process import is_supervised
from soulsgui.wire.keys import Keys, is_client_name
from soulsgui.wire.messages.heartbeat import MAX_BYTES


def clients_of(connection: redis.Redis, keys: Keys) -> list[str]:
    """Return everybody on the roster, sorted; for a node that no runner started, everybody who beats, too.

    The roster is the runner's to write. Who starts a node on a server of his own has none.

    Raises:
        redis.RedisError: The server is away.
    """
    listed = {name.decode(errors="replace") for name in cast("list[bytes]", connection.hkeys(keys.clients))}
    if not is_supervised():
        beats = connection.scan_iter(keys.beat("*"), count=1000)
        listed |= set(filter(is_client_name, (keys.client_of_beat(key.decode()) for key in beats)))
    return sorted(listed)


class BeatReader:
    """Reads beats. The commands are made once for the clients there are: for a thousand that is most of it.

    Args:
        keys: Key names.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._clients: list[str] = []
        self._commands: list[bytes] = []

    def read(self, connection: redis.Redis, clients: Sequence[str]) -> list[bytes]:
        """Return the beat of each client, empty where there is none, or something else in its place.

        What is longer than a beat may be is cut off one byte behind that, which tells that it is.

        Raises:
            redis.RedisError: The server is away.
        """
        if not clients:
            return []
        link: Any = connection.connection_pool.get_connection()
        try:
            if self._clients != list(clients):
                self._clients = list(clients)
                names = (self._keys.beat(client) for client in clients)
                self._commands = link.pack_commands([("GETRANGE", name, 0, MAX_BYTES) for name in names])
            link.send_packed_command(self._commands)
            return [_reply(link) for _ in clients]
        except BaseException:
            link.disconnect()  # the rest of its answers is not what the next command waits for
            raise
        finally:
            connection.connection_pool.release(link)


def _reply(link: Any) -> bytes:
    try:
        reply = link.read_response()
    except redis.ResponseError:
        return b""
    return reply if isinstance(reply, bytes) else b""
