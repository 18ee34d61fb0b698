"""Sums of n rewards along chains of steps (Sutton 1988; in Rainbow: arXiv 1710.02298, eq. 1)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class NStep(NamedTuple):
    """What follows a step: `reward + discount * value(what followed the step in slot last)`.

    | field | shape, dtype | meaning |
    |---|---|---|
    | reward | as the slots, float32 | `sum_{i<k} gamma^i r_{t+i}`, over k steps: n, or fewer |
    | discount | float32 | `gamma^k`, 0 where the window ends in a final state |
    | last | int64 | slot of the window's last step |
    """

    reward: Floats
    discount: Floats
    last: Ints


def one_step(reward: NDArray[Any], terminated: Bools, gamma: float) -> tuple[Floats, Floats]:
    """Return reward and discount of windows of one step, as `n_step` does.

    Args:
        reward: Of each step, of any shape.
        terminated: Likewise; the step ended its episode in a final state.
        gamma: Discount of one step.
    """
    return reward.astype(np.float32), ~terminated * np.float32(gamma)


def n_step(
    slots: NDArray[np.integer[Any]],
    following: NDArray[np.integer[Any]],
    reward: NDArray[Any],
    terminated: Bools,
    n: int,
    gamma: float,
) -> NStep:
    """Add up to n rewards from each step on, as far as its chain goes.

    A chain ends with its episode, terminated or truncated, at a gap, and at what has not arrived yet. In
    all these cases the window is as short as the chain, and its bootstrap is discounted by as many steps as
    were added; only a final state has no future. The truth of a truncated episode is the value of its final
    observation, which stands behind its last step like any other.

    | argument | shape | meaning |
    |---|---|---|
    | slots | any | the steps to begin at |
    | following | `[capacity]` int | slot of the next step of the same episode; -1: none |
    | reward | `[capacity]` | reward of the step in each slot |
    | terminated | `[capacity]` bool | the step ended its episode in a final state |

    Args:
        slots: See the table; likewise the next three.
        following: See the table.
        reward: See the table.
        terminated: See the table.
        n: Longest window in steps, at least 1.
        gamma: Discount of one step.

    Raises:
        ValueError: n is below 1.
    """
    if n < 1:
        raise ValueError(f"a window has at least one step, not {n}")
    last: Ints = slots.astype(np.int64)
    # Columns of records come as they are: indexing reads what is asked for, `take` would copy them whole.
    total = reward[last].astype(np.float64)
    discount = np.full(last.shape, gamma, np.float64)
    for _ in range(n - 1):
        ahead = following.take(last)
        goes = ahead >= 0
        last = np.where(goes, ahead, last)
        total += np.where(goes, discount * reward[last], 0.0)
        discount = np.where(goes, discount * gamma, discount)
    discount[terminated[last]] = 0.0
    return NStep(total.astype(np.float32), discount.astype(np.float32), last)
