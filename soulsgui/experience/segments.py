"""Segments: the one record of experience, from the rollout over the wire and the buffers to the batch.

A segment is a run of contiguous steps of one environment within one episode. Its observations are kept
once: a segment of T steps has T + 1 of them, the last one being what followed its last step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.experience.frame_stacks import Observations

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TERMINATED = 1
TRUNCATED = 2

_OF_SEGMENTS = (
    "env_index",
    "episode",
    "first_step",
    "length",
    "model_id_first",
    "model_id_last",
    "digest",
    "flags",
    "source",
    "update",
)
_OF_STEPS = ("action", "reward", "log_prob")


ORIGIN_BIT = 40
"""From this bit of a source on stands its origin: the client, whatever its session."""


@dataclass(frozen=True)
class Segments:
    """`S` segments with `N` steps in all, in columns; the segments lie end to end.

    A client fills the columns up to `state`, and these alone are sent. The trainer adds `source` and
    `update` when it takes segments over, and `in_order` adds `joined`.

    | field | shape, dtype | meaning |
    |---|---|---|
    | env_index | `[S]` int32 | environment of the client |
    | episode | `[S]` int64 | number of the episode in that environment |
    | first_step | `[S]` int64 | number of the first step within its episode |
    | length | `[S]` int | steps of each, at least 1; int32 when sent |
    | model_id_first, model_id_last | `[S]` int64 | weights that chose the first and the last action |
    | digest | `[S]` uint64 | first 8 bytes of the hash of those weights, big-endian |
    | flags | `[S]` uint8 | `TERMINATED`, `TRUNCATED`, of the last step |
    | obs | `[N + S, *obs_shape]` | observations, segment after segment (`frame_stacks.Observations`) |
    | action | `[N, *action_shape]` | as they are stored (`environments.actions`): `[N]` int64 for Discrete |
    | reward | `[N]` float32 | |
    | log_prob | `[N]` float32 | log-probability of the action when it was chosen |
    | action_mask | `[N + S, A]` bool, or None | which actions are valid at each observation; None: all are |
    | state | name → `[S, *shape]` float32 | what a recurrent policy remembered before each first step |
    | source | `[S]` int64, or None | a number for each environment of each client's session, `ORIGIN_BIT` |
    | update | `[S]` int64, or None | updates of the agent up to the weights that chose the last action |
    | joined | `[S]` bool, or None | the segment goes on where the one before it ended; None: unknown |
    """

    env_index: NDArray[np.int32]
    episode: NDArray[np.int64]
    first_step: NDArray[np.int64]
    length: NDArray[np.integer[Any]]
    model_id_first: NDArray[np.int64]
    model_id_last: NDArray[np.int64]
    digest: NDArray[np.uint64]
    flags: NDArray[np.uint8]
    obs: Observations
    action: NDArray[Any]
    reward: NDArray[np.float32]
    log_prob: NDArray[np.float32]
    action_mask: NDArray[np.bool_] | None = None
    state: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    source: Ints | None = None
    update: Ints | None = None
    joined: Bools | None = None

    @property
    def steps(self) -> int:
        """Number of steps, `N`."""
        return len(self.action)

    @property
    def count(self) -> int:
        """Number of segments, `S`."""
        return len(self.length)

    @property
    def origin(self) -> Ints:
        """`[S]` int64: a number for the client of each segment."""
        assert self.source is not None
        return self.source >> ORIGIN_BIT

    @property
    def terminated(self) -> Bools:
        """`[S]`: True where the last step ended its episode in a final state."""
        return (self.flags & TERMINATED) > 0

    @property
    def truncated(self) -> Bools:
        """`[S]`: True where the last step cut its episode off."""
        return (self.flags & TRUNCATED) > 0

    @property
    def ended(self) -> Bools:
        """`[S]`: True where the last step ended its episode, in a final state or cut off."""
        return (self.flags & (TERMINATED | TRUNCATED)) > 0

    @cached_property
    def starts(self) -> Ints:
        """First step of each segment, and the number of steps, `[S + 1]`."""
        return np.concatenate(([0], np.cumsum(self.length, dtype=np.int64)))

    @cached_property
    def step_rows(self) -> Ints:
        """Rows `[N]` of `obs` that were acted on; each one's next observation stands one row further."""
        return np.arange(self.steps) + np.repeat(np.arange(self.count), self.length)

    @cached_property
    def ends(self) -> Bools:
        """`[N]`: True at the last step of each segment that no other one goes on from."""
        ends = np.zeros(self.steps, np.bool_)
        goes_on = np.zeros(self.count, np.bool_)
        if self.joined is not None:
            goes_on[:-1] = self.joined[1:]
        ends[self.starts[1:] - 1] = ~goes_on
        return ends

    @cached_property
    def terminated_steps(self) -> Bools:
        """`[N]`: True at the steps that ended an episode in a final state."""
        terminated = np.zeros(self.steps, np.bool_)
        terminated[self.starts[1:] - 1] = self.terminated
        return terminated

    def check(self) -> None:
        """Make sure that the columns fit together.

        Raises:
            ValueError: There is no segment, one has no step, or a column is too short or too long.
        """
        count, steps = self.count, int(self.starts[-1])
        if not count or self.length.min() < 1:
            raise ValueError(f"{count} segments, of which each needs at least one step")
        wanted = dict.fromkeys(_OF_SEGMENTS, count) | dict.fromkeys(_OF_STEPS, steps)
        wanted |= {"obs": steps + count, "action_mask": steps + count, "joined": count}
        for name, expected in wanted.items():
            column = getattr(self, name)
            if column is not None and len(column) != expected:
                raise ValueError(
                    f"{name} has {len(column)} rows, but {count} segments of {steps} steps need {expected}"
                )
        if any(len(values) != count for values in self.state.values()):
            raise ValueError(f"the state needs one row for each of the {count} segments")
        if self.joined is not None and self.joined[0]:
            raise ValueError("the first of the segments can go on from none: joined begins with False")

    def take(self, which: NDArray[Any]) -> "Segments":
        """Return some of the segments.

        Args:
            which: `[S]` bool, those to be taken, or `[K]` int, their positions in the order that is wanted.

        Returns:
            The same segments where all are taken as they stand, else copies; nothing is joined in these.
            Positions make an array of the observations; frames held once stay so where they are chosen.
        """
        if which.dtype == np.bool_:
            if which.all():
                return self
            steps, rows = np.repeat(which, self.length), np.repeat(which, self.length + 1)
            return self._pick(which, steps, rows)
        length, first = self.length[which], self.starts[which]
        whole = replace(self, obs=np.asarray(self.obs))
        return whole._pick(which, _end_to_end(first, length), _end_to_end(first + which, length + 1))

    def cut(self, begin: int, end: int) -> "Segments":
        """Return the segments from position `begin` up to `end`; the memory stays shared."""
        first, last = int(self.starts[begin]), int(self.starts[end])
        return self._pick(slice(begin, end), slice(first, last), slice(first + begin, last + end))

    def _pick(self, segments: Any, steps: Any, rows: Any) -> "Segments":
        columns = {name: getattr(self, name) for name in _OF_SEGMENTS}
        picked: dict[str, Any] = {
            name: None if values is None else values[segments] for name, values in columns.items()
        }
        picked |= {name: getattr(self, name)[steps] for name in _OF_STEPS}
        mask = self.action_mask
        return Segments(
            **picked,
            obs=self.obs[rows],
            action_mask=None if mask is None else mask[rows],
            state={name: values[segments] for name, values in self.state.items()},
        )

    @classmethod
    def concat(cls, parts: "Sequence[Segments]") -> "Segments":
        """Lay segments end to end.

        Args:
            parts: At least one; all of one run, so that their observations, masks and states are alike.

        Returns:
            All segments in their order; nothing is joined. What one part lacks, such as `source`, is None.

        Raises:
            ValueError: There is no part.
        """
        if not parts:
            raise ValueError("there are no segments")
        if len(parts) == 1:
            return replace(parts[0], joined=None)

        def column(name: str) -> Any:
            values = [getattr(part, name) for part in parts]
            return None if any(one is None for one in values) else np.concatenate(values)

        names = (*_OF_SEGMENTS, *_OF_STEPS, "obs", "action_mask")
        state = {name: np.concatenate([part.state[name] for part in parts]) for name in parts[0].state}
        return cls(**{name: column(name) for name in names}, state=state)

    def in_order(self, *environment: NDArray[Any]) -> "Segments":
        """Return copies of the segments, as `concat_in_order` of one part."""
        return Segments.concat_in_order([self], *environment)

    @classmethod
    def concat_in_order(cls, parts: "list[Segments]", *environment: NDArray[Any]) -> "Segments":
        """Lay segments end to end in the order of their environments, episodes and steps, and join them.

        Args:
            parts: As of `concat`. Each is taken out of the list once its observations are copied: images of
                a round are many, and are not to be held twice.
            environment: Columns `[S]` over all parts that tell environments apart; the first counts most.

        Returns:
            Copies, whose `joined` is True where a segment begins with the step after the last one of the
            segment before it, in the same episode, which had not ended. The observations at both sides of
            the seam must be the same: numbers may be equal by chance where a client began anew.

        Raises:
            ValueError: There is no part.
        """
        begins = np.cumsum([0, *(len(part.obs) for part in parts)])
        numbered = cls.concat(
            [
                replace(part, obs=begin + np.arange(len(part.obs)))
                for part, begin in zip(parts, begins[:-1], strict=True)
            ]
        )
        order = np.lexsort((numbered.first_step, numbered.episode, *reversed(environment)))
        found = numbered.take(order)
        rows = np.argsort(np.asarray(found.obs))  # of each observation, in the order of the parts
        obs = np.empty((len(rows), *parts[0].obs.shape[1:]), parts[0].obs.dtype)
        for begin in begins[:-1]:
            part = parts.pop(0)
            obs[rows[begin : begin + len(part.obs)]] = np.asarray(part.obs)
        joined = np.zeros(found.count, np.bool_)
        joined[1:] = (found.first_step[1:] == (found.first_step + found.length)[:-1]) & ~found.ended[:-1]
        for column in (*environment, numbered.episode):
            joined[1:] &= column[order][1:] == column[order][:-1]
        seams = np.flatnonzero(joined)
        after = found.starts[seams] + seams
        joined[seams] = (obs[after - 1] == obs[after]).all(axis=tuple(range(1, obs.ndim)))
        return replace(found, obs=obs, joined=joined)


def _end_to_end(starts: Ints, sizes: NDArray[np.integer[Any]]) -> Ints:
    """Return the indices of runs that begin at `starts` and are so long, one after the other."""
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    indices: Ints = np.arange(total) + np.repeat(starts - (ends - sizes), sizes)
    return indices
