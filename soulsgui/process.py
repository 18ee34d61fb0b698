"""What every service process does first: where its log goes, and how it is asked to stop."""

import _thread
import logging
import os
import re
import signal
import sys
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from types import FrameType
from typing import NoReturn

from soulsgui.system import stop_signals

_LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) ([A-Z]+) (.*)$", re.DOTALL)


class _Formatter(logging.Formatter):
    """One line begins with time and level; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")
        self.converter = time.localtime


@dataclass(frozen=True)
class ParsedLine:
    """A log line taken apart; time and level are empty for lines of other programs."""

    time: float | None
    level: str
    text: str


def setup_logging(level: str = "info") -> None:
    """Send the log to standard error, which the runner points at the service's log file."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


def parse_line(line: str) -> ParsedLine:
    """Take a line written through `setup_logging` apart; other lines come back as they are."""
    match = _LINE.match(line)
    if match is None:
        return ParsedLine(None, "", line)
    stamp, level, text = match.groups()
    try:
        when = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S.%f").timestamp()
    except (ValueError, OverflowError):  # it only looks like a time
        return ParsedLine(None, "", line)
    return ParsedLine(when, level.lower(), text)


def leave(code: int) -> NoReturn:
    """End the process at once, after everything was written and closed.

    torch takes about a second to take itself apart, and nobody needs it to.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def stop_on_signals() -> threading.Event:
    """Return an event that is set when the process is asked to stop; call it in the main thread."""
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        # Event.set takes a lock that the interrupted main thread may hold at this moment.
        _thread.start_new_thread(stop.set, ())

    for number in stop_signals():
        signal.signal(number, ask)
    return stop
