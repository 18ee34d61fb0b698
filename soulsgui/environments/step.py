"""One way to step any vector environment, whatever its autoreset does."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from soulsgui.environments.actions import action_from_space
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import Mask, action_left, gives_masks, read_masks
from soulsgui.environments.make import Vector
from soulsgui.environments.observations import ObservationSpec, observation_from_space
from soulsgui.errors import EnvironmentCheckError
from soulsgui.experience.frame_stacks import field_of

LARGEST = 1e15
"""Largest magnitude of rewards, observations and actions: the square of a larger one may leave the range of
float32, and with it the statistics of the normaliser."""

_LARGEST = np.float64(LARGEST)  # which float16 can't hold
_WORDS = f"finite and at most {LARGEST:g} in magnitude"


def check_rewards(reward: NDArray[np.float32]) -> None:
    """Make sure that rewards `[N]` can be learned from.

    Raises:
        EnvironmentCheckError: One is NaN, infinite or too large.
    """
    # The sum of squares is quick, and within this only if each is; it is NaN where one is.
    if float(np.vdot(reward, reward)) <= LARGEST**2:
        return
    bad = reward[~(np.abs(reward) <= LARGEST)]
    if len(bad):
        raise EnvironmentCheckError(
            f"It gave the reward {bad[0]:g} (as float32).",
            f"Rewards should be {_WORDS}: fix the environment, or scale them with a wrapper.",
        )


class ObservationCheck:
    """Finds observations that nobody can learn from.

    What lies outside the bounds of its space is no error here, since it is moved onto them
    (`sampling.rollout.Bounds`); what is no number, or too large where there are no such bounds, is one.
    """

    def __init__(self, space: ObservationSpec) -> None:
        self._fields = [
            (name, _unlimited(box)) for name, box in space.fields if np.dtype(box.dtype).kind == "f"
        ]

    def __call__(self, obs: NDArray[Any]) -> None:
        """Look at observations `[N, *shape]`.

        Raises:
            EnvironmentCheckError: A number is NaN, or too large where its space has no bound.
        """
        for name, (no_least, no_largest) in self._fields:
            numbers = field_of(obs, name)
            if float(np.vdot(numbers, numbers)) <= LARGEST**2:
                continue
            too_small, too_large = numbers < -_LARGEST, numbers > _LARGEST
            bad = np.isnan(numbers) | (too_small & no_least) | (too_large & no_largest)
            if bad.any():
                raise EnvironmentCheckError(
                    f"It showed {numbers[bad][0]:g} in an observation.",
                    f"Numbers should be {_WORDS}: fix the environment, or limit them with a wrapper.",
                )


def _unlimited(box: BoxSpec) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say where no value is moved onto a bound that can be computed with, at the low and the high end."""
    low, high = (np.abs(limit.astype(np.float64)) > LARGEST for limit in box.limits)
    everywhere = box.low is None and box.high is None
    return low | everywhere, high | everywhere


HUMAN = "human_interrupt"
"""Key of an environment's info: true in steps in which a person played, not the policy."""


class StepResult(NamedTuple):
    """What one step of `N` environments gave. The arrays belong to the caller.

    | field | shape, dtype | meaning |
    |---|---|---|
    | next_obs | `[N, *shape]` | true next observation, at an episode's end its final one |
    | reward | `[N]` float32 | |
    | terminated | `[N]` bool | the episode ended in a final state |
    | truncated | `[N]` bool | the episode was cut off |
    | valid | `[N]` bool | False: no transition happened, the environment was reset in this step |
    | reset_obs | `[N, *shape]` | what to act on next |
    | by_human | `[N]` bool | a person played this step, not the policy: the environment said so in its info |
    | next_mask | `[N, A]` bool, or None | valid actions at `next_obs`; None: the environments tell none |
    | reset_mask | `[N, A]` bool, or None | the same at `reset_obs` |
    | info | `[N, K]` float64, or None | what the infos told under the keys that were asked for; else NaN |
    """

    next_obs: NDArray[Any]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    reset_obs: NDArray[Any]
    by_human: NDArray[np.bool_]
    next_mask: Mask | None = None
    reset_mask: Mask | None = None
    info: NDArray[np.float64] | None = None


class Stepper(Protocol):
    """Steps `num_envs` environments, whatever and wherever they are.

    Attributes:
        mask: Valid actions `[N, A]` at what is to be acted on next, from the first reset on; None where the
            environments tell none.
    """

    num_envs: int
    mask: Mask | None

    def reset(self, seed: int | None = None) -> NDArray[Any]:
        """Begin anew in every environment and return the observations `[N, *shape]`."""

    def step(self, actions: NDArray[Any]) -> StepResult:
        """Step every environment with its action `[N, ...]`, as its space says."""

    def close(self) -> None:
        """Close the environments."""


class EnvStepper:
    """Steps a vector environment, hides its autoreset mode and shows its observations as they are stored.

    `NEXT_STEP` (Gymnasium's default) spends a step on the reset after an episode's end; that step is no
    transition and comes back with `valid` False. `SAME_STEP` resets at once and hands the final observation
    over aside. `DISABLED` leaves the reset to the caller; it is done here. An EnvironmentCheckError says what
    is wrong with the environment: no mode told, observations of no supported kind, a mask that is misshapen
    or leaves no action, observations or rewards that can't be used.
    """

    def __init__(self, vector_env: Vector, info_keys: Sequence[str] = ()) -> None:
        mode = vector_env.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise EnvironmentCheckError(
                f"The vector environment {vector_env} does not say how it resets (autoreset_mode: {mode!r}).",
                "Set metadata['autoreset_mode'] to a gymnasium.vector.AutoresetMode in its class.",
            )
        self.vector_env = vector_env
        self.num_envs = vector_env.num_envs
        self._info_keys = info_keys
        self.mask: Mask | None = None
        self._observation = observation_from_space(vector_env.single_observation_space)
        self._check = ObservationCheck(self._observation)
        self._mode = mode
        self._sizes: tuple[int, ...] = ()
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        self._all_valid, self._nobody = np.ones(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_)
        self._all_valid.flags.writeable = self._nobody.flags.writeable = False

    def reset(self, seed: int | None = None) -> NDArray[Any]:
        """Begin anew in every environment and return the observations `[N, *shape]`."""
        obs, info = self.vector_env.reset(seed=seed)
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        self.mask = None
        if gives_masks(info):
            self._sizes = action_from_space(self.vector_env.single_action_space).sizes
        if self._sizes and gives_masks(info):
            self.mask = self._usable(self._masks(info), self._ended)
        return self._read(obs)

    def _read(self, obs: Any) -> NDArray[Any]:
        """Return observations `[N, *shape]` as they are stored, if they can be learned from."""
        read = self._observation.read(obs, self.num_envs)
        self._check(read)
        return read

    def step(self, actions: NDArray[Any]) -> StepResult:
        """Step every environment with its action `[N, ...]`, which a step of a reset passes over."""
        obs, reward, terminated, truncated, info = self.vector_env.step(actions)
        obs = self._read(obs)
        with np.errstate(over="ignore"):  # what is too large is told
            reward = np.asarray(reward, dtype=np.float32)
        check_rewards(reward)
        terminated = np.asarray(terminated, dtype=np.bool_)
        truncated = np.asarray(truncated, dtype=np.bool_)
        ended = terminated | truncated
        by_human = self._by_human(info, ended)
        result = self._result(obs, reward, terminated, truncated, by_human, info)
        return result._replace(info=self._told(info, ended)) if self._info_keys else result

    def _result(
        self,
        obs: NDArray[Any],
        reward: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        by_human: NDArray[np.bool_],
        info: dict[str, Any],
    ) -> StepResult:
        ended = terminated | truncated
        if self._mode is AutoresetMode.NEXT_STEP:
            valid = ~self._ended
            self._ended = ended
            result = StepResult(obs, reward, terminated, truncated, valid, obs, by_human)
            return self._masked(result, info, info)
        if not np.count_nonzero(ended):
            result = StepResult(obs, reward, terminated, truncated, self._all_valid, obs, by_human)
            return self._masked(result, info, info)
        if self._mode is AutoresetMode.SAME_STEP:
            next_obs, reset_obs, after = self._with_final(obs, ended, info), obs, info
            before = info.get("final_info", {})
        else:
            next_obs, before = obs.copy(), info
            begun, after = self.vector_env.reset(options={"reset_mask": ended})
            reset_obs = self._read(begun)
        result = StepResult(next_obs, reward, terminated, truncated, self._all_valid, reset_obs, by_human)
        return self._masked(result, before, after)

    def _with_final(self, obs: NDArray[Any], ended: NDArray[np.bool_], info: dict[str, Any]) -> NDArray[Any]:
        """Put the final observations of the ended episodes in place of the first ones of the next."""
        next_obs = obs.copy()
        for index in np.flatnonzero(ended):
            next_obs[index] = self._observation.read(info["final_obs"][index])
        self._check(next_obs)
        return next_obs

    def _masked(self, result: StepResult, before: dict[str, Any], after: dict[str, Any]) -> StepResult:
        """Add the masks to a step, if the environments tell any."""
        if self.mask is None:
            return result
        ended = (result.terminated | result.truncated) & result.valid
        following = self._masks(after)
        if before is after:  # an environment that has ended is reset in the next step, if at all
            masks = self._usable(following, ended)
            self.mask = masks
            return result._replace(next_mask=masks, reset_mask=masks)
        of_step = self._masks(before)
        if self._mode is AutoresetMode.SAME_STEP:
            of_step = np.where(ended[:, None], of_step, following)
        else:
            following = np.where(ended[:, None], following, of_step)
        self.mask = self._usable(following, np.zeros_like(ended))
        return result._replace(next_mask=self._usable(of_step, ended), reset_mask=self.mask)

    def _masks(self, info: dict[str, Any]) -> Mask:
        return read_masks(info, self.num_envs, sum(self._sizes))

    def _usable(self, masks: Mask, ended: NDArray[np.bool_]) -> Mask:
        """Return masks that leave an action everywhere: at an end, where nobody acts, any will do."""
        stuck = ~action_left(masks, self._sizes)
        if (stuck & ~ended).any():
            raise EnvironmentCheckError(
                f"{self.vector_env} says that no action is valid, although its episode continues.",
                "info['action_mask'] must leave at least one action until the episode ends.",
            )
        usable: Mask = masks | stuck[:, None]
        return usable

    def _by_human(self, info: dict[str, Any], ended: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return in which environments a person played the step `[N]`, as their infos say."""
        final = info.get("final_info")
        if HUMAN not in info and (final is None or HUMAN not in final):
            return self._nobody
        found = np.asarray(info.get(HUMAN, False), np.bool_)
        if self._mode is AutoresetMode.SAME_STEP:
            # Where an episode ended, the info is already that of the reset.
            found = np.where(ended, (final or {}).get(HUMAN, False), found)
        return np.broadcast_to(found.astype(np.bool_), self.num_envs).copy()

    def _told(self, info: dict[str, Any], ended: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return what the infos of the step told `[N, K]`."""
        found = read_info(info, self._info_keys, self.num_envs)
        if self._mode is AutoresetMode.SAME_STEP and np.count_nonzero(ended):
            # Where an episode ended, the info is already that of the reset.
            final = read_info(info.get("final_info") or {}, self._info_keys, self.num_envs)
            found[ended] = final[ended]
        return found

    def close(self) -> None:
        """Close the environments."""
        self.vector_env.close()


def read_info(info: Mapping[str, Any], keys: Sequence[str], num_envs: int) -> NDArray[np.float64]:
    """Return numbers of a vector environment's infos `[N, K]`, NaN where none was told.

    Args:
        info: The infos, as Gymnasium joins them: an array for each key, and which are told under `_key`.
        keys: Their keys; `a.b` is b within a.
        num_envs: N.
    """
    found = np.full((num_envs, len(keys)), np.nan)
    for column, key in zip(found.T, keys, strict=True):
        node: Any = info
        *parents, name = key.split(".")
        for parent in parents:
            node = node.get(parent) if isinstance(node, Mapping) else None
        if not isinstance(node, Mapping) or name not in node:
            continue
        try:
            values = np.asarray(node[name], np.float64)
        except (TypeError, ValueError, OverflowError):
            continue  # words, or nothing that is one number
        told = np.asarray(node.get(f"_{name}", True), np.bool_)
        if values.shape == (num_envs,) and told.shape in ((), (num_envs,)):
            column[:] = np.where(told, values, np.nan)
    return found


_TOLERANCE = 0.1


class StepClock:
    """Says when the next step may be made, and counts the steps that came late.

    Args:
        step_s: Time from the beginning of a step to that of the next one, seconds; 0 for no clock.
        delay_s: Least pause between the end of a step and the beginning of the next one, seconds.
        sleep: Waits for so many seconds; a wait that ends earlier, to stop, is no late step.

    Attributes:
        late_steps: Steps that began more than a tenth of a step after their time. The clock then begins anew
            with that step: what was missed is not made up for.
    """

    def __init__(
        self,
        step_s: float,
        delay_s: float = 0.0,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.late_steps = 0
        self._step_s = step_s
        self._delay_s = delay_s
        self._now = now
        self._sleep = sleep
        self._due: float | None = None

    def begin(self) -> None:
        """The next step comes after a pause that nobody could help: it is on time whenever it comes."""
        self._due = None

    def wait(self) -> None:
        """Wait until the next step is to be made."""
        if self._delay_s:
            self._sleep(self._delay_s)
        if not self._step_s:
            return
        now = self._now()
        due = now if self._due is None else self._due
        if now < due:
            self._sleep(due - now)
        elif now > due + _TOLERANCE * self._step_s:
            self.late_steps += 1
            due = now
        self._due = due + self._step_s
