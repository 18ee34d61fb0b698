"""Segments of environments that nobody steps: well formed, of the run's spaces, of the newest weights."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.actions import ActionSpec, BoxActionSpec
from soulsgui.environments.choices import MultiBinarySpec, MultiDiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.frame_stacks import field_of
from soulsgui.wire.messages.chunk import TERMINATED, Segments, digest_number, pack_chunk
from soulsgui.wire.messages.server_config import ServerConfig, state_of
from soulsgui.wire.weights import WeightsHeader


class SampleMaker:
    """Makes chunks for one run. Every segment is a whole episode; every reward is 1.

    Args:
        config: The run.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self._spaces = SpacesSpec.from_json(config.spaces)
        self._state = state_of(config.policy)

    def chunk(self, env_index: int, episode: int, steps: int, header: WeightsHeader) -> bytes:
        """Return one segment as the bytes of a chunk.

        Args:
            env_index: Environment it claims to be of.
            episode: Number of the episode in that environment.
            steps: Its length.
            header: The weights it claims to be played with.
        """
        obs, action, log_prob = self._content(steps)
        actions = self._spaces.masked_actions
        made = Segments(
            env_index=np.array([env_index], np.int32),
            episode=np.array([episode], np.int64),
            first_step=np.zeros(1, np.int64),
            length=np.array([steps], np.int32),
            model_id_first=np.array([header.model_id], np.int64),
            model_id_last=np.array([header.model_id], np.int64),
            digest=np.array([digest_number(header.digest)], np.uint64),
            flags=np.array([TERMINATED], np.uint8),
            obs=obs,
            action=action,
            reward=np.ones(steps, np.float32),
            log_prob=log_prob,
            action_mask=np.ones((steps + 1, actions), np.bool_) if actions else None,
            state={name: np.zeros((1, *shape), np.float32) for name, shape in self._state.items()},
        )
        return pack_chunk(self.config.run_id, self.config.contract, made)

    @lru_cache(maxsize=64)  # noqa: B019 - as many as there are lengths; the maker lives as long as its run
    def _content(self, steps: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return observations, actions and log-probabilities of so many steps of a uniform policy."""
        rng = np.random.default_rng(steps)
        space = self._spaces.observation
        obs = np.zeros((steps + 1, *space.shape), space.dtype)
        for name, box in space.fields:
            low, high = (limit.astype(np.float64) for limit in box.limits)
            drawn = rng.normal(size=(steps + 1, *box.shape))
            field_of(obs, name)[:] = np.clip(drawn, low, high).astype(box.dtype)
        return space.rounded(obs), *_chosen(self._spaces.action, steps, rng)


def _chosen(
    space: ActionSpec, steps: int, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return so many stored actions of a policy that knows nothing, and their log-probabilities."""
    if isinstance(space, BoxActionSpec):
        drawn = rng.standard_normal((steps, *space.shape), dtype=np.float32)
        density = -0.5 * (np.square(drawn) + np.float32(np.log(2 * np.pi))).sum(axis=1)
        return drawn, density.astype(np.float32)
    if isinstance(space, MultiBinarySpec):
        first, sizes = np.zeros(space.shape, np.int64), np.full(space.shape, 2)
    elif isinstance(space, MultiDiscreteSpec):
        first, sizes = np.array(space.start), np.array(space.sizes)
    else:
        first, sizes = np.array(space.start), np.array(space.n)
    action = rng.integers(first, first + sizes, (steps, *space.shape)).astype(space.dtype)
    return action, np.full(steps, -np.log(sizes).sum(), np.float32)
