"""Environments that tell which actions are valid, and raise at others: whole runs over a real server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from soulsgui.errors import UsageError
from soulsgui.sampling import DQNConnector, PPOConnector
from soulsgui.wire.codec import pack_sample
from soulsgui.wire.connection import Address
from tests.environments.toys import Masked
from tests.faults.waiting import until
from tests.sampling.free_trainer import PlayingClient
from tests.training.nodes import RunningNode, dqn_settings, running_node, small_settings

ENV: dict[str, Any] = {"env__id": "tests.environments.toys:ToysMasked-v0", "env__num_envs": 2}
CONFIG = {"env": {"id": ENV["env__id"]}}


def _valid_at(obs: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the masks of a `Masked` at (episode, step) `[B, 2]`."""
    episode, step = obs.astype(np.int64).T
    index = np.arange(4)
    mask: NDArray[np.bool_] = (index == step[:, None] % 4) | (index == (episode + step + 1)[:, None] % 4)
    return mask


@contextmanager
def _run(address: Address, root: Path, settings: Any) -> Iterator[RunningNode]:
    with running_node(address, root, settings) as node:
        node.connection.hset(node.keys.clients, "c", "{}")
        yield node


@contextmanager
def _client(address: Address) -> Iterator[PlayingClient]:
    client = PlayingClient(address)
    try:
        yield client
    finally:
        client.end()
    assert client.failure is None


@pytest.mark.allow_warnings  # who leaves in the middle of a round is missed
def test_a_client_and_ppo_take_valid_actions_only(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[Any] = []
    with _run(redis_address, tmp_path, small_settings(**ENV)) as node:
        learn = node.node.agent.update

        def listen(batch: Any, progress: float) -> dict[str, float]:
            batches.append(batch)
            figures: dict[str, float] = learn(batch, progress)
            return figures

        monkeypatch.setattr(node.node.agent, "update", listen)
        with _client(redis_address):
            state = node.wait_for_updates(3)
    assert state.rejected == {}
    assert node.node.training.spaces.action.masked
    batch = batches[0]
    rows = batch.step_rows
    np.testing.assert_array_equal(batch.action_mask[rows], _valid_at(batch.obs[rows]))
    assert batch.action_mask[rows, batch.action - 1].all()
    # One of two is valid: more than ln 2 is nowhere to be had.
    alone = np.exp(batch.log_prob)[batch.action_mask[rows].sum(axis=1) == 1]
    np.testing.assert_allclose(alone, 1, rtol=1e-5)


def _look_at_memory(node: RunningNode) -> None:
    """Check what the replay memory of a `Masked` holds."""
    drawn = node.node.learner.memory.draw(2000, np.random.default_rng(0)).batch
    assert _valid_at(drawn.obs)[np.arange(2000), drawn.action - 1].all()
    ended = drawn.next_obs[:, 1] == 3
    assert ended.any()
    assert drawn.next_mask[ended].all()
    np.testing.assert_array_equal(drawn.next_mask[~ended], _valid_at(drawn.next_obs[~ended]))


def test_a_client_and_dqn_take_valid_actions_only(redis_address: Address, tmp_path: Path) -> None:
    with _run(redis_address, tmp_path, dqn_settings(**ENV)) as node:
        with _client(redis_address):
            state = node.wait_for_updates(20)
        assert state.rejected == {}
        _look_at_memory(node)


def _play(connector: Any, go_on: Callable[[], bool]) -> None:
    """A loop over one environment, as somebody would write it."""
    env = Masked()
    obs, info = env.reset()
    step_id = 0
    while go_on():
        with connector as (agent, model_id):
            action = agent(obs, info["action_mask"])
        after, reward, terminated, truncated, next_info = env.step(action)
        told = {"action_mask": info["action_mask"], "next_action_mask": next_info["action_mask"]}
        connector.push_sample(
            pack_sample(obs, action, reward, after, terminated, truncated, told, model_id, step_id)
        )
        obs, info, step_id = after, next_info, step_id + 1
        if terminated or truncated:
            obs, info = env.reset()
            step_id = 0


@pytest.mark.allow_warnings  # who leaves in the middle of a round is missed
def test_a_loop_by_hand_samples_for_ppo(redis_address: Address, tmp_path: Path) -> None:
    with _run(redis_address, tmp_path, small_settings(**ENV)) as node:
        connector = PPOConnector(CONFIG, redis_address, "c")
        try:
            for _ in range(3):
                connector.sync(20)
                _play(connector, lambda: bool(connector.steps_left))
            connector.sync(20)
            state = node.wait_for_updates(3)
            assert state.rejected == {}
            with pytest.raises(UsageError, match="leaves no action"):
                connector.agent(np.zeros(2), np.zeros(4))
        finally:
            connector.close()


def test_a_loop_by_hand_samples_for_dqn(redis_address: Address, tmp_path: Path) -> None:
    with _run(redis_address, tmp_path, dqn_settings(**ENV)) as node:
        connector = DQNConnector(CONFIG, redis_address, "c")
        steps = iter(range(200))
        more = iter(range(200))
        try:
            _play(connector, lambda: next(steps, None) is not None)
            until(lambda: node.node.learner.learning, "learning begins")
            _play(connector, lambda: next(more, None) is not None)
            assert node.wait_for_updates(3).rejected == {}
            _look_at_memory(node)
        finally:
            connector.close()
