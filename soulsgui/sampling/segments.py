"""From single steps of several environments to segments."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import StepResult
from soulsgui.errors import UsageError
from soulsgui.experience.segments import TERMINATED, TRUNCATED, Segments
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES

_BYTES_BESIDE = 120


def steps_that_fit(spaces: SpacesSpec, state: Mapping[str, tuple[int, ...]]) -> int:
    """Return how many steps fit into a chunk, however many segments they are."""
    observation, action = spaces.observation, spaces.action
    # At worst each step is a segment of its own, with two observations.
    obs_bytes = math.prod(observation.shape) * np.dtype(observation.dtype).itemsize
    row_bytes = obs_bytes + (spaces.masked_actions + 7) // 8
    action_bytes = math.prod(action.shape) * np.dtype(action.dtype).itemsize
    state_bytes = 4 * sum(math.prod(sides) for sides in state.values())
    return max(1, MAX_CHUNK_BYTES // (2 * row_bytes + action_bytes + state_bytes + _BYTES_BESIDE))


class SegmentRecorder:
    """Collects steps of `N` environments; segments end with episodes, after gaps and at every `cut`.

    Raises:
        UsageError: There are more environments than a message has room for.
    """

    def __init__(
        self,
        num_envs: int,
        spaces: SpacesSpec,
        capacity: int,
        state: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        fields, observation, masked_actions = state or {}, spaces.observation, spaces.masked_actions
        most = steps_that_fit(spaces, fields)
        if num_envs > most:
            what = f"One step of {num_envs:,} environments does not fit into a message: at most {most:,} do."
            raise UsageError(what, "Set env.num_envs lower, and start more clients.")
        self.capacity = capacity = min(capacity, most // num_envs)
        self.length = 0
        shape = (capacity, num_envs)
        self._num_envs = num_envs
        self._obs = np.zeros((capacity + 1, num_envs, *observation.shape), np.dtype(observation.dtype))
        self._action: NDArray[Any] = np.zeros((*shape, *spaces.action.shape), spaces.action.dtype)
        self._reward = np.zeros(shape, np.float32)
        self._log_prob = np.zeros(shape, np.float32)
        self._kept = np.zeros(shape, np.bool_)
        self._flags = np.zeros(shape, np.uint8)
        self._final_obs: dict[tuple[int, int], NDArray[Any]] = {}
        self._mask = np.ones((capacity + 1, num_envs, masked_actions), np.bool_) if masked_actions else None
        self._final_mask: dict[tuple[int, int], NDArray[Any]] = {}
        self._state = {name: np.zeros((*shape, *sides), np.float32) for name, sides in fields.items()}
        self._episode = np.zeros(num_envs, np.int64)
        self._next_step = np.zeros(num_envs, np.int64)
        self._episode_at = np.zeros(shape, np.int64)
        self._step_at = np.zeros(shape, np.int64)

    def add(
        self,
        obs: NDArray[Any],
        action: NDArray[Any],
        log_prob: NDArray[np.float32],
        result: StepResult,
        keep: NDArray[np.bool_] | None = None,
        mask: NDArray[np.bool_] | None = None,
        state: Mapping[str, NDArray[np.float32]] | None = None,
    ) -> None:
        """Take one step of every environment: columns `[N, …]`; `keep` is None for all that is valid."""
        t = self.length
        for name, rows in (state or {}).items():
            self._state[name][t] = rows
        if self._mask is not None:
            self._mask[t] = mask
            self._mask[t + 1] = result.reset_mask
        self._obs[t] = obs
        self._action[t] = action
        self._reward[t] = result.reward
        self._log_prob[t] = log_prob
        self._kept[t] = result.valid if keep is None else keep
        self._episode_at[t] = self._episode
        self._step_at[t] = self._next_step
        ended = (result.terminated | result.truncated) & result.valid
        self._next_step += result.valid
        if np.count_nonzero(ended):
            self._flags[t] = np.where(ended, result.terminated * TERMINATED + result.truncated * TRUNCATED, 0)
            for env in np.flatnonzero(ended):
                self._final_obs[t, int(env)] = np.array(result.next_obs[env])
                if result.next_mask is not None:
                    self._final_mask[t, int(env)] = result.next_mask[env]
            self._episode[ended] += 1
            self._next_step[ended] = 0
        else:
            self._flags[t] = 0
        self._obs[t + 1] = result.reset_obs
        self.length += 1

    def cut(self, model_id: int, digest: int) -> Segments | None:
        """Return what was collected since the last cut, or None when there is nothing, and begin anew."""
        segments = self._segments(model_id, digest) if self._kept[: self.length].any() else None
        self._final_obs.clear()
        self._final_mask.clear()
        self.length = 0
        return segments

    def break_off(self, under_way: bool = False) -> None:
        """Give up the episodes so far: what comes next belongs to new ones, or to some `under_way`."""
        self._episode += self._next_step > 0
        self._next_step[:] = under_way  # no such step begins an episode

    def _segments(self, model_id: int, digest: int) -> Segments:
        # `[N, T]`: segments come environment after environment, and end at gaps and with episodes.
        kept, goes_on = self._kept[: self.length].T, self._flags[: self.length].T == 0
        inside = kept[:, 1:] & kept[:, :-1] & goes_on[:, :-1]  # a step with the one before it
        alone = np.zeros((self._num_envs, 1), np.bool_)
        env, first = np.nonzero(kept & ~np.concatenate((alone, inside), axis=1))
        _, last = np.nonzero(kept & ~np.concatenate((inside, alone), axis=1))
        length = last - first + 1
        after = np.cumsum(length + 1) - 1  # where rows have what follows the last step of each segment
        row_env = np.repeat(env, length + 1)
        row_time = np.arange(len(row_env)) - np.repeat(after - last - 1, length + 1)

        def rows(column: NDArray[Any], finals: dict[tuple[int, int], NDArray[Any]]) -> NDArray[Any]:
            found: NDArray[Any] = column[row_time, row_env]
            for segment in np.flatnonzero(self._flags[last, env]):
                found[after[segment]] = finals[int(last[segment]), int(env[segment])]
            return found

        def steps(column: NDArray[Any]) -> NDArray[Any]:
            found: NDArray[Any] = column[: self.length].swapaxes(0, 1)[kept]
            return found

        count = len(env)
        return Segments(
            env_index=env.astype(np.int32),
            episode=self._episode_at[first, env],
            first_step=self._step_at[first, env],
            length=length.astype(np.int32),
            model_id_first=np.full(count, model_id, np.int64),
            model_id_last=np.full(count, model_id, np.int64),
            digest=np.full(count, digest, np.uint64),
            flags=self._flags[last, env],
            obs=rows(self._obs, self._final_obs),
            action=steps(self._action),
            reward=steps(self._reward),
            log_prob=steps(self._log_prob),
            action_mask=None if self._mask is None else rows(self._mask, self._final_mask),
            state={name: column[first, env] for name, column in self._state.items()},
        )
