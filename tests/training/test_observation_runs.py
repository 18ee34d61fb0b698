"""Runs on images and on observations of several parts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.experience.frame_stacks import IMAGE, NUMBERS
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk_decoder import ChunkForm
from tests.training.nodes import dqn_settings, let_play, running_node, small_settings, vtrace_settings

MAKE = {"ppo": small_settings, "dqn": dqn_settings, "vtrace": vtrace_settings}
ROOM = {
    "env__id": "tests.environments.toys:ToysRoom-v0",
    "env__num_envs": 2,
    "env__kwargs": {"sides": [12, 12]},
    "env__wrappers": [{"FrameStackObservation": {"stack_size": 3}}],
    "network__name": "impala_resnet",
    "ppo__epochs": 1,
}
LAKE = {"env__id": "FrozenLake-v1", "env__kwargs": {"is_slippery": False}}


def played(address: Address, folder: Path, algorithm: str, settings: dict[str, Any]) -> Any:
    """Let a client play until there were some updates; return what a replay memory then holds, if any."""
    with running_node(address, folder, MAKE[algorithm](**settings)) as node:
        assert let_play(node, address, updates=3).checks["network"]
        form: ChunkForm = node.node.attempt.intake.ingest._form
        assert form.is_compressed is (settings is ROOM)
        return (
            node.node.learner.memory.draw(500, np.random.default_rng(0)).batch if algorithm == "dqn" else None
        )


@pytest.mark.allow_warnings  # who leaves in the middle of a round is missed
@pytest.mark.parametrize("algorithm", MAKE)
def test_images_and_numbers_are_trained_on(redis_address: Address, tmp_path: Path, algorithm: str) -> None:
    drawn = played(redis_address, tmp_path, algorithm, ROOM)
    if drawn is None:
        return
    # Each picture came with its own numbers: the door is as many as the picture is bright, and one more.
    assert drawn.obs[IMAGE].shape == (500, 3, 12, 12)
    for obs in (drawn.obs, drawn.next_obs):
        np.testing.assert_array_equal(obs[NUMBERS][:, :3] - 1, obs[IMAGE][:, :, 0, 0])


@pytest.mark.allow_warnings  # who leaves in the middle of a round is missed
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("ppo", LAKE), ("dqn", {"env__id": "Blackjack-v1"}), ("vtrace", {"env__id": "Taxi-v4"})],
)
def test_choices_are_trained_on(
    redis_address: Address, tmp_path: Path, algorithm: str, settings: dict[str, Any]
) -> None:
    drawn = played(redis_address, tmp_path, algorithm, settings)
    if drawn is not None:
        assert (drawn.obs.dtype, drawn.obs.shape) == (np.int32, (500, 3))


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
        form: ChunkForm = node.node.attempt.intake.ingest._form
        assert form.is_compressed
        assert sent.sent_bytes < 100 * sent.env_steps, "144 bytes a frame and 4 frames an observation"
        drawn = node.node.learner.memory.draw(2000, np.random.default_rng(0)).batch
    assert drawn.obs.shape == (2000, STACK, 12, 12)
    assert (drawn.obs == drawn.obs[:, :, :1, :1]).all()
    newest = drawn.obs[:, -1, 0, 0].astype(np.int64)
    expected = np.maximum(newest[:, None] - np.arange(STACK)[::-1], 0)
    np.testing.assert_array_equal(drawn.obs[:, :, 0, 0], expected)
    np.testing.assert_array_equal(drawn.next_obs[:, :-1], drawn.obs[:, 1:])
    np.testing.assert_array_equal(drawn.next_obs[:, -1, 0, 0], newest + 1)
    np.testing.assert_array_equal(drawn.discount == 0, newest == LENGTH - 1)
