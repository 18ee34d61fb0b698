"""What a client on another computer has told of its troubles, read from its stream."""

import logging
from typing import cast

import redis

from soulsgui.runner.refusal import Refused
from soulsgui.wire.control import ErrorCode, LogLine
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.client_log import KEPT_LINES, LINE_FIELD, SentLine

logger = logging.getLogger(__name__)

_MOST_BYTES = 4 * 2**20

Entries = list[tuple[bytes, dict[bytes, bytes]]]


def told_lines(connection: redis.Redis, keys: Keys, client: str, n: int) -> list[LogLine]:
    """Return the newest lines that a client has told, oldest first.

    Times are those of the server, whatever the clock of the client says.

    Raises:
        Refused: What it has left there can be no log; it was taken away.
        redis.RedisError: The server is away.
    """
    key = keys.log(client)
    # A stream that its client does not trim may be of any size: looked at before it is read.
    size = connection.memory_usage(key) or 0
    found: Entries | None = None
    if size <= _MOST_BYTES:
        try:
            found = cast("Entries", connection.xrevrange(key, count=min(n, KEPT_LINES)))
        except redis.ResponseError as error:
            logger.warning("the log of %s can't be read: %s", client, error)  # a key of another type
    if found is None:
        connection.delete(key)
        raise Refused(
            ErrorCode.FAILED,
            f"What {client} has left on the server is no log: it was taken away.",
            f"If that happens again, cut it off: soulsgui revoke {client}",
        )
    lines: list[LogLine] = []
    for entry, fields in reversed(found):
        line = SentLine.read(fields.get(LINE_FIELD))
        if line is not None:
            time_s = int(entry.partition(b"-")[0]) / 1000
            lines.append(
                LogLine(service=client, number=len(lines) + 1, time=time_s, level=line.level, text=line.text)
            )
    return lines
