from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import MultiDiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import START
from soulsgui.policies.specs import MEMORY
from soulsgui.rl.agents.ppo import RecurrentPPOAgent
from soulsgui.rl.returns import gae
from tests.rl.agents.cases import Recorder
from tests.rl.recurrent import played, recurrent_agent, stepped
from tests.rl.support import SPACES, client_of

CELLS = pytest.mark.parametrize("cell", ["lstm", "gru"])


@torch.no_grad()
def unrolled(agent: RecurrentPPOAgent, obs: NDArray[np.float32], state: NDArray[np.float32]) -> torch.Tensor:
    """Go through observations `[T, B, 4]` by PyTorch's cells, one after the other; return features."""
    inputs = [agent.memory.torso(torch.from_numpy(agent.normaliser.normalise(one))) for one in obs]
    return torch.stack(stepped(agent.memory, inputs, state))


@CELLS
@pytest.mark.parametrize("observations", [True, False])
def test_numpy_and_torch_agree_over_a_long_unroll(cell: str, observations: bool) -> None:
    agent = recurrent_agent(updates=1, recurrent=cell, observations=observations, activation="relu")
    rng = np.random.default_rng(1)
    obs = rng.normal(1, 2, (300, 3, 4)).astype(np.float32)
    policy = client_of(agent)
    policy.remembered.begin(3)
    if not observations:
        agent.normaliser.normalise = lambda rows: rows
    features = unrolled(agent, obs, np.zeros((3, agent.memory.state_size), np.float32))
    expected = agent.policy(features).log_softmax(2).detach()
    for one, logs in zip(obs, expected, strict=True):
        before = policy.log_prob(one, np.array([1, 2, 3]))
        action, log_prob = policy.act(one, rng)
        np.testing.assert_allclose(log_prob, logs[range(3), action - 1], atol=1e-5)
        np.testing.assert_allclose(before, logs[range(3), range(3)], atol=1e-5)
    assert expected.exp().std((0, 1)).min() > 0.02, "what it does depends on what it saw"


@CELLS
def test_what_it_says_of_a_reference_depends_on_every_weight(cell: str) -> None:
    agent = recurrent_agent(recurrent=cell)
    obs = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    told = agent.outputs(obs)
    policy = client_of(agent)
    np.testing.assert_allclose(policy.outputs(obs), told, atol=1e-5)
    assert not policy.remembered.fields[MEMORY].any()
    with pytest.raises(ValueError, match="2 observations, and 1 environments"):
        policy.greedy(obs)
    for name, tensor in agent.memory.named_tensors():
        with torch.no_grad():
            tensor += 0.1
        changed = agent.outputs(obs)
        assert np.abs(changed - told).max() > 1e-4, name
        told = changed


class Unrolled(Recorder):
    """Keeps the rows of each minibatch as the memory has unrolled them."""

    def __call__(self, rows: Any, settings: Any) -> Any:
        told = super().__call__(rows, settings)
        with torch.no_grad():
            self.rows[-1] = self.gradient.unrolled(rows)
        return told

    @property
    def log_ratios(self) -> list[torch.Tensor]:
        return [told.samples for told in self.told]


def recorded(agent: RecurrentPPOAgent, batch: Segments) -> Unrolled:
    recorder = Unrolled(agent)
    agent.update(batch, START)
    return recorder


@CELLS
@pytest.mark.parametrize(
    "action",
    [
        SPACES.action,
        BoxActionSpec(BoxSpec((2,), "float32", (-1.0, 0.0), (1.0, 5.0))),
        MultiDiscreteSpec((2, 3), (0, 0), (2,)),
    ],
)
@pytest.mark.parametrize("recompute", [True, False])
def test_without_learning_the_ratio_is_1_all_the_way(cell: str, action: Any, recompute: bool) -> None:
    spaces = SpacesSpec(SPACES.observation, action)
    choice = {"recompute_advantages": recompute, "learning_rate": 0.0, "sequence_length": 5}
    agent = recurrent_agent(2, 2, spaces, recurrent=cell, **choice)
    batch = played(agent, seed=9)
    ratios = torch.cat(recorded(agent, batch).log_ratios)
    assert len(ratios) == 2 * batch.steps
    torch.testing.assert_close(ratios, torch.zeros_like(ratios), atol=1e-5, rtol=0)


@CELLS
@pytest.mark.parametrize("most", [1, 4, 6, 64])
def test_however_a_chain_is_cut_it_is_one_long_unroll(cell: str, most: int) -> None:
    agent = recurrent_agent(updates=1, recurrent=cell, sequence_length=most, epochs=1, learning_rate=0.0)
    cuts = ((2, False), (7, False), (5, False), (9, True), (4, False))
    batch = played(agent, seed=3, cuts=cuts)
    # The client began with older weights: what it stored later is not what these would remember.
    state = np.random.default_rng(1).normal(size=batch.state[MEMORY].shape).astype(np.float32)
    state[4] = 0
    batch = replace(batch, state={MEMORY: state})
    seen = batch.obs[batch.step_rows]
    expected = torch.cat(
        [
            unrolled(agent, seen[:23, None], state[:1])[:, 0],
            unrolled(agent, seen[23:, None], state[4:])[:, 0],
        ]
    )
    recorder = recorded(agent, batch)
    found = {
        (round(float(rows.log_prob[i]), 6), int(rows.action[i])): rows.obs[i]
        for rows in recorder.rows
        for i in range(len(rows.action))
    }
    assert len(found) == batch.steps
    for step in range(batch.steps):
        key = (round(float(batch.log_prob[step]), 6), int(batch.action[step]) - 1)
        torch.testing.assert_close(found[key], expected[step], atol=1e-5, rtol=0)


def test_advantages_are_those_of_whole_chains() -> None:
    agent = recurrent_agent(updates=1, sequence_length=5, gae_lambda=0.7, normalize_advantage="none")
    cuts = ((3, False), (8, False), (6, True), (7, False))
    batch = played(agent, seed=4, cuts=cuts)
    advantage, target, value = agent._targets(batch, agent._inputs(batch.obs))
    rows = batch.obs[batch.step_rows]
    values = []
    for steps, last in ((rows[:17], batch.obs[19]), (rows[17:], batch.obs[-1])):
        seen = np.concatenate((steps, last[None]))[:, None]
        features = unrolled(agent, seen, np.zeros((1, agent.memory.state_size), np.float32))[:, 0]
        values.append(agent.value(features)[:, 0].detach().numpy())
    here, after = (np.concatenate([one[part] for one in values]) for part in (np.s_[:-1], np.s_[1:]))
    ends, final = np.isin(np.arange(24), (16, 23)), np.arange(24) == 16
    expected = gae(batch.reward, here, after, final, ends, 0.99, 0.7)
    np.testing.assert_allclose(value, here, atol=1e-5)
    np.testing.assert_allclose(advantage, expected, atol=1e-4)
    np.testing.assert_allclose(target, expected + here, atol=1e-4)


def test_every_step_is_used_once_a_pass_and_stretches_stay_whole() -> None:
    agent = recurrent_agent(epochs=1, sequence_length=5, minibatch_size=16)
    batch = played(agent)
    recorder = recorded(agent, batch)
    used = np.concatenate([rows.log_prob.numpy() for rows in recorder.rows])
    np.testing.assert_array_equal(np.sort(used), np.sort(batch.log_prob))
    sizes = [len(rows.action) for rows in recorder.rows]
    assert len(sizes) == 3
    assert max(sizes) - min(sizes) <= 10, "about equal: to a stretch"
