"""Policies with a memory in environments that tell which actions are valid: whole runs over a real server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.errors import UsageError
from soulsgui.experience.segments import Segments
from soulsgui.policies.policy import make_policy
from soulsgui.policies.specs import MEMORY
from soulsgui.sampling import DQNConnector, PPOConnector
from soulsgui.wire.codec import pack_sample
from soulsgui.wire.connection import Address
from tests.environments.toys import Masked
from tests.sampling.free_trainer import PlayingClient
from tests.training.nodes import RunningNode, dqn_settings, running_node, small_settings

ENV_ID = "tests.environments.toys:ToysMasked-v0"
PPO = small_settings(
    env__id=ENV_ID,
    env__num_envs=2,
    network__recurrent="gru",
    network__recurrent_size=6,
    ppo__n_steps=20,
    ppo__learning_rate=0.05,
    client__segment_length=2,
)
R2D2 = dqn_settings(
    env__id=ENV_ID,
    env__num_envs=2,
    dqn__agent="r2d2",
    dqn__burn_in=0,
    dqn__sequence_length=4,
    network__recurrent="lstm",
    network__recurrent_size=6,
)


class Round:
    """A round as the learner got it, and the policy that played it."""

    def __init__(self, agent: Any, batch: Segments) -> None:
        self.batch = batch
        self._policy = make_policy(agent.policy_spec())
        self._policy.load(agent.export_weights())

    def check(self) -> int:
        """Check what was remembered and said; return how many segments begin within an episode."""
        batch, remembered = self.batch, self._policy.remembered
        assert batch.joined is not None
        state, at = batch.state[MEMORY], 0
        first = np.cumsum(batch.length + 1) - batch.length - 1
        begins = batch.obs[first, 1] == 0
        assert not state[begins].any()
        assert np.abs(state[~begins]).max() > 0.01
        for index, row in enumerate(first):
            if batch.joined[index]:  # of the same round and episode: the same weights led here
                np.testing.assert_allclose(state[index], remembered.fields[MEMORY][0], atol=1e-5)
            remembered.fields[MEMORY] = state[index][None]
            for step in range(batch.length[index]):
                here = np.s_[row + step : row + step + 1]
                obs, mask, action = batch.obs[here], batch.action_mask[here], batch.action[at : at + 1]
                said = self._policy.log_prob(obs, action, mask)
                np.testing.assert_allclose(batch.log_prob[at], said[0], atol=1e-5)
                self._policy.greedy(obs, mask)
                at += 1
        return int(np.count_nonzero(~begins))


@contextmanager
def _rounds(
    address: Address, root: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[RunningNode, list[Round]]]:
    """Run a node, and note each round before it is learned from."""
    rounds: list[Round] = []
    with running_node(address, root, PPO) as node:
        node.connection.hset(node.keys.clients, "c", "{}")
        learn = node.node.agent.update

        def listen(batch: Segments, progress: float) -> dict[str, float]:
            rounds.append(Round(node.node.agent, batch))
            figures: dict[str, float] = learn(batch, progress)
            return figures

        monkeypatch.setattr(node.node.agent, "update", listen)
        yield node, rounds


@pytest.mark.allow_warnings  # who leaves in the middle of a round is missed
def test_a_client_sends_what_its_policy_remembered(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _rounds(redis_address, tmp_path, monkeypatch) as (node, rounds):
        client = PlayingClient(redis_address)
        try:
            assert node.wait_for_updates(3).rejected == {}
        finally:
            client.end()
    assert client.failure is None
    # A fourth round is as long as the client stayed in it.
    assert min([one.check() for one in rounds][:3]) > 5


@pytest.mark.allow_warnings  # who leaves in the middle of a round is missed
def test_a_loop_by_hand_sends_what_its_agent_remembered(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _rounds(redis_address, tmp_path, monkeypatch) as (node, rounds):
        connector = PPOConnector({"env": {"id": ENV_ID}}, redis_address, "c")
        try:
            env, step_id = Masked(), 0
            obs, info = env.reset()
            for _ in range(3):
                connector.sync(20)
                while connector.steps_left:
                    with connector as (agent, model_id):
                        action = agent(obs, info["action_mask"])
                    after, reward, terminated, truncated, told = env.step(action)
                    masks = {"action_mask": info["action_mask"], "next_action_mask": told["action_mask"]}
                    packed = pack_sample(
                        obs, action, reward, after, terminated, truncated, masks, model_id, step_id
                    )
                    connector.push_sample(packed)
                    obs, info, step_id = after, told, step_id + 1
                    if terminated or truncated:
                        obs, info = env.reset()
                        step_id = 0
            connector.sync(20)
            assert node.wait_for_updates(3).rejected == {}
            with pytest.raises(UsageError, match="not asked about"):
                connector.push_sample(packed)
            agent = connector.agent
            agent(obs, info["action_mask"])
            assert connector._remembered.fields[MEMORY].any()
            connector.begin_episode()
            assert not connector._remembered.fields[MEMORY].any()
        finally:
            connector.close()
    assert all(one.check() > 3 for one in rounds)


def _check_sequences(node: RunningNode) -> None:
    """Check what the replay memory of a `Masked` holds: where sequences begin, and with what."""
    batch = node.node.learner.memory.draw(4000, np.random.default_rng(0)).batch
    begins = batch.obs[0, :, 1]  # segments have one step or two, episodes have three
    assert {0.0} < set(begins) <= {0.0, 1.0, 2.0}
    np.testing.assert_array_equal(batch.exact, begins == 0)
    assert not batch.state[batch.exact].any()
    assert (np.abs(batch.state[~batch.exact]).max(axis=1) > 0).all()
    np.testing.assert_array_equal(
        batch.obs[batch.valid.sum(0), np.arange(len(begins)), 1], begins + batch.valid.sum(0)
    )
    assert set(batch.valid.sum(0)[batch.exact]) <= {1, 2, 3}


def test_r2d2_learns_from_what_a_client_remembered(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, R2D2) as node:
        node.connection.hset(node.keys.clients, "c", "{}")
        client = PlayingClient(redis_address)
        try:
            assert node.wait_for_updates(20).rejected == {}
        finally:
            client.end()
        assert client.failure is None
        _check_sequences(node)


def test_r2d2_learns_from_what_a_loop_by_hand_remembered(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, R2D2) as node:
        node.connection.hset(node.keys.clients, "c", "{}")
        connector = DQNConnector({"env": {"id": ENV_ID}}, redis_address, "c")
        try:
            env, step_id = Masked(), 0
            obs, info = env.reset()
            # What came before learning began is not owed any updates: it plays until there are some.
            while node.node.agent.updates < 3:
                assert node.failure is None
                with connector as (agent, model_id):
                    action = agent(obs, info["action_mask"])
                after, reward, terminated, truncated, told = env.step(action)
                masks = {"action_mask": info["action_mask"], "next_action_mask": told["action_mask"]}
                connector.push_sample(
                    pack_sample(obs, action, reward, after, terminated, truncated, masks, model_id, step_id)
                )
                obs, info, step_id = after, told, step_id + 1
                if terminated or truncated:
                    obs, info = env.reset()
                    step_id = 0
            assert node.wait_for_updates(3).rejected == {}
            _check_sequences(node)
        finally:
            connector.close()
