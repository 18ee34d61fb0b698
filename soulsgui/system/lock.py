"""A lock between processes that the system gives back when its holder dies.

`packaging/first_start` loads this file alone, before anything is installed: it needs only Python itself.
"""

import contextlib
import importlib
import os
import sys
from pathlib import Path
from typing import IO, Self

# Windows locks bytes against reading too; the holder's pid at the start of the file stays readable.
_LOCKED_BYTE = 1 << 30


class FileLock:
    """A lock that one process at a time holds; its file stays, with the pid of the last one for messages."""

    def __init__(self, path: Path, platform: str = sys.platform) -> None:
        self.path = path
        self._backend: _PosixLock | _WindowsLock = _WindowsLock() if platform == "win32" else _PosixLock()
        self._file: IO[bytes] | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free; return whether this very object holds it now."""
        if self._file is not None:
            return True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        file = os.fdopen(descriptor, "r+b", buffering=0)
        if not self._backend.lock(file):
            file.close()
            return False
        self._file = file
        # On a full disk the lock holds all the same; only the message about its holder suffers.
        with contextlib.suppress(OSError):
            file.seek(0)
            file.truncate()
            file.write(str(os.getpid()).encode())
        return True

    def release(self) -> None:
        """Give the lock up; without effect when it isn't held."""
        if self._file is not None:
            self._backend.unlock(self._file)
            self._file.close()
            self._file = None

    def fileno(self) -> int:
        """The descriptor of the held lock; on POSIX a child that inherits it holds the lock too."""
        if self._file is None:
            raise ValueError(f"{self.path} is not locked by this object")
        return self._file.fileno()

    def holder(self) -> int | None:
        """The pid that wrote itself last into the file; it may have ended since."""
        try:
            return int(self.path.read_bytes())
        except (OSError, ValueError):
            return None

    def __enter__(self) -> Self:
        if not self.acquire():
            raise BlockingIOError(f"{self.path} is locked by process {self.holder()}")
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class _PosixLock:
    """flock: it belongs to the open file; closing the same path elsewhere in the process keeps it."""

    def __init__(self) -> None:
        self._fcntl = importlib.import_module("fcntl")

    def lock(self, file: IO[bytes]) -> bool:
        try:
            self._fcntl.flock(file.fileno(), self._fcntl.LOCK_EX | self._fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self, file: IO[bytes]) -> None:
        self._fcntl.flock(file.fileno(), self._fcntl.LOCK_UN)


class _WindowsLock:
    """One byte, far behind the contents."""

    def __init__(self) -> None:
        self._msvcrt = importlib.import_module("msvcrt")

    def lock(self, file: IO[bytes]) -> bool:
        file.seek(_LOCKED_BYTE)
        try:
            self._msvcrt.locking(file.fileno(), self._msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(self, file: IO[bytes]) -> None:
        file.seek(_LOCKED_BYTE)
        self._msvcrt.locking(file.fileno(), self._msvcrt.LK_UNLCK, 1)
