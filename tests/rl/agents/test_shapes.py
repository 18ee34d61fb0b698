"""What agents tell of their networks: every number that is learned stands in some layer."""

from typing import Any

import pytest

from soulsgui.rl.agents.dqn import DQNAgent, R2D2Agent
from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.rl.agents.recurrent_ppo import RecurrentPPOAgent
from tests.rl.agents.test_dqn_family import MEMBERS
from tests.rl.support import SPACES, dqn_settings, ppo_settings


def _told(agent: Any) -> int:
    return sum(layer.parameters for report in agent.shapes().values() for layer in report)


@pytest.mark.parametrize("changes", [{}, *MEMBERS.values()], ids=["dqn", *MEMBERS])
def test_the_dqn_family_tells_of_all_it_learns(changes: dict[str, Any]) -> None:
    agent = DQNAgent(SPACES, dqn_settings(**changes), seed=0)
    assert _told(agent) == agent._flat.parameter.numel()


def test_agents_with_a_memory_tell_of_all_they_learn() -> None:
    for agent in (
        R2D2Agent(SPACES, dqn_settings(agent="r2d2", recurrent="lstm"), seed=0),
        RecurrentPPOAgent(SPACES, ppo_settings(recurrent="gru"), seed=0),
        RecurrentPPOAgent(SPACES, ppo_settings(name="mlp_layer_norm", recurrent="lstm"), seed=0),
        PPOAgent(SPACES, ppo_settings(), seed=0),
    ):
        assert _told(agent) == agent._flat.parameter.numel()
