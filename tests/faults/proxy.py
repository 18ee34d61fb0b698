"""A wire between clients and a server that a test can stall, swallow, move and cut."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from soulsgui.system import free_port
from soulsgui.wire.connection import Address
from tests.faults.waiting import LIMIT_S

T = TypeVar("T")

_PIECE = 65_536


class Proxy:
    """Passes every connection on, in a thread, until it is told otherwise.

    Attributes:
        address: The server as those see it who come through here.
        accepted: Connections that were ever taken.
        heard: All that passed, in both directions.
    """

    def __init__(self, target: Address, host: str = "127.0.0.1", port: int = 0) -> None:
        self.accepted = 0
        self.heard = bytearray()
        self._target = target
        self._wires: set[asyncio.Task[None]] = set()
        self._swallowed: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._thread.start()
        self._flows = asyncio.Event()
        self._flows.set()
        port = port or free_port(host)  # no connection takes it: another proxy may follow there
        self._server = self._run(asyncio.start_server(self._accept, host, port))
        self.address = replace(target, host=host, port=port)

    def stall(self) -> None:
        """Let nothing through in either direction: connections stay, new ones are taken and stay silent."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def flow(self) -> None:
        """Let everything through again, what was held first."""
        self._loop.call_soon_threadsafe(self._flows.set)

    def swallow(self) -> tuple[int, int]:
        """Throw away all that comes on the connections there are, for ever.

        Return how many those are, and how many were `accepted` by then.
        """

        async def mark() -> tuple[int, int]:
            self._swallowed |= self._wires
            return len(self._wires), self.accepted

        return self._run(mark())

    def close(self) -> None:

        async def end() -> None:
            self._server.close()
            for wire in self._wires:
                wire.cancel()
            await asyncio.gather(*self._wires, return_exceptions=True)

        self._run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = asyncio.current_task()
        assert wire is not None
        self._wires.add(wire)
        self.accepted += 1
        outward: asyncio.StreamWriter | None = None
        try:
            await self._flows.wait()
            inward, outward = await asyncio.open_connection(self._target.host, self._target.port)
            await asyncio.gather(self._pump(wire, reader, outward), self._pump(wire, inward, writer))
        except (asyncio.CancelledError, OSError):
            pass  # cut here, or one of its ends is gone
        finally:
            self._wires.discard(wire)
            for end in (writer, outward):
                if end is not None:
                    end.close()

    async def _pump(
        self, wire: "asyncio.Task[None]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(_PIECE):
            self.heard += data
            await self._flows.wait()
            if wire not in self._swallowed:
                writer.write(data)
                await writer.drain()
        if wire not in self._swallowed:  # a half-open connection does not tell that its other end is gone
            with suppress(OSError):
                writer.write_eof()
