"""The parts of deep Q-learning together, on a small task whose values are known."""

from typing import Any

import numpy as np
import pytest
import torch

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.buffers.memory import WindowReplay
from soulsgui.rl.buffers.replay import UniformReplay
from tests.rl.support import dqn_settings

STATES, GAMMA = 5, 0.9
LEFT, RIGHT = 1, 2
SPACES = SpacesSpec(BoxSpec((STATES,), "float32"), DiscreteSpec(2, start=LEFT))


def step(state: int, action: int) -> tuple[int, float, bool]:
    """Walk along the chain: 1 for leaving it to the right, the end; 0.1 for each push against the left wall.

    Pushing for ever is worth `0.1 / (1 - 0.9) = 1`: only to those who look beyond an episode cut off.
    """
    if action == LEFT:
        return max(state - 1, 0), 0.1 if state == 0 else 0.0, False
    if state == STATES - 1:
        return state, 1.0, True
    return state + 1, 0.0, False


def exact_values() -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the best values `[states, actions]`, by value iteration."""
    values = np.zeros((STATES, 2))
    for _ in range(500):
        best = values.max(axis=1)
        for state in range(STATES):
            for action in (LEFT, RIGHT):
                following, reward, terminated = step(state, action)
                values[state, action - LEFT] = reward + GAMMA * best[following] * (not terminated)
    return values


def add_random_episodes(replay: UniformReplay, agent: DQNAgent, count: int) -> None:
    """Walk at random from random states; an episode is cut off after 4 steps."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        state, terminated = int(rng.integers(STATES)), False
        path, action, reward = [state], list[int](), list[float]()
        while not terminated and len(action) < 4:
            action.append(int(rng.integers(LEFT, RIGHT + 1)))
            state, gain, terminated = step(state, action[-1])
            path.append(state)
            reward.append(gain)
        obs = np.eye(STATES, dtype=np.float32)[path]
        lengths = np.array([len(action)])
        replay.add(obs, lengths, np.array(action), np.array(reward), np.array([terminated]))
        agent.observe(obs)


@pytest.mark.parametrize("changes", [{}, {"double": False, "loss": "mse", "observations": False}])
def test_the_values_of_a_chain_are_learned(changes: dict[str, Any]) -> None:
    settings = dqn_settings(learning_rate=2e-3, target_interval=20, **changes)
    agent = DQNAgent(SPACES, settings, seed=0)
    replay = UniformReplay(1_000, SPACES.observation)
    add_random_episodes(replay, agent, 300)
    memory = WindowReplay(replay, 1, GAMMA)
    for _ in range(2_000):
        agent.update(memory.draw(64, agent.sample_rng).batch)
    states = np.eye(STATES, dtype=np.float32)
    with torch.no_grad():
        learned = agent.online(torch.from_numpy(agent._inputs(states))).numpy()
    expected = exact_values()
    assert expected[0].tolist() == pytest.approx([1.0, 0.81])
    np.testing.assert_allclose(learned, expected, atol=0.01)
    policy = NumpyMLPPolicy(agent.policy_spec())
    policy.load(agent.export_weights())
    # In the middle both ways are worth the same.
    assert policy.greedy(states[[0, 1, 3, 4]]).tolist() == [LEFT, LEFT, RIGHT, RIGHT]
