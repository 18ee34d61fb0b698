"""One on-policy round: the segments of all clients end to end, and how it is cut for learning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.rl.normalisation import Origin

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


def joined(
    of: Sequence[NDArray[Any]],
    first_step: NDArray[np.integer[Any]],
    lengths: NDArray[np.integer[Any]],
    ended: Bools,
    obs: NDArray[Any],
) -> Bools:
    """Return which segments `[S]` go on where the ones before them ended.

    Args:
        of: Columns `[S]` that are alike for segments of one episode.
        first_step: `[S]`, number of the first step of each within its episode.
        lengths: Steps of each, `[S]`.
        ended: `[S]`: the last step ended the episode, in a final state or cut off.
        obs: Their observations `[N + S, *shape]`. Those at both sides of a seam are the same: the numbers
            alone may be equal by chance where a client began anew.
    """
    goes_on: Bools = np.zeros(len(lengths), np.bool_)
    goes_on[1:] = (first_step[1:] == (first_step + lengths)[:-1]) & ~ended[:-1]
    for column in of:
        goes_on[1:] &= column[1:] == column[:-1]
    seams = np.flatnonzero(goes_on)
    first = (np.cumsum(lengths + 1) - lengths - 1)[seams]
    goes_on[seams] = (obs[first - 1] == obs[first]).all(axis=tuple(range(1, obs.ndim)))
    return goes_on


def laid_end_to_end(starts: Ints, sizes: Ints) -> Ints:
    """Return the indices of runs that begin at `starts` and are so long, one after the other."""
    ends = np.cumsum(sizes)
    indices: Ints = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)
    return indices


@dataclass(frozen=True)
class BPTTChunks:
    """`P` chunks of at most `L` steps that cover a round, each of one chain.

    A chain is what a round has of one episode without a gap, however it was cut into segments on its way.
    All chunks of a chain but its last have exactly `L` steps.

    | field | shape, dtype | meaning |
    |---|---|---|
    | length | `[P]` int64 | steps of each |
    | place | `[P]` int64 | number within its chain; one with a place above 0 goes on from the one before |
    | segment | `[P]` int64 | segment that its chain begins with, whose stored state it begins with |
    | steps | `[P, L]` int64 | number of each step in the round; the last one repeated behind the end |
    | rows | `[P, L + 1]` int64 | row of each observation, and of the one behind the last step; likewise |
    """

    length: Ints
    place: Ints
    segment: Ints
    steps: Ints
    rows: Ints

    @classmethod
    def of(cls, batch: RolloutBatch, most: int) -> "BPTTChunks":
        """Cut a round.

        Args:
            batch: The round.
            most: Most steps of a chunk, `L`.
        """
        segments, sizes = _chains(batch)
        counts = -(-sizes // most)
        chain = np.repeat(np.arange(len(sizes)), counts)
        place = np.arange(len(chain)) - np.repeat(np.cumsum(counts) - counts, counts)
        begin = (np.cumsum(sizes) - sizes)[chain] + place * most
        length = np.minimum(sizes[chain] - place * most, most)
        ahead = np.arange(most + 1)
        steps = begin[:, None] + np.minimum(ahead[:-1], length[:, None] - 1)
        following = batch.step_rows[begin + length - 1] + 1
        rows = np.where(
            ahead < length[:, None],
            batch.step_rows[begin[:, None] + np.minimum(ahead, length[:, None] - 1)],
            following[:, None],
        )
        return cls(length, place, segments[chain], steps, rows)

    def valid(self, upto: int) -> Bools:
        """Return `[P, upto]`: True where a chunk has this step."""
        valid: Bools = np.arange(upto) < self.length[:, None]
        return valid

    @property
    def goes_on(self) -> Bools:
        """`[P]`: True where the next chunk goes on from this one's end."""
        return np.append(self.place[1:] > 0, False)

    def ends(self) -> Bools:
        """Return `[N]`: True at the last step of each chain."""
        ends = np.zeros(int(self.length.sum()), np.bool_)
        last = ~self.goes_on
        ends[self.steps[last, self.length[last] - 1]] = True
        return ends


def _chains(batch: RolloutBatch) -> tuple[Ints, NDArray[np.int64]]:
    """Return the first segment `[C]` and the number of steps `[C]` of each chain."""
    begins = np.ones(len(batch.lengths), np.bool_) if batch.joined is None else ~batch.joined
    first = np.flatnonzero(begins)
    return first, np.add.reduceat(batch.lengths, first)
