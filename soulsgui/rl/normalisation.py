"""Rewards and values near 1, whatever the numbers of an environment are."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.config.sections.network import NormalizeSettings
from soulsgui.errors import CheckpointError
from soulsgui.policies.normalise import EPSILON, RunningNormaliser
from soulsgui.rl.returns import gae

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Lengths = NDArray[np.integer[Any]]
Arrays = dict[str, NDArray[Any]]
Tails = list[list[Any]]

_NAME = "rewards"


class Origin(NamedTuple):
    """Where `S` segments come from.

    | field | shape, dtype | meaning |
    |---|---|---|
    | source | `[S]` int64 | a number for each environment of each client's session |
    | episode | `[S]` int64 | number of the episode within its source |
    | first_step | `[S]` int64 | number of the segment's first step within its episode |
    """

    source: Ints
    episode: Ints
    first_step: Ints


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

    def observe(
        self, reward: NDArray[Any], lengths: Lengths, ended: Bools, origin: Origin | None, gamma: float
    ) -> None:
        """Take the rewards of segments into the statistics.

        Args:
            reward: `[N]`, segment after segment.
            lengths: Steps of each, `[S]`.
            ended: `[S]`: the segment's last step ended its episode.
            origin: Where they come from, in any order; None: each one begins anew.
            gamma: Discount factor.
        """
        if not len(lengths):
            return
        if origin is None:
            begins = np.ones(len(lengths), np.bool_)
            order, carried = np.arange(len(lengths)), np.zeros(len(lengths))
        else:
            order = np.lexsort((origin.first_step, origin.episode, origin.source))
            origin = Origin(*(column[order] for column in origin))
            begins = ~_goes_on(origin, lengths[order])
            carried = np.array([self._carried(*numbers) for numbers in zip(*_lists(origin), strict=True)])
        starts = np.cumsum(lengths) - lengths
        size = lengths[order]
        first = np.cumsum(size) - size
        rewards = reward[np.arange(int(size.sum())) + np.repeat(starts[order] - first, size)]
        rewards = rewards.astype(np.float64)
        rewards[first[begins]] += gamma * carried[begins]
        totals = _discounted(rewards, first[begins], gamma)
        self._statistics.update(totals[:, None])
        if origin is not None:
            last = totals[first + size - 1].tolist()
            self._keep(origin, size, ended[order], last)

    def scaled(self, reward: NDArray[Any]) -> Floats:
        """Return rewards by the present deviation."""
        scaled: Floats = reward.astype(np.float32) / np.float32(self.std)
        return scaled

    def _carried(self, source: int, episode: int, first_step: int) -> float:
        tail = self._tails.get(source)
        return tail.total if tail is not None and tail[:2] == (episode, first_step) else 0.0

    def _keep(self, origin: Origin, size: Lengths, ended: Bools, last: list[float]) -> None:
        """Remember how far the episodes that go on have come."""
        told = zip(*_lists(origin), size.tolist(), ended.tolist(), last, strict=True)
        for source, episode, first_step, steps, over, total in told:
            self._tails.pop(source, None)
            if not over:
                self._tails[source] = _Tail(episode, first_step + steps, total)

    def state(self) -> tuple[Arrays, Tails]:
        """Return what a bit-equal continuation needs: arrays, and JSON-able data."""
        return self._statistics.state(), [[source, *tail] for source, tail in self._tails.items()]

    def load(self, state: Mapping[str, NDArray[Any]], tails: Tails) -> None:
        """Continue from what `state` returned."""
        self._statistics.load(state)
        self._tails = _tails(tails)


class Rewards:
    """The rewards of an agent, made of those of the environment as `normalize.rewards` and `reward_clip` say.

    Args:
        settings: Read at each call; the group may be replaced in between, but for `rewards`.
    """

    def __init__(self, settings: NormalizeSettings) -> None:
        self._settings = settings
        self._scaler = RewardScaler() if settings.rewards else None

    @property
    def changes(self) -> bool:
        """Whether they differ from those of the environment."""
        return self._scaler is not None or self._settings.reward_clip is not None

    def learned_from(
        self, reward: NDArray[Any], lengths: Lengths, ended: Bools, origin: Origin | None, gamma: float
    ) -> Floats:
        """Take rewards of segments into the statistics, if there are any, and return what is learned from.

        Args:
            reward: As in `RewardScaler.observe`; likewise the others.
            lengths: See there.
            ended: See there.
            origin: See there.
            gamma: See there.

        Returns:
            `[N]`: divided by the deviation of the discounted return, these steps included, then limited.
        """
        rewards: Floats = reward.astype(np.float32, copy=False)
        if self._scaler is not None:
            self._scaler.observe(rewards, lengths, ended, origin, gamma)
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
            CheckpointError: It can't.
        """
        if self._scaler is None:
            return
        try:
            _tails(meta[_NAME])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"The rewards of episodes that go on can't be read: {error!r}.",
                "Resume from an older checkpoint.",
            ) from error

    def load(self, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        if self._scaler is not None:
            names = self._scaler.state()[0]
            self._scaler.load({name: tensors[f"{_NAME}.{name}"] for name in names}, meta[_NAME])


def _tails(told: Tails) -> dict[int, _Tail]:
    """Read how far episodes have come.

    Raises:
        TypeError, ValueError: It can't be read.
    """
    return {
        int(source): _Tail(int(episode), int(step), float(total)) for source, episode, step, total in told
    }


def _goes_on(origin: Origin, size: Lengths) -> Bools:
    """Return which segments `[S]`, in order, go on where the ones before them ended."""
    goes_on: Bools = np.zeros(len(size), np.bool_)
    goes_on[1:] = (
        (origin.source[1:] == origin.source[:-1])
        & (origin.episode[1:] == origin.episode[:-1])
        & (origin.first_step[1:] == (origin.first_step + size)[:-1])
    )
    return goes_on


def _lists(origin: Origin) -> tuple[list[int], ...]:
    return tuple(column.tolist() for column in origin)


def _discounted(rewards: NDArray[np.float64], first: Ints, gamma: float) -> Floats:
    """Return `R_t = gamma R_{t-1} + r_t` `[N]`, anew from each of the first steps: a GAE back in time."""
    begins = np.zeros(len(rewards), np.bool_)
    begins[first] = True
    nothing, never = np.zeros(len(rewards)), np.zeros(len(rewards), np.bool_)
    return gae(rewards[::-1], nothing, nothing, never, begins[::-1], 1.0, gamma)[::-1]


Doubles = NDArray[np.float64]

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
