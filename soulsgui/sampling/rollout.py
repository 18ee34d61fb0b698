"""Stepping the environments with the present policy and cutting what happens into segments."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.realtime import StepClock
from soulsgui.environments.spaces import ObservationSpec
from soulsgui.environments.step import Stepper, StepResult
from soulsgui.errors import EnvironmentCheckError, EnvironmentFault
from soulsgui.policies.remembered import Remembered
from soulsgui.sampling.bounds import Bounds
from soulsgui.sampling.segments import SegmentRecorder
from soulsgui.sampling.turn import Act
from soulsgui.wire.messages.chunk import Segments

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinishedEpisode:
    """An episode that ended in one of the environments; a greedy one is none of the training."""

    env_index: int
    total_return: float
    length: int
    terminated: bool
    seconds: float
    greedy: bool = False
    cut: bool = False


class Aside(Protocol):
    """Plays episodes in the first environment that are not recorded.

    Attributes:
        active: Whether the episode that is under way there is one of them.
        longest: Steps after which it is cut.
    """

    active: bool
    longest: int

    def at_start(self) -> None:
        """An episode begins there with the next step: decide what it is to be. Said again until it has."""


class Rollout:
    """Plays several environments side by side.

    Args:
        stepper: The environments.
        observation: Space of one observation; values outside its bounds are moved onto them.
        segment_length: Longest segment.
        seed: Seed of the environments and of the actions.
        on_episode: Called with each finished episode that no person played in.
        clock: The pace of the steps; None for as fast as it goes.
        masked_actions: Number of actions, where the run knows of masks; 0 where it does not.
        action_shape: Shape of one stored action.
        action_dtype: Its dtype.
        to_environment: Turns stored actions `[N, *action_shape]` into what the environments take; None where
            both are the same.
        remembered: What the policy remembers of the environments; None where it remembers nothing.
        aside: Whose episodes in the first environment are not recorded; None where all are.

    Attributes:
        human_steps: Steps that a person played; they are not recorded.
        open_steps: Transitions that were collected and are not cut into segments yet.
    """

    def __init__(
        self,
        stepper: Stepper,
        observation: ObservationSpec,
        segment_length: int,
        seed: int,
        on_episode: Callable[[FinishedEpisode], None],
        clock: StepClock | None = None,
        masked_actions: int = 0,
        action_shape: tuple[int, ...] = (),
        action_dtype: str = "int64",
        to_environment: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
        remembered: Remembered | None = None,
        aside: Aside | None = None,
    ) -> None:
        self._aside = aside
        self._to_environment = to_environment
        self._clock = clock or StepClock(0.0)
        self._stepper = stepper
        self._rng = np.random.default_rng(seed)
        self._on_episode = on_episode
        self._within = Bounds(observation)
        self._remembered = Remembered() if remembered is None else remembered
        self._remembered.begin(stepper.num_envs)
        self._recorder = SegmentRecorder(
            stepper.num_envs,
            observation.shape,
            observation.dtype,
            segment_length,
            masked_actions,
            action_shape,
            action_dtype,
            self._remembered.shapes,
        )
        self.open_steps = 0
        self.human_steps = 0
        num_envs = stepper.num_envs
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)
        self._by_human = np.zeros(num_envs, np.bool_)
        self._began = np.full(num_envs, time.monotonic())
        self._masked = masked_actions > 0
        self._seed = seed
        self._obs: NDArray[Any] | None = None

    def begin_anew(self, stepper: Stepper) -> None:
        """Begin new episodes in all environments; those under way are broken off, and never told of.

        Args:
            stepper: As many environments of the same kind: new ones, or the same.
        """
        self._stepper = stepper
        self._recorder.break_off()
        self._remembered.begin(stepper.num_envs)
        self._returns[:], self._lengths[:], self._by_human[:] = 0.0, 0, False
        # The same seed would lead to where the old ones failed.
        self._seed = int(self._rng.integers(2**31))
        self._obs = None

    def _reset(self) -> NDArray[Any]:
        """Begin the first episodes and return their observations `[N, *shape]`.

        Raises:
            EnvironmentCheckError: The environments tell of valid actions and the run does not, or the other
                way round.
        """
        obs = self._within(self._stepper.reset(seed=self._seed))
        self._began[:] = time.monotonic()
        if (self._stepper.mask is not None) != self._masked:
            here, there = ("on the server", "here") if self._masked else ("here", "on the server")
            raise EnvironmentCheckError(
                f"The environment gives action masks {here}, but not {there}.",
                "Install the same version of the environment's package on both.",
            )
        return obs

    def play(
        self,
        act: Act,
        model_id: int,
        digest: int,
        most: int,
        go_on: Callable[[], bool],
        hold_s: float = math.inf,
    ) -> Iterator[Segments]:
        """Play until exactly `most` transitions were collected, yielding segments on the way.

        What was collected before an early end is yielded too: nothing of it may appear among the steps of
        the next weights.

        Args:
            act: Chooses the actions.
            model_id: Id of its weights.
            digest: First 8 bytes of their hash.
            most: Transitions to collect over all environments.
            go_on: Asked before each step; False ends early.
            hold_s: Longest time between a step and the cut after it, seconds; looked at after each step.

        Raises:
            EnvironmentFault: An environment failed; what was collected before was yielded.
        """
        left, due = most, math.inf
        self._clock.begin()
        recorder = self._recorder
        while left > 0 and go_on():
            if not recorder.length:
                due = time.monotonic() + hold_s
            try:
                left -= self._step(act, left)
            except EnvironmentFault:
                yield from self._cut(model_id, digest)
                raise
            endless = self._aside_is_endless
            if endless or recorder.length == recorder.capacity or time.monotonic() >= due:
                yield from self._cut(model_id, digest)
            if endless:
                self._end_aside()
        yield from self._cut(model_id, digest)

    def end_episodes(self, act: Act, go_on: Callable[[], bool]) -> bool:
        """Step on until every environment has ended the episode it is in; nothing of it is recorded.

        Environments that have ended theirs go on with the next one meanwhile, which is not told of.

        Args:
            act: Chooses the actions.
            go_on: Asked before each step; False ends early.

        Returns:
            Whether all have ended.
        """
        waiting = self._lengths > 0
        while waiting.any():
            if not go_on():
                return False
            self._step(act, 0, told=waiting)
            self._recorder.cut(0, 0)
            waiting &= self._lengths > 0
        return True

    def _cut(self, model_id: int, digest: int) -> Iterator[Segments]:
        segments = self._recorder.cut(model_id, digest)
        self.open_steps = 0
        if segments is not None:
            yield segments

    def _step(self, act: Act, left: int, told: NDArray[np.bool_] | None = None) -> int:
        """Step every environment once; return how many transitions were kept.

        Args:
            act: Chooses the actions.
            left: Keep at most so many.
            told: Environments `[N]` whose episodes are told of when they end; None for all.
        """
        if self._obs is None:
            self._obs = self._reset()
        if self._aside is not None and not self._lengths[0]:
            self._aside.at_start()
        obs, mask = self._obs, self._stepper.mask
        before = dict(self._remembered.fields)
        action, log_prob = act(obs, self._rng, mask)
        self._clock.wait()
        convert = self._to_environment
        result = self._stepper.step(action if convert is None else convert(action))
        if self._within.bounded:
            result = self._moved_within(result)
        keep = result.valid
        if np.count_nonzero(result.by_human):
            self._by_human |= result.by_human
            self.human_steps += int(np.count_nonzero(result.by_human & keep))
            keep = keep & ~result.by_human
        if self._plays_aside:
            keep = keep.copy()
            keep[0] = False
        kept = int(np.count_nonzero(keep))
        if kept > left:
            keep = keep & (np.cumsum(keep) <= left)
            kept = left
        self._recorder.add(obs, action, log_prob, result, keep, mask, before)
        if before:
            # A step that only reset an environment has shown the last observation once more.
            self._remembered.forget(result.terminated | result.truncated | ~result.valid)
        self._count(result, told)
        self._obs = result.reset_obs
        self.open_steps += kept
        return kept

    @property
    def _plays_aside(self) -> bool:
        return self._aside is not None and self._aside.active

    @property
    def _aside_is_endless(self) -> bool:
        return self._aside is not None and self._aside.active and self._lengths[0] >= self._aside.longest

    def _end_aside(self) -> None:
        """Cut an episode that would never end. Environments begin anew all together: the training episodes
        of the others are broken off, and not told of."""
        logger.warning(
            "a greedy episode did not end and is cut at %d steps (evaluation.max_steps): "
            "the environment sets no limit",
            self._lengths[0],
        )
        self._tell(0, terminated=False, now=time.monotonic(), cut=True)
        self.begin_anew(self._stepper)

    def _moved_within(self, result: StepResult) -> StepResult:
        next_obs = self._within(result.next_obs)
        # Mostly both are the same: they differ where an episode ended.
        same = result.reset_obs is result.next_obs
        return result._replace(
            next_obs=next_obs, reset_obs=next_obs if same else self._within(result.reset_obs)
        )

    def _count(self, result: StepResult, told: NDArray[np.bool_] | None) -> None:
        np.add(self._returns, result.reward, out=self._returns, where=result.valid)
        self._lengths += result.valid
        ended = (result.terminated | result.truncated) & result.valid
        if np.count_nonzero(ended):
            now = time.monotonic()
            wanted = ended & ~self._by_human
            for env in np.flatnonzero(wanted if told is None else wanted & told):
                self._tell(int(env), bool(result.terminated[env]), now)
            self._began[ended] = now
            self._returns[ended] = 0.0
            self._lengths[ended] = 0
            self._by_human[ended] = False

    def _tell(self, env: int, terminated: bool, now: float, cut: bool = False) -> None:
        self._on_episode(
            FinishedEpisode(
                env_index=env,
                total_return=float(self._returns[env]),
                length=int(self._lengths[env]),
                terminated=terminated,
                seconds=float(now - self._began[env]),
                greedy=env == 0 and self._plays_aside,
                cut=cut,
            )
        )

    def close(self) -> None:
        """Close the environments."""
        self._stepper.close()
