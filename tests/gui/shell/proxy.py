"""A wire between window and runner that a test can cut."""

import asyncio
import contextlib
from pathlib import Path

from soulsgui.config.paths import Folders
from soulsgui.gui.runner_process import control_path
from soulsgui.wire.control import ControlFile


class Proxy:
    """Passes every connection on to a runner until it is cut.

    Args:
        control: The runner.
    """

    def __init__(self, control: ControlFile) -> None:
        self._control = control
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._open = True
        self.port = 0
        self.connected = 0

    async def start(self) -> None:
        """Listen on any free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """End every connection and refuse new ones."""
        self._open = False
        for connection in self._connections:
            connection.cancel()

    def mend(self) -> None:
        """Let connections through again."""
        self._open = True

    async def close(self) -> None:
        """End for good."""
        self.cut()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._server is not None:
            self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            writer.close()
            return
        self.connected += 1
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            to_reader, to_writer = await asyncio.open_connection(self._control.host, self._control.port)
            try:
                await asyncio.gather(_pump(reader, to_writer), _pump(to_reader, writer))
            finally:
                to_writer.close()
        except asyncio.CancelledError:
            pass
        finally:
            self._connections.discard(task)
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()


def beside(folders: Folders, port: int, folder: Path) -> Folders:
    """Return folders whose control file leads to another port of the same runner."""
    control = ControlFile.load(control_path(folders)).model_copy(update={"port": port})
    led = Folders(folder / "config", folder / "data")
    led.server.mkdir(parents=True)
    control_path(led).write_text(control.to_json())
    return led
