"""Examines an environment before a run depends on it, and says in words what it found."""

import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Space
from numpy.typing import NDArray

from soulsgui.environments.choices import action_left, gives_masks, read_mask
from soulsgui.environments.make import (
    BROKEN,
    Env,
    WrapperEntry,
    find_spec,
    has_native_vector,
    make_env,
    place_of,
    wrapper_faults,
)
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import LARGEST, StepClock
from soulsgui.errors import EnvironmentCheckError, EnvironmentMissingError, error_words
from soulsgui.experience.frame_stacks import NUMBERS, field_of

_MOST_PROBLEMS = 10
_SEED = 0

Progress = Callable[[str, str], object]
"""Takes what an environment is about to do, such as "step 3", and where that is written."""


@dataclass(frozen=True)
class EnvironmentReport:
    """What `check` found.

    Args:
        spaces: What it shows and takes; None when it can't be made or its spaces are not supported.
        native_vector: It brings a vector form of its own, which steps many at once much faster.
        episodes: Episodes that ended in these steps.
        seconds_per_step: Mean time of a step, resets included; 0 without steps.
        problems: What keeps it from being trained on, in sentences.
        notes: What is worth to know, in sentences.
        missing: What brings it is not installed on this computer.
    """

    env_id: str
    spaces: SpacesSpec | None
    native_vector: bool
    steps: int
    episodes: int
    seconds_per_step: float
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    missing: bool = False

    @property
    def ok(self) -> bool:
        """Whether it can be trained on."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON-able data."""
        spaces = None if self.spaces is None else self.spaces.to_json()
        sentences = {"problems": list(self.problems), "notes": list(self.notes)}
        return asdict(self) | {"spaces": spaces} | sentences | {"ok": self.ok}


def check(
    env_id: str,
    kwargs: Mapping[str, Any],
    wrappers: Sequence[WrapperEntry],
    steps: int = 200,
    seconds: float = math.inf,
    clock: StepClock | None = None,
    told: Progress | None = None,
) -> EnvironmentReport:
    """Make an environment (`make.make_env`), play random actions, and report all that is wrong.

    Args:
        steps: Most steps to try.
        seconds: After so long no further step is tried, but for the first one.
        clock: The pace of the steps; None steps as fast as it goes.
        told: Is called before each thing that is tried, and not when that is done.
    """
    trial = _Trial(told or (lambda _doing, _place: None))
    spaces, native, missing = None, False, False
    trial.told("its import", "")
    faults = wrapper_faults(wrappers)
    try:
        find_spec(env_id)
        trial.told("being made", "")
        # Without wrappers that can't be had the environment itself is examined all the same.
        env = make_env(env_id, kwargs, [] if faults else wrappers)
    except EnvironmentCheckError as error:
        trial.problems.append(str(error))
        missing = isinstance(error, EnvironmentMissingError)
    else:
        native = not wrappers and has_native_vector(find_spec(env_id), kwargs)
        try:
            spaces = SpacesSpec.from_env(*_spaces_of(env, env_id))
            trial.play(env, spaces, steps, seconds, clock or StepClock(0))
            spaces = None if faults else spaces.with_masks(trial.masked)
        except EnvironmentCheckError as error:
            trial.problems.append(str(error))
        finally:
            trial.told("close()", "")
            env.close()
    trial.problems += faults
    seconds_per_step = trial.seconds / trial.steps if trial.steps else 0.0
    played = trial.steps, trial.episodes, seconds_per_step, tuple(trial.problems), tuple(trial.notes)
    return EnvironmentReport(env_id, spaces, native, *played, missing)


def _spaces_of(env: Env, env_id: str) -> tuple[Space[Any], Space[Any]]:
    try:
        return env.observation_space, env.action_space
    except AttributeError as error:
        raise EnvironmentCheckError(
            f"{env_id} has no spaces: {error}.", "Set observation_space and action_space in its __init__."
        ) from error


class _Trial:
    """Plays an environment and collects what is wrong with it, each kind of fault once."""

    def __init__(self, told: Progress) -> None:
        self.told = told
        self.steps = 0
        self.episodes = 0
        self.seconds = 0.0
        self.masked = False
        self._mask: NDArray[np.bool_] | None = None
        self._places: dict[str, str] = {}
        self._known: set[str] = set()
        self.problems: list[str] = []
        self.notes: list[str] = []

    def play(self, env: Env, spaces: SpacesSpec, steps: int, seconds: float, clock: StepClock) -> None:
        """Play random actions; what makes it impossible to go on ends the trial as a problem."""
        self._places = {name: _source(env, name) for name in ("reset", "step")}
        began = time.perf_counter()

        def go_on() -> bool:
            return time.perf_counter() - began < seconds

        doing = "reset"
        try:
            self.told("reset()", self._places["reset"])
            first = self._observed(env.reset(seed=_SEED), "reset", spaces)
            if go_on():
                self.told("a second reset()", self._places["reset"])
                again = self._observed(env.reset(seed=_SEED), "reset", spaces)
                if first is not None and again is not None and not np.array_equal(first, again):
                    self.notes.append("Two resets with the same seed differ: runs will not repeat exactly.")
            rng = np.random.default_rng(_SEED)
            begin = time.perf_counter()
            while self.steps < steps and len(self.problems) < _MOST_PROBLEMS and (not self.steps or go_on()):
                clock.wait()
                doing = f"step {self.steps + 1}"
                self.told(doing, self._places["step"])
                result = env.step(spaces.action.random(rng, self._mask))
                if not isinstance(result, tuple) or len(result) != 5:
                    self.steps += 1
                    words = "does not return (observation, reward, terminated, truncated, info)."
                    self._problem("step form", f"{self._named('step')} {words}")
                    break
                if self._step(result, spaces) and go_on():
                    doing = f"the reset after step {self.steps}"
                    self.told(doing, self._places["reset"])
                    self._observed(env.reset(), "reset", spaces)
                    clock.begin()
            self.seconds = time.perf_counter() - begin
        except BROKEN as error:
            self._problem("raised", f"It raised in {doing}{place_of(error)}: {error_words(error)}")
        if not self.problems and not self.episodes:
            self.notes.append(f"No episode ended within {self.steps} random steps.")

    def _step(self, result: tuple[Any, ...], spaces: SpacesSpec) -> bool:
        """Examine what a step returned; say whether the episode ended."""
        self.steps += 1
        obs, reward, terminated, truncated, info = result
        self._observed((obs, info), "step", spaces, bool(terminated) or bool(truncated))
        words = ""
        if not isinstance(reward, int | float | np.number) or not math.isfinite(reward):
            words = "is not a finite number."
        elif abs(float(reward)) > LARGEST:
            words = f"is beyond {LARGEST:g}: scale rewards with a wrapper."
        if words:
            self._problem("reward", f"The reward {reward!r} of {self._named('step')} {words}")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, bool | np.bool_):
                self._problem(name, f"{name} is {flag!r}, not a bool, in {self._named('step')}.")
        ended = bool(terminated) or bool(truncated)
        self.episodes += ended
        return ended

    def _observed(
        self, result: Any, where: str, spaces: SpacesSpec, ended: bool = False
    ) -> NDArray[Any] | None:
        """Examine `(observation, info)`; return the observation when it is one."""
        if not isinstance(result, tuple) or len(result) != 2:
            self._problem(f"{where} form", f"{self._named(where)} does not return (observation, info).")
            return None
        if not isinstance(result[1], dict):
            self._problem(f"{where} info", f"info is {result[1]!r}, not a dict, in {self._named(where)}.")
            return None
        self._look_at_mask(result[1], where, spaces, ended)
        wanted = spaces.observation
        try:
            obs = wanted.read(result[0])
        except ValueError as error:
            self._problem(f"{where} shape", f"In {self._named(where)} {error}.")
            return None
        if obs.shape != wanted.shape or obs.dtype != np.dtype(wanted.dtype):
            self._problem(
                f"{where} shape",
                f"An observation of {self._named(where)} has shape {obs.shape} and dtype {obs.dtype}; "
                f"its space says {wanted.shape} and {wanted.dtype}.",
            )
            return None
        numbers = field_of(obs, NUMBERS)
        floats = numbers.dtype.kind == "f"
        words = ""
        if floats and not np.isfinite(numbers).all():
            words = "holds values that are not finite."
        elif not wanted.contains(obs[None])[0]:
            words = "is out of the bounds that its space states."
        elif floats and np.abs(numbers).max(initial=0) > LARGEST:
            words = f"holds values beyond {LARGEST:g}: limit them with a wrapper."
        if words:
            self._problem(f"{where} {words}", f"An observation of {self._named(where)} {words}")
        return obs

    def _look_at_mask(self, info: Any, where: str, spaces: SpacesSpec, ended: bool) -> None:
        """Take the mask over; whether there are any is told by the first reset."""
        sizes = spaces.action.sizes
        if not isinstance(info, Mapping) or not gives_masks(info) or not sizes:
            self._mask = None
            return
        self.masked = self.masked or where == "reset"
        try:
            self._mask = read_mask(info["action_mask"], sum(sizes))
        except EnvironmentCheckError as error:
            self._problem("mask form", error.message)
            return
        if not action_left(self._mask[None], sizes)[0]:
            if not ended:
                words = "leaves no action, although the episode continues."
                self._problem("mask", f"The action mask of {self._named(where)} {words}")
            self._mask = None

    def _named(self, method: str) -> str:
        return f"{method}(){self._places[method]}"

    def _problem(self, kind: str, words: str) -> None:
        if kind not in self._known:
            self._known.add(kind)
            self.problems.append(words)


def _source(env: Env, method: str) -> str:
    """Return where a method of the environment inside its wrappers is written: ` (game.py, line 12)`."""
    try:
        function = inspect.unwrap(getattr(type(env.unwrapped), method))
        file, (_, line) = inspect.getsourcefile(function), inspect.getsourcelines(function)
    except (AttributeError, OSError, TypeError, ValueError):
        return ""
    return f" ({Path(file).name}, line {line})" if file else ""
