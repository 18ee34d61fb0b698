"""How a process ended, in words, and whether it is restarted or given up. Pure: time is passed in."""

import random
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from soulsgui.errors import DIVERGED
from soulsgui.installing import how_to_install

QUIET_END = "ended as asked"  # words of an end that was asked for and went well
DISK_FULL = "the disk is full"  # cause of an end that waits for space, not for a repaired program

NOT_INSTALLED = "on this computer Python finds no module "
"""How the cause begins of an end whose traceback says no more than that."""

_NO_ROOM_BYTES = 2**20
_DISK_MARKS = (
    "no space left on",
    "not enough space on the disk",
    "disk quota exceeded",
)
_MEMORY_MARKS = ("MemoryError", "out of memory", "OutOfMemoryError", "Cannot allocate memory", "bad_alloc")


@dataclass(frozen=True)
class Outcome:
    """How the last process of a service ended."""

    exit_code: int | None  # Its exit code; None when a signal ended it, or when nobody could tell
    signal: int | None  # The signal that ended it
    ran_s: float  # How long it lived, seconds
    asked_to_stop: bool  # Whether its end was wished
    farewell: str = ""  # What it said before a clean end; empty when it said nothing
    cause: str = ""  # What is known beside exit code and signal, such as "out of memory"; only what is proved
    # Whether it ended because its configuration can't work; the cause is what it said of it.
    refused: bool = False

    @property
    def in_order(self) -> bool:
        """Whether it ended by its own decision and said so: nothing to repair, nothing to restart."""
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
    def diverged(self) -> bool:
        """Whether the training has diverged: it goes on from its last checkpoint, as often as it may."""
        return self.exit_code == DIVERGED

    @property
    def words(self) -> str:
        """The end in a few words, such as "killed by signal 9 (SIGKILL) after 3 s: out of memory"."""
        quietly = self.signal in (signal.SIGTERM, signal.SIGINT) or (not self.signal and not self.exit_code)
        if self.asked_to_stop and not self.cause and quietly:
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

    def _what_ended_it(self) -> str:
        after = f"after {duration_words(self.ran_s)}"
        if self.signal is not None:
            return f"killed by signal {self.signal}{_signal_name(self.signal)} {after}"
        if self.exit_code is not None:
            return f"exit {self.exit_code} {after}"
        if self.farewell:
            return f"ended {after}"
        return self.cause if self.ran_s == 0 and self.cause else "exit code unknown"


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

    None is the code of an adopted service, whose end nobody is told. `refusal`, what was said of a
    configuration that can't work, is told where no other cause is known.
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


def evidence(code: int | None, last_lines: Sequence[str], system_kills: int, free_bytes: int) -> str:
    """Say what is proved to have ended a process; empty when nothing is.

    Proof are the end of its log, what the system has ended meanwhile for want of memory, and what is
    free where it writes: on a full disk it may have found no room to say so.
    """
    if code == -9 and system_kills > 0:
        return "out of memory"
    if code is None or code <= 0:
        return ""
    if any(mark in line for line in last_lines[-5:] for mark in _MEMORY_MARKS):
        return "out of memory"
    if free_bytes < _NO_ROOM_BYTES or any(
        mark in line.lower() for line in last_lines[-5:] for mark in _DISK_MARKS
    ):
        return DISK_FULL
    last = next((line for line in reversed(last_lines) if line.strip()), "")
    found = re.match(r"ModuleNotFoundError: No module named '([^']+)'", last)
    return f"{NOT_INSTALLED}{found[1]}" if found else ""


def missing_module(cause: str) -> str:
    """Return the module whose lack is this cause; empty when an end has another one."""
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


@dataclass(frozen=True)
class RestartLimits:
    """When a service that keeps failing is restarted, and when given up."""

    first_delay_s: float = 0.5  # Pause before the first restart
    longest_delay_s: float = 30.0  # No pause is longer
    jitter: float = 0.2  # Part of the pause that chance adds or takes away
    max_failures: int = 5  # So many failures within `window_s` and it is given up
    window_s: float = 300.0
    healthy_s: float = 60.0  # Running so long without a failure, earlier failures no longer count
    # A farewell travels through the server and the runner's memory of it: an end that may have been in order
    # is not judged before.
    farewell_wait_s: float = 1.5


@dataclass(frozen=True)
class RestartHistory:
    """The failures of one service that still count."""

    failed_at: tuple[float, ...] = ()  # When it failed, monotonic seconds, oldest first
    in_a_row: int = 0  # Failures since it was last healthy, also those older than the window

    @property
    def failures(self) -> int:
        """Failures counted towards giving up."""
        return len(self.failed_at)

    def after_failure(self, now: float, limits: RestartLimits, excused: bool = False) -> "RestartHistory":
        """Return the history with one more failure; an excused one only makes the pause longer."""
        recent = tuple(moment for moment in self.failed_at if now - moment < limits.window_s)
        return RestartHistory(recent if excused else (*recent, now), self.in_a_row + 1)

    def after_running(self, healthy_for_s: float, limits: RestartLimits) -> "RestartHistory":
        """Return the history of a service that has been healthy for so long: empty once that is enough."""
        if self.in_a_row and healthy_for_s >= limits.healthy_s:
            return RestartHistory()
        return self

    def given_up(self, limits: RestartLimits) -> bool:
        """Whether it failed too often to be tried again."""
        return self.failures >= limits.max_failures

    def delay_s(self, limits: RestartLimits, rng: random.Random) -> float:
        """Return the pause before the next try, seconds."""
        # The exponent is bounded: 2.0 ** 1024 overflows.
        doubled = limits.first_delay_s * 2.0 ** min(max(self.in_a_row - 1, 0), 30)
        jittered = min(doubled, limits.longest_delay_s) * rng.uniform(1 - limits.jitter, 1 + limits.jitter)
        return min(jittered, limits.longest_delay_s)
