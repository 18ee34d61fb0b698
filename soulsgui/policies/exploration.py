"""Exploration around a policy that is greedy by itself."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.policies.policy import Floats, Mask, Policy
from soulsgui.policies.valuing import draw, only_valid

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
    not depend on ε.

    Args:
        policy: Its outputs are the values of the actions.
        obs: `[B, *shape]`, raw.
        rng: Decides when to explore, and where to.
        epsilon: ε, 0 to 1; one for all, or one for each observation `[B]`.
        mask: `[B, A]` bool, which actions are valid, at least one each; None: all are.

    Returns:
        Actions `[B]` int64, and `[B]` float32 the log-probability that this rule takes them.

    Raises:
        ValueError: ε is no probability.
    """
    least, most = (epsilon.min(), epsilon.max()) if isinstance(epsilon, np.ndarray) else (epsilon, epsilon)
    if not (least >= 0.0 and most <= 1.0):
        raise ValueError(f"epsilon must lie between 0 and 1, not at {epsilon}")
    actions: int | Ints = policy.num_actions
    greedy = policy.greedy(obs, mask)
    if mask is None:
        anywhere = rng.integers(actions, size=len(obs)) + policy.first_action
    else:
        actions = np.count_nonzero(mask, axis=1)
        # The n-th valid action is where the n-th one is counted first.
        drawn = rng.integers(actions)[:, None]
        anywhere = (np.cumsum(mask, axis=1) > drawn).argmax(axis=1) + policy.first_action
    by_chance = epsilon / actions
    exploring = rng.random(len(obs)) < epsilon
    if not np.count_nonzero(exploring):  # mostly: of each step of a few environments this is a good part
        return greedy, np.full(len(obs), np.log(1.0 - epsilon + by_chance), np.float32)
    chosen = np.where(exploring, anywhere, greedy)
    # Written as probabilities first: the log of the one that can't occur at ε = 0 is never taken.
    probability = np.where(chosen == greedy, 1.0 - epsilon + by_chance, by_chance)
    return chosen, np.log(probability).astype(np.float32)


@lru_cache(maxsize=4)  # asked for at each step, and mostly of the same
def ladder(epsilon: float, first: int, many: int, count: int, exponent: float) -> NDArray[np.float64]:
    """Return the ε of some environments out of all: `ε_i = ε ^ (1 + exponent * i / (N - 1))`.

    Each explores in its own way, from ε down to hardly at all (Ape-X, arXiv 1803.00933, section 4.1).

    Args:
        epsilon: ε of the first of all.
        first: i of the first one wanted.
        many: How many are wanted.
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

    Args:
        policy: Its outputs are the values of the actions.
        obs: `[B, *shape]`, raw.
        rng: Decides.
        temperature: Above 0; the lower, the greedier.
        mask: `[B, A]` bool, which actions are valid, at least one each; None: all are.

    Returns:
        Actions `[B]` int64, and `[B]` float32 the log-probability that this rule takes them.

    Raises:
        ValueError: The temperature is not above 0.
    """
    if not temperature > 0.0:
        raise ValueError(f"the temperature must be above 0, not {temperature}")
    logits = policy.outputs(obs) / np.float32(temperature)
    return draw(only_valid(logits, mask), rng, policy.first_action)
