"""Where segments wait for a learner that takes them as they come, oldest first."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.rl.buffers.collecting import CollectedSegments
from soulsgui.rl.buffers.joining import joined, laid_end_to_end
from soulsgui.rl.buffers.rollout import Ints, RolloutBatch
from soulsgui.rl.returns.reward_scaling import Origin

_OF_SEGMENTS = ("client", "env_index", "episode", "first_step", "lengths", "terminated", "truncated")
_OF_STEPS = ("action", "log_prob", "reward")


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


class WaitingSegments:
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
