"""Log files of services: bounded while a process holds them open, numbered by line over all their parts.

A service writes into its file through a descriptor it inherited, so nobody can make it open another one. When
the file has grown too large it is set aside before the next start (renamed), or while the service runs
(copied and cut to nothing; the descriptor appends, so the next line stands at the beginning).

What is written faster than it is set aside is dropped, all but its end, and a line says how much.

A part set aside is named by the numbers of its lines: `trainer.log.1-52010`; `trainer.log` goes on at 52011.
So every line keeps its number for as long as it is kept, without a further file to tell it.
"""

import contextlib
import os
import re
import shutil
import sys
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

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
    """One file of a log.

    Attributes:
        path: The file.
        first: Number of its first line.
        last: Number of its last line; None for the file that is being written.
    """

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
    for found in path.parent.glob(f"{_escaped(path.name)}.*-*"):
        match = _PART.search(found.name)
        if match is not None and found.name == path.name + match.group():
            aside.append(LogPart(found, int(match[1]), int(match[2])))
    aside.sort(key=lambda part: part.first)
    first = aside[-1].next_first if aside else 1
    return [*aside, LogPart(path, first, None)]


class LogFile:
    """The log of one service, as the runner keeps it. Its methods may be called in different threads.

    Args:
        path: The file; its folder is made.
        max_bytes: It is set aside when larger.
        keep: So many older parts are kept.
        flood_bytes: When it is larger than this, only its last `max_bytes` are kept.
        platform: A value of `sys.platform`.
    """

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

        Args:
            title: A line that tells this start from the ones before.
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
        """Set the contents aside while the service goes on writing; a line of this very moment may be lost.

        Of a file that has grown much too large only the end is kept; where there is no room, nothing of it.
        Windows' inherited handles don't append, so there the file waits for the next start.

        Returns:
            Whether it was done.

        Raises:
            OSError: There is no room for a copy; the log is as it was.
        """
        with self._moving:
            if not self.too_large:
                return False
            flooded = size_of(self.path) > self._flood_bytes
            copy = self.path.with_name(f".{self.path.name}.aside")
            try:
                dropped = self._copy_end(copy) if flooded else self._copy_whole(copy)
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

    def _copy_whole(self, copy: Path) -> int:
        shutil.copyfile(self.path, copy)
        return 0

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
        """Return what the file that is being written is to be called once it is set aside.

        Args:
            content: A copy of it; None for itself.
            left_out: Lines at its beginning that the copy lacks.
        """
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
        while block := file.read(2**20):
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


def _escaped(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)
