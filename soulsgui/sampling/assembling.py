"""From samples that were told one by one to segments."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import ObservationSpec
from soulsgui.sampling.bounds import Bounds
from soulsgui.sampling.samples import Sample
from soulsgui.sampling.segments import steps_that_fit
from soulsgui.wire.messages.chunk import TERMINATED, TRUNCATED, Segments, digest_number
from soulsgui.wire.weights import WeightsHeader

LogProb = Callable[[NDArray[Any], NDArray[Any], NDArray[np.bool_] | None], NDArray[np.float32]]
"""Returns the log-probability `[N]` of stored actions `[N, ...]` at observations `[N, *shape]`.

The last argument says which actions are valid `[N, A]`; None: all are.
"""


class Assembler:
    """Makes segments of the steps of one environment. Used by one thread at a time.

    A segment ends with its episode, and where steps were left out.

    Args:
        observation: Space of one observation; values outside its bounds are moved onto them.
        segment_length: Longest segment.
        masked_actions: Number of actions, where there are masks; 0 where there are none.
        action_shape: Shape of one stored action.
        action_dtype: Its dtype.
        state: Shape of each field of what a policy remembers; the samples bring them.

    Attributes:
        capacity: Most samples to assemble at once.
    """

    def __init__(
        self,
        observation: ObservationSpec,
        segment_length: int,
        masked_actions: int = 0,
        action_shape: tuple[int, ...] = (),
        action_dtype: str = "int64",
        state: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self._state = tuple(state or {})
        state_size = sum(math.prod(sides) for sides in (state or {}).values())
        self._action_dtype = np.dtype(action_dtype)
        action_bytes = math.prod(action_shape) * self._action_dtype.itemsize
        most = steps_that_fit(observation.shape, observation.dtype, masked_actions, action_bytes, state_size)
        self.capacity = min(segment_length, most)
        self._masked_actions = masked_actions
        self._dtype = np.dtype(observation.dtype)
        self._within = Bounds(observation)
        self._episode = 0
        self._next_step = 0

    def assemble(self, samples: Sequence[Sample], header: WeightsHeader, log_prob: LogProb) -> Segments:
        """Return samples as segments.

        Args:
            samples: At least one, in the order of their steps; those of earlier calls came before.
            header: Of the weights that chose all of these actions.
            log_prob: Asked where a sampler did not say it.
        """
        starts, episodes = self._pieces(samples)
        stops = [*starts[1:], len(samples)]
        pieces = list(zip(starts, stops, strict=True))
        rows = []
        for start, stop in pieces:
            rows += [sample.obs for sample in samples[start:stop]]
            rows.append(samples[stop - 1].next_obs)
        obs = self._within(np.array(rows, self._dtype))
        mask = self._masks(samples, pieces) if self._masked_actions else None
        length = np.diff([*starts, len(samples)]).astype(np.int32)
        action = np.array([sample.action for sample in samples], self._action_dtype)
        count = len(pieces)
        acted_on = np.arange(len(samples)) + np.repeat(np.arange(count), length)
        return Segments(
            env_index=np.zeros(count, np.int32),
            episode=np.array(episodes, np.int64),
            first_step=np.array([samples[start].step_id for start in starts], np.int64),
            length=length,
            model_id_first=np.full(count, header.model_id, np.int64),
            model_id_last=np.full(count, header.model_id, np.int64),
            digest=np.full(count, digest_number(header.digest), np.uint64),
            flags=np.array([_flags(samples[stop - 1]) for stop in stops], np.uint8),
            obs=obs,
            action=action,
            reward=np.array([sample.reward for sample in samples], np.float32),
            log_prob=_log_probs(
                samples,
                lambda: log_prob(obs[acted_on], action, None if mask is None else mask[acted_on]),
            ),
            action_mask=mask,
            state={name: np.stack([samples[start].state[name] for start in starts]) for name in self._state},
        )

    def _masks(self, samples: Sequence[Sample], pieces: list[tuple[int, int]]) -> NDArray[np.bool_]:
        """Return the valid actions at all observations of the pieces, `[N + S, A]`."""
        everything = np.ones(self._masked_actions, np.bool_)
        rows = []
        for start, stop in pieces:
            masks = [sample.mask for sample in samples[start:stop]]
            masks.append(samples[stop - 1].next_mask)
            rows += [everything if mask is None else mask for mask in masks]
        return np.array(rows)

    def _pieces(self, samples: Sequence[Sample]) -> tuple[list[int], list[int]]:
        """Return where each contiguous piece of an episode begins, and the number of that episode."""
        starts: list[int] = []
        episodes: list[int] = []
        begins = True
        for index, sample in enumerate(samples):
            if sample.step_id != self._next_step:
                begins = True
                # One that was there already begins another episode: this one was given up.
                self._episode += sample.step_id < self._next_step
            if begins:
                starts.append(index)
                episodes.append(self._episode)
            begins = sample.terminated or sample.truncated
            self._episode += begins
            self._next_step = 0 if begins else sample.step_id + 1
        return starts, episodes


def _flags(sample: Sample) -> int:
    return sample.terminated * TERMINATED + sample.truncated * TRUNCATED


def _log_probs(samples: Sequence[Sample], ask: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
    said = [sample.log_prob for sample in samples]
    if None not in said:
        return np.array(said, np.float32)
    told = np.array([value is not None for value in said])
    return np.where(told, np.array([value or 0.0 for value in said], np.float32), ask())
