"""Encryption to one server that is known by its certificate alone: no authority, no name, no date counts.

The pin is the SHA-256 of the certificate. It is compared after the handshake, which proves that the other
side has the certificate's key, and before anything else is said: a stranger never hears a password.
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


class PinnedConnection(redis.SSLConnection):
    """A connection to the server with this certificate, and to no other.

    Args:
        pin: From `pin_of`.
        kwargs: As of `redis.Connection`.
    """

    def __init__(self, pin: str, **kwargs: Any) -> None:
        super().__init__(ssl_cert_reqs="none", ssl_check_hostname=False, **kwargs)
        self._pin = pin

    def _wrap_socket_with_ssl(self, sock: socket.socket) -> ssl.SSLSocket:
        wrapped = _context().wrap_socket(sock)
        try:
            check_pin(self._pin, wrapped.getpeercert(binary_form=True))
        except WrongServer:
            wrapped.close()
            raise
        return wrapped


class AsyncPinnedConnection(redis.asyncio.SSLConnection):
    """As `PinnedConnection`, for asyncio."""

    def __init__(self, pin: str, **kwargs: Any) -> None:
        super().__init__(ssl_cert_reqs="none", ssl_check_hostname=False, **kwargs)
        self._pin = pin
        # redis-py would read all authorities of the system for each connection.
        self.ssl_context.context = _context()

    async def _connect(self) -> None:
        await super()._connect()  # type: ignore[no-untyped-call]
        writer = self._writer
        assert isinstance(writer, asyncio.StreamWriter)
        wrapped: ssl.SSLObject = writer.get_extra_info("ssl_object")
        check_pin(self._pin, wrapped.getpeercert(binary_form=True))
