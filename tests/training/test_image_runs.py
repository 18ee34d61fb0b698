"""Stacked pictures from an environment to the learner, over a real server."""

from pathlib import Path

import numpy as np

from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk_form import ChunkForm
from tests.training.nodes import dqn_settings, let_play, running_node

STACK, LENGTH = 4, 9
SETTINGS = {
    "env__id": "tests.environments.toys:ToysCamera-v0",
    "env__num_envs": 2,
    "env__kwargs": {"length": LENGTH},
    "env__wrappers": [{"FrameStackObservation": {"stack_size": STACK}}],
}


def test_stacks_of_frames_reach_the_replay_memory_whole(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, dqn_settings(**SETTINGS, dqn__n_step=1)) as node:
        sent = let_play(node, redis_address, updates=5)
        form: ChunkForm = node.node._intake.ingest._form
        assert form.is_compressed
        assert sent.sent_bytes < 100 * sent.env_steps, "144 bytes a frame and 4 frames an observation"
        drawn = node.node._memory.draw(2000, np.random.default_rng(0)).batch
    assert drawn.obs.shape == (2000, STACK, 12, 12)
    assert (drawn.obs == drawn.obs[:, :, :1, :1]).all()
    newest = drawn.obs[:, -1, 0, 0].astype(np.int64)
    expected = np.maximum(newest[:, None] - np.arange(STACK)[::-1], 0)
    np.testing.assert_array_equal(drawn.obs[:, :, 0, 0], expected)
    np.testing.assert_array_equal(drawn.next_obs[:, :-1], drawn.obs[:, 1:])
    np.testing.assert_array_equal(drawn.next_obs[:, -1, 0, 0], newest + 1)
    np.testing.assert_array_equal(drawn.discount == 0, newest == LENGTH - 1)
