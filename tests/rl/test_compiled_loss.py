"""Compiled losses are those that stand there; networks compute in bfloat16 where that is asked for."""

import shutil
from typing import Any

import numpy as np
import pytest
import torch

from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.exploration import START, Moment
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.agents.ppo import PPOAgent
from tests.rl.support import dqn_settings, ppo_settings, random_batch, transitions

IMAGE = SpacesSpec(BoxSpec((4, 42, 42), "uint8", (0,), (255,)), DiscreteSpec(3))
BOX = SpacesSpec(BoxSpec((4,), "float32"), BoxActionSpec(BoxSpec((2,), "float32", (-1.0,), (1.0,))))


def image_agent() -> DQNAgent:
    return DQNAgent(IMAGE, dqn_settings(name="nature_cnn", hidden_sizes=(32,), activation="relu"), 0)


def test_half_the_precision_gives_nearly_the_same_gradient() -> None:
    exact, mixed = image_agent(), image_agent()
    mixed.learn_mixed()
    for agent in (exact, mixed):
        agent.update(transitions(16, 0, IMAGE))
    one, other = exact._flat.gradient, mixed._flat.gradient
    assert other.dtype == torch.float32
    assert not torch.equal(one, other)
    assert torch.nn.functional.cosine_similarity(one, other, dim=0) > 0.99


def test_nobody_waits_for_an_error_that_nobody_asks_for() -> None:
    one, other = image_agent(), image_agent()
    assert one.update(transitions(4, 0, IMAGE), tell=False) is None
    assert other.update(transitions(4, 0, IMAGE)) is not None
    for name, array in one.state()[0].items():
        np.testing.assert_array_equal(array, other.state()[0][name])


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler of C++")
@pytest.mark.parametrize("agent", ["dqn", "iqn"])
def test_compiled_equals_eager_for_dqn(agent: str) -> None:
    changes: dict[str, Any] = {"agent": agent, "dueling": True, "quantiles": 4}
    if agent == "dqn":
        changes |= {"name": "nature_cnn", "hidden_sizes": (32,), "activation": "relu"}
    spaces = IMAGE if agent == "dqn" else SpacesSpec(BoxSpec((4,), "float32"), DiscreteSpec(3, start=1))
    batches = [transitions(8, k, spaces) for k in range(6)]
    plain, compiled = (DQNAgent(spaces, dqn_settings(**changes), 0) for _ in range(2))
    assert compiled.compiled_loss is not None
    compiled.compiled_loss.noted = True
    for made in (plain, compiled):
        made.update(batches[0])
    before = [array.copy() for array in compiled.state()[0].values()]
    compiled.compiled_loss.prepare()
    for array, now in zip(before, compiled.state()[0].values(), strict=True):
        np.testing.assert_array_equal(array, now)  # it happens to copies
    compiled.compiled_loss.use(compiled=True)
    for batch in batches[1:]:
        for made in (plain, compiled):
            made.update(batch)
    assert compiled.compiled_loss.compiled
    # The first step of Adam has the size of the learning rate wherever a gradient is not exactly 0.
    torch.testing.assert_close(compiled._flat.gradient, plain._flat.gradient, atol=1e-4, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler of C++")
def test_compiled_equals_eager_for_ppo() -> None:
    from torch._dynamo.utils import counters

    clip = {"schedule": "linear", "from": 0.3, "to": 0.1}
    settings = ppo_settings(epochs=2, hidden_sizes=(16,), shared=True, clip=clip)
    plain, compiled = (PPOAgent(BOX, settings, 0) for _ in range(2))
    batch = random_batch(plain)
    assert compiled.compiled_loss is not None
    compiled.compiled_loss.noted = True
    for made in (plain, compiled):
        made.update(batch, START)
    compiled.compiled_loss.prepare()
    compiled.compiled_loss.use(compiled=True)
    made_before = counters["stats"]["unique_graphs"]
    for steps in (100, 500):  # neither what networks share nor a schedule has it compiled anew
        for made in (plain, compiled):
            made.update(batch, Moment(steps, 1000))
    assert compiled.compiled_loss.compiled
    assert counters["stats"]["unique_graphs"] == made_before
    torch.testing.assert_close(compiled._flat.parameter, plain._flat.parameter, atol=1e-5, rtol=1e-4)
