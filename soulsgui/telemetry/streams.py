"""The streams telemetry reads: rows of the trainer, to which it adds its own, and episodes of clients."""

import logging
from collections import deque
from typing import cast

import redis

from soulsgui.telemetry.intake import DropReason, Refusal
from soulsgui.telemetry.recorder import TrainerRow
from soulsgui.wire.beats import clients_of
from soulsgui.wire.group_reader import GroupReader
from soulsgui.wire.keys import TELEMETRY_GROUP, EntryId, Keys
from soulsgui.wire.messages.metrics import ROW_FIELD, STREAM_LENGTH, EpisodeRows, UpdateRow, read_row

BATCH_ENTRIES = 4096  # entries read at once, over all streams

_LEAST_PER_STREAM = 16
_READ_COUNT = 500
_PAGE = 50
_LOOK_BACK_PAGES = 40
_OWN_BYTES = 4 * 2**20  # memory of the server that our rows may take; older ones are in the store

_Entries = list[tuple[bytes, dict[bytes, bytes]]]

logger = logging.getLogger(__name__)


class EpisodeStreams(GroupReader):
    """What the telemetry group reads. Used by one thread."""

    def __init__(self, keys: Keys) -> None:

        def per_stream(streams: int) -> int:
            return max(_LEAST_PER_STREAM, BATCH_ENTRIES // streams)

        super().__init__(TELEMETRY_GROUP, keys.episodes, per_stream)
        self._keys = keys

    def discover(self, connection: redis.Redis) -> None:
        """Follow the roster: read new clients' streams too, forget those of clients that are gone."""
        self.set_clients(connection, clients_of(connection, self._keys))

    def take_refusals(self) -> list[Refusal]:
        """Return the streams newly set aside since the last call."""
        return [Refusal(client, DropReason.WRONG_TYPE) for client in self.take_unusable()]


class MetricsStream:
    """The stream `metrics`, read from a cursor on and added to. Used by one thread."""

    def __init__(self, keys: Keys, run_id: str, cursor: EntryId, own_bytes: int = _OWN_BYTES) -> None:
        self.cursor = cursor
        self.unreadable = 0
        self._stream = keys.metrics
        self._run_id = run_id
        self._own: set[bytes] = set()
        self._left: deque[tuple[bytes, int]] = deque()
        self._left_bytes = 0
        self._own_bytes = own_bytes

    def resume(self, connection: redis.Redis) -> None:
        """After (re)connecting: find our place on the stream again."""
        self._own.clear()  # a server without its data may give one of these ids to a row of the trainer
        self.find_place(connection)

    def find_place(self, connection: redis.Redis) -> None:
        """Begin anew where the server came back without our place: nobody may have seen it go."""
        try:
            last = cast("dict[str, bytes]", connection.xinfo_stream(self._stream))["last-generated-id"]
        except redis.ResponseError as error:
            if "no such key" not in str(error):
                raise
            last = b"0-0"
        if EntryId.parse(last) < self.cursor:
            logger.info("the server has no rows of before: reading those it has")
            self.cursor = EntryId(0, 0)
            self._own.clear()  # as in `resume`
            self._left.clear()
            self._left_bytes = 0

    def read(self, connection: redis.Redis, block_ms: int = 0) -> list[TrainerRow]:
        """Return the trainer's rows of this run behind the cursor, and move the cursor behind them."""
        rows: list[TrainerRow] = []
        while True:
            reply = connection.xread(
                {self._stream: str(self.cursor)}, count=_READ_COUNT, block=block_ms or None
            )
            entries = cast("list[tuple[bytes, _Entries]]", reply)[0][1] if reply else []
            for entry, fields in entries:
                self._take(entry, fields, rows)
            if len(entries) < _READ_COUNT:
                return rows

    def _take(self, entry: bytes, fields: dict[bytes, bytes], rows: list[TrainerRow]) -> None:
        self.cursor = EntryId.parse(entry)
        if entry in self._own:
            self._own.discard(entry)
            return
        row = read_row(fields.get(ROW_FIELD, b""))
        if row is None:
            if not self.unreadable:
                logger.warning(
                    "entry %s of %s is not a row (more are only counted)", entry.decode(), self._stream
                )
            self.unreadable += 1
        elif row.run_id == self._run_id and not isinstance(row, EpisodeRows):
            rows.append(row)

    def last_published(self, connection: redis.Redis) -> int | None:
        """Return the store's row number of the newest episode on the stream, None when there is none."""
        before = "+"
        for _ in range(_LOOK_BACK_PAGES):
            entries = cast("_Entries", connection.xrevrange(self._stream, max=before, count=_PAGE))
            for entry, fields in entries:
                row = read_row(fields.get(ROW_FIELD, b""))
                if isinstance(row, EpisodeRows) and row.run_id == self._run_id and row.row:
                    return row.row[-1]
                before = f"({entry.decode()}"
            if len(entries) < _PAGE:
                break
        return None

    def publish(self, connection: redis.Redis, message: EpisodeRows) -> int:
        """Add stored episodes; return the row number of the last of them."""
        text = message.to_json()
        entry = cast(
            "bytes", connection.xadd(self._stream, {ROW_FIELD: text}, maxlen=STREAM_LENGTH, approximate=True)
        )
        self._own.add(entry)
        self._left.append((entry, len(text)))
        self._left_bytes += len(text)
        self._trim(connection)
        return message.row[-1]

    def tell(self, connection: redis.Redis, row: UpdateRow) -> None:
        """Add a row as the trainer does: it is read like those of others, and counts then."""
        connection.xadd(self._stream, {ROW_FIELD: row.to_json()}, maxlen=STREAM_LENGTH, approximate=True)

    def _trim(self, connection: redis.Redis) -> None:
        """Keep the stream small in bytes too: its length alone would allow rows of many hundred megabytes."""
        while len(self._left) > STREAM_LENGTH:
            self._left_bytes -= self._left.popleft()[1]
        if self._left_bytes <= self._own_bytes:
            return
        while self._left_bytes > self._own_bytes // 2:
            self._left_bytes -= self._left.popleft()[1]
        if self._left:
            connection.xtrim(self._stream, minid=self._left[0][0].decode(), approximate=False)
