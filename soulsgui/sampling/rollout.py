"""Stepping the environments with the present policy and cutting what happens into segments."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.config.metrics import EpisodeMetric
from soulsgui.environments.choices import Mask
from soulsgui.environments.observations import ObservationSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import StepClock, Stepper, StepResult
from soulsgui.errors import EnvironmentCheckError, EnvironmentFault
from soulsgui.experience.frame_stacks import field_of
from soulsgui.experience.segments import Segments
from soulsgui.policies.numpy_recurrent import Remembered
from soulsgui.sampling.episode_values import EpisodeValues
from soulsgui.sampling.greedy import GreedyEvaluation
from soulsgui.sampling.segments import SegmentRecorder

if TYPE_CHECKING:
    from soulsgui.sampling.remote import RemotePolicy

logger = logging.getLogger(__name__)

Act = Callable[[NDArray[Any], np.random.Generator, Mask | None], tuple[NDArray[Any], NDArray[np.float32]]]
"""Chooses actions `[N, ...]` at observations `[N, *shape]`, as they are stored, and tells their
log-probabilities `[N]`.

The last argument says which actions are valid `[N, A]`; None: all are.
"""


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
    metrics: dict[str, float] = field(default_factory=dict)


class Rollout:
    """Plays several environments side by side.

    `to_environment` turns stored actions `[N, …]` into what the environments take. Steps of a person, and
    greedy episodes in the first environment, are not recorded; `on_episode` hears of episodes without them.
    """

    def __init__(
        self,
        stepper: Stepper,
        spaces: SpacesSpec,
        segment_length: int,
        seed: int,
        on_episode: Callable[[FinishedEpisode], None],
        clock: StepClock | None = None,
        to_environment: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
        remembered: Remembered | None = None,
        greedy: GreedyEvaluation | None = None,
        recorder: "RemotePolicy | None" = None,
        metrics: Mapping[str, EpisodeMetric] | None = None,
    ) -> None:
        num_envs = stepper.num_envs
        self._values = EpisodeValues(metrics or {}, num_envs)
        self._greedy = greedy
        self._to_environment = to_environment
        self._clock = clock or StepClock(0.0)
        self._stepper = stepper
        self._rng = np.random.default_rng(seed)
        self._on_episode = on_episode
        self._within = Bounds(spaces.observation)
        self._remembered = remembered or Remembered()
        self._remembered.begin(num_envs)
        self._recorder = recorder or SegmentRecorder(
            num_envs, spaces, segment_length, self._remembered.shapes
        )
        self.open_steps = self.human_steps = 0
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)
        self._by_human = np.zeros(num_envs, np.bool_)
        self._began = np.full(num_envs, time.monotonic())
        self._masked = spaces.masked_actions > 0
        self._seed = seed
        self._obs: NDArray[Any] | None = None

    def begin_anew(self, stepper: Stepper) -> None:
        """Begin new episodes in all environments; those under way are given up without a report."""
        self._stepper = stepper
        self._recorder.break_off()
        self._remembered.begin(stepper.num_envs)
        self._returns[:], self._lengths[:], self._by_human[:] = 0.0, 0, False
        for env in range(stepper.num_envs):
            self._values.begin(env)
        # The same seed would lead to where the old ones failed.
        self._seed = int(self._rng.integers(2**31))
        self._obs = None

    @property
    def begun(self) -> bool:
        """Whether there is an episode that could be looked at."""
        return self._obs is not None

    def _reset(self) -> NDArray[Any]:
        """Begin the first episodes and return their observations `[N, *shape]`."""
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

        What was collected before an early end, or a fault of the environment, is yielded too: it does not
        belong to the next weights. A step is held for at most `hold_s` before it is yielded.
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
            greedy = self._greedy
            endless = greedy is not None and greedy.active and self._lengths[0] >= greedy.longest
            if endless or recorder.length == recorder.capacity or time.monotonic() >= due:
                yield from self._cut(model_id, digest)
            if endless:
                self._cut_greedy()
        yield from self._cut(model_id, digest)

    def end_episodes(self, act: Act, go_on: Callable[[], bool]) -> bool:
        """Step on, unrecorded, until every environment has ended its episode; return whether all have.

        Environments that have ended theirs go on with the next one meanwhile, which is not told of.
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
        """Step every environment once; return how many steps were kept (`told`: whose episodes count)."""
        if self._obs is None:
            self._obs = self._reset()
        if self._greedy is not None and not self._lengths[0]:
            self._greedy.at_start()
        obs, mask = self._obs, self._stepper.mask
        before = dict(self._remembered.fields)
        action, log_prob = act(obs, self._rng, mask)
        self._clock.wait()
        convert = self._to_environment
        result = self._stepper.step(action if convert is None else convert(action))
        if self._within.bounded:
            next_obs = reset_obs = self._within(result.next_obs)
            if result.reset_obs is not result.next_obs:  # an episode ended
                reset_obs = self._within(result.reset_obs)
            result = result._replace(next_obs=next_obs, reset_obs=reset_obs)
        keep = result.valid
        if np.count_nonzero(result.by_human):
            self._by_human |= result.by_human
            self.human_steps += int(np.count_nonzero(result.by_human & keep))
            keep = keep & ~result.by_human
        if self._plays_greedy:
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
    def _plays_greedy(self) -> bool:
        return self._greedy is not None and self._greedy.active

    def _cut_greedy(self) -> None:
        """Cut a greedy episode that would never end; the training episodes beside it are given up."""
        logger.warning(
            "a greedy episode did not end and is cut at %d steps (evaluation.max_steps): "
            "the environment sets no limit",
            self._lengths[0],
        )
        self._tell(0, terminated=False, now=time.monotonic(), cut=True)
        self.begin_anew(self._stepper)

    def _count(self, result: StepResult, told: NDArray[np.bool_] | None) -> None:
        np.add(self._returns, result.reward, out=self._returns, where=result.valid)
        self._lengths += result.valid
        if result.info is not None:
            for env in np.flatnonzero(result.valid):
                self._values.add(int(env), result.info[env].tolist())
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
            for env in np.flatnonzero(ended):
                self._values.begin(int(env))

    def _tell(self, env: int, terminated: bool, now: float, cut: bool = False) -> None:
        total, length = float(self._returns[env]), int(self._lengths[env])
        seconds = float(now - self._began[env])
        known = {"return": total, "length": float(length), "seconds": seconds}
        self._on_episode(
            FinishedEpisode(
                env_index=env,
                total_return=total,
                length=length,
                terminated=terminated,
                seconds=seconds,
                metrics=self._values.of(env, **known),
                greedy=env == 0 and self._plays_greedy,
                cut=cut,
            )
        )


class Bounds:
    """Moves values outside the bounds of a space onto them; unbounded spaces pass as they are."""

    def __init__(self, space: ObservationSpec) -> None:
        fields = [(name, box) for name, box in space.fields if box.low is not None or box.high is not None]
        self.bounded = bool(fields)
        self._limits = [(name, *box.limits) for name, box in fields]
        self._alone = len(space.fields) == 1

    def __call__(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Return observations `[N, *shape]` within their bounds."""
        if not self.bounded:
            return obs
        if self._alone:
            ((_, low, high),) = self._limits
            # Twice as fast as `numpy.clip` where there are few.
            within: NDArray[Any] = np.minimum(np.maximum(obs, low), high)
            return within
        found = obs.copy()
        for name, low, high in self._limits:
            values = field_of(found, name)
            values[:] = np.minimum(np.maximum(values, low), high)
        return found
