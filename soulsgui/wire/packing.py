"""Commands as bytes: a large value goes to the socket as it is.

The packer of hiredis copies every value into a buffer that grows as it does: for weights of 20 MB that takes
longer than all the rest of publishing them.
"""

from typing import Any

from redis.connection import HiredisRespSerializer, PythonRespSerializer

LARGE_BYTES = 65536


class CommandPacker:
    """Packs commands for a `redis.Connection`, as its own packers do."""

    def __init__(self) -> None:
        self._small = HiredisRespSerializer()
        self._large = PythonRespSerializer(LARGE_BYTES, _encode)

    def pack(self, *args: Any) -> list[bytes]:
        """Return a command's bytes in pieces; values of more than `LARGE_BYTES` are pieces of their own."""
        large = any(type(arg) is bytes and len(arg) > LARGE_BYTES for arg in args)
        pieces: list[bytes] = (self._large if large else self._small).pack(*args)
        return pieces


def _encode(value: Any) -> bytes:
    """Return an argument as the library does: text as UTF-8, numbers as they are written."""
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else repr(value).encode()
