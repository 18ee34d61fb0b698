"""Where on-policy segments are collected: a round, or a queue for a learner that takes them as they come."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import ObservationSpec
from soulsgui.rl.buffers.rollout import Bools, Ints, RolloutBatch, joined, laid_end_to_end
from soulsgui.rl.normalisation import Origin


class CollectedSegments(NamedTuple):
    """`S` segments with `N` steps in all, as they came.

    | field | shape, dtype | meaning |
    |---|---|---|
    | client | `[S]` int | who sent it, as a number |
    | env_index, episode, first_step | `[S]` int | where it belongs among those of its client |
    | lengths | `[S]` int | steps of each, at least 1 |
    | terminated, truncated | `[S]` bool | how its last step ended |
    | obs | `[N + S, *shape]` | raw |
    | action | `[N, *action_shape]` | as stored (`environments.actions`) |
    | log_prob, reward | `[N]` float | |
    | source | `[S]` int64, or None | a number that stays for each environment of each client's session |
    | action_mask | `[N + S, A]` bool, or None | which actions are valid at each observation |
    | state | name → `[S, *shape]` float | what the policy remembered before each first step |
    """

    client: NDArray[np.integer[Any]]
    env_index: NDArray[np.integer[Any]]
    episode: NDArray[np.integer[Any]]
    first_step: NDArray[np.integer[Any]]
    lengths: NDArray[np.integer[Any]]
    terminated: Bools
    truncated: Bools
    obs: NDArray[Any]
    action: NDArray[Any]
    log_prob: NDArray[Any]
    reward: NDArray[Any]
    action_mask: Bools | None = None
    state: Mapping[str, NDArray[Any]] = MappingProxyType({})
    source: Ints | None = None


_OF_SEGMENTS = ("client", "env_index", "episode", "first_step", "lengths", "terminated", "truncated")
_OF_STEPS = ("action", "log_prob", "reward")
_SOURCE = "source"


class RolloutStore:
    """Collects one round after the other.

    Args:
        observation: What an observation is.
        masked_actions: Number of actions, where there are masks; 0 where there are none.
        state: Shape of each field of the state that stands at the start of a segment.
        action_shape: Shape of one stored action.
        action_dtype: Its dtype.

    Attributes:
        steps: Transitions in it.
    """

    def __init__(
        self,
        observation: ObservationSpec,
        masked_actions: int = 0,
        state: Mapping[str, Sequence[int]] | None = None,
        action_shape: tuple[int, ...] = (),
        action_dtype: str = "int64",
    ) -> None:
        self.steps = 0
        self._action_shape, self._action_dtype = action_shape, action_dtype
        self._observation = observation
        self._masked_actions = masked_actions
        self._state_shapes = {name: tuple(shape) for name, shape in (state or {}).items()}
        self._capacity = 0
        self._segments = 0
        self._sourced = True  # whether all segments tell their source
        self._lay_out(1)

    def begin(self, capacity: int) -> None:
        """Empty it for another round.

        Args:
            capacity: Most transitions of that round.
        """
        self.steps = self._segments = 0
        self._sourced = True
        if capacity > self._capacity:
            self._lay_out(capacity)

    def add(self, found: CollectedSegments) -> None:
        """Take segments in.

        Raises:
            ValueError: There are more transitions than the round was to have.
        """
        steps, segments = len(found.action), len(found.lengths)
        if self.steps + steps > self._capacity:
            raise ValueError(f"{self.steps} and {steps} transitions are more than {self._capacity}")
        for names, begin, count in ((_OF_SEGMENTS, self._segments, segments), (_OF_STEPS, self.steps, steps)):
            for name in names:
                self._columns[name][begin : begin + count] = getattr(found, name)
        upto = self._segments + segments
        self._sourced &= found.source is not None
        self._columns[_SOURCE][self._segments : upto] = 0 if found.source is None else found.source
        rows = self.steps + self._segments
        self._columns["obs"][rows : rows + steps + segments] = found.obs
        if self._masked_actions:
            self._columns["action_mask"][rows : rows + steps + segments] = found.action_mask
        for name, column in self._state.items():
            column[self._segments : upto] = found.state[name]
        self.steps += steps
        self._segments += segments

    def batch(self, names: Sequence[str]) -> RolloutBatch:
        """Return what was collected in an order that does not depend on when it came.

        Args:
            names: Name of each client, by its number; segments are ordered by name, environment, episode and
                step.

        Raises:
            ValueError: There is nothing in it.
        """
        column = {name: self._columns[name][: self._segments] for name in _OF_SEGMENTS}
        rank = np.empty(max(len(names), 1), np.int64)
        rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        order = np.lexsort(
            (column["first_step"], column["episode"], column["env_index"], rank[column["client"]])
        )
        lengths = column["lengths"]
        starts = np.cumsum(lengths) - lengths
        steps = laid_end_to_end(starts[order], lengths[order])
        rows = laid_end_to_end((starts + np.arange(len(lengths)))[order], lengths[order] + 1)
        obs = self._columns["obs"][rows]
        source = self._columns[_SOURCE][: self._segments]
        origin = Origin(source[order], column["episode"][order], column["first_step"][order])
        return RolloutBatch(
            obs=obs,
            lengths=lengths[order],
            action=self._columns["action"][steps],
            log_prob=self._columns["log_prob"][steps],
            reward=self._columns["reward"][steps],
            terminated=column["terminated"][order],
            truncated=column["truncated"][order],
            action_mask=self._columns["action_mask"][rows] if self._masked_actions else None,
            state={name: values[: self._segments][order] for name, values in self._state.items()},
            joined=joined(
                [column[name][order] for name in ("client", "env_index", "episode")],
                column["first_step"][order],
                lengths[order],
                (column["terminated"] | column["truncated"])[order],
                obs,
            ),
            origin=origin if self._sourced else None,
        )

    @property
    def clients(self) -> list[int]:
        """The numbers of clients of whom there is something."""
        numbers: list[int] = np.unique(self._columns["client"][: self._segments]).tolist()
        return numbers

    def _lay_out(self, capacity: int) -> None:
        """Lay out memory; an operating system provides what is written to only."""
        shape, dtype = self._observation.shape, np.dtype(self._observation.dtype)
        self._capacity = capacity
        self._columns: dict[str, NDArray[Any]] = {
            name: np.empty(capacity, np.bool_ if name in ("terminated", "truncated") else np.int64)
            for name in (*_OF_SEGMENTS, _SOURCE)
        }
        self._columns["action"] = np.empty((capacity, *self._action_shape), self._action_dtype)
        self._columns |= {name: np.empty(capacity, np.float32) for name in ("log_prob", "reward")}
        self._columns["obs"] = np.empty((2 * capacity, *shape), dtype)
        if self._masked_actions:
            self._columns["action_mask"] = np.empty((2 * capacity, self._masked_actions), np.bool_)
        self._state = {
            name: np.empty((capacity, *sides), np.float32) for name, sides in self._state_shapes.items()
        }


@dataclass(frozen=True)
class Arrived:
    """Segments that came together.

    Attributes:
        found: The segments, `S`.
        model_id: Id of the weights that made each, `[S]`.
        update: Updates of the agent up to those, `[S]`.
    """

    found: CollectedSegments
    model_id: Ints
    update: Ints

    @property
    def steps(self) -> int:
        """Transitions in them."""
        return len(self.found.action)


class Taken(NamedTuple):
    """What was taken to learn from: the batch, and for each of its segments the update of its weights."""

    batch: RolloutBatch
    update: Ints


class SegmentQueue:
    """A queue of segments.

    Attributes:
        steps: Transitions that wait.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._arrived: deque[Arrived] = deque()

    def add(self, arrived: Arrived) -> None:
        """Take segments in, behind all others; the arrays are kept."""
        self._arrived.append(arrived)
        self.steps += arrived.steps

    def drop_older(self, oldest: int) -> int:
        """Let go of segments whose weights have a smaller id than this.

        Args:
            oldest: Smallest id that is still good.

        Returns:
            Transitions that were in them.
        """
        before = self.steps
        kept = [one if (one.model_id >= oldest).all() else _part(one, one.model_id >= oldest)
                for one in self._arrived]  # fmt: skip
        self._arrived = deque(one for one in kept if one.steps)
        self.steps = sum(one.steps for one in self._arrived)
        return before - self.steps

    def take(self, steps: int) -> Taken:
        """Take the oldest segments out: as few whole ones as hold so many transitions, or all there are.

        Those of one episode stand behind each other in the batch, joined where there is no gap between them.

        Args:
            steps: Transitions that are wanted, at least 1.

        Raises:
            ValueError: There is nothing in it.
        """
        if not self._arrived:
            raise ValueError("no segment waits")
        parts: list[Arrived] = []
        wanted = steps
        while wanted > 0 and self._arrived:
            first = self._arrived.popleft()
            if first.steps > wanted:
                count = int(np.searchsorted(np.cumsum(first.found.lengths), wanted)) + 1
                here = np.arange(len(first.model_id)) < count
                rest = _part(first, ~here)
                if rest.steps:
                    self._arrived.appendleft(rest)
                first = _part(first, here)
            parts.append(first)
            wanted -= first.steps
        self.steps -= sum(part.steps for part in parts)
        batch, order = _batch([part.found for part in parts])
        return Taken(batch, np.concatenate([part.update for part in parts])[order])


def _part(arrived: Arrived, chosen: NDArray[np.bool_]) -> Arrived:
    """Return the chosen segments, `[S]` bool."""
    found = arrived.found
    steps, rows = np.repeat(chosen, found.lengths), np.repeat(chosen, found.lengths + 1)
    fields: dict[str, Any] = {name: getattr(found, name)[chosen] for name in _OF_SEGMENTS}
    fields |= {name: getattr(found, name)[steps] for name in _OF_STEPS}
    fields["source"] = None if found.source is None else found.source[chosen]
    fields["obs"] = found.obs[rows]
    fields["action_mask"] = None if found.action_mask is None else found.action_mask[rows]
    fields["state"] = {name: values[chosen] for name, values in found.state.items()}
    return Arrived(CollectedSegments(**fields), arrived.model_id[chosen], arrived.update[chosen])


def _batch(parts: Sequence[CollectedSegments]) -> tuple[RolloutBatch, Ints]:
    """Lay segments end to end, those of an episode behind each other; also return their order, `[S]`.

    Where nobody says where segments come from, they stay as they came, each for itself.
    """

    def all_of(name: str, dtype: Any = None) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts], dtype=dtype, casting="unsafe")

    lengths, origin = all_of("lengths", np.int64), None
    order: Ints = np.arange(len(lengths))
    if all(part.source is not None for part in parts):
        origin = Origin(*(all_of(name, np.int64) for name in Origin._fields))
        order = np.lexsort((origin.first_step, origin.episode, origin.source))
        origin = Origin(*(column[order] for column in origin))
    starts = np.cumsum(lengths) - lengths
    steps = laid_end_to_end(starts[order], lengths[order])
    rows = laid_end_to_end((starts + np.arange(len(lengths)))[order], lengths[order] + 1)
    obs, terminated, truncated = all_of("obs")[rows], all_of("terminated")[order], all_of("truncated")[order]
    masked = any(part.action_mask is not None for part in parts)
    batch = RolloutBatch(
        obs=obs,
        lengths=lengths[order],
        action=all_of("action")[steps],
        log_prob=all_of("log_prob", np.float32)[steps],
        reward=all_of("reward", np.float32)[steps],
        terminated=terminated,
        truncated=truncated,
        action_mask=all_of("action_mask")[rows] if masked else None,
        state={name: np.concatenate([part.state[name] for part in parts])[order] for name in parts[0].state},
        joined=None if origin is None else joined(
            origin[:2], origin.first_step, lengths[order], terminated | truncated, obs
        ),
        origin=origin,
    )  # fmt: skip
    return batch, order
