"""Rows of the curves on their way to the server."""

import threading
from collections import deque

import redis

from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.metrics import ROW_FIELD, STREAM_LENGTH


class Rows:
    """Keeps rows until the server has them; rows may be added from any thread."""

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque(maxlen=STREAM_LENGTH)
        self._lock = threading.Lock()

    def add(self, row: Message) -> None:
        """Add a row."""
        with self._lock:
            self._waiting.append(row)

    def flush(self, connection: redis.Redis, keys: Keys) -> None:
        """Send the rows; they are named by attempt and update, so twice does no harm.

        Raises:
            redis.RedisError: Not all were sent; they go again.
        """
        with self._lock:
            rows = list(self._waiting)
        if not rows:
            return
        pipeline = connection.pipeline(transaction=False)
        for row in rows:
            pipeline.xadd(keys.metrics, {ROW_FIELD: row.to_json()}, maxlen=STREAM_LENGTH, approximate=True)
        pipeline.execute()
        with self._lock:
            for _ in rows:
                self._waiting.popleft()
