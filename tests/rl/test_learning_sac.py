"""The parts of soft actor-critic, TQC and TD3 together, on a task of one state whose best policy is known."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.agents.td3 import TD3Agent
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.distributions import softplus_std
from tests.rl.support import sac_settings

SPACES = SpacesSpec(BoxSpec((1,), "float32"), BoxActionSpec(BoxSpec((1,), "float32", (-1.0,), (1.0,))))
STATE = np.ones((1, 1), np.float32)
BEST, STEEPNESS = 0.3, 2.0


def learn(agent: SACAgent, updates: int, squashed: bool = True) -> dict[str, float]:
    """Learn where each episode ends with a reward of `-2 (a - 0.3)^2`, from any actions; return figures."""
    obs = np.repeat(STATE, 64, axis=0)
    for _ in range(updates):
        action = agent.sample_rng.uniform(-0.99, 0.99, (64, 1)).astype(np.float32)
        agent.update(
            NStepBatch(
                obs=obs,
                action=np.arctanh(action) if squashed else action,
                reward=-STEEPNESS * np.square(action[:, 0] - BEST),
                next_obs=obs,
                discount=np.zeros(64, np.float32),
            )
        )
    return agent.figures()


def new_agent(**changes: Any) -> SACAgent:
    return SACAgent(SPACES, sac_settings(learning_rate=3e-3, observations=False, **changes), seed=0)


def policy_of(agent: SACAgent) -> tuple[float, float]:
    """Return the middle action, and the deviation about it."""
    mean, raw = (torch.from_numpy(part) for part in np.split(agent.outputs(STATE), 2, axis=1))
    middle = math.tanh(mean.item())
    return middle, softplus_std(raw, agent.networks.initial_std).item() * (1 - middle**2)


@pytest.mark.parametrize("agent", ["sac", "tqc"])
def test_the_policy_becomes_that_of_boltzmann(agent: str) -> None:
    """The best policy is proportional to `exp(r(a) / alpha)`: here a Gaussian of variance `alpha / 4`."""
    learner = new_agent(agent=agent, critics=2, initial_temperature=0.04, learn_temperature=False)
    learn(learner, 600)
    middle, deviation = policy_of(learner)
    assert middle == pytest.approx(BEST, abs=0.03)
    assert deviation == pytest.approx(math.sqrt(0.04 / (2 * STEEPNESS)), rel=0.15)


def test_the_policy_of_td3_becomes_the_best_action() -> None:
    settings = sac_settings(agent="td3", learning_rate=3e-3, observations=False)
    agent = TD3Agent(SPACES, settings, seed=0)
    learn(agent, 800, squashed=False)
    assert math.tanh(agent.outputs(STATE).item()) == pytest.approx(BEST, abs=0.03)


def test_the_temperature_becomes_that_of_the_entropy_to_keep() -> None:
    """A Gaussian with a deviation of 0.1 has this entropy, and a temperature of `4 * 0.1^2` leads to it."""
    wanted = math.log(0.1 * math.sqrt(2 * math.pi * math.e))
    agent = new_agent(initial_temperature=0.1, target_entropy=wanted)
    learn(agent, 800)
    figures = learn(agent, 400)
    assert figures["entropy"] == pytest.approx(wanted, abs=0.1)
    assert figures["temperature"] == pytest.approx(2 * STEEPNESS * 0.1**2, rel=0.25)
