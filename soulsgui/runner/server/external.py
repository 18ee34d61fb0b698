"""A Redis or Valkey that somebody else runs, and the way there: what comes to our socket is passed on.

So everything works as with a server of our own, whose process this takes the place of; what is stopped and
restarted is the way alone.
"""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import redis

from soulsgui.config.sections.server import RedisSettings
from soulsgui.errors import ServiceError, UsageError
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.runner.server.binary import OLDEST
from soulsgui.wire.access import client_of_user, user_of
from soulsgui.wire.connection import AWAY

logger = logging.getLogger(__name__)

_DEFAULT_PORT = 6379
_LIMIT_S = 10.0
_PIECE_BYTES = 2**18
_TRIED = "tried-out"  # who is let in and sent away again at the start
_EXAMPLE = "Such as redis://:PASSWORD@127.0.0.1:6379"


@dataclass(frozen=True)
class ExternalServer:
    """Where it is, and how it lets us in."""

    host: str
    port: int
    password: str
    encrypted: bool

    @classmethod
    def parse(cls, url: str) -> "ExternalServer":
        """Take `redis.url` apart; one that can't be used is a `UsageError`."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or _DEFAULT_PORT
        except ValueError as error:
            raise UsageError(f"redis.url can't be used: {error}.", _EXAMPLE) from error
        if parts.scheme not in ("redis", "rediss") or not host:
            raise UsageError("redis.url has to be redis://… or, encrypted, rediss://….", _EXAMPLE)
        if parts.path.strip("/") not in ("", "0") or parts.query:
            raise UsageError("redis.url: only the database 0 can be used, and no options.", _EXAMPLE)
        if parts.username not in (None, "", "default"):
            raise UsageError("redis.url: it has to be the user `default`, who may do everything.", _EXAMPLE)
        return cls(host, port, unquote(parts.password or ""), parts.scheme == "rediss")

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def check(self, settings: RedisSettings) -> None:
        """Make sure that it does what is needed of it; what it does not do is a `ServiceError` in words."""
        if not self.encrypted and not _stays_private(self.host):
            raise ServiceError(
                f"What goes to the server at {self} could be read on the way.",
                "Use rediss://, or reach it through a tunnel: ssh -N -L 6379:127.0.0.1:6379 HOST",
            )
        with contextlib.closing(self._connection()) as connection, self._explained():
            info = connection.info()
            self._check_kind(info, settings)
            self._check_rights(connection, settings.prefix)
        if not int(info.get("aof_enabled", 0)):
            logger.warning("the server at %s keeps no append-only file: its data is lost when it ends", self)

    def _connection(self) -> redis.Redis:
        return redis.Redis(
            host=self.host,
            port=self.port,
            password=self.password or None,
            ssl=self.encrypted,
            protocol=2,
            socket_timeout=_LIMIT_S,
            socket_connect_timeout=_LIMIT_S,
        )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except redis.AuthenticationError as error:
            raise ServiceError(
                f"The server at {self} does not let us in: {str(error).rstrip('.')}.", _EXAMPLE
            ) from error
        except AWAY as error:
            remedy = "Start it, or set redis.url to where it is; empty starts one of our own."
            raise ServiceError(f"No server answers at {self}: {error}", remedy) from error
        except redis.ResponseError as error:
            raise ServiceError(
                f"The server at {self} refuses a command that is needed: {error}.",
                "It needs the commands ACL, CLIENT and INFO; some hosted servers don't allow them.",
            ) from error

    def _check_kind(self, info: dict[str, object], settings: RedisSettings) -> None:
        product = "valkey" if "valkey_version" in info else "redis"
        version = str(info.get("valkey_version" if product == "valkey" else "redis_version", ""))
        oldest = OLDEST["valkey" if product == "valkey" else "redis"]
        if tuple(int(part) for part in version.split(".")[:2]) < oldest:
            needed = ".".join(map(str, oldest))
            raise ServiceError(
                f"The server at {self} is {product} {version}: too old.", f"{needed} is needed."
            )
        if info.get("cluster_enabled"):
            raise ServiceError(f"The server at {self} is a cluster.", "A single server is needed.")
        limit, policy = int(str(info.get("maxmemory", 0))), info.get("maxmemory_policy", "noeviction")
        if limit and policy != "noeviction":
            raise ServiceError(
                f"The server at {self} discards data when its memory is full ({policy}).",
                "On it: CONFIG SET maxmemory-policy noeviction",
            )
        if limit and limit < settings.max_memory:
            raise ServiceError(
                f"The server at {self} may take {limit:,} bytes, and redis.max_memory says more.",
                f"soulsgui serve --set redis.max_memory={limit}",
            )

    def _check_rights(self, connection: redis.Redis, prefix: str) -> None:
        """Try what is done with clients; those of another SoulsGUI would have the same names as ours."""
        user = user_of(_TRIED)
        connection.execute_command("ACL", "SETUSER", user, "reset")  # type: ignore[no-untyped-call]
        connection.acl_deluser(user)
        connection.client_list()
        for line in connection.acl_list():
            text = line.decode(errors="replace") if isinstance(line, bytes) else line
            _, name, *words = text.split()
            if client_of_user(name) and not any(f"~{prefix}" in word for word in words):
                raise ServiceError(
                    f"The server at {self} has clients of a SoulsGUI with another redis.prefix.",
                    "Use a server for each, or the same redis.prefix if that one has ended.",
                )


def _stays_private(host: str) -> bool:
    try:
        found = {str(one[4][0]).split("%")[0] for one in socket.getaddrinfo(host, None)}
    except OSError:
        return True  # told by whoever connects
    return all(ipaddress.ip_address(one).is_private for one in found)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE_BYTES):
            writer.write(data)
            await writer.drain()


class _Relay:
    def __init__(self, server: ExternalServer) -> None:
        self._server = server
        self._context = ssl.create_default_context() if server.encrypted else None
        self._said = ""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect somebody who came to our socket with the server."""
        try:
            connecting = asyncio.open_connection(self._server.host, self._server.port, ssl=self._context)
            theirs = await asyncio.wait_for(connecting, _LIMIT_S)
        except OSError as error:  # also a time-out, also of TLS
            if self._said != (said := f"{type(error).__name__}: {error}"):
                logger.warning("no server answers at %s: %s", self._server, said)
            self._said = said
            writer.close()
            return
        if self._said:
            logger.info("the server at %s answers again", self._server)
        self._said = ""
        ways = [asyncio.create_task(_pass_on(*way)) for way in ((reader, theirs[1]), (theirs[0], writer))]
        with contextlib.suppress(asyncio.CancelledError):  # the end of this process: asyncio would log it
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for one in (writer, theirs[1]):
            one.close()


async def _relay(server: ExternalServer, path: str, stop: threading.Event) -> None:
    Path(path).unlink(missing_ok=True)
    async with await asyncio.start_unix_server(_Relay(server).take, path):  # in a folder of this user alone
        await asyncio.to_thread(stop.wait)


def run_relay(url_file: Path, path: str) -> int:
    """Pass on what comes to the socket until the process is asked to stop; for the main thread."""
    setup_logging()
    stop = stop_on_signals()
    asyncio.run(_relay(ExternalServer.parse(url_file.read_text(encoding="utf-8")), path, stop))
    return 0
