"""The lines of a log, as `logs` keeps it: its end, a page of it, and what is added while it grows."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from soulsgui.errors import printable
from soulsgui.process import ParsedLine, level_of, parse_line
from soulsgui.runner.services.logs import SWAP, TOO_FAST, LogPart, count_newlines, log_parts, size_of
from soulsgui.wire.control import LogLine

LEVELS = ("debug", "info", "warning", "error", "critical")
"""From the least to the most important."""

_LONGEST_LINE_BYTES = 8192
_TAIL_BYTES = 64 * 2**10
_POLL_BYTES = 64 * 2**10
_BEHIND_BYTES = 4 * 2**20


def tail(path: Path, n: int) -> list[str]:
    """Return the last lines of a file, at most `n`; none where there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).split(b"\n")
    except FileNotFoundError:
        return []
    if size > _TAIL_BYTES:
        lines = lines[1:]
    if lines and not lines[-1]:
        lines.pop()
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
        if len(found) >= n:
            break
        if before is None or part.first < before:
            lines = _read_part(part, before)
            older = _newest_matching(lines, part.first, service, n - len(found), level, filter.casefold())
            found = [*older, *found]
    return found, parts[0].first


def _read_part(part: LogPart, before: int | None) -> list[bytes]:
    try:
        lines = part.path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    if not lines[-1]:
        lines.pop()
    return lines if before is None else lines[: before - part.first]


def _newest_matching(
    lines: list[bytes], first: int, service: str, n: int, level: str, text: str
) -> list[LogLine]:
    # A log may have a million lines: only what may match is taken apart.
    important = _important(lines, LEVELS.index(level))
    found: list[LogLine] = []
    for place in reversed(range(len(lines))):
        if important is not None and place not in important:
            continue
        if text and text not in lines[place].decode(errors="replace").casefold():
            continue
        line = _log_line(service, first + place, lines[place])
        if text in line.text.casefold():
            found.append(line)
            if len(found) == n:
                break
    return found[::-1]


def _important(lines: list[bytes], least: int) -> set[int] | None:
    """Return the places of lines of a level or above it; None for all."""
    if least == 0:
        return None
    found, rank = set(), LEVELS.index("info")
    for place, line in enumerate(lines):
        level = level_of(line.decode(errors="replace"))
        rank = LEVELS.index(level) if level in LEVELS else rank
        if rank >= least:
            found.add(place)
    return found


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
        position = _Position(path, part.first, 0, part.first)
        if not from_start:
            position.offset, position.number = _end_of(part)
        self._positions[service] = position

    def poll(self) -> list[LogLine]:
        """Return the lines that are new since the last call, at most about 64 KB of each log.

        Of a log that grows faster than that only the newest lines are returned, after one that says so.
        """
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
            data = _read_at(part.path, position.offset, budget)
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
    behind = sum(size_of(each.path) for each in parts) - position.offset
    if behind <= _BEHIND_BYTES:
        return []
    live = parts[-1]
    newest = live if size_of(live.path) >= _POLL_BYTES or len(parts) == 1 else parts[-2]
    offset = max(0, size_of(newest.path) - _POLL_BYTES)
    with newest.path.open("rb") as file:
        file.seek(offset)
        file.readline(_POLL_BYTES)
        offset = file.tell()
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


def _read_at(path: Path, offset: int, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(most)
    except FileNotFoundError:
        return b""


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


def _end_of(part: LogPart) -> tuple[int, int]:
    """Offset and number of the line that will be written next; a torn line is read from its beginning."""
    try:
        data = part.path.read_bytes()
    except FileNotFoundError:
        return 0, part.first
    return data.rfind(b"\n") + 1, part.first + data.count(b"\n")


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
