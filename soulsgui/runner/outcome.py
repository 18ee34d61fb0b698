"""How a process ended, in words."""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from soulsgui.installing import how_to_install

QUIET_END = "ended as asked"
"""Words of an end that was wished and went well."""

DISK_FULL = "the disk is full"
"""Cause of an end that waits for space, not for a mended program."""

NOT_INSTALLED = "on this computer Python finds no module "
"""How the cause begins of an end whose traceback says no more than that."""

_NO_ROOM_BYTES = 2**20
_DISK_MARKS = (
    "no space left on",
    "no room left on the disk",
    "not enough space on the disk",
    "disk quota exceeded",
)
_MEMORY_MARKS = ("MemoryError", "out of memory", "OutOfMemoryError", "Cannot allocate memory", "bad_alloc")


@dataclass(frozen=True)
class Outcome:
    """How the last process of a service ended.

    Attributes:
        exit_code: Its exit code; None when a signal ended it, or when nobody could tell.
        signal: The signal that ended it.
        ran_s: How long it lived, seconds.
        asked_to_stop: Whether its end was wished.
        farewell: What it said before a clean end; empty when it said nothing.
        cause: What is known beside exit code and signal, such as "out of memory"; only what is proved.
        refused: Whether it ended because its configuration can't work; the cause is what it said of it.
    """

    exit_code: int | None
    signal: int | None
    ran_s: float
    asked_to_stop: bool
    farewell: str = ""
    cause: str = ""
    refused: bool = False

    @property
    def in_order(self) -> bool:
        """Whether it ended by a decision of its own and said so: nothing to mend, nothing to restart."""
        return bool(self.farewell) and self.signal is None and self.exit_code in (0, None)

    @property
    def failed(self) -> bool:
        """Whether it ended though nobody asked it to, and not in order."""
        return not self.asked_to_stop and not self.in_order

    @property
    def hopeless(self) -> bool:
        """Whether no other try would end otherwise."""
        return self.refused or bool(missing_module(self.cause))

    @property
    def words(self) -> str:
        """The end in a few words, such as "killed by signal 9 (SIGKILL) after 3 s: out of memory"."""
        if self.asked_to_stop and not self.cause and self._ended_quietly():
            return QUIET_END
        if self.refused:
            return self.cause
        parts = [self._what_ended_it()]
        if self.cause and self.cause != parts[0]:
            parts.append(self.cause)
        if self.farewell and not self.asked_to_stop:
            parts.append(self.farewell)
        return ": ".join(parts)

    @property
    def words_to_act_on(self) -> str:
        """The same, with what to do about it where that is known."""
        return f"{self.words}. {self.remedy}" if self.remedy else self.words

    @property
    def remedy(self) -> str:
        """What to do about it where that is known and the words don't say it; else empty."""
        missing = missing_module(self.cause)
        return f"Install it: {how_to_install(missing)}" if missing else ""

    def _ended_quietly(self) -> bool:
        if self.signal is not None:
            return self.signal in (signal.SIGTERM, signal.SIGINT)
        return self.exit_code in (0, None)

    def _what_ended_it(self) -> str:
        if self.signal is not None:
            return f"killed by signal {self.signal}{_signal_name(self.signal)} {self._after()}"
        if self.exit_code is not None:
            return f"exit {self.exit_code} {self._after()}"
        if self.farewell:
            return f"ended {self._after()}"
        return self.cause if self.ran_s == 0 and self.cause else "exit code unknown"

    def _after(self) -> str:
        return f"after {duration_words(self.ran_s)}"


def outcome_of_code(
    code: int | None,
    ran_s: float,
    *,
    asked_to_stop: bool,
    farewell: str = "",
    cause: str = "",
    refusal: str = "",
) -> Outcome:
    """Read a return code as `subprocess` gives it: below zero it is the signal that ended the process.

    Args:
        code: The return code; None when nobody could tell (an adopted service).
        ran_s: How long the process lived, seconds.
        asked_to_stop: Whether its end was wished.
        farewell: What it said before its end.
        cause: What else is known.
        refusal: What it said of a configuration that can't work; told where no other cause is known.
    """
    killed = code is not None and code < 0
    return Outcome(
        exit_code=None if killed else code,
        signal=-code if code is not None and killed else None,
        ran_s=ran_s,
        asked_to_stop=asked_to_stop,
        farewell=farewell,
        cause=cause or refusal,
        refused=bool(refusal) and not cause,
    )


def memory_evidence(code: int | None, last_lines: Sequence[str], system_kills: int) -> str:
    """Say "out of memory" when there is evidence for it, else nothing.

    Args:
        code: Return code of the process, below zero for a signal.
        last_lines: End of its log.
        system_kills: Processes that the system ended for want of memory while this one lived.
    """
    if code == -9 and system_kills > 0:
        return "out of memory"
    ended_by_itself = code is not None and code > 0
    if ended_by_itself and any(mark in line for line in last_lines[-5:] for mark in _MEMORY_MARKS):
        return "out of memory"
    return ""


def disk_evidence(code: int | None, last_lines: Sequence[str], free_bytes: int) -> str:
    """Say "the disk is full" when there is evidence for it, else nothing.

    Args:
        code: Return code of the process, below zero for a signal.
        last_lines: End of its log; on a full disk there may be none.
        free_bytes: What is free where it writes.
    """
    ended_by_itself = code is not None and code > 0
    said = any(mark in line.lower() for line in last_lines[-5:] for mark in _DISK_MARKS)
    return DISK_FULL if ended_by_itself and (said or free_bytes < _NO_ROOM_BYTES) else ""


def module_evidence(code: int | None, last_lines: Sequence[str]) -> str:
    """Say which module is not installed when that ended a process, else nothing.

    Args:
        code: Return code of the process, below zero for a signal.
        last_lines: End of its log.
    """
    last = next((line for line in reversed(last_lines) if line.strip()), "")
    found = re.match(r"ModuleNotFoundError: No module named '([^']+)'", last)
    return f"{NOT_INSTALLED}{found[1]}" if found and code is not None and code > 0 else ""


def missing_module(cause: str) -> str:
    """Return the module that `module_evidence` found missing; empty when an end has another cause."""
    return cause.removeprefix(NOT_INSTALLED) if cause.startswith(NOT_INSTALLED) else ""


def duration_words(seconds: float) -> str:
    """Say a duration shortly: "0.3 s", "12 s", "3 min 20 s", "5 h 2 min"."""
    if seconds < 1:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


def evidence(code: int | None, last_lines: Sequence[str], system_kills: int, free_bytes: int) -> str:
    """Return what is known to have ended a process, in words; empty when nothing is.

    Args:
        code: How it ended.
        last_lines: What it wrote last.
        system_kills: Processes that the system has killed for want of memory since its start.
        free_bytes: Room where it writes.
    """
    return (
        memory_evidence(code, last_lines, system_kills)
        or disk_evidence(code, last_lines, free_bytes)
        or module_evidence(code, last_lines)
    )
