"""One window per user and data folder: a second start raises the first, and hands its invitation over."""

import hashlib
import json
import logging
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from soulsgui.config.paths import Folders
from soulsgui.errors import UsageError
from soulsgui.system import FileLock, user_name
from soulsgui.wire.invitation import Invitation, read_invitation

logger = logging.getLogger(__name__)

RAISE = b"raise\n"
OPEN = b"open "
_ANSWER = b"raised\n"
_AGAIN_MS = 300
_CRASH_LINES = 40


class SingleInstance(QObject):
    """The right to be the window of a data folder.

    Signals:
        raise_wanted: The program was started a second time.
        open_wanted: It was so to open an invitation; with its path, or a damaged link.
        first_raised: The window there is has come to the front.
        claimed: The window there was is gone: this is the one now.
    """

    raise_wanted = Signal()
    open_wanted = Signal(str)
    first_raised = Signal()
    claimed = Signal()

    def __init__(self, folders: Folders) -> None:
        super().__init__()
        self.folder = folders.data / "window"
        self._make_folder()
        self._lock = FileLock(self.folder / "window.lock")
        self._open_mark = self.folder / "open"
        self._name = socket_name(self.folder)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._connected)
        self._asking: set[QLocalSocket] = set()
        self.crashed = False
        self.crash_report = ""

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Also a folder that is there may refuse new files.
            (self.folder / "window.lock").touch()
        except OSError as error:
            raise UsageError(
                f"The window can't write into {self.folder}: {error.strerror or error}.",
                "Fix that, or choose another data folder: --data-dir DIR",
            ) from error

    def claim(self) -> bool:
        """Become the window of the folder; False when there is one already."""
        if not self._lock.acquire():
            return False
        # Whoever held the lock is dead: its socket may be left.
        QLocalServer.removeServer(self._name)
        if not self._server.listen(self._name):
            logger.warning("a second start can't raise this window: %s", self._server.errorString())
        self.crashed = self._open_mark.exists()
        if self.crashed:
            # Now, before this window writes over it.
            self.crash_report = self.report()
        self._open_mark.touch()
        return True

    def raise_first(self, opened: str = "") -> None:
        """Ask the window of the folder to come forward, for as long as it takes; `first_raised` follows."""
        question = OPEN + json.dumps(opened).encode() + b"\n" if opened else RAISE
        first = QLocalSocket(self)

        def call() -> None:
            if self.claim():
                self.claimed.emit()
            else:
                first.connectToServer(self._name)

        def take_answer() -> None:
            if bytes(first.readAll().data()) == _ANSWER:
                self.first_raised.emit()

        first.connected.connect(lambda: first.write(question))
        first.readyRead.connect(take_answer)
        # Not ready yet, or ended before it answered.
        first.errorOccurred.connect(lambda _: QTimer.singleShot(_AGAIN_MS, self, call))
        call()

    def holder(self) -> int | None:
        """Return the process of the window of the folder."""
        return self._lock.holder()

    def report(self) -> str:
        """Return the end of the window's log, and what Python was doing when it was struck down."""
        parts = []
        for name in ("window.log", "fault.log"):
            path = self.folder / name
            if path.exists():
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-_CRASH_LINES:]
                parts.append("\n".join([f"--- {name}", *lines]))
        return "\n".join(parts)

    def release(self) -> None:
        """Give the right up after an orderly end."""
        self._server.close()
        self._open_mark.unlink(missing_ok=True)
        self._lock.release()

    def _connected(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            # Bound methods: a closure of the socket's own could hold the last reference to this object, whose
            # end then came in the middle of the socket's, and with it the end of the process.
            self._asking.add(socket)
            socket.readyRead.connect(self._read)
            socket.disconnected.connect(self._left)
            self._answer(socket)

    def _read(self) -> None:
        socket = self.sender()
        assert isinstance(socket, QLocalSocket)
        self._answer(socket)

    def _answer(self, socket: QLocalSocket) -> None:
        if not socket.canReadLine():
            return
        line = bytes(socket.readLine().data())
        opened = _opened(line)
        if line != RAISE and not opened:
            return
        socket.write(_ANSWER)
        socket.flush()
        self.raise_wanted.emit()
        if opened:
            self.open_wanted.emit(opened)

    def _left(self) -> None:
        socket = self.sender()
        assert isinstance(socket, QLocalSocket)
        self._asking.discard(socket)
        socket.deleteLater()


def _opened(line: bytes) -> str:
    """Return what a line asks to open; empty for nothing."""
    if not line.startswith(OPEN):
        return ""
    try:
        found = json.loads(line.removeprefix(OPEN))
    except ValueError:
        return ""
    return found if isinstance(found, str) else ""


def socket_name(folder: Path) -> str:
    """Return the name under which the window of a folder listens; short, for paths of sockets are."""
    text = f"{user_name()} {folder.resolve()}"
    return f"soulsgui-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def opened_file(folders: Folders) -> Path:
    """Return where the invitation of a link waits for the window, private, to be taken out at once."""
    return folders.data / "window" / "opened.soulsgui"


def take_opened(word: str, folders: Folders) -> Invitation:
    """Read what was opened; what only waited for the window is removed."""
    waiting = opened_file(folders)
    try:
        return read_invitation(word)
    finally:
        if word == str(waiting):
            waiting.unlink(missing_ok=True)
