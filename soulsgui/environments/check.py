"""Examines an environment before a run depends on it, and says in words what it found."""

import math
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.make import Env, WrapperEntry, find_spec, has_native_vector, make_env
from soulsgui.environments.masks import action_left, gives_masks, read_mask
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import EnvironmentCheckError, EnvironmentMissingError
from soulsgui.printable import error_words


@dataclass(frozen=True)
class EnvironmentReport:
    """What `check` found.

    Args:
        env_id: The environment's id.
        spaces: What it shows and takes; None when it can't be made or its spaces are not supported.
        native_vector: It brings a vector form of its own, which steps many at once much faster.
        steps: Steps tried.
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
        return asdict(self) | {
            "spaces": spaces,
            "problems": list(self.problems),
            "notes": list(self.notes),
            "ok": self.ok,
        }


def check(
    env_id: str,
    kwargs: Mapping[str, Any],
    wrappers: Sequence[WrapperEntry],
    steps: int = 200,
    seed: int = 0,
) -> EnvironmentReport:
    """Make an environment, play random actions, and report; whatever goes wrong stands in the report.

    Args:
        env_id: As in `make.make_env`.
        kwargs: As in `make.make_env`.
        wrappers: As in `make.make_env`.
        steps: Number of steps to try.
        seed: Of the environment and of the actions.
    """
    trial = _Trial()
    spaces, native, missing = None, False, False
    try:
        env = make_env(env_id, kwargs, wrappers)
    except EnvironmentCheckError as error:
        trial.problems.append(str(error))
        missing = isinstance(error, EnvironmentMissingError)
    else:
        native = not wrappers and has_native_vector(find_spec(env_id), kwargs)
        try:
            spaces = SpacesSpec.from_env(env.observation_space, env.action_space)
            trial.play(env, spaces, steps, seed)
            spaces = spaces.with_masks(trial.masked)
        except EnvironmentCheckError as error:
            trial.problems.append(str(error))
        finally:
            env.close()
    return EnvironmentReport(
        env_id=env_id,
        spaces=spaces,
        native_vector=native,
        steps=trial.steps,
        episodes=trial.episodes,
        seconds_per_step=trial.seconds / trial.steps if trial.steps else 0.0,
        problems=tuple(trial.problems),
        notes=tuple(trial.notes),
        missing=missing,
    )


class _Trial:
    """Plays an environment and collects what is wrong with it, each kind of fault once."""

    def __init__(self) -> None:
        self.steps = 0
        self.episodes = 0
        self.seconds = 0.0
        self.masked = False
        self._mask: NDArray[np.bool_] | None = None
        self.problems: list[str] = []
        self.notes: list[str] = []

    def play(self, env: Env, spaces: SpacesSpec, steps: int, seed: int) -> None:
        """Play `steps` random actions; an exception of the environment ends the trial as a problem."""
        doing = "reset"
        try:
            first = self._observed(env.reset(seed=seed), "reset", spaces)
            again = self._observed(env.reset(seed=seed), "reset", spaces)
            if first is not None and again is not None and not np.array_equal(first, again):
                self._note("Two resets with the same seed differ: runs will not repeat exactly.")
            rng = np.random.default_rng(seed)
            begin = time.perf_counter()
            while self.steps < steps and not self.problems:
                doing = f"step {self.steps + 1}"
                if self._step(env.step(spaces.action.random(rng, self._mask)), spaces):
                    doing = f"the reset after step {self.steps}"
                    self._observed(env.reset(), "reset", spaces)
            self.seconds = time.perf_counter() - begin
        except Exception as error:
            self._problem(f"It raised in {doing}{_place(error)}: {error_words(error)}")
        if not self.problems and not self.episodes:
            self._note(f"No episode ended within {self.steps} random steps.")

    def _step(self, result: Any, spaces: SpacesSpec) -> bool:
        """Examine what a step returned; say whether the episode ended."""
        self.steps += 1
        if not isinstance(result, tuple) or len(result) != 5:
            self._problem("step() does not return (observation, reward, terminated, truncated, info).")
            return False
        obs, reward, terminated, truncated, info = result
        self._observed((obs, info), "step", spaces, bool(terminated) or bool(truncated))
        if not isinstance(reward, int | float | np.number) or not math.isfinite(reward):
            self._problem(f"The reward {reward!r} is no finite number.")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, bool | np.bool_):
                self._problem(f"{name} is {flag!r}, not a bool.")
        ended = bool(terminated) or bool(truncated)
        self.episodes += ended
        return ended

    def _observed(
        self, result: Any, where: str, spaces: SpacesSpec, ended: bool = False
    ) -> NDArray[Any] | None:
        """Examine `(observation, info)`; return the observation when it is one."""
        if not isinstance(result, tuple) or len(result) != 2:
            self._problem(f"{where}() does not return (observation, info).")
            return None
        self._look_at_mask(result[1], where, spaces, ended)
        obs = np.asarray(result[0])
        wanted = spaces.observation
        if obs.shape != wanted.shape or str(obs.dtype) != wanted.dtype:
            self._problem(
                f"An observation of {where}() has shape {obs.shape} and dtype {obs.dtype}; "
                f"its space says {wanted.shape} and {wanted.dtype}."
            )
            return None
        if obs.dtype.kind == "f" and not np.isfinite(obs).all():
            self._problem(f"An observation of {where}() holds values that are not finite.")
        elif not wanted.contains(obs[None])[0]:
            self._problem(f"An observation of {where}() is out of the bounds that its space states.")
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
            self._problem(error.message)
            return
        if not action_left(self._mask[None], sizes)[0]:
            if not ended:
                self._problem(f"The action mask of {where}() leaves no action, though the episode goes on.")
            self._mask = None

    def _problem(self, words: str) -> None:
        if words not in self.problems:
            self.problems.append(words)

    def _note(self, words: str) -> None:
        self.notes.append(words)


def _place(error: Exception) -> str:
    """Return where an error was raised: ` (game.py, line 12, in step)`."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno}, in {frames[-1].name})"
