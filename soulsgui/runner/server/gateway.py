"""The gateway: the one way in for everybody but the server's own processes.

It ends the encryption, has each say which client it is, and joins it to the server's Unix socket, which only
this user can open (`passing`). Whoever has not said it in time is ended, whatever the others do.
"""

import asyncio
import contextlib
import hashlib
import logging
import re
import socket
import ssl
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TypeVar

import redis
import uvloop

from soulsgui.errors import ServiceError
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.runner.access.certificate import read_certificate
from soulsgui.runner.server.addresses import private_addresses
from soulsgui.runner.server.passing import Passing, Side, Throughput
from soulsgui.system import who_listens
from soulsgui.wire.access import client_of_user
from soulsgui.wire.beats import own_instance
from soulsgui.wire.connection import AWAY, Address, connect_async
from soulsgui.wire.keys import GATEWAY, Keys, is_own_name
from soulsgui.wire.messages.node import NodeState

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOGIN_TIMEOUT_S = 5.0
"""Within so many seconds of its connection a client has said who it is."""

MOST_PENDING = 1024
"""So many at once may be about to say who they are; beyond, the oldest of the address with most is ended."""

MOST_PENDING_OF_ADDRESS = 256
"""So many of these from one address; beyond, the oldest, once it had time enough."""

MOST_OF_CLIENT = 64
"""So many connections one client may have."""

_BACKLOG = 2048
_CROWDED_S = 0.2
_FULL_S = 0.02
_ENOUGH_S = 2.5
_STATE_S = 1.0
_NETWORKS_S = 10.0
_TOLD_EVERY_S = 60.0
_MOST_REFUSED = 1000
_NAMED = 5
_ACCEPTED_AT_ONCE = 256
_AT_ONCE = 4

# What our clients say first (redis-py with its protocol 2). The server is told it in our own words, so that
# nobody hides another command behind wrong lengths. What can't become it matches, too, without its groups.
_LOGIN = re.compile(
    rb"\*3\r\n\$4\r\nAUTH\r\n\$\d{1,3}\r\n([^\r\n]+)\r\n\$\d{1,3}\r\n([^\r\n]+)\r\n"
    rb"|[^*]|\*[^3]|\*3\r\n\$[^4]",
    re.IGNORECASE,
)
_LINE = re.compile(rb"[^\r\n]*\r\n")
_NO_CLIENT = b"-WRONGPASS here the invited say first who they are\r\n"
_TOO_MANY = b"-ERR max number of clients reached: this client has too many connections\r\n"
_KEEP_ALIVE_S = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class Gateway:
    """Lets clients in to the server at `address`; `lan` and `public` say where it listens beside loopback."""

    def __init__(self, address: Address, server_dir: Path, lan: bool, public: bool) -> None:
        self._address = address
        self._lan, self._public = lan, public
        certificate = read_certificate(server_dir)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.load_cert_chain(certificate.path, certificate.key)
        self._listening: dict[str, socket.socket] = {}
        self._pending: dict[asyncio.Task[None], tuple[str, float]] = {}  # address, since when; oldest first
        self._pending_of: Counter[str] = Counter()  # at each address
        self._queues: dict[str, list[socket.socket]] = {}  # of each address, who has just come
        self._queued = 0  # in all of them
        self._knocked = asyncio.Event()
        # Of each client by its secret: whoever had an older one and stays takes no place of the next.
        self._connections: Counter[tuple[str, bytes]] = Counter()
        # All who ever came in: nobody has another allowance by coming anew.
        self._clients: defaultdict[str, Throughput] = defaultdict(Throughput)
        self._refused: Counter[str] = Counter()  # by address, since that was told last
        self.trouble = ""  # why it can't listen everywhere, in words

    async def run(self, stop: threading.Event) -> None:
        """Let clients in until `stop` is set."""
        others = [
            asyncio.create_task(one())
            for one in (self._keep_listening, self._keep_letting_in, self._keep_telling)
        ]
        try:
            stopped = asyncio.create_task(asyncio.to_thread(stop.wait))
            done, _ = await asyncio.wait([stopped, *others], return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            stop.set()
            for host in list(self._listening):
                self._stop_listening(host)
            for queue in self._queues.values():
                for connection in queue:
                    connection.close()
            for task in (*others, *self._pending):
                task.cancel()

    def _listen(self, host: str) -> None:
        port = self._address.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            by = who_listens(port)
            why = f"the port is taken by {by}" if by else error.strerror
            raise ServiceError(f"The gateway can't listen at {host}, port {port}: {why}.") from error
        listening.setblocking(False)
        self._listening[host] = listening
        self._go_on_accepting(host)
        logger.info("clients come in at %s, port %d", host, port)

    def _stop_listening(self, host: str) -> None:
        listening = self._listening.pop(host)
        asyncio.get_running_loop().remove_reader(listening)
        listening.close()

    async def _keep_listening(self) -> None:
        """Listen at the addresses that this machine has; where another has the port, once it has left."""
        while True:
            found = await asyncio.to_thread(private_addresses, public=self._public) if self._lan else ()
            trouble = "this machine has no private address" if self._lan and not found else ""
            wanted = (self._address.host, *found)
            for gone in self._listening.keys() - set(wanted):
                self._stop_listening(gone)
            for host in (one for one in wanted if one not in self._listening):
                try:
                    self._listen(host)
                except ServiceError as error:
                    trouble = error.message
            self.trouble = trouble
            await asyncio.sleep(_NETWORKS_S)

    def _accept(self, host: str) -> None:
        """Take in who has come, before anything is done for anybody: else the system turns others away."""
        listening, loop = self._listening[host], asyncio.get_running_loop()
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, peer = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:  # it is gone already, or there are as many files open as may be
                self._refuse(error.strerror or "nowhere")
                loop.remove_reader(listening)
                loop.call_later(_CROWDED_S, self._go_on_accepting, host)
                return
            came_from = str(peer[0])
            queue = self._queues.setdefault(came_from, [])
            queue.append(connection)
            self._queued += 1
            self._knocked.set()
            if self._queued > MOST_PENDING:
                most = max(self._queues, key=lambda one: len(self._queues[one]))
                self._take(most, 0).close()
                self._refuse(most)

    def _go_on_accepting(self, host: str) -> None:
        if host in self._listening:
            asyncio.get_running_loop().add_reader(self._listening[host], self._accept, host)

    async def _keep_letting_in(self) -> None:
        """Attend to a few at each turn of the loop, of each address in turn: nobody waits for a crowd."""
        while True:
            await self._knocked.wait()
            pause_s = _FULL_S
            for host in list(self._queues)[:_AT_ONCE]:
                if self._has_room(host):
                    self._attend(self._take(host, -1), host)  # the newest: the others may be gone
                    pause_s = 0.0
                else:
                    self._queues[host] = self._queues.pop(host)
            if not self._queues:
                self._knocked.clear()
            await asyncio.sleep(pause_s)

    def _take(self, host: str, place: int) -> socket.socket:
        """Take one of an address out of its queue; its next waits until all other addresses had a turn."""
        queue = self._queues.pop(host)
        connection = queue.pop(place)
        self._queued -= 1
        if queue:
            self._queues[host] = queue
        return connection

    def _has_room(self, host: str) -> bool:
        """Whether one more of an address may say who it is; an address with more of them makes room."""
        crowded = self._pending_of[host] >= MOST_PENDING_OF_ADDRESS
        if not crowded and len(self._pending) < MOST_PENDING:
            return True
        most = host if crowded else self._pending_of.most_common(1)[0][0]
        oldest, since = next((one, since) for one, (where, since) in self._pending.items() if where == most)
        # Of one address many who come at once would end each other: each has its time first.
        if self._pending_of[most] <= self._pending_of[host] and time.monotonic() - since < _ENOUGH_S:
            return False
        self._end(oldest)
        return True

    def _attend(self, connection: socket.socket, host: str) -> None:
        task = asyncio.create_task(self._authenticate(connection, host))
        self._pending[task] = host, time.monotonic()
        self._pending_of[host] += 1
        task.add_done_callback(self._forget)

    async def _authenticate(self, connection: socket.socket, host: str) -> None:
        """Have one say who it is, and let it in where the server knows it."""
        try:
            _keep_alive(connection)
            async with asyncio.timeout(LOGIN_TIMEOUT_S):
                client = Side()  # uvloop returns a protocol of its own
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: client, connection, ssl=self._context, ssl_handshake_timeout=LOGIN_TIMEOUT_S
                )
                try:
                    if not await self._let_in(connection, client):
                        self._refuse(host)
                except BaseException:
                    client.transport.abort()
                    raise
        except (OSError, TimeoutError) as error:
            self._refuse(host)
            logger.debug("%s was not let in: %r", host, error)

    async def _let_in(self, line: socket.socket, client: Side) -> bool:
        """Join one to the server once both know who it is; return whether it was let in."""
        said = await client.match(_LOGIN)
        name = client_of_user(said[1].decode(errors="replace")) if said is not None and said[1] else ""
        if said is None or client.lost or not name or is_own_name(name):
            client.end(_NO_CLIENT)
            return False
        who = name, hashlib.sha256(said[2]).digest()
        if self._connections[who] >= MOST_OF_CLIENT:
            client.end(_TOO_MANY)
            return False
        self._connections[who] += 1  # at once: others come while the server is asked
        client.on_lost = lambda: _count_down(self._connections, who)
        client.early = client.early[said.end() :]
        loop = asyncio.get_running_loop()
        try:
            _, server = await loop.create_unix_connection(Side, self._address.socket)
        except OSError:  # it is being started, perhaps: that is said elsewhere
            client.end()
            return False
        server.transport.write(packed(b"AUTH", said[1], said[2]))
        try:
            answer = await server.match(_LINE)
        except asyncio.CancelledError:  # a server that is busy or frozen is not left with it
            server.transport.abort()
            raise
        if answer is None or not answer[0].startswith(b"+OK"):
            client.end(server.early)
            server.end()
            return False
        if client.lost:  # while the server answered
            server.end()
            return False
        Passing(line, client, server, self._clients[name])
        return True

    def _end(self, task: asyncio.Task[None]) -> None:
        self._refuse(self._pending[task][0])
        self._forget(task)
        task.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        if (found := self._pending.pop(task, None)) is not None:
            _count_down(self._pending_of, found[0])

    def _refuse(self, host: str) -> None:
        self._refused[host if len(self._refused) < _MOST_REFUSED else "others"] += 1

    async def _keep_telling(self) -> None:
        """Write its state each second, and now and then into the log who was not let in."""
        instance, tick, told_at = own_instance(), 0, time.monotonic()
        keys = Keys(self._address.prefix)
        key = keys.node(GATEWAY)
        async with connect_async(self._address, _STATE_S) as server:
            while True:
                tick += 1
                now = asyncio.get_running_loop().time()
                state = NodeState(
                    name=GATEWAY, instance=instance, tick=tick, phase="waiting", detail=self._words(),
                    error=self.trouble,
                    floods=[name for name, one in self._clients.items() if one.allowance.floods(now)],
                )  # fmt: skip
                with contextlib.suppress(redis.RedisError, *AWAY):  # its silence says it
                    await server.set(key, state.to_json())
                    weights_bytes = await server.strlen(keys.weights)
                    for one in self._clients.values():
                        one.weights_bytes = weights_bytes
                for one in self._clients.values():
                    one.look()
                if self._refused and time.monotonic() - told_at > _TOLD_EVERY_S:
                    most = ", ".join(f"{host} ({count})" for host, count in self._refused.most_common(_NAMED))
                    logger.info("%d were not let in, of: %s", self._refused.total(), most)
                    self._refused.clear()
                    told_at = time.monotonic()
                await asyncio.sleep(_STATE_S)

    def _words(self) -> str:
        names = sorted({name for name, _ in self._connections})
        if len(names) > _NAMED:
            return f"{len(names)} clients are connected"
        return f"{', '.join(names) or 'nobody'} {'are' if len(names) > 1 else 'is'} connected"


def _count_down(counts: Counter[T], one: T) -> None:
    counts[one] -= 1
    if not counts[one]:
        del counts[one]


def packed(*words: bytes) -> bytes:
    """Return a command as the server reads it."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _keep_alive(connection: socket.socket) -> None:
    """Have the system end a connection whose other end is gone without a word."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE_S.items():
        if (option := getattr(socket, name, None)) is not None:  # each system has some of them
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def run_gateway(address: Address, server_dir: Path, lan: bool, public: bool) -> int:
    """Let clients in until the process is asked to stop; call it in the main thread."""
    setup_logging()
    stop = stop_on_signals()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Gateway(address, server_dir, lan, public).run(stop))
    return 0
