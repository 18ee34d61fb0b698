"""Log files of services: bounded while a process holds them open, numbered by line over all their parts.

A service writes into its file through a descriptor it inherited, so nobody can make it open another one. When
the file has grown too large it is set aside before the next start (renamed), or while the service runs
(copied and cut to nothing; the descriptor appends, so the next line stands at the beginning).

What is written faster than it is set aside is dropped, all but its end, and a line says how much.

A part set aside is named by the numbers of its lines: `trainer.log.1-52010`; `trainer.log` goes on at 52011.
So every line keeps its number for as long as it is kept, without a further file to tell it.
"""

import contextlib
import glob
import io
import logging
import os
import re
import shutil
import sys
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TextIO

from soulsgui.process import LineFormatter
from soulsgui.system import replace

MAX_BYTES = 8 * 2**20
"""A log file larger than this is set aside."""

KEEP = 3
"""Parts set aside that are kept."""

FLOOD_BYTES = 2 * MAX_BYTES
"""Of a file larger than this only the end is kept."""

TOO_FAST = "it grew faster than it can be kept"
"""Why lines of a log are missing."""

SWAP = threading.Lock()
"""Held while the parts of a log change, and by who must not see that half done."""

_BLOCK_BYTES = 2**20
_PART = re.compile(r"\.(\d+)-(\d+)$")


@dataclass(frozen=True)
class LogPart:
    """One file of a log; the number of its last line is None for the one that is being written."""

    path: Path
    first: int
    last: int | None

    @property
    def next_first(self) -> int:
        """Number of the first line of the part after this one."""
        return self.first if self.last is None else self.last + 1


def log_parts(path: Path) -> list[LogPart]:
    """Return the parts of a log, oldest first; the last one is `path` itself, which need not exist."""
    aside = []
    for found in path.parent.glob(f"{glob.escape(path.name)}.*-*"):
        match = _PART.search(found.name)
        if match is not None and found.name == path.name + match.group():
            aside.append(LogPart(found, int(match[1]), int(match[2])))
    aside.sort(key=lambda part: part.first)
    first = aside[-1].next_first if aside else 1
    return [*aside, LogPart(path, first, None)]


class LogFile:
    """The log of one service, as the runner keeps it. Its methods may be called in different threads."""

    def __init__(
        self,
        path: Path,
        max_bytes: int = MAX_BYTES,
        keep: int = KEEP,
        platform: str = sys.platform,
        flood_bytes: int = FLOOD_BYTES,
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._flood_bytes = flood_bytes
        self._platform = platform
        self._moving = threading.Lock()

    @property
    def too_large(self) -> bool:
        """Whether `cut_if_large` has something to do; asked several times a second."""
        return self._platform != "win32" and size_of(self.path) > self._max_bytes

    def open(self, title: str) -> IO[bytes]:
        """Open the file for a process that is about to start; it is set aside first when it is too large.

        A line with the title tells this start from the ones before.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._moving:
            if size_of(self.path) > self._max_bytes:
                with SWAP:
                    replace(self.path, self._name_aside())
                self._drop_oldest()
        torn = not _ends_with_newline(self.path)
        file = self.path.open("ab", buffering=0)
        line = f"{_stamp()} INFO runner: {title}\n"
        # On a full disk the title is missing; the service must start all the same.
        with contextlib.suppress(OSError):
            file.write(("\n" + line if torn else line).encode())
        return file

    def cut_if_large(self) -> bool:
        """Set the contents aside while the service goes on writing; return whether that was needed.

        A line of this very moment may be lost. Of a file that has grown much too large only the end is kept;
        where there is no room, nothing of it. Any other stays as it was where there is no room for a copy
        (OSError). Windows' inherited handles don't append, so there the file waits for the next start.
        """
        with self._moving:
            if not self.too_large:
                return False
            flooded = size_of(self.path) > self._flood_bytes
            copy, dropped = self.path.with_name(f".{self.path.name}.aside"), 0
            try:
                if flooded:
                    dropped = self._copy_end(copy)
                else:
                    shutil.copyfile(self.path, copy)
                with SWAP:
                    self._swap(copy, dropped)
            except OSError:
                copy.unlink(missing_ok=True)
                if not flooded:
                    raise
                with SWAP:
                    self._empty(size_of(self.path))
            self._drop_oldest()
            return True

    def _copy_end(self, copy: Path) -> int:
        """Copy the end of the file; return how many bytes before it are left out."""
        with self.path.open("rb") as file:
            whole = file.seek(0, os.SEEK_END)
            file.seek(whole - self._max_bytes)
            file.readline(self._max_bytes // 2)
            begin = file.tell()
            copy.write_bytes(file.read(whole - begin))
        return begin

    def _swap(self, copy: Path, dropped: int) -> None:
        """Put the copy aside and empty the file: who reads finds each line in the one or in the other."""
        with self.path.open("rb") as file, copy.open("ab") as aside:
            file.seek(dropped + size_of(copy))
            # What was written meanwhile; what comes from now on until the file is empty is lost.
            aside.write(file.read(self._max_bytes))
        replace(copy, self._name_aside(copy, count_newlines(self.path, dropped)))
        self._empty(dropped)

    def _empty(self, dropped: int) -> None:
        os.truncate(self.path, 0)
        if dropped:
            said = f"{dropped / 1e6:.1f} MB of this log were dropped: {TOO_FAST}"
            # On a full disk the line is missing; what it tells of is gone all the same.
            with contextlib.suppress(OSError), self.path.open("ab", buffering=0) as file:
                file.write(f"{_stamp()} WARNING runner: {said}\n".encode())

    def _name_aside(self, content: Path | None = None, left_out: int = 0) -> Path:
        """Return what the file is to be called once it, or a copy without its first lines, is set aside."""
        first = log_parts(self.path)[-1].first + left_out
        last = first + _count_lines(content or self.path) - 1
        return self.path.with_name(f"{self.path.name}.{first}-{last}")

    def _drop_oldest(self) -> None:
        for part in log_parts(self.path)[: -1 - self._keep]:
            part.path.unlink(missing_ok=True)


def _stamp() -> str:
    return f"{datetime.now():%Y-%m-%d %H:%M:%S.%f}"[:-3]


def count_newlines(path: Path, end: int) -> int:
    """Return how many lines end before this offset of a file."""
    count = 0
    with path.open("rb") as file:
        while (left := end - file.tell()) > 0 and (block := file.read(min(left, _BLOCK_BYTES))):
            count += block.count(b"\n")
    return count


def size_of(path: Path) -> int:
    """Return the bytes of a file, 0 where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _count_lines(path: Path) -> int:
    """Lines of a file, a torn last one included; at least 1, since a part has a name of its own."""
    count, last = 0, b"\n"
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            count += block.count(b"\n")
            last = block[-1:]
    return max(1, count + (last != b"\n"))


def _ends_with_newline(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except FileNotFoundError:
        return True


class _LogHandler(logging.StreamHandler[TextIO]):
    """Loses lines without a word while the disk is full: standard error has them too."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Say what is wrong with a record, unless it is the disk."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class OwnLog:
    """Writes this process's log into a file until it is closed: bounded, and read as those of services are.

    Where standard error leads into that file already (a window started the runner so), nothing is added.
    """

    def __init__(self, path: Path) -> None:
        self._file = LogFile(path)
        text = io.TextIOWrapper(
            self._file.open("start of runner"),
            encoding="utf-8",
            errors="backslashreplace",
            write_through=True,
        )
        self._stream = text
        self._handler = _LogHandler(text)
        self._handler.setFormatter(LineFormatter())
        if not _is_standard_error(path):
            logging.getLogger().addHandler(self._handler)

    def keep_small(self) -> None:
        """Set the file aside when it has grown too large."""
        self._file.cut_if_large()

    def close(self) -> None:
        """Write no more."""
        logging.getLogger().removeHandler(self._handler)
        with contextlib.suppress(OSError):
            self._stream.close()


def _is_standard_error(path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(sys.stderr.fileno()), path.stat())
    except (OSError, ValueError, AttributeError):
        # There may be no standard error at all, as in a program without a console.
        return False
