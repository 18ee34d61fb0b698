"""The SAC agent: one gradient step, the targets, the temperature, and the same curve after a resume."""

from typing import Any

import numpy as np
import pytest
import torch

from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import EnvironmentCheckError
from soulsgui.rl.agents.sac import SACAgent
from tests.rl.agents.cases import BOUNDED as SPACES
from tests.rl.agents.cases import Recorder
from tests.rl.support import sac_settings, transitions


def trained_agent(seed: int = 0, updates: int = 3, **changes: Any) -> SACAgent:
    agent = SACAgent(SPACES, sac_settings(**changes), seed)
    for index in range(updates):
        batch = transitions(16, index, SPACES)
        agent.observe(batch.obs)
        agent.update(batch)
    return agent


def test_each_update_draws_other_noise_and_the_two_critics_differ() -> None:
    agent = trained_agent(updates=0)
    recorder = Recorder(agent)
    for _ in range(2):
        agent.update(transitions(500, 0, SPACES))
    first, second = (rows.noise for rows in recorder.rows)
    noise = np.stack((*first, *second)).reshape(4, -1)
    np.testing.assert_allclose(np.cov(noise), np.eye(4), atol=0.15)
    tensors = agent.state()[0]
    critics = [[tensors[name] for name in tensors if name.startswith(f"critic_{index}")] for index in (0, 1)]
    assert any(not np.array_equal(*both) for both in zip(*critics, strict=True))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, -2.0), ({"target_entropy": 0.7}, 0.7), ({"learn_temperature": False}, None)],
)
def test_the_temperature_aims_at_its_entropy(changes: dict[str, Any], expected: float | None) -> None:
    agent = trained_agent(updates=0, **changes)
    recorder = Recorder(agent)
    agent.update(transitions(16, 0, SPACES))
    assert recorder.settings == [expected]
    moved = agent.state()[0]["log_temperature"] != np.log(np.float32(0.5))
    assert moved == (expected is not None)
    assert agent.figures()["temperature"] == pytest.approx(0.5), "that of before the step"


@pytest.mark.parametrize(
    "action",
    [
        DiscreteSpec(3),
        BoxActionSpec(BoxSpec((1,), "float32")),
        BoxActionSpec(BoxSpec((2,), "float32", (0.0,), (1.0, float("inf")))),
    ],
)
def test_actions_that_are_no_numbers_within_bounds_are_refused(action: Any) -> None:
    with pytest.raises(EnvironmentCheckError, match="within bounds") as refusal:
        SACAgent(SpacesSpec(SPACES.observation, action), sac_settings(), seed=0)
    assert refusal.value.remedy


@pytest.mark.parametrize("agent", ["sac", "tqc"])
def test_what_episodes_are_worth_at_their_start_is_what_constant_critics_say(agent: str) -> None:
    learned = trained_agent(updates=0, agent=agent)
    for number, critic in enumerate(learned.networks.critics):
        torch.nn.init.zeros_(critic[-1].weight)
        torch.nn.init.constant_(critic[-1].bias, 3.0 + number)
    count = len(learned.networks.critics)
    worth = np.full(16, 3.0 + (count - 1) / 2, np.float32)
    np.testing.assert_allclose(learned.start_values(transitions(16, 0, SPACES).obs), worth, rtol=1e-6)
