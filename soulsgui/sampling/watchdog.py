"""The thread that looks after an environment: whether it hangs, is too slow, or eats the memory."""

import logging
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from soulsgui.errors import EnvironmentFault, ProcessFault
from soulsgui.sampling.open_files import OpenFiles
from soulsgui.system import family_memory

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25

_RATE_WINDOW_S = 30.0
_MEASURE_EVERY_S = 4.0
_MB = 2**20


@dataclass(frozen=True)
class Limits:
    """What an environment may do.

    Attributes:
        hang_s: Longest time to be made, to reset or to step, seconds.
        min_steps_per_s: Lowest sample rate; 0 for any.
        max_memory: Most memory of this process and all it started, bytes; None for half of the machine's.
    """

    hang_s: float
    min_steps_per_s: float = 0.0
    max_memory: int | None = None

    @property
    def rate_window_s(self) -> float:
        """Time of sampling over which the rate is taken, seconds."""
        return min(_RATE_WINDOW_S, self.hang_s)

    @property
    def memory(self) -> int:
        """Most memory, bytes."""
        return self.max_memory or psutil.virtual_memory().total // 2


class Watchdog(threading.Thread):
    """Watches the thread that made it, which steps the environment.

    Time is counted in looks, not by a clock: a process that was stopped, or a machine that slept, is not
    taken for an environment that hangs. A look that fails is logged; the next one is made all the same.

    Args:
        limits: What the environment may do.
        on_hang: Called in this thread when the environment hangs: nothing but the end of the process that it
            hangs in helps then. Called again when that was no help.
    """

    def __init__(self, limits: Limits, on_hang: Callable[[ProcessFault], None]) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._limits = limits
        self._on_hang = on_hang
        self._watched = threading.get_ident()
        self._doing = ""
        self._entered = 0
        self._steps = 0
        self._sampling = False
        self._complaint: EnvironmentFault | None = None
        self._stop_event = threading.Event()
        # Of the looks themselves.
        self._seen = -1
        self._looks = 0
        self._unmeasured_s = 0.0
        self._rate = SampleRate(limits.rate_window_s)
        self._files = OpenFiles()

    # --- what the stepping thread calls --------------------------------------------------------------

    def enter(self, doing: str) -> None:
        """The environment is given something to do.

        Args:
            doing: What, in words such as "a step".

        Raises:
            EnvironmentFault: It is too slow, or the process too large (`ProcessFault`).
        """
        if self._complaint is not None:
            complaint, self._complaint = self._complaint, None
            raise complaint
        self._entered += 1
        self._doing = doing

    def leave(self, steps: int = 0) -> None:
        """The environment is done with it.

        Args:
            steps: Steps that it made.
        """
        self._doing = ""
        self._steps += steps

    @contextmanager
    def inside(self, doing: str) -> Iterator[None]:
        """Make or close the environment; complaints of what it was before are forgotten.

        Args:
            doing: What it is given to do, in words such as "being made".
        """
        self._complaint = None
        self.enter(doing)
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """In this block the environment is to be stepped as fast as it can."""
        self._sampling = True
        try:
            yield
        finally:
            self._sampling = False

    def close(self) -> None:
        """End."""
        self._stop_event.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join()
        self._files.close()

    # --- the thread ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Look until closed."""
        looks = (self._look_for_hang, self._look_at_rate, self._look_at_memory, self._look_at_files)
        while not self._stop_event.wait(LOOK_EVERY_S):
            for look in looks:
                try:
                    look()
                except Exception:
                    # Nobody else watches: one look that fails must not be the last one.
                    logger.exception("the environment could not be looked after")

    def _look_for_hang(self) -> None:
        same = bool(self._doing) and self._seen == self._entered
        self._seen, self._looks = self._entered, self._looks + 1 if same else 0
        if self._looks * LOOK_EVERY_S >= self._limits.hang_s:
            self._looks = 0
            self._on_hang(self._hang())

    def _hang(self) -> ProcessFault:
        frame = sys._current_frames().get(self._watched)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        return ProcessFault(
            f"The environment hangs: {self._doing} takes longer than {self._limits.hang_s:g} s.", stack
        )

    def _look_at_rate(self) -> None:
        if not (self._limits.min_steps_per_s and self._sampling):
            return
        found = self._rate.look(self._steps)
        if found is not None and found < self._limits.min_steps_per_s:
            self._rate.forget()
            self._complaint = EnvironmentFault(
                f"The environment is too slow: {found:.1f} steps/s, below the "
                f"{self._limits.min_steps_per_s:g} of client.min_steps_per_s."
            )

    def _look_at_files(self) -> None:
        if not self._files.intact and not self._stop_event.is_set():
            self._complaint = ProcessFault(
                "The environment closed the files and connections of this process (os.closerange?)."
            )

    def _look_at_memory(self) -> None:
        self._unmeasured_s += LOOK_EVERY_S
        if self._unmeasured_s < _MEASURE_EVERY_S:
            return
        self._unmeasured_s = 0.0
        used, most = family_memory(), self._limits.memory
        if used > most:
            self._complaint = ProcessFault(
                f"The environment uses too much memory: {used / _MB:,.0f} MB, more than the "
                f"{most / _MB:,.0f} of client.max_memory."
            )


class SampleRate:
    """The rate of steps over the last looks, each `LOOK_EVERY_S` after the one before. Pure.

    Args:
        window_s: Time over which it is taken, seconds.
    """

    def __init__(self, window_s: float) -> None:
        self._seen: deque[int] = deque(maxlen=max(round(window_s / LOOK_EVERY_S), 1) + 1)

    def look(self, steps: int) -> float | None:
        """Take note of the number of steps so far; return the rate, None before the window is full."""
        seen = self._seen
        seen.append(steps)
        if len(seen) < (seen.maxlen or 0):
            return None
        return (seen[-1] - seen[0]) / ((len(seen) - 1) * LOOK_EVERY_S)

    def forget(self) -> None:
        """Begin anew."""
        self._seen.clear()
