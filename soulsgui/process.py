"""Our own processes: how one is started, where its log goes, how it is asked to stop."""

import _thread
import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

import soulsgui
from soulsgui.printable import printable
from soulsgui.system import become, process_identity, same_process, stop_signals

SUPERVISED_ENV = {"SOULSGUI_SUPERVISED": "1"}
"""What tells a child that a runner starts it again after an error, and keeps the list of clients."""

_LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) ([A-Z]+) (.*)$", re.DOTALL)
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class LineFormatter(logging.Formatter):
    """One line begins with time and level; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")
        self.converter = time.localtime

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without control characters that words of others may hold."""
        return printable(super().format(record), None, lines=True)


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
    """Return what a person types to run a command of this program, wherever the shell looks for programs.

    Args:
        words: The command with its options.
    """
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
    env = {"PYTHONUNBUFFERED": "1"} | _ONE_THREAD
    root = Path(soulsgui.__file__).parents[1]
    if not any(part in ("site-packages", "dist-packages") for part in root.parts):
        # A checkout that is not installed is found through the current folder alone.
        older = os.environ.get("PYTHONPATH", "")
        env["PYTHONPATH"] = f"{root}{os.pathsep}{older}" if older else str(root)
    return env


def still_runs(pid: int, identity: Mapping[str, object]) -> bool:
    """Return whether one of our processes still runs, not somebody else under its pid.

    Args:
        pid: Its pid.
        identity: What `system.process_identity` said of it; empty where nobody wrote that down: then whoever
            runs under the pid has to be this program.
    """
    if identity:
        return same_process(identity)
    now = process_identity(pid)
    return now is not None and any("soulsgui" in word.lower() for word in now["cmdline"])


def setup_logging(level: str = "info") -> None:
    """Send the log to standard error, which the runner points at the service's log file."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


def parse_line(line: str) -> ParsedLine:
    """Take a line written through `setup_logging` apart; other lines come back as they are."""
    match = _LINE.match(line)
    if match is None:
        return ParsedLine(None, "", line)
    stamp, level, text = match.groups()
    try:
        when = datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):  # it only looks like a time
        return ParsedLine(None, "", line)
    return ParsedLine(when, level.lower(), text)


def level_of(line: str) -> str:
    """Return the level of a line, as `parse_line` would."""
    match = _LINE.match(line)
    return match[2].lower() if match is not None else ""


def leave(code: int) -> NoReturn:
    """End the process at once, after everything was written and closed.

    torch takes about a second to take itself apart, and nobody needs it to.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def is_supervised() -> bool:
    """Whether a runner watches over this process, and starts it again."""
    return all(os.environ.get(name) == value for name, value in SUPERVISED_ENV.items())


def start_over() -> NoReturn:
    """Let a new process of the same command line take the place of this one.

    Raises:
        OSError: It can't be started.
    """
    logging.shutdown()
    become([sys.executable, *sys.orig_argv[1:]], os.environ)


def stop_on_signals() -> threading.Event:
    """Return an event that is set when the process is asked to stop; call it in the main thread."""
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        # Event.set takes a lock that the interrupted main thread may hold at this moment.
        _thread.start_new_thread(stop.set, ())

    for number in stop_signals():
        signal.signal(number, ask)
    return stop
