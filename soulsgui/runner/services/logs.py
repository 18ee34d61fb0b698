"""Log files of services: bounded while a process holds them open, numbered by line over all their parts.

A service writes into its file through a descriptor it inherited, so nobody can make it open another one. When
the file has grown too large it is set aside before the next start (renamed), or while the service runs
(copied and cut to nothing; the descriptor appends, so the next line stands at the beginning).

What is written faster than it is set aside is dropped, all but its end, and a line says how much.

A part set aside is named by the numbers of its lines: `trainer.log.1-52010`; `trainer.log` goes on at 52011.
So every line keeps its number for as long as it is kept, without a further file to tell it.
"""

import contextlib
import io
import itertools
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from soulsgui.errors import printable
from soulsgui.process import CountingHandler, LineFormatter, ParsedLine, level_of, parse_line
from soulsgui.system import replace
from soulsgui.wire.control import LogLine

MAX_BYTES = 8 * 2**20  # a log file larger than this is set aside
KEEP = 3  # parts set aside that are kept
FLOOD_BYTES = 2 * MAX_BYTES  # of a file larger than this only the end is kept
TOO_FAST = "it grew faster than it can be kept"  # why lines of a log are missing
SWAP = threading.Lock()  # held while the parts of a log change, and while they are followed

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
    found: list[Path] = []
    with contextlib.suppress(FileNotFoundError):
        found = list(path.parent.iterdir())
    aside = []
    for each in found:
        match = _PART.search(each.name)
        if match is not None and each.name == path.name + match.group():
            aside.append(LogPart(each, int(match[1]), int(match[2])))
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
        """Open the file for a process that is about to start, with a title; too large, it is set aside."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._moving:
            if size_of(self.path) > self._max_bytes:
                with SWAP:
                    replace(self.path, self._name_aside(self.path))
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
                    # It may grow faster than it is read.
                    copy.write_bytes(read_from(self.path, 0, self._flood_bytes))
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
        whole = size_of(self.path)
        with self.path.open("rb") as file:
            file.seek(whole - self._max_bytes)
            file.readline(self._max_bytes // 2)
            begin = file.tell()
            copy.write_bytes(file.read(whole - begin))
        return begin

    def _swap(self, copy: Path, dropped: int) -> None:
        """Put the copy aside and empty the file: who reads finds each line in the one or in the other."""
        end = dropped + size_of(copy)
        with copy.open("ab") as aside:
            # What was written meanwhile; what comes from now on until the file is empty is lost.
            end += aside.write(read_from(self.path, end, self._max_bytes))
        size = size_of(self.path)
        lost_lines = count_newlines(self.path, size) - count_newlines(self.path, end)
        replace(copy, self._name_aside(copy, count_newlines(self.path, dropped), lost_lines))
        self._empty(dropped + (size - end if size - end > _BLOCK_BYTES else 0))

    def _empty(self, dropped: int) -> None:
        os.truncate(self.path, 0)
        if dropped:
            said = f"{dropped / 1e6:.1f} MB of this log were dropped: {TOO_FAST}"
            # On a full disk the line is missing; what it tells of is gone all the same.
            with contextlib.suppress(OSError), self.path.open("ab", buffering=0) as file:
                file.write(f"{_stamp()} WARNING runner: {said}\n".encode())

    def _name_aside(self, content: Path, left_out: int = 0, lost: int = 0) -> Path:
        """Return the name of a part that holds `content`: so many lines before and after it are dropped."""
        first = log_parts(self.path)[-1].first + left_out
        lines = count_newlines(content, size_of(content)) + (not _ends_with_newline(content))
        return self.path.with_name(f"{self.path.name}.{first}-{first + max(1, lines) + lost - 1}")

    def _drop_oldest(self) -> None:
        for part in log_parts(self.path)[: -1 - self._keep]:
            part.path.unlink(missing_ok=True)


def _stamp() -> str:
    return f"{datetime.now():%Y-%m-%d %H:%M:%S.%f}"[:-3]


def count_newlines(path: Path, end: int) -> int:
    """Return how many lines end before this offset of a file."""
    blocks = range(0, end, _BLOCK_BYTES)
    return sum(read_from(path, at, min(_BLOCK_BYTES, end - at)).count(b"\n") for at in blocks)


def read_from(path: Path, offset: int, most: int = -1) -> bytes:
    """Return what a file holds from an offset on; nothing where there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, offset))
            return file.read(most)
    except FileNotFoundError:
        return b""


def size_of(path: Path) -> int:
    """Return the bytes of a file, 0 where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _ends_with_newline(path: Path) -> bool:
    return read_from(path, size_of(path) - 1, 1) in (b"", b"\n")


class _LogHandler(CountingHandler):
    """Loses lines without a word while the disk is full: standard error has them too."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Say what is wrong with a record, unless it is the disk."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class OwnLog:
    """Writes this process's log into a bounded file, unless standard error leads into it already."""

    def __init__(self, path: Path) -> None:
        self.file = LogFile(path)
        written = self.file.open("start of runner")
        self._stream = io.TextIOWrapper(written, "utf-8", errors="backslashreplace", write_through=True)
        self._handler = _LogHandler(self._stream)
        self._handler.setFormatter(LineFormatter())
        if not _is_standard_error(path):  # a window starts the runner so that it does
            logging.getLogger().addHandler(self._handler)

    def close(self) -> None:
        """Write no more."""
        logging.getLogger().removeHandler(self._handler)
        self._handler.close()
        with contextlib.suppress(OSError):
            self._stream.close()


def _is_standard_error(path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(sys.stderr.fileno()), path.stat())
    except (OSError, ValueError, AttributeError):
        # There may be no standard error at all, as in a program without a console.
        return False


LEVELS = ("debug", "info", "warning", "error", "critical")  # from the least to the most important

_LONGEST_LINE_BYTES = 8192
_TAIL_BYTES = 64 * 2**10
_POLL_BYTES = 64 * 2**10
_BEHIND_BYTES = 4 * 2**20


def tail(path: Path, n: int) -> list[str]:
    """Return the last lines of a file, at most `n`; none where there is no file."""
    start = size_of(path) - _TAIL_BYTES
    lines = _lines(read_from(path, start, _TAIL_BYTES))[1 if start > 0 else 0 :]
    return [_text(line) for line in lines[-n:]] if n > 0 else []


def lines_since_start(path: Path, title: str, n: int) -> list[str]:
    """Return up to `n` lines, the last ones, of those written since the last start of this title."""
    lines = tail(path, n)
    starts = [index for index, line in enumerate(lines) if line.endswith(f"runner: {title}")]
    return lines[starts[-1] + 1 :] if starts else lines


def read_lines(
    path: Path, service: str, before: int | None, n: int, level: str = "debug", filter: str = ""
) -> tuple[list[LogLine], int]:
    """Read a page of a log backwards: the last `n` lines before number `before`, of a level, with a text.

    A line without a level of its own (of a traceback, of another program) counts with the line before it.
    Returns the lines, oldest first, and the number of the first line there is of this log.
    """
    parts = log_parts(path)
    found: list[LogLine] = []
    for part in reversed(parts):
        if len(found) < n and (before is None or part.first < before):
            lines = _lines(read_from(part.path, 0))[: None if before is None else before - part.first]
            matching = _newest_matching(lines, part.first, service, level, filter.casefold())
            found = [*itertools.islice(matching, n - len(found))][::-1] + found
    return found, parts[0].first


def _newest_matching(
    lines: list[bytes], first: int, service: str, level: str, text: str
) -> Iterator[LogLine]:
    # A log may have a million lines: only what may match is taken apart.
    for place in reversed(_important(lines, LEVELS.index(level))):
        if not text or text in lines[place].decode(errors="replace").casefold():
            line = _log_line(service, first + place, lines[place])
            if text in line.text.casefold():
                yield line


def _important(lines: list[bytes], least: int) -> Sequence[int]:
    if least == 0:
        return range(len(lines))
    found, rank = [], LEVELS.index("info")
    for place, line in enumerate(lines):
        level = level_of(line.decode(errors="replace"))
        rank = LEVELS.index(level) if level in LEVELS else rank
        if rank >= least:
            found.append(place)
    return found


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


@dataclass
class _Position:
    """How far a log was read: `offset` bytes into the part whose first line is `first`.

    `live` says that this part was the one being written when it was last looked at; `told` is the number of
    the line after the last one that was returned.
    """

    path: Path
    first: int
    offset: int
    number: int
    torn: bytes = b""
    live: bool = False
    told: int = 0


class LogFollower:
    """Reads what services add to their logs, which are given by name."""

    def __init__(self, paths: Mapping[str, Path] | None = None, from_start: bool = False) -> None:
        self._positions: dict[str, _Position] = {}
        for service, path in (paths or {}).items():
            self.follow(service, path, from_start)

    def follow(self, service: str, path: Path, from_start: bool = False) -> None:
        """Begin to read a log; a service already followed there is left alone."""
        known = self._positions.get(service)
        if known is not None and known.path == path:
            return
        part = log_parts(path)[0 if from_start else -1]
        # A torn line is read from its beginning.
        data = b"" if from_start else read_from(path, 0)
        position = _Position(path, part.first, data.rfind(b"\n") + 1, part.first + data.count(b"\n"))
        self._positions[service] = position

    def poll(self) -> list[LogLine]:
        """Return the new lines; of a log that grows fast the last 64 KB, after one that tells of the gap."""
        lines = []
        for service in self._positions:
            with SWAP:
                lines += self._poll(service)
        return lines

    def _poll(self, service: str) -> list[LogLine]:
        position = self._positions[service]
        if position.live and size_of(position.path) == position.offset:
            return []
        lines = _catch_up(service, position)
        budget = _POLL_BYTES
        while budget > 0:
            part = _part_at(position)
            data = read_from(part.path, position.offset, budget)
            if part != _part_at(position):
                # It was set aside while we read: what we read may be of another part.
                continue
            taken = _take(service, position, data, ends=part.last is not None and len(data) < budget)
            # Of a part whose beginning was dropped lines may come a second time.
            lines += [line for line in taken if part.last is None or line.number >= position.told]
            budget -= len(data)
            position.live = part.last is None
            if position.live:
                break
            if budget > 0:
                position.first, position.offset, position.number = part.next_first, 0, part.next_first
        position.told = max(position.told, position.number)
        return lines


def _catch_up(service: str, position: _Position) -> list[LogLine]:
    """Go on near the end of a log when more was written than can be shown; return a line that says so."""
    began = position.number
    part = _part_at(position)
    parts = [each for each in log_parts(position.path) if each.first >= part.first]
    if sum(size_of(each.path) for each in parts) - position.offset <= _BEHIND_BYTES:
        return []
    live = parts[-1]
    newest = live if size_of(live.path) >= _POLL_BYTES or len(parts) == 1 else parts[-2]
    offset = max(0, size_of(newest.path) - _POLL_BYTES)
    # The first line is a cut one, unless it has no end: then the rest of it is shown.
    offset += 1 + read_from(newest.path, offset, _POLL_BYTES).find(b"\n")
    position.first, position.offset, position.torn = newest.first, offset, b""
    position.number = newest.first + count_newlines(newest.path, offset)
    position.live = False
    words = f"{position.number - began} lines are not shown here: {TOO_FAST}"
    number = max(began, position.told, position.number - 1)
    return [LogLine(service=service, number=number, time=None, level="warning", text=words)]


def _part_at(position: _Position) -> LogPart:
    """The part that is being read, or the oldest one left when it was dropped."""
    parts = log_parts(position.path)
    for part in parts:
        if part.first == position.first:
            return part
    later = [part for part in parts if part.first > position.first] or parts[-1:]
    position.first, position.offset, position.number, position.torn = later[0].first, 0, later[0].first, b""
    return later[0]


def _take(service: str, position: _Position, data: bytes, ends: bool) -> list[LogLine]:
    """Cut data into lines and move the position; `ends` says that nothing follows in this part."""
    position.offset += len(data)
    *whole, torn = (position.torn + data).split(b"\n")
    if ends and torn:
        whole.append(torn)
        torn = b""
    position.torn = torn[:_LONGEST_LINE_BYTES]
    lines = [_log_line(service, position.number + index, line) for index, line in enumerate(whole)]
    position.number += len(whole)
    return lines


def _log_line(service: str, number: int, line: bytes) -> LogLine:
    text = _text(line)
    try:
        parsed = parse_line(text)
    except (ValueError, OverflowError):
        # Something that looks like a moment and is none.
        parsed = ParsedLine(None, "", text)
    return LogLine(service=service, number=number, time=parsed.time, level=parsed.level, text=parsed.text)


def _text(line: bytes) -> str:
    # Programs and clients of others write here: nothing may steer the terminal that shows it.
    return printable(line[:_LONGEST_LINE_BYTES].decode(errors="replace").rstrip("\r"), None, lines=True)


def refusal_words(last_lines: Sequence[str]) -> str:
    """Return the last output of one of our programs beside its log, on one line: why it refuses to start."""
    said: list[str] = []
    for line in reversed("\n".join(last_lines).rstrip().split("\n")):
        # What a warning shows of its source goes on below its line, up to an empty one.
        if not line.strip() or parse_line(line).time is not None:
            break
        said.insert(0, line.strip())
    return " ".join(said)
