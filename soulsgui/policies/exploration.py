"""How clients explore: by chance, by values, by noise in the weights; and numbers that change over a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.config.declaring import Points, Scheduled, parsed
from soulsgui.policies.policy import Floats, Mask, Policy
from soulsgui.policies.value_based import draw, only_valid

Ints = NDArray[np.int64]


def epsilon_greedy(
    policy: Policy,
    obs: NDArray[Any],
    rng: np.random.Generator,
    epsilon: float | NDArray[np.float64],
    mask: Mask | None = None,
) -> tuple[Ints, Floats]:
    """Act greedily, but with probability ε take any of the `n` actions, all alike (arXiv 1312.5602, alg. 1).

    The greedy action can be hit by chance too, so that it has probability `1 - ε + ε / n` and every other one
    `ε / n`. Where there is a mask, only the valid actions count, also in `n`. How many numbers are drawn does
    not depend on ε, which is one for all, or one for each observation `[B]`.

    Returns:
        Actions `[B]` int64, and `[B]` float32 the log-probability that this rule takes them.

    Raises:
        ValueError: ε is no probability.
    """
    if not np.min(epsilon * (1.0 - epsilon)) >= 0.0:
        raise ValueError(f"epsilon must lie between 0 and 1, not at {epsilon}")
    greedy = policy.greedy(obs, mask)
    actions: int | Ints = policy.num_actions if mask is None else np.count_nonzero(mask, axis=1)
    by_chance = epsilon / actions
    drawn, which = rng.random((2, len(obs)))
    exploring = drawn < epsilon
    if not np.count_nonzero(exploring):  # mostly: of each step of a few environments this is a good part
        return greedy, np.full(len(obs), np.log(1.0 - epsilon + by_chance), np.float32)
    index = (which * actions).astype(np.int64)
    if mask is not None:  # the n-th valid action is where the n-th one is counted first
        index = (np.cumsum(mask, axis=1) > index[:, None]).argmax(axis=1)
    chosen = np.where(exploring, index + policy.first_action, greedy)
    # Written as probabilities first: the log of the one that can't occur at ε = 0 is never taken.
    probability = np.where(chosen == greedy, 1.0 - epsilon + by_chance, by_chance)
    return chosen, np.log(probability).astype(np.float32)


@lru_cache(maxsize=4)  # asked for at each step, and mostly of the same
def ladder(epsilon: float, first: int, many: int, count: int, exponent: float) -> NDArray[np.float64]:
    """Return the ε of some environments out of all: `ε_i = ε ^ (1 + exponent * i / (N - 1))`.

    Each explores in its own way, from ε down to hardly at all (Ape-X, arXiv 1803.00933, section 4.1).

    Args:
        first: i of the first of those that are wanted, of which there are `many`.
        count: N, how many there are; those beyond have the ε of the last.
        exponent: 7 in the source.

    Returns:
        `[many]`, not to be written to.
    """
    place = np.minimum(np.arange(first, first + many) / max(count - 1, 1), 1.0)
    found = np.asarray(epsilon ** (1.0 + exponent * place), np.float64)
    found.flags.writeable = False
    return found


def boltzmann(
    policy: Policy,
    obs: NDArray[Any],
    rng: np.random.Generator,
    temperature: float,
    mask: Mask | None = None,
) -> tuple[Ints, Floats]:
    """Draw actions by their values: those one temperature apart are taken e to 1 (Sutton 1990).

    All else is as in `epsilon_greedy`.

    Raises:
        ValueError: The temperature is not above 0.
    """
    if not temperature > 0.0:
        raise ValueError(f"the temperature must be above 0, not {temperature}")
    logits = policy.outputs(obs) / np.float32(temperature)
    return draw(only_valid(logits, mask), rng, policy.first_action)


Arrays = dict[str, NDArray[Any]]

_STILL = "still."


def with_still(noisy: Mapping[str, NDArray[Any]], still: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the weights to explore with and, under names that policies pass over, those without noise."""
    moved = {name: array for name, array in still.items() if not np.array_equal(array, noisy[name])}
    return {**noisy, **{_STILL + name: array for name, array in moved.items()}}


def without_noise(tensors: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return published weights without noise; those that never had any as they are."""
    plain = {name: array for name, array in tensors.items() if not name.startswith(_STILL)}
    still = {name: tensors[_STILL + name] for name in plain if _STILL + name in tensors}
    return {**plain, **still}


@dataclass(frozen=True)
class Moment:
    """A point of a run: all that a schedule looks at, so that a resumed run goes on with the same values.

    Attributes:
        env_steps: Environment steps that were taken in before it.
        goal: Environment steps of the whole run (`stop.env_steps`), where that is known.
    """

    env_steps: int = 0
    goal: int | None = None

    def value(self, scheduled: Scheduled) -> float:
        """Return what a setting is worth now.

        With t the part of the ramp that is done, 0 to 1: `linear` gives `from + (to - from) t`, `exponential`
        `from (to / from)^t`; `piecewise` goes evenly from point to point, and stays before the first and
        behind the last. A ramp without `over` takes the whole run, and stands at its start where nobody knows
        how long that is.
        """
        if not isinstance(scheduled, dict):
            return scheduled
        told = parsed(scheduled)
        if isinstance(told, Points):
            return float(np.interp(self.env_steps, told.steps, told.values))
        over = told.over or self.goal
        done = min(self.env_steps / over, 1.0) if over else 0.0
        if told.kind == "exponential":
            return float(told.first * (told.last / told.first) ** done)
        return told.first * (1.0 - done) + told.last * done


START = Moment()  # the beginning of a run of unknown length
