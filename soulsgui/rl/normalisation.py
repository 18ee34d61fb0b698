"""Rewards and values near 1, whatever the numbers of an environment are."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.config.sections.network import NormalizeSettings
from soulsgui.errors import CheckpointError
from soulsgui.experience.segments import Segments
from soulsgui.policies.normalise import EPSILON, RunningNormaliser
from soulsgui.rl.returns import gae

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Lengths = NDArray[np.integer[Any]]
Arrays = dict[str, NDArray[Any]]
Tails = list[list[Any]]

_NAME = "rewards"


class _Tail(NamedTuple):
    """How far an episode that goes on has come: its number, its next step, its discounted rewards so far."""

    episode: int
    step: int
    total: float


class RewardScaler:
    """Divides rewards by the standard deviation of `R_t = gamma R_{t-1} + r_t`, over all steps seen.

    R begins with 0 in each episode and goes on over the segments of one (Engstrom et al. 2020, arXiv
    2005.12729, section 3, "reward scaling"; detail 8 for continuous actions of "The 37 implementation details
    of PPO"). The mean is left where it is: to shift rewards would change what is worth doing.
    """

    def __init__(self) -> None:
        self._statistics = RunningNormaliser(1, math.inf)
        self._tails: dict[int, _Tail] = {}

    @property
    def std(self) -> float:
        """Standard deviation of the discounted return; 1 before the first one."""
        return math.sqrt(float(self._statistics.var[0]) + EPSILON)

    def observe(self, segments: Segments, gamma: float) -> None:
        """Take the rewards of segments into the statistics, in any order.

        Each one begins anew where no `source` says where they come from.
        """
        count, source = segments.count, segments.source
        if not count:
            return
        order, carried = np.arange(count), np.zeros(count)
        begins = np.ones(count, np.bool_)
        if source is not None:
            order = np.lexsort((segments.first_step, segments.episode, source))
            origin = source[order], segments.episode[order], segments.first_step[order]
            begins = ~_goes_on(*origin, segments.length[order])
            told = zip(*(column.tolist() for column in origin), strict=True)
            carried = np.array([self._carried(*numbers) for numbers in told])
        size = segments.length[order]
        first = np.cumsum(size) - size
        steps = np.arange(segments.steps) + np.repeat(segments.starts[order] - first, size)
        rewards = segments.reward[steps].astype(np.float64)
        rewards[first[begins]] += gamma * carried[begins]
        totals = _discounted(rewards, first[begins], gamma)
        self._statistics.update(totals[:, None])
        if source is not None:
            columns = (*origin, size, segments.ended[order], totals[first + size - 1])
            for whose, episode, step, steps_of, over, total in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                self._tails.pop(whose, None)
                if not over:
                    self._tails[whose] = _Tail(episode, step + steps_of, total)

    def scaled(self, reward: NDArray[Any]) -> Floats:
        """Return rewards by the present deviation."""
        scaled: Floats = reward.astype(np.float32) / np.float32(self.std)
        return scaled

    def _carried(self, source: int, episode: int, first_step: int) -> float:
        tail = self._tails.get(source)
        return tail.total if tail is not None and tail[:2] == (episode, first_step) else 0.0

    def state(self) -> tuple[Arrays, Tails]:
        """Return what a bit-equal continuation needs: arrays, and JSON-able data."""
        return self._statistics.state(), [[source, *tail] for source, tail in self._tails.items()]

    def load(self, state: Mapping[str, NDArray[Any]], tails: Tails) -> None:
        """Continue from what `state` returned."""
        self._statistics.load(state)
        self._tails = _tails(tails)


class Rewards:
    """The rewards of an agent: the environment's, as `normalize.rewards` and `reward_clip` change them."""

    def __init__(self, settings: NormalizeSettings) -> None:
        self._settings = settings
        self._scaler = RewardScaler() if settings.rewards else None

    @property
    def changes(self) -> bool:
        """Whether they differ from those of the environment."""
        return self._scaler is not None or self._settings.reward_clip is not None

    def learned_from(self, segments: Segments, gamma: float) -> Floats:
        """Take rewards into the statistics, if there are any, and return what is learned from, `[N]`.

        That is divided by the deviation of the discounted return, these steps included, then limited.
        """
        rewards: Floats = segments.reward.astype(np.float32, copy=False)
        if self._scaler is not None:
            self._scaler.observe(segments, gamma)
            rewards = self._scaler.scaled(rewards)
        limit = self._settings.reward_clip
        return rewards if limit is None else np.clip(rewards, np.float32(-limit), np.float32(limit))

    def figures(self) -> dict[str, float]:
        """Return what there is to see of it on the curves: `reward_std`."""
        return {} if self._scaler is None else {"reward_std": self._scaler.std}

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return what a bit-equal continuation needs, by names of its own: arrays, and JSON-able data."""
        if self._scaler is None:
            return {}, {}
        arrays, tails = self._scaler.state()
        return {f"{_NAME}.{name}": array for name, array in arrays.items()}, {_NAME: tails}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of `state`, by name."""
        return {name: array.shape for name, array in self.state()[0].items()}

    def check(self, meta: Mapping[str, Any]) -> None:
        """Make sure that the JSON-able data of a state can be read.

        Raises:
            CheckpointError: Something is missing in it, or is not what it should be.
        """
        if self._scaler is None:
            return
        try:
            _tails(meta[_NAME])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"The rewards of unfinished episodes can't be read: {error!r}.",
                "Resume from an older checkpoint.",
            ) from error

    def load(self, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        if self._scaler is not None:
            names = self._scaler.state()[0]
            self._scaler.load({name: tensors[f"{_NAME}.{name}"] for name in names}, meta[_NAME])


def _tails(told: Tails) -> dict[int, _Tail]:
    """Read how far episodes have come; a TypeError or ValueError where it can't be read."""
    return {int(one): _Tail(int(episode), int(step), float(total)) for one, episode, step, total in told}


def _goes_on(source: Ints, episode: Ints, first_step: Ints, size: Lengths) -> Bools:
    """Return which segments `[S]`, in order, go on where the ones before them ended."""
    goes_on: Bools = np.zeros(len(size), np.bool_)
    goes_on[1:] = (
        (source[1:] == source[:-1])
        & (episode[1:] == episode[:-1])
        & (first_step[1:] == (first_step + size)[:-1])
    )
    return goes_on


def _discounted(rewards: NDArray[np.float64], first: Ints, gamma: float) -> Floats:
    """Return `R_t = gamma R_{t-1} + r_t` `[N]`, anew from each of the first steps: a GAE back in time."""
    begins = np.zeros(len(rewards), np.bool_)
    begins[first] = True
    nothing, never = np.zeros(len(rewards)), np.zeros(len(rewards), np.bool_)
    return gae(rewards[::-1], nothing, nothing, never, begins[::-1], 1.0, gamma)[::-1]


_LEAST_STD = 1e-6


class ValueNormaliser:
    """Turns what the value network says into values, and value targets into what it is to say.

    With mean m and deviation s of all targets: `value = m + s * output`. Before the first targets the value
    is the output.
    """

    def __init__(self) -> None:
        self._statistics = RunningNormaliser(1, math.inf)

    @property
    def mean(self) -> float:
        """Mean of all targets."""
        return float(self._statistics.mean[0])

    @property
    def std(self) -> float:
        """Standard deviation of all targets, at least 1e-6."""
        return max(math.sqrt(float(self._statistics.var[0])), _LEAST_STD)

    def update(self, targets: NDArray[Any]) -> None:
        """Take value targets `[N]` into the statistics."""
        self._statistics.update(targets[:, None])

    def values(self, outputs: NDArray[Any]) -> Doubles:
        """Return the values `[N]` of the network's outputs `[N]`."""
        values: Doubles = outputs.astype(np.float64) * self.std + self.mean
        return values

    def outputs(self, values: NDArray[Any]) -> Floats:
        """Return what the network says, or is to say, `[N]`, where the values are `[N]`."""
        return ((values - self.mean) / self.std).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that a bit-equal continuation needs."""
        return self._statistics.state()

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned."""
        self._statistics.load(state)
