"""The way to a server of another computer, by the system's `ssh`: asked how to reach it, then a tunnel.

Who logs in there is a matter of keys and agent: `ssh` may ask for no password. The token of the server stays
in the memory of this window.
"""

import asyncio
import logging
import shutil
from collections.abc import Callable

from PySide6.QtCore import QProcess

from soulsgui.errors import ServerUnreachableError, SoulsGuiError
from soulsgui.gui.models.connection import RemoteServer
from soulsgui.system import free_port, listens
from soulsgui.wire.control import ControlFile

logger = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
_LIMIT_S = 60.0  # for one answer, or for a tunnel to open
_LOOK_EVERY_S = 0.05
_MOST_BYTES = 64 * 2**10
_NOT_FOUND = 127  # what a shell returns for a command that it does not find
_OF_SSH = 255
_SETTINGS = (
    "BatchMode=yes",
    "ConnectTimeout=15",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
    # A connection of our own: one that is shared would keep the tunnel when this window is gone.
    "ControlMaster=no",
    "ControlPath=none",
)
_OPTIONS = tuple(word for setting in _SETTINGS for word in ("-o", setting))


class SshRefusedError(SoulsGuiError):
    """A server can't be reached until somebody has changed something: trying again alone does not help."""


_REFUSALS = (
    (
        "could not resolve hostname",
        "No computer is known as {host}.",
        "Look at its spelling, and at ~/.ssh/config.",
    ),
    (
        "identification has changed",
        "{host} has another key than before.",
        "Ask its owner whether it was set up again before you remove the old one (ssh-keygen -R).",
    ),
    (
        "host key verification failed",
        "This computer does not know the key of {host} yet.",
        "Log in there once with ssh in a terminal, and compare the fingerprint that it shows.",
    ),
    (
        "permission denied",
        "{host} accepts no key of yours.",
        "SoulsGUI asks for no password: give {host} your key (ssh-copy-id), or unlock it (ssh-add).",
    ),
    (
        "too many authentication failures",
        "{host} accepts none of the first keys of your agent.",
        "Name the right one for it in ~/.ssh/config: IdentityFile, and IdentitiesOnly yes.",
    ),
)
"""What ssh writes, in small letters; what that means; what to do."""


def error_of(server: RemoteServer, code: int, said: str) -> SoulsGuiError:
    """Return in words why `ssh`, or what it ran there, ended with this code after it said this."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    small, host = said.casefold(), server.host
    if code == _OF_SSH:
        for words, message, remedy in _REFUSALS:
            if words in small:
                return SshRefusedError(message.format(host=host), remedy.format(host=host))
        why = f": {lines[-1]}" if lines else "."
        return ServerUnreachableError(
            f"{host} can't be reached{why}", "Look at the network, and at ssh there."
        )
    if code == _NOT_FOUND or "not recognized" in small:
        return SshRefusedError(
            f"There is no “{server.command}” at {host}.",
            "Install SoulsGUI there, or add the server with the whole path of its command.",
        )
    why = f": {lines[0]}" if lines else "."
    return ServerUnreachableError(f"No server runs at {host}{why}", "There, type: soulsgui serve --idle")


class _Ssh(QProcess):
    """`ssh` that has `control` run there; what it says is kept up to a limit, beyond which it is ended."""

    def __init__(self, server: RemoteServer, options: tuple[str, ...], words: tuple[str, ...]) -> None:
        super().__init__()
        program = shutil.which("ssh")
        if program is None:
            raise SshRefusedError("This computer has no ssh.", "Install the OpenSSH client, then try again.")
        self._server = server
        self._out, self._err = b"", b""
        self.readyReadStandardOutput.connect(self._read)
        self.readyReadStandardError.connect(self._read)
        # Its input ends with this window, however that ends: a tunnel has nothing else that tells it.
        self.start(program, [*_OPTIONS, *options, "-T", "--", server.host, server.command, "control", *words])

    def _read(self) -> None:
        self._out += bytes(self.readAllStandardOutput().data())
        self._err += bytes(self.readAllStandardError().data())
        self._err = self._err[-_MOST_BYTES:]
        if len(self._out) >= _MOST_BYTES:
            self._out = self._out[:_MOST_BYTES]
            self.kill()

    @property
    def ended(self) -> bool:
        """Whether it has ended, or could not begin."""
        return self.state() is QProcess.ProcessState.NotRunning

    def answer(self) -> str:
        """Return what it wrote for us to read.

        Raises:
            SshRefusedError, ServerUnreachableError: It has failed.
        """
        flooded = len(self._out) == _MOST_BYTES
        if flooded or (self.error() is QProcess.ProcessError.UnknownError and not self.exitCode()):
            return self._out.decode(errors="replace")
        raise self.why()

    def why(self) -> SoulsGuiError:
        """Return why it has ended."""
        if self.error() is QProcess.ProcessError.FailedToStart:
            return SshRefusedError(f"ssh can't be started: {self.errorString()}.", "Reinstall it.")
        normal = self.exitStatus() is QProcess.ExitStatus.NormalExit
        said = self._err.decode(errors="replace")
        return error_of(self._server, self.exitCode() if normal else _OF_SSH, said)

    def end(self) -> None:
        """End it now."""
        if not self.ended:
            self.kill()
            self.waitForFinished()
        self.deleteLater()


class RemotePlace:
    """Leads to one server of another computer, through at most one tunnel at a time."""

    def __init__(self, server: RemoteServer) -> None:
        self.server = server
        self._tunnel: _Ssh | None = None

    async def open(self) -> ControlFile:
        """Return how to reach its runner from here.

        Raises:
            SshRefusedError: It can't be reached before somebody has changed something.
            ServerUnreachableError: It can't be reached at present.
        """
        found = await self._ask()
        port = free_port()
        way = f"{_LOOPBACK}:{port}:{_LOOPBACK}:{found.port}"
        self._tunnel = tunnel = _Ssh(self.server, ("-o", "ExitOnForwardFailure=yes", "-L", way), ("--hold",))
        # The token is for nobody but the end of this tunnel: another program may have taken the port.
        await self._until(tunnel, lambda: listens(tunnel.processId(), port))
        if tunnel.ended:
            raise tunnel.why()
        logger.info("a tunnel leads to port %d of %s", found.port, self.server.host)
        return found.model_copy(update={"host": _LOOPBACK, "port": port})

    async def _ask(self) -> ControlFile:
        """Have it say how its runner is reached there."""
        asking = _Ssh(self.server, ("-o", "ClearAllForwardings=yes"), ("--json",))
        try:
            await self._until(asking, lambda: False)
            told = asking.answer()
        finally:
            asking.end()
        # Whatever the shell there says to everybody who logs in stands before it.
        found = ControlFile.read(told[max(told.find("{"), 0) :].strip())
        if found is None or not 0 < found.port < 2**16:
            raise SshRefusedError(
                f"What “{self.server.command}” at {self.server.host} answers is not how SoulsGUI answers.",
                f"Look there at what it writes: {self.server.command} control --json",
            )
        return found

    async def _until(self, process: _Ssh, done: Callable[[], bool]) -> None:
        """Wait until a process has ended, or done what it is for."""
        try:
            async with asyncio.timeout(_LIMIT_S):
                while not (process.ended or done()):
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError as error:
            raise ServerUnreachableError(
                f"{self.server.host} did not answer within {_LIMIT_S:g} s.", "Look at the network."
            ) from error

    def close(self) -> None:
        """End the tunnel."""
        if self._tunnel is not None:
            self._tunnel.end()
            self._tunnel = None
