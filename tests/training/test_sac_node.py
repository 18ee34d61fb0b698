"""The SAC node, whole, on a real server: actions within bounds from a client to the memory, and a resume."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.errors import EnvironmentCheckError
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.sampling import DQNConnector
from soulsgui.training.checkpoint import read_checkpoint
from soulsgui.training.nodes import SACTrainingNode
from soulsgui.wire.codec import pack_sample
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.metrics import UpdateRow
from tests.faults.waiting import until
from tests.sampling.free_trainer import PlayingClient
from tests.training.nodes import BATCH, RunningNode, running_node, sac_settings


@contextmanager
def _run(address: Address, root: Path) -> Iterator[RunningNode]:
    with running_node(address, root, sac_settings(env__num_envs=2)) as node:
        node.connection.hset(node.keys.clients, "c", "{}")
        yield node


def _look_at_memory(node: RunningNode) -> None:
    """See that each reward is the one Pendulum gives for the action stored with it, and those differ."""
    drawn = node.node.learner.memory.draw(500, np.random.default_rng(0)).batch
    assert (drawn.action.shape, drawn.action.dtype) == ((500, 1), np.float32)
    cosine, sine, speed = drawn.obs.T
    torque = 2 * np.tanh(drawn.action[:, 0])
    assert torque.std() > 0.3
    expected = -(np.arctan2(sine, cosine) ** 2 + 0.1 * speed**2 + 0.001 * torque**2)
    np.testing.assert_allclose(drawn.reward, expected, atol=1e-4)
    assert (drawn.discount == np.float32(0.99)).all(), "an episode of Pendulum is only ever cut off"


def test_a_client_draws_from_the_policy_and_the_memory_holds_what_it_drew(
    redis_address: Address, tmp_path: Path
) -> None:
    with _run(redis_address, tmp_path) as node:
        client = PlayingClient(redis_address)
        try:
            state = node.wait_for_updates(20)
        finally:
            client.end()
        assert client.failure is None
        assert state.rejected == {}
        assert node.node.attempt.intake.sessions.exploration is None
        _look_at_memory(node)
    rows = [row for row in node.rows() if isinstance(row, UpdateRow)]
    node.connection.close()
    told = set(rows[-1].values)
    assert {"critic_loss", "actor_loss", "q_mean", "entropy", "temperature", "replay_ratio"} <= told
    assert "epsilon" not in told


def _play(connector: DQNConnector, steps: int) -> None:
    """A loop over one environment, as somebody would write it; its episode is not ended."""
    env = gym.make("Pendulum-v1")
    obs, _ = env.reset(seed=steps)
    for step_id in range(steps):
        with connector as (agent, model_id):
            action = agent(obs)
        after, reward, terminated, truncated, _ = env.step(action)
        connector.push_sample(
            pack_sample(obs, action, reward, after, terminated, truncated, {}, model_id, step_id)
        )
        obs = after


def test_a_loop_by_hand_samples_for_sac(redis_address: Address, tmp_path: Path) -> None:
    with _run(redis_address, tmp_path) as node:
        connector = DQNConnector({"env": {"id": "Pendulum-v1"}}, redis_address, "c")
        try:
            _play(connector, 60)
            until(lambda: node.node.learner.learning, "learning begins")
            _play(connector, 100)
            # What comes in from then on is learned from.
            assert node.wait_for_updates(3).rejected == {}
            until(lambda: node.node.training.env_steps == 160, "all is taken in")
            _look_at_memory(node)
        finally:
            connector.close()


def _batch(number: int) -> NStepBatch:
    rng = np.random.default_rng(number)
    return NStepBatch(
        obs=rng.normal(size=(BATCH, 3)).astype(np.float32),
        action=rng.normal(size=(BATCH, 1)).astype(np.float32),
        reward=rng.normal(size=BATCH).astype(np.float32),
        next_obs=rng.normal(size=(BATCH, 3)).astype(np.float32),
        discount=np.full(BATCH, 0.99, np.float32),
    )


def test_updates_after_a_resume_are_equal_to_the_bit(redis_address: Address, tmp_path: Path) -> None:
    whole = SACTrainingNode(sac_settings(), RunFolder(tmp_path / "a"), redis_address)
    for number in range(10):
        whole.agent.update(_batch(number))
    whole.checkpoint(tmp_path / "c")
    assert read_checkpoint(tmp_path / "c").info.algorithm == "sac"
    resumed = SACTrainingNode(sac_settings(seed=99), RunFolder(tmp_path / "b"), redis_address)
    resumed.load_checkpoint(tmp_path / "c")
    for number in range(10, 40):
        whole.agent.update(_batch(number))
        resumed.agent.update(_batch(number))
    assert whole.agent.figures() == resumed.agent.figures()
    first, second = whole.agent.state(), resumed.agent.state()
    assert first[1] == second[1]
    assert set(first[0]) == set(second[0])
    for name, tensor in first[0].items():
        np.testing.assert_array_equal(tensor, second[0][name], err_msg=name)


def test_numbered_actions_are_refused_in_words(redis_address: Address, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentCheckError, match="this environment takes one of 2 actions") as refusal:
        SACTrainingNode(sac_settings(env__id="CartPole-v1"), RunFolder(tmp_path), redis_address)
    assert "algorithm: ppo" in refusal.value.remedy
