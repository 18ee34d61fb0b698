"""What looks after an environment: whether it raises, hangs, is too slow, or eats the memory."""

import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
from numpy.typing import NDArray

from soulsgui.config.schema import Settings
from soulsgui.environments.make import BROKEN, Vector
from soulsgui.environments.pictures import Picture, first_rendered, made_small
from soulsgui.environments.step import EnvStepper, StepResult
from soulsgui.errors import EnvironmentFault, ProcessFault, error_words, printable
from soulsgui.system import family_memory
from soulsgui.wire.messages.session import LONGEST_SIDE

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25

_RATE_WINDOW_S = 30.0
_MEASURE_EVERY_S = 4.0
_MB = 2**20
_NEWEST_PART = 0.02


@dataclass(frozen=True)
class EnvironmentLimits:
    """What an environment may do; `max_memory` in bytes, None for half of the computer's."""

    hang_s: float
    min_steps_per_s: float = 0.0
    max_memory: int | None = None


def limits_of(settings: Settings) -> EnvironmentLimits:
    """Return what an environment that is evaluated may do."""
    return EnvironmentLimits(settings.client.hang_seconds, max_memory=settings.client.max_memory)


class Watchdog(threading.Thread):
    """Watches the thread that made it, which steps the environment.

    Time is counted in looks, not by a clock: a process that was stopped, or a machine that slept, is not
    taken for an environment that hangs. A look that fails is logged, and the next one follows.
    `on_hang` is called in this thread, and again as long as the environment hangs.
    """

    def __init__(self, limits: EnvironmentLimits, on_hang: Callable[[ProcessFault], None]) -> None:
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
        self._rate = SampleRate(min(_RATE_WINDOW_S, limits.hang_s))
        self._files = OpenFiles()

    def enter(self, doing: str) -> None:
        """Note that the environment is given something to do; raise the complaint of the last looks."""
        if self._complaint is not None:
            complaint, self._complaint = self._complaint, None
            raise complaint
        self._entered += 1
        self._doing = doing

    def leave(self, steps: int = 0) -> None:
        """Note that the environment is done with it."""
        self._doing = ""
        self._steps += steps

    @contextmanager
    def inside(self, doing: str) -> Iterator[None]:
        """Watch the environment being made or closed; complaints about the one before are dropped."""
        self._complaint = None
        self.enter(doing)
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Watch the rate of steps within this block."""
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
            frame = sys._current_frames().get(self._watched)
            stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
            words = f"The environment hangs: {self._doing} takes longer than {self._limits.hang_s:g} s."
            self._on_hang(ProcessFault(words, stack))

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
        used, most = family_memory(), self._limits.max_memory or psutil.virtual_memory().total // 2
        if used > most:
            self._complaint = ProcessFault(
                f"The environment uses too much memory: {used / _MB:,.0f} MB, more than the "
                f"{most / _MB:,.0f} of client.max_memory."
            )


class SampleRate:
    """The rate of steps over the last looks, each `LOOK_EVERY_S` after the one before. Pure."""

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


class OpenFiles:
    """Holds a file open that nobody else uses, and sees whether it still is."""

    def __init__(self) -> None:
        self._file, other = os.pipe()
        os.close(other)
        self._opened: os.stat_result | None = os.fstat(self._file)

    @property
    def intact(self) -> bool:
        """Whether it is open; under its number there may be another one by now."""
        try:
            return self._opened is not None and os.path.samestat(os.fstat(self._file), self._opened)
        except OSError:
            return False

    def close(self) -> None:
        """Close it, if nobody else has."""
        if self.intact:
            os.close(self._file)
        self._opened = None


class WatchedStepper(EnvStepper):
    """As `EnvStepper`, timed by `timer`; an environment that raises becomes an `EnvironmentFault`."""

    def __init__(self, vector_env: Vector, watchdog: Watchdog, info_keys: Sequence[str] = ()) -> None:
        super().__init__(vector_env, info_keys)
        self._watchdog = watchdog
        self.timer = StepTimer()

    def shown(self) -> Picture | None:
        """Return what the first environment shows, made small; None where that fails: the log says why."""
        self._watchdog.enter("rendering")
        try:
            return made_small(first_rendered(self.vector_env), LONGEST_SIDE)
        except BROKEN as error:
            logger.warning("the game can't be shown: %s", printable(error_words(error)))
            return None
        finally:
            self._watchdog.leave()

    def reset(self, seed: int | None = None) -> NDArray[Any]:
        """Begin anew, as `EnvStepper.reset`."""
        self._watchdog.enter("a reset")
        try:
            return super().reset(seed)
        except BROKEN as error:
            raise fault_of(error, "a reset") from error
        finally:
            self._watchdog.leave()

    def step(self, actions: NDArray[Any]) -> StepResult:
        """Step every environment, as `EnvStepper.step`."""
        self._watchdog.enter("a step")
        try:
            with self.timer:
                return super().step(actions)
        except BROKEN as error:
            raise fault_of(error, "a step") from error
        finally:
            self._watchdog.leave(self.num_envs)


def fault_of(error: BaseException, doing: str) -> EnvironmentFault:
    """Return what an environment raised, with its traceback."""
    what = printable(error_words(error))
    details = "".join(traceback.format_exception(error))
    return EnvironmentFault(f"The environment raised in {doing}: {what}", details)


class StepTimer:
    """Measures the recent mean time `step_s` of the steps that are made within its blocks."""

    def __init__(self) -> None:
        self.step_s = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        took_s = time.perf_counter() - self._began
        self.step_s += _NEWEST_PART * (took_s - self.step_s) if self.step_s else took_s
