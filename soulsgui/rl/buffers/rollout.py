"""One on-policy round: the segments of all clients, laid end to end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.rl.returns.reward_scaling import Origin

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class RolloutBatch:
    """`S` segments with `N` steps in all; equal segments in equal order give an update equal to the bit.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs | `[N + S, *shape]` | raw; segment i has `lengths[i] + 1` rows, the last one follows its last step |
    | lengths | `[S]` int64 | steps of each segment, at least 1 |
    | action | `[N, *action_shape]` | as stored (`environments.actions`): `[N]` int64 for Discrete |
    | log_prob | `[N]` float32 | log-probability of the action when it was taken |
    | reward | `[N]` float32 | |
    | terminated | `[S]` bool | the segment's last step ended its episode in a final state |
    | truncated | `[S]` bool | the segment's last step cut its episode off |
    | action_mask | `[N + S, A]` bool, or None | actions valid at each observation; None: all were |
    | state | name → `[S, *shape]` float32 | what the policy remembered before the first step of a segment |
    | joined | `[S]` bool, or None | the segment goes on where the one before it ended; None: not looked at |
    | origin | `[S]` each, or None | where segments come from, for what goes on over rounds; None: unknown |

    Raises:
        ValueError: The lengths of the arrays don't fit together.
    """

    obs: NDArray[Any]
    lengths: Ints
    action: NDArray[Any]
    log_prob: NDArray[np.float32]
    reward: NDArray[np.float32]
    terminated: Bools
    truncated: Bools
    action_mask: Bools | None = None
    state: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    joined: Bools | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        segments, steps = len(self.lengths), int(self.lengths.sum())
        found = (len(self.obs), len(self.action), len(self.log_prob), len(self.reward))
        if not segments or self.lengths.min() < 1 or found != (steps + segments, steps, steps, steps):
            raise ValueError(
                f"{segments} segments of {steps} steps don't fit obs, action, log_prob, reward: {found}"
            )
        if len(self.terminated) != segments or len(self.truncated) != segments:
            raise ValueError(f"terminated and truncated need one entry for each of the {segments} segments")
        if self.action_mask is not None and len(self.action_mask) != steps + segments:
            raise ValueError(f"{len(self.action_mask)} masks for {steps + segments} observations")
        if any(len(values) != segments for values in self.state.values()):
            raise ValueError(f"the state needs one entry for each of the {segments} segments")
        if self.origin is not None and any(len(numbers) != segments for numbers in self.origin):
            raise ValueError(f"the origin needs one entry for each of the {segments} segments")
        if self.joined is not None and (len(self.joined) != segments or self.joined[0]):
            raise ValueError(f"joined needs one entry for each of the {segments} segments, the first False")

    @property
    def steps(self) -> int:
        """Number of transitions, `N`."""
        return len(self.action)

    @cached_property
    def step_rows(self) -> Ints:
        """Rows `[N]` of `obs` that were acted on; each one's next observation stands one row further."""
        return np.arange(self.steps) + np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def ends(self) -> Bools:
        """`[N]`: True at the last step of each segment that no other one goes on from."""
        ends = np.zeros(self.steps, dtype=np.bool_)
        goes_on = np.zeros(len(self.lengths), np.bool_)
        if self.joined is not None:
            goes_on[:-1] = self.joined[1:]
        ends[np.cumsum(self.lengths) - 1] = ~goes_on
        return ends

    @cached_property
    def terminated_steps(self) -> Bools:
        """`[N]`: True at the steps that ended an episode in a final state."""
        terminated = np.zeros(self.steps, dtype=np.bool_)
        terminated[np.cumsum(self.lengths) - 1] = self.terminated
        return terminated
