"""What the processes of these tests do; they import this alone, and so begin quickly."""

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from soulsgui.process import stop_on_signals


def note_and_wait(file: Path) -> None:
    """Write the own pid into a file, then live until asked to stop."""
    stop = stop_on_signals()
    file.write_text(str(os.getpid()))
    stop.wait()


def fail(words: str) -> None:
    raise SystemExit(words)


def hold(guard: Callable[[], AbstractContextManager[None]], file: Path) -> None:
    with guard():
        file.write_text(str(os.getpid()))
        threading.Event().wait()


class Unreadable:
    """What can be sent to a process, which can't take it in: as of a file that is no longer there."""

    def __reduce__(self) -> Any:
        return fail, ("gone",)
