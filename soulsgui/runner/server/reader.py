"""One reader of the Redis server (node states, clients, new rows, answers), and what was read last."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import redis

from soulsgui.runner.server.memory_guard import memory_used
from soulsgui.runner.services.processes import ProcessTree
from soulsgui.wire.beats import BeatReader
from soulsgui.wire.connection import AWAY, Address, connect
from soulsgui.wire.control import ServerStatus
from soulsgui.wire.keys import EXPORTER, GATEWAY, NODES, Keys, is_client_name
from soulsgui.wire.messages.heartbeat import EXPIRY_S, MAX_BYTES, Heartbeat
from soulsgui.wire.messages.metrics import ROW_FIELD, Row, read_row
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.messages.session import Grant, Wish
from soulsgui.wire.node_commands import NodeAnswer, read_answer

logger = logging.getLogger(__name__)

_ROWS_AT_ONCE = 2000

T = TypeVar("T")

Entries = list[tuple[bytes, dict[bytes, bytes]]]


@dataclass(frozen=True)
class SeenClient:
    """What the server holds of one client, and the age of the beat by its clock where that was asked for."""

    beat: Heartbeat | None
    age_s: float | None
    grant: Grant | None
    wish: Wish | None


@dataclass(frozen=True)
class Turn:
    """What one turn of reading found."""

    reachable: bool  # Whether the server answered; without it everything else is empty
    # Newest state of each node that has written one.
    nodes: dict[str, NodeState] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)  # New rows of the curves
    answers: list[NodeAnswer] = field(default_factory=list)  # New answers to node commands
    roster: dict[str, str] | None = None  # The `clients` hash; None in turns that did not look at clients
    # Each client that has a beat or stands in the roster; None likewise.
    clients: dict[str, SeenClient] | None = None


class _ReadOnce(Generic[T]):
    """Reads what stands under a client's name; what stands there as before is not read again."""

    def __init__(self, read: Callable[[bytes | None], T | None]) -> None:
        self._read = read
        self._found: dict[str, tuple[bytes | None, T | None]] = {}

    def of(self, name: str, data: bytes | None) -> T | None:
        """Return what `read` makes of `data`."""
        found = self._found.get(name)
        if found is None or found[0] != data:
            found = self._found[name] = data, self._read(data)
        return found[1]

    def keep(self, names: set[str]) -> None:
        """Forget all but these."""
        for gone in self._found.keys() - names:
            del self._found[gone]


class ServerReader:
    """Reads the server, in one thread at a time.

    Args:
        address: Where it is.
        may_be_silent: Whether its silence is expected now, as it was asked to stop.
    """

    def __init__(self, address: Address, may_be_silent: Callable[[], bool] = lambda: False) -> None:
        self._may_be_silent = may_be_silent
        self._keys = Keys(address.prefix)
        self._address = address
        self._connection = connect(address, "runner-watch")
        self._last: dict[str, bytes] = {}
        self._beat_reader = BeatReader(self._keys)
        self._read_beats, self._read_grants = _ReadOnce(Heartbeat.read), _ReadOnce(Grant.read)
        self._aged: set[str] = set()
        self._unreadable: set[str] = set()
        # A server that is only just being started is not away.
        self._away = True
        self._has_answered = False

    def turn(self, look_at_clients: bool) -> Turn:
        """Read what is new; the clients too where they are asked for, which costs more."""
        try:
            found = self._read(look_at_clients)
        except (*AWAY, redis.RedisError) as error:
            if not self._away and not self._may_be_silent():
                logger.warning("the server does not answer: %s: %s", type(error).__name__, error)
            self._away = True
            return Turn(reachable=False)
        if self._away:
            logger.info("the server answers again" if self._has_answered else "the server answers")
        self._away, self._has_answered = False, True
        return found

    def _read(self, look_at_clients: bool) -> Turn:
        if not self._last:
            self._last = {stream: self._newest_id(stream) for stream in (self._keys.metrics, self._keys.done)}
        # MGET answers nil for a key of another type, where GET would fail the whole turn.
        names = (*NODES, GATEWAY, EXPORTER)
        states = self._mget([self._keys.node(name) for name in names])
        nodes = {name: NodeState.read(data) for name, data in zip(names, states, strict=True)}
        rows = [read_row(fields.get(ROW_FIELD, b"")) for fields in self._news(self._keys.metrics)]
        answers = [read_answer(fields) for fields in self._news(self._keys.done)]
        roster, clients = self._clients() if look_at_clients else (None, None)
        return Turn(
            reachable=True,
            nodes={name: state for name, state in nodes.items() if state is not None},
            rows=[row for row in rows if row is not None],
            answers=[answer for answer in answers if answer is not None],
            roster=roster,
            clients=clients,
        )

    def _mget(self, names: Sequence[str]) -> list[bytes | None]:
        return cast("list[bytes | None]", self._connection.mget(names)) if names else []

    def _newest_id(self, stream: str) -> bytes:
        try:
            entries = cast("Entries", self._connection.xrevrange(stream, count=1))
        except redis.ResponseError:
            # Told by the reading that follows.
            return b"0-0"
        return entries[0][0] if entries else b"0-0"

    def _news(self, stream: str) -> list[dict[bytes, bytes]]:
        after = b"(" + self._last[stream]
        try:
            entries = cast("Entries", self._connection.xrange(stream, min=after, count=_ROWS_AT_ONCE))
        except redis.ResponseError as error:
            # A key of another type: what stands elsewhere is read all the same.
            if stream not in self._unreadable:
                logger.error("%s can't be read: %s", stream, error)
            self._unreadable.add(stream)
            return []
        self._unreadable.discard(stream)
        if entries:
            self._last[stream] = entries[-1][0]
        return [fields for _, fields in entries]

    def _clients(self) -> tuple[dict[str, str], dict[str, SeenClient]]:
        roster = self._roster()
        names = sorted(name for name in set(roster) | self._present(roster) if is_client_name(name))
        beats = self._beats(names)
        grants = self._mget([self._keys.grant(name) for name in names])
        wishes = self._mget([self._keys.wish(name) for name in names])
        read = {name: self._read_beats.of(name, beat) for name, beat in zip(names, beats, strict=True)}
        # A beat under another client's name is not a sign of life of either.
        alive = {name: beat for name, beat in read.items() if beat is not None and beat.client == name}
        ages_s = self._ages_of_new([name for name in alive if name not in self._aged])
        seen = {
            name: SeenClient(
                alive.get(name), ages_s.get(name), self._read_grants.of(name, grant), Wish.read(wish)
            )
            for name, grant, wish in zip(names, grants, wishes, strict=True)
        }
        self._aged &= set(names)
        self._read_beats.keep(self._aged)
        self._read_grants.keep(self._aged)
        return roster, seen

    def _present(self, roster: Collection[str]) -> set[str]:
        """Return who beats, and who sends without a beat: what is refused of it would be shown nowhere."""
        keys = [
            key.decode(errors="replace")
            for key in self._connection.scan_iter(self._keys.presence_pattern, count=1000)
        ]
        beating = {name for name in map(self._keys.client_of_beat, keys) if name}
        streams = {name for name in map(self._keys.client_of_chunks, keys) if name}
        silent = sorted(streams - beating - set(roster))
        # The trainer makes the stream of a client that was just forgotten once more, and leaves it empty.
        pipeline = self._connection.pipeline(transaction=False)
        for name in silent:
            pipeline.xlen(self._keys.chunks(name))
        lengths = pipeline.execute(raise_on_error=False)
        return beating | {name for name, length in zip(silent, lengths, strict=True) if length != 0}

    def _beats(self, names: Sequence[str]) -> list[bytes | None]:
        """Return the beats of clients; what is no beat, but a store of something else, is taken away."""
        found = self._beat_reader.read(self._connection, names)
        too_large = [
            self._keys.beat(name) for name, beat in zip(names, found, strict=True) if len(beat) > MAX_BYTES
        ]
        if too_large:
            logger.warning("too large for a beat, taken away: %s", ", ".join(too_large))
            self._connection.delete(*too_large)
        return [beat or None for beat in found]

    def _roster(self) -> dict[str, str]:
        fields = cast("dict[bytes, bytes]", self._connection.hgetall(self._keys.clients))
        named = ((name.decode(errors="replace"), text) for name, text in fields.items())
        return {name: text.decode(errors="replace") for name, text in named if is_client_name(name)}

    def _ages_of_new(self, names: Sequence[str]) -> dict[str, float]:
        """Return the age of beats by the server's clock, asked for at first sight only."""
        if not names:
            return {}
        pipeline = self._connection.pipeline(transaction=False)
        for name in names:
            pipeline.pttl(self._keys.beat(name))
        left = dict(zip(names, pipeline.execute(), strict=True))
        self._aged.update(names)
        return {name: EXPIRY_S - left_ms / 1000 for name, left_ms in left.items() if left_ms >= 0}

    def server_status(self) -> ServerStatus:
        """Return address, version and memory of the server."""
        url = self._address.url
        try:
            info = self._connection.info()
        except (*AWAY, redis.RedisError):
            return ServerStatus(url=url)
        name = "valkey" if "valkey_version" in info else "redis"
        return ServerStatus(
            url=url,
            version=f"{name} {info.get(f'{name}_version', '')}",
            memory_bytes=memory_used(info),
            memory_limit_bytes=int(info.get("maxmemory", 0)),
            reachable=True,
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class ServerState:
    """What was read of the server and its nodes last; `pid` tells the process of a supervised service."""

    def __init__(self, pid: Callable[[str], int | None]) -> None:
        self.reachable = False  # Whether the server answers
        self.disk_full = False  # Whether it refuses writes because of its disk
        self.server = ServerStatus()  # Its address, version and memory
        self._pid = pid
        self._nodes: dict[str, NodeState] = {}
        self._pids: dict[str, int] = {}
        self._trees: defaultdict[str, ProcessTree] = defaultdict(ProcessTree)
        self._turned = asyncio.Event()

    def take(self, turn: Turn) -> None:
        """Take over what was read."""
        self.reachable = turn.reachable
        for name, state in turn.nodes.items():
            pid = self._pid(name)
            if pid is not None and pid != self._pids.get(name):
                self._pids[name] = pid
                self._nodes.pop(name, None)
            # What an earlier process left on the server is no news of this one.
            if self._trees[name].includes(self._pids.get(name), state.instance.pid):
                self._nodes[name] = state
        self._turned.set()
        self._turned = asyncio.Event()

    def node(self, name: str) -> NodeState | None:
        """Return the newest state of a node's present or last process; None when there is none."""
        return self._nodes.get(name)

    def node_of(self, name: str, run_id: str) -> NodeState | None:
        """Return the same if it belongs to this run."""
        state = self.node(name)
        return state if state is not None and state.run_id == run_id else None

    def forget_nodes(self) -> None:
        """Drop the states of nodes of an earlier run."""
        self._nodes = {}
        self._pids = {}

    async def next_turn(self, timeout_s: float) -> None:
        """Return after the server was read again, or after a while."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._turned.wait(), timeout_s)
