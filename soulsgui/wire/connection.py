"""Connections to the Redis server, with our own retries.

redis-py's own retries can store one XADD twice, so they are off: an operation that failed is begun
again by its caller, who knows whether that is safe.
"""

import asyncio
import errno
import functools
import hashlib
import logging
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

import hiredis
import redis
import redis.asyncio
from redis._parsers import _AsyncHiredisParser, _HiredisParser
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import PythonRespSerializer
from redis.retry import Retry

from soulsgui.wire.access import Address as Address

logger = logging.getLogger(__name__)


class WrongServer(redis.ConnectionError):
    """Somebody else answers than the server that was named: the certificate is another one."""


# The pin is compared after the handshake, which proves that the other side has the certificate's key, and
# before anything else is sent, so that another server never sees a password. Where the comparison
# happens depends on the inside of redis-py; where nothing was compared, nothing is sent.
def pin_of(certificate: bytes) -> str:
    """Return the pin of a certificate (DER): 64 hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest()


def check_pin(pin: str, certificate: bytes | None) -> None:
    """Make sure that a certificate (DER) is the one of a pin.

    Raises:
        WrongServer: It is another one, or there is none.
    """
    if certificate is None or pin_of(certificate) != pin:
        raise WrongServer("its certificate is not the one that was agreed on")


@functools.cache
def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    # Chain and dates mean nothing here: a wrong clock keeps nobody out. The pin is what is checked.
    context.verify_mode = ssl.CERT_NONE
    return context


def _check_compared(connection: object, compared: object) -> None:
    """Raise `WrongServer` unless the connection in use is the one that was compared with the pin."""
    if connection is None or connection is not compared:
        raise WrongServer("its certificate was not compared with the one that was agreed on")


LONGEST_ANSWER_BYTES = 2**28
"""Of weights; a server with the memory limit that is shipped holds none of half of it."""

_ITEM_BYTES = 256  # at most, of one item of an answer as an object here
_LONGEST_LINE_BYTES = 2**16  # the parser reads a line from its beginning whenever more of it has come
_LENGTH = re.compile(rb"[$=!](\d{1,18})\r\n")


class AnswerTooLong(redis.ConnectionError):
    """A server answers with more than any honest one does."""


class _BoundedReader:
    """What a parser of redis-py reads with; it takes in no more than the longest answer."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.has_data = reader.has_data
        self._taken = 0  # of this answer
        self._line = bytearray()  # the beginning of one
        self._inside = 0  # bytes to come of the present value

    def feed(self, data: Any, start: int = 0, length: int | None = None) -> None:
        """Take bytes in, each line of them as an item."""
        at, end = start, len(data) if length is None else start + length
        self._taken += end - start
        while at < end:
            step = min(self._inside, end - at)
            self._inside -= step
            at += step
            after = data.find(b"\n", at, end) + 1 or end
            self._line += data[at:after]
            at = after
            if len(self._line) > _LONGEST_LINE_BYTES:
                raise AnswerTooLong(f"it answers with a line of more than {_LONGEST_LINE_BYTES >> 10} KiB")
            if self._line.endswith(b"\r\n"):
                value = _LENGTH.fullmatch(self._line)
                self._inside = int(value[1]) + len(b"\r\n") if value else 0
                self._taken += _ITEM_BYTES
                self._line.clear()
            if self._taken > LONGEST_ANSWER_BYTES:
                raise AnswerTooLong(f"it answers with more than {LONGEST_ANSWER_BYTES >> 20} MiB")
        self._reader.feed(data, start, end - start)

    def gets(self, *how: bool) -> Any:
        """Return the answer, once it is whole."""
        answer = self._reader.gets(*how)
        if answer is not NOT_ENOUGH_DATA:
            self._taken = 0
        return answer


class _BoundedParser(_HiredisParser):
    def on_connect(self, connection: Any, **kwargs: Any) -> None:
        super().on_connect(connection, **kwargs)  # type: ignore[no-untyped-call]
        self._reader: Any = _BoundedReader(self._reader)


class _AsyncBoundedParser(_AsyncHiredisParser):
    def on_connect(self, connection: Any) -> None:
        super().on_connect(connection)  # type: ignore[no-untyped-call]
        self._reader: Any = _BoundedReader(self._reader)


class PinnedConnection(redis.SSLConnection):
    """A connection to the server whose certificate has this pin, and to no other."""

    def __init__(self, pin: str, **kwargs: Any) -> None:
        super().__init__(
            ssl_cert_reqs="none", ssl_check_hostname=False, parser_class=_BoundedParser, **kwargs
        )
        self._pin = pin
        self._compared: ssl.SSLSocket | None = None

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send a packed command; `WrongServer` where no certificate was compared."""
        if not self.is_connected:
            self.connect_check_health(check_health=False)
        _check_compared(self._sock, self._compared)
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]

    def _wrap_socket_with_ssl(self, sock: socket.socket) -> ssl.SSLSocket:
        wrapped = _context().wrap_socket(sock)
        try:
            check_pin(self._pin, wrapped.getpeercert(binary_form=True))
        except WrongServer:
            wrapped.close()
            raise
        self._compared = wrapped
        return wrapped


class AsyncPinnedConnection(redis.asyncio.SSLConnection):
    """As `PinnedConnection`, for asyncio."""

    def __init__(self, pin: str, **kwargs: Any) -> None:
        super().__init__(
            ssl_cert_reqs="none", ssl_check_hostname=False, parser_class=_AsyncBoundedParser, **kwargs
        )
        self._pin = pin
        self._compared: asyncio.StreamWriter | None = None
        # redis-py would read all authorities of the system for each connection.
        self.ssl_context.context = _context()

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """As `PinnedConnection.send_packed_command`."""
        if not self.is_connected:
            await self.connect_check_health(check_health=False)
        _check_compared(self._writer, self._compared)
        await super().send_packed_command(command, check_health)

    async def _connect(self) -> None:
        await super()._connect()  # type: ignore[no-untyped-call]
        writer = self._writer
        assert isinstance(writer, asyncio.StreamWriter)
        wrapped: ssl.SSLObject = writer.get_extra_info("ssl_object")
        check_pin(self._pin, wrapped.getpeercert(binary_form=True))
        self._compared = writer


T = TypeVar("T")

LARGE_BYTES = 65536

AWAY = (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError, redis.InvalidResponse, OSError)
"""Errors that mean "try again": also a wrong password, which a restarted server may mend, and words that no
server says, of whoever has its place."""

NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""Errors that mean "this computer has reached its limit of open files and connections"."""

_SOCKET_TIMEOUT_S = 5.0
# A network that returns is found within 5 s. A try that began before is over 2 s after the last moment at
# which the system asks anew of itself (1 s, and 3 s), the next one follows after this delay, and what comes
# of it must still be told by one side to the other.
_CONNECT_TIMEOUT_S = 3.0
_LONGEST_DELAY_S = 1.5

_LONGEST_SHUT_OUT_DELAY_S = 30.0
_REVOKED_AFTER_S = 60.0

REVOKED = (
    "no longer accepts this invitation: it was revoked or replaced, or never was one of this server. "
    "Ask its owner for a new one."
)
"""What a client says of a server that answers and has not let it in for a minute."""

NOT_LET_IN = (
    "does not let this computer in. It may have just begun; if it stays so, the invitation was revoked or "
    "replaced: ask its owner for a new one."
)
"""What it says until then."""


def connect(address: Address, name: str = "", timeout_s: float | None = None) -> redis.Redis:
    """Return a client of the server; it connects at its first command.

    Args:
        name: Shown in the server's list of connections.
        timeout_s: Longest wait for a connection and for an answer; None takes the usual one.
    """
    limit_s = _SOCKET_TIMEOUT_S if timeout_s is None else timeout_s
    how = _options(address, limit_s, min(limit_s, _CONNECT_TIMEOUT_S)) | {
        "client_name": name or None,
        "health_check_interval": 15,
        "retry": Retry(NoBackoff(), 0),
        "command_packer": CommandPacker(),
    }
    if address.socket:
        how |= {"connection_class": redis.UnixDomainSocketConnection}
    elif address.pin:
        how |= {"connection_class": PinnedConnection, "pin": address.pin}
    return redis.Redis.from_pool(redis.ConnectionPool(**how))


def connect_async(address: Address, timeout_s: float) -> "redis.asyncio.Redis":
    """Return a client for asyncio, with one limit for connecting and for an answer."""
    how = _options(address, timeout_s, timeout_s) | {"retry": AsyncRetry(NoBackoff(), 0)}
    if address.socket:
        how["connection_class"] = redis.asyncio.UnixDomainSocketConnection
    elif address.pin:
        how |= {"connection_class": AsyncPinnedConnection, "pin": address.pin}
    pool = redis.asyncio.ConnectionPool(**how)
    return redis.asyncio.Redis.from_pool(pool)


def _options(address: Address, timeout_s: float, connect_timeout_s: float) -> dict[str, Any]:
    tcp = {
        "host": address.host,
        "port": address.port,
        "socket_connect_timeout": connect_timeout_s,
        "socket_keepalive": True,
    }
    return {
        "username": address.user or None,
        "password": address.password or None,
        "socket_timeout": timeout_s,
        "protocol": 2,
        # Else each connection reads the library's version from its files, and tells it in two commands.
        "driver_info": None,
        **({"path": address.socket} if address.socket else tcp),
    }


def disk_full(error: BaseException) -> bool:
    """Whether the server refuses writes because its disk is full."""
    return _is_refusal(error, "MISCONF")


def memory_full(error: BaseException) -> bool:
    """Whether the server refuses writes because it has all the memory it may have."""
    # redis-py takes "OOM" off the error of a single command.
    return isinstance(error, redis.OutOfMemoryError) or _is_refusal(error, "OOM")


def _is_refusal(error: BaseException, code: str) -> bool:
    """Whether an error begins with a code; redis-py puts the command before that of a pipeline."""
    return isinstance(error, redis.ResponseError) and bool(
        re.search(rf"(^|caused error: ){code}\b", str(error))
    )


class Backoff:
    """Growing delays, none longer than `longest_s`, with jitter: many clients don't come back at once."""

    def __init__(
        self, first_s: float = 0.05, longest_s: float = _LONGEST_DELAY_S, rng: random.Random | None = None
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._rng = rng or random.Random()
        self._next_s = first_s

    def reset(self) -> None:
        """Begin again with the shortest delay."""
        self._next_s = self._first_s

    def delay_s(self) -> float:
        """Return the next delay: between half and all of a value that doubles each time."""
        longest, self._next_s = self._next_s, min(self._next_s * 2, self._longest_s)
        return longest * self._rng.uniform(0.5, 1.0)


class ShutOut:
    """Retries with a server that answers, but does not let the client in. Pure: time is passed in.

    A server that has only just begun may let it in a moment later; after a minute it is said to be revoked.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._backoff = Backoff(first_s=0.5, longest_s=_LONGEST_SHUT_OUT_DELAY_S, rng=rng)
        self._since: float | None = None

    def again(self, now: float) -> float:
        """Note a refused login; return the seconds, at most 30, to wait before the next try."""
        if self._since is None:
            self._since = now
        return self._backoff.delay_s()

    def over(self) -> None:
        """Note a login that was accepted."""
        self._since = None
        self._backoff.reset()

    def revoked(self, now: float) -> bool:
        """Whether logins have been refused for a minute."""
        return self._since is not None and now - self._since >= _REVOKED_AFTER_S


class Stopped(Exception):
    """The process was asked to stop while it waited for the server."""


class Link:
    """A connection that outlives the server's absences, and lets none of them pass unnoticed.

    The library connects anew in silence where a connection broke while nothing was asked. The server may have
    come back without its data since: here that is an error (`AWAY`) as any other absence is.

    Args:
        stop: Set when the process should stop waiting.
        name: Shown in the server's list of connections and in our log.
        hint: What the user can do while the server is away; logged with that news.
    """

    def __init__(self, address: Address, stop: threading.Event, name: str, hint: str = "") -> None:
        self.redis = connect(address, name)
        self.redis.connection_pool.connection_kwargs["redis_connect_func"] = self._connected
        self._had: WeakSet[redis.Connection] = WeakSet()  # connections that were made once
        self.away = False
        self._kept: Any = None  # of `exchange`
        self._stop = stop
        self._name = name
        self._where = f"{address.host}:{address.port}"
        self._user = address.user
        # What a user of this machine can do is no help to a client of another one.
        self._hint = f". {hint}" if hint and not address.user else ""
        self._backoff = Backoff()
        self._refusal = ""
        self._shut_out = ShutOut()
        self._said_revoked = False

    def run(self, operation: Callable[[redis.Redis], T]) -> T:
        """Run an operation that may safely be repeated, until it succeeds.

        Raises:
            Stopped: `stop` was set while the server was away or refused writes (disk or memory full).
            redis.ResponseError: The server refuses it for another reason.
        """
        while True:
            try:
                result = operation(self.redis)
            except AWAY as error:
                self.lost(error)
            except redis.ResponseError as error:
                if not (disk_full(error) or memory_full(error)):
                    raise
                self.refused(error)
                if self._stop.wait(self._backoff.delay_s()):
                    raise Stopped from error
            else:
                self.back()
                return result

    def _connected(self, connection: redis.Connection) -> None:
        connection.on_connect()  # type: ignore[no-untyped-call]
        if connection in self._had and not self.away:
            self._had.remove(connection)  # it is told once
            raise redis.ConnectionError("The connection broke while nothing was asked.")
        self._had.add(connection)

    def exchange(
        self, *commands: tuple[Any, ...], meanwhile: Callable[[], object] | None = None
    ) -> list[Any]:
        """Send commands together and return their answers, on a connection kept for this; for one thread.

        It does what a pipeline does, in less than half of its time: for small commands that is most of it.

        Args:
            commands: Each with its arguments.
            meanwhile: Called while the server works.
        """
        if self._kept is None:
            self._kept = self.redis.connection_pool.get_connection()
        kept = self._kept
        try:
            kept.send_packed_command(kept.pack_commands(commands))
            if meanwhile is not None:
                meanwhile()
            return [kept.read_response() for _ in commands]
        except BaseException:
            kept.disconnect()  # the rest of its answers is not what the next commands wait for
            self._had.discard(kept)
            raise

    def lost(self, error: BaseException) -> None:
        """Note that the server did not answer, and wait a moment.

        Raises:
            Stopped: `stop` was set.
        """
        server = f"{self._name}: the server at {self._where}"
        shut_out = bool(self._user) and isinstance(error, redis.AuthenticationError)
        if not self.away and shut_out:
            logger.warning("%s %s It is tried again.", server, NOT_LET_IN)
        elif not self.away:
            why = error if isinstance(error, AnswerTooLong) else type(error).__name__
            logger.warning("%s is away (%s); trying again%s", server, why, self._hint)
        self.away = True
        if not shut_out:
            delay_s = self._backoff.delay_s()
        else:
            now = time.monotonic()
            delay_s = self._shut_out.again(now)
            if self._shut_out.revoked(now) and not self._said_revoked:
                self._said_revoked = True
                logger.error("%s %s", server, REVOKED)
        if self._stop.wait(delay_s):
            raise Stopped from error

    def back(self) -> None:
        """Note that the server did what it was asked."""
        if self.away or self._refusal:
            logger.info("%s: the server is back", self._name)
        self.away, self._refusal = False, ""
        self._backoff.reset()
        self._shut_out.over()
        self._said_revoked = False

    def refused(self, error: redis.ResponseError) -> None:
        """Log once that the server refuses (out of memory, disk full); the caller tries again."""
        kind = f"{type(error).__name__} {str(error).partition(' ')[0]}"
        if kind != self._refusal:
            logger.warning("%s: the server refuses: %s", self._name, error)
        self._refusal = kind

    def close(self) -> None:
        """Close the connection."""
        self.redis.close()


class CommandPacker:
    """Packs commands for a `redis.Connection`, as its own packers do; a large value goes out as it is.

    The packer of hiredis copies every value into a buffer that grows as it does: for weights of 20 MB that
    takes longer than all the rest of publishing them.
    """

    def __init__(self) -> None:
        self._large: Any = PythonRespSerializer(LARGE_BYTES, _encode)

    def pack(self, *args: Any) -> list[bytes]:
        """Return a command's bytes in pieces; values of more than `LARGE_BYTES` are pieces of their own."""
        for arg in args:
            if type(arg) is bytes and len(arg) > LARGE_BYTES:
                pieces: list[bytes] = self._large.pack(*args)
                return pieces
        return [hiredis.pack_command((*args[0].split(), *args[1:]))]  # a name may be `XINFO STREAM`


def _encode(value: Any) -> bytes:
    """Return an argument as the library does: text as UTF-8, numbers as they are written."""
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else repr(value).encode()
