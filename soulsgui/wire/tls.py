"""Encryption to one server that is known by its certificate alone: no authority, no name, no date counts.

The pin is the SHA-256 of the certificate. It is compared after the handshake, which proves that the other
side has the certificate's key, and before anything else is said: a stranger never hears a password. Where the
comparison stands depends on the inside of redis-py; where nothing was compared, nothing is said.
"""

import asyncio
import functools
import hashlib
import socket
import ssl
from typing import Any

import redis
import redis.asyncio


class WrongServer(redis.ConnectionError):
    """Somebody else answers than the server that was named: the certificate is another one."""


def pin_of(certificate: bytes) -> str:
    """Return the pin of a certificate (DER): 64 hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest()


def check_pin(pin: str, certificate: bytes | None) -> None:
    """Make sure that a certificate is the pinned one.

    Args:
        pin: From `pin_of`.
        certificate: What the other side showed (DER).

    Raises:
        WrongServer: It is another one, or there is none.
    """
    if certificate is None or pin_of(certificate) != pin:
        raise WrongServer("its certificate is not the one that was agreed on")


@functools.cache
def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    # Chain and dates mean nothing here: a wrong clock keeps nobody out. The pin is what is checked.
    context.verify_mode = ssl.CERT_NONE
    return context


def _check_compared(connection: object, compared: object) -> None:
    """Make sure that what is spoken through is what was compared with the pin.

    Args:
        connection: What is spoken through; None while nothing is.
        compared: What showed the pinned certificate.

    Raises:
        WrongServer: It is something else.
    """
    if connection is None or connection is not compared:
        raise WrongServer("its certificate was not compared with the one that was agreed on")


class PinnedConnection(redis.SSLConnection):
    """A connection to the server with this certificate, and to no other.

    Args:
        pin: From `pin_of`.
        kwargs: As of `redis.Connection`.
    """

    def __init__(self, pin: str, **kwargs: Any) -> None:
        super().__init__(ssl_cert_reqs="none", ssl_check_hostname=False, **kwargs)
        self._pin = pin
        self._compared: ssl.SSLSocket | None = None

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send a packed command, to the pinned server alone.

        Raises:
            WrongServer: Its certificate was not compared.
        """
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
        super().__init__(ssl_cert_reqs="none", ssl_check_hostname=False, **kwargs)
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
