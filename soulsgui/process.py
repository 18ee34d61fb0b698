"""Our own processes: how one is started, where its log and its output go, how it is asked to stop."""

import _thread
import contextlib
import io
import json
import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn, TextIO

import soulsgui
from soulsgui.errors import printable
from soulsgui.system import become, kill_descendants, process_identity, same_process, stop_signals

SUPERVISED_ENV = {"SOULSGUI_SUPERVISED": "1"}
"""What tells a child that a runner starts it again after an error, and keeps the list of clients."""

_FORGED = re.compile(r"\n(?=\d)")
# In a year that a `Moment` can hold: anything else is a line of others.
_LINE = re.compile(r"^(2[0-8]\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) ([A-Z]+) (.*)$", re.DOTALL)
_REDIS_LINE = re.compile(
    r"^\d+:[A-Z] (\d\d? [A-Z][a-z]{2} 2[0-8]\d\d \d\d:\d\d:\d\d)(\.\d{3}) ([.*#-]) (.*)$", re.DOTALL
)
_REDIS_LEVELS = {".": "debug", "-": "debug", "*": "info", "#": "warning"}
# Redis marks these as warnings at each start and end; Valkey some of them.
_ORDINARY = re.compile(
    r"Reading config from stdin|oO0OoO0OoO0Oo |\w+ version=|Configuration loaded|Server initialized"
    r"|User requested shutdown|\w+ is now ready to exit"
)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""What has libraries of arrays work with one thread: more cost more than they bring to small arrays."""


class LineFormatter(logging.Formatter):
    """One line begins with time and level; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")
        self.converter = time.localtime

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without what words of others may hold: control characters, and lines like ours."""
        return printable(_FORGED.sub("\n ", super().format(record)), None, lines=True)


_MOST_EQUAL, _EQUAL_WITHIN_S = 5, 60.0
_MOST_COUNTED = 256


class CountingHandler(logging.StreamHandler[TextIO]):
    """Writes the first lines of equal ones within a minute, and then how many more there were.

    What fails again and again, or is done to us by somebody else, would fill the disk.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._counts: dict[tuple[str, int, str], int] = {}  # the oldest first
        self._firsts: dict[tuple[str, int, str], logging.LogRecord] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it."""
        try:
            key = (record.name, record.levelno, record.getMessage())
        except Exception:
            self.handleError(record)
            return
        self._tell_counts(record.created - _EQUAL_WITHIN_S)
        self._firsts.setdefault(key, record)
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] <= _MOST_EQUAL:
            super().emit(record)

    def close(self) -> None:
        """Write what was counted last."""
        self.acquire()
        try:
            self._tell_counts(float("inf"))
        finally:
            self.release()
        super().close()

    def _tell_counts(self, before: float) -> None:
        """Tell of what began before a moment, and of the oldest of too many; all are then counted anew."""
        while self._counts:
            key, count = next(iter(self._counts.items()))
            first = self._firsts[key]
            if first.created > before and len(self._counts) <= _MOST_COUNTED:
                return
            del self._counts[key], self._firsts[key]
            if count > _MOST_EQUAL:
                text = f"{key[2]} (counted, not repeated: {count - _MOST_EQUAL:,} more)"
                told = {"msg": text, "args": None, "exc_info": None, "exc_text": None, "created": time.time()}
                super().emit(logging.makeLogRecord(vars(first) | told))


@dataclass(frozen=True)
class ParsedLine:
    """A log line taken apart; time and level are empty for lines of other programs."""

    time: float | None
    level: str
    text: str


def own_command(role: str) -> list[str]:
    """Return the command line that starts this program in another role."""
    if getattr(sys, "frozen", False):
        return [sys.executable, role]
    # -P: a file that happens to lie in the current folder is not taken for one of our packages.
    return [sys.executable, "-P", "-m", "soulsgui", role]


def typed_command(*words: str) -> str:
    """Return what a person types to run a command of this program, wherever the shell looks for programs."""
    python = Path(sys.executable)
    script = python.with_name(f"soulsgui{python.suffix}")
    found = shutil.which("soulsgui")
    if getattr(sys, "frozen", False):
        program = [str(python)]
    elif found is not None and script.exists() and Path(found).samefile(script):
        program = ["soulsgui"]
    elif script.exists():
        program = [str(script)]
    else:
        program = [str(python), "-m", "soulsgui"]
    return " ".join(f'"{word}"' if " " in word else word for word in (*program, *words))


def child_env() -> dict[str, str]:
    """Return what the environment of a child has beside ours.

    Its arrays are too small to be worth several threads: on a busy machine those cost many times the work.
    """
    env = {"PYTHONUNBUFFERED": "1"} | ONE_THREAD
    root = Path(soulsgui.__file__).parents[1]
    if not any(part in ("site-packages", "dist-packages") for part in root.parts):
        # A checkout that is not installed is found through the current folder alone.
        older = os.environ.get("PYTHONPATH", "")
        env["PYTHONPATH"] = f"{root}{os.pathsep}{older}" if older else str(root)
    return env


def still_runs(pid: int, identity: Mapping[str, object]) -> bool:
    """Return whether one of our processes still runs, not somebody else under its pid."""
    if identity:
        return same_process(identity)
    now = process_identity(pid)
    return now is not None and any("soulsgui" in word.lower() for word in now["cmdline"])


def setup_logging(level: str = "info") -> None:
    """Send the log to standard error, which the runner points at the service's log file."""
    handler = CountingHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


def parse_line(line: str) -> ParsedLine:
    """Take a line apart that `setup_logging`, Redis or Valkey wrote; other lines come back as they are."""
    try:
        if match := _LINE.match(line):
            stamp, level, text = match.groups()
            return ParsedLine(datetime.fromisoformat(stamp).timestamp(), level.lower(), text)
        # The month is English in any language of the computer.
        if (match := _REDIS_LINE.match(line)) and (moment := parsedate(match[1])):
            return ParsedLine(time.mktime(moment) + float(match[2]), _redis_level(match), match[4])
    except (ValueError, OverflowError):  # it only looks like a time
        pass
    return ParsedLine(None, "", line)


def level_of(line: str) -> str:
    """Return the level of a line, as `parse_line` would."""
    if match := _LINE.match(line):
        return match[2].lower()
    return _redis_level(match) if (match := _REDIS_LINE.match(line)) else ""


def _redis_level(line: re.Match[str]) -> str:
    return "info" if line[3] == "#" and _ORDINARY.match(line[4]) else _REDIS_LEVELS[line[3]]


def leave(code: int) -> NoReturn:
    """End the process at once, after everything was written and closed.

    torch takes about a second to take itself apart, and nobody needs it to.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextlib.contextmanager
def asked(
    heard: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Iterator[tuple[dict[str, Any], Callable[[dict[str, Any]], None]]]:
    """Return what standard input asks this process for, and how it answers: a line of JSON a message.

    Whoever asked reads standard output alone, so nothing else is written there. When nobody is there any
    more who would hear it, the process ends, whatever it does. `heard` is told by a thread of what else it
    is told.
    """
    # Without a buffer: its lock, held by a thread that waits, would be in the way at the end.
    source = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        with Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), sys.stdin.fileno())

        def send(message: dict[str, Any]) -> None:
            output.write(json.dumps(message) + "\n")
            output.flush()

        request = json.loads(source.readline())
        threading.Thread(
            target=_end_with, args=(source, heard), name="end with who asks", daemon=True
        ).start()
        yield request, send


def _end_with(source: IO[bytes], heard: Callable[[dict[str, Any]], None]) -> None:
    for line in source:
        heard(json.loads(line))
    kill_descendants()
    os._exit(1)


def is_supervised() -> bool:
    """Whether a runner watches over this process, and starts it again."""
    return all(os.environ.get(name) == value for name, value in SUPERVISED_ENV.items())


def start_over() -> NoReturn:
    """Let a new process of the same command line take the place of this one."""
    logging.shutdown()
    become([sys.executable, *sys.orig_argv[1:]], os.environ)


def stop_on_signals(stop: threading.Event | None = None) -> threading.Event:
    """Return an event (a given one) that is set when the process is asked to stop; for the main thread."""
    global _stop
    _stop = stop = stop or threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        # Event.set takes a lock that the interrupted main thread may hold at this moment.
        _thread.start_new_thread(stop.set, ())

    for number in stop_signals():
        signal.signal(number, ask)
    return stop


_stop: threading.Event | None = None  # what signals set


def stop_here() -> None:
    """Ask this very process to stop, as a signal does; one that could not hear a signal yet ends at once."""
    if _stop is None:
        os._exit(0)
    _stop.set()


_CLEAR = "\r\x1b[K"
_MOST_LINES = 1000
_TIMEOUT_S = 1.0


class Terminal(io.TextIOBase):
    """Writes from a thread of its own: lines that stay, and below them one that is shown in place.

    Of the line in place only the newest is kept, of lines that stay the last thousand: a terminal that goes
    on after hours shows the present. Once it is gone, what is written is dropped.
    """

    def __init__(self, stream: TextIO) -> None:
        # A descriptor of our own, without a buffer: a thread that hangs in it holds no lock that the end of
        # the process would wait for.
        self._raw = os.fdopen(os.dup(stream.fileno()), "wb", buffering=0)
        self._letters = stream.encoding or "utf-8"
        self._news = threading.Condition()
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._in_place: str | None = None
        self._shows_line = False
        self._ended = False
        self._thread = threading.Thread(target=self._keep_writing, name="terminal", daemon=True)
        self._thread.start()

    def show(self, line: str) -> None:
        """Show a line in place of the last one."""
        with self._news:
            self._in_place = line
            self._news.notify()

    def write(self, text: str) -> int:
        """Write lines that stay."""
        with self._news:
            self._lines.append(text)
            self._news.notify()
        return len(text)

    def writable(self) -> bool:
        """Whether it can be written to."""
        return True

    def end(self) -> None:
        """Write what is left, if the terminal takes it soon, and end the line that is shown in place."""
        with self._news:
            self._ended = True
            self._news.notify()
        self._thread.join(_TIMEOUT_S)

    def _keep_writing(self) -> None:
        # A terminal may go away at any moment.
        with contextlib.suppress(OSError, ValueError), self._raw:
            while (text := self._next()) is not None:
                left = text.encode(self._letters, "backslashreplace")
                while left:
                    left = left[self._raw.write(left) or 0 :]

    def _next(self) -> str | None:
        """Wait for what is to be written; None at the end."""
        with self._news:
            self._news.wait_for(lambda: self._lines or self._in_place is not None or self._ended)
            text = "".join(self._lines)
            self._lines.clear()
            if self._shows_line and (text or self._in_place is not None):
                text = _CLEAR + text
            if self._in_place is not None:
                text += self._in_place
                self._shows_line, self._in_place = True, None
            elif text:
                self._shows_line = False
            if not text and self._ended:
                if not self._shows_line:
                    return None
                text, self._shows_line = "\n", False
            return text


@contextlib.contextmanager
def own_terminal() -> Iterator[Terminal | None]:
    """Send the log through a `Terminal` where standard error is one; nothing is changed elsewhere."""
    stream = sys.stderr
    if not stream.isatty():
        yield None
        return
    terminal = Terminal(stream)
    handlers = [one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler)]
    ours = [one for one in handlers if one.stream is stream]
    for handler in ours:
        handler.setStream(terminal)
    try:
        yield terminal
    finally:
        for handler in ours:
            handler.setStream(stream)
        terminal.end()
