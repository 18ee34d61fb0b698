"""Agents with a memory, PPO and R2D2: one long unroll by PyTorch's cells, however it was cut on its way."""

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
from soulsgui.rl.agents.dqn import R2D2Agent
from soulsgui.rl.agents.ppo import RecurrentPPOAgent
from soulsgui.rl.buffers.sequences import SequenceBatch
from soulsgui.rl.losses.q_learning import rescaled, unscaled
from soulsgui.rl.returns import gae
from tests.rl.agents.cases import BURN_IN, Recorder, r2d2_agent, sequences
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


GAMMA = 0.9


@torch.no_grad()
def values_along(agent: R2D2Agent, network: Any, batch: SequenceBatch, column: int) -> NDArray[np.float64]:
    """Return plain values of one sequence `[T + 1, A]`, step after step by PyTorch's cells."""
    seen = [torch.from_numpy(agent._inputs(obs[None])) for obs in batch.obs[:, column]]
    inputs = [network.torso.torso(one) for one in seen]
    features = stepped(network.torso, inputs, batch.state[column : column + 1])
    return unscaled(torch.stack([network.head(one)[0, :, 0] for one in features])).double().numpy()


@CELLS
def test_an_update_is_what_a_loop_over_steps_says(cell: str) -> None:
    agent = r2d2_agent(updates=4, cell=cell)
    with torch.no_grad():  # so that both networks choose differently
        for parameter in agent.target.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    batch = sequences(agent, seed=9)
    differences: list[list[float]] = []
    for column in range(len(batch.number)):
        online, target = (values_along(agent, one, batch, column) for one in (agent.online, agent.target))
        mine = []
        for step in np.flatnonzero(batch.learned[:, column]):
            total, discount, last = 0.0, 1.0, step
            for last in range(step, min(step + 2, int(batch.valid[:, column].sum()))):
                total += discount * float(batch.reward[last, column])
                discount *= 0.0 if batch.terminated[last, column] else GAMMA
                if not discount:
                    break
            allowed = np.where(batch.next_mask[last, column], online[last + 1], -np.inf)
            aim = total + discount * target[last + 1, allowed.argmax()]
            taken = online[step, batch.action[step, column] - 1]
            both = rescaled(torch.tensor([taken, aim], dtype=torch.float64))
            mine.append(abs(float(both[0] - both[1])))
        differences.append(mine)
    agent.figures()
    error = agent.update(batch)
    expected = [0.9 * max(mine) + 0.1 * float(np.mean(mine)) for mine in differences]
    np.testing.assert_allclose(error, expected, rtol=1e-4)
    squares = sum(w * sum(d * d for d in mine) for w, mine in zip(batch.weight, differences, strict=True))
    figures = agent.figures()
    assert figures["loss"] == pytest.approx(0.5 * squares / sum(map(len, differences)), rel=1e-4)
    assert figures["td_error"] == pytest.approx(np.mean([d for mine in differences for d in mine]), rel=1e-4)
    assert figures["td_error_max"] == pytest.approx(max(map(max, differences)), rel=1e-4)


@CELLS
def test_an_episode_begins_with_nothing_remembered(cell: str) -> None:
    agent = r2d2_agent(updates=3, cell=cell)
    batch = sequences(agent, seed=2)
    batch = batch._replace(state=np.zeros_like(batch.state))
    first = [values_along(agent, agent.online, batch, column)[0] for column in range(len(batch.number))]
    found = agent.start_values(batch.obs[0])
    np.testing.assert_allclose(found, [each.max() for each in first], rtol=1e-4)


def test_what_comes_before_the_burn_in_is_over_moves_nothing_but_the_state() -> None:
    agent, other = r2d2_agent(updates=2), r2d2_agent(updates=2)
    batch = sequences(agent, seed=3)
    inexact = batch._replace(
        exact=np.zeros(6, np.bool_), learned=batch.valid & (np.arange(8)[:, None] >= BURN_IN)
    )
    reward = inexact.reward.copy()
    reward[:BURN_IN] += 100
    first, second = agent.update(inexact), other.update(inexact._replace(reward=reward))
    np.testing.assert_array_equal(first, second)
    obs = inexact.obs.copy()
    obs[:BURN_IN] += 1
    assert np.abs(agent.update(inexact) - other.update(inexact._replace(obs=obs))).max() > 1e-3


@CELLS
def test_values_agree_over_a_long_unroll(cell: str) -> None:
    agent = r2d2_agent(updates=3, cell=cell, learning_rate=0.05)
    policy = client_of(agent)
    obs = np.random.default_rng(1).normal(3, 2, (201, 1, 4)).astype(np.float32)
    np.testing.assert_allclose(policy.outputs(obs[:, 0]), agent.outputs(obs[:, 0]), atol=1e-5)
    batch = sequences(agent)._replace(obs=obs, state=np.zeros((1, agent.online.torso.state_size), np.float32))
    plain = torch.from_numpy(values_along(agent, agent.online, batch, 0))
    expected = rescaled(plain)
    decided = expected.topk(2, dim=1).values
    for step in range(len(obs)):
        found = policy._through(obs[step], policy.remembered.fields[MEMORY])[0][0]
        np.testing.assert_allclose(found, expected[step], atol=1e-5)
        action = policy.greedy(obs[step])[0]
        if decided[step, 0] - decided[step, 1] > 1e-4:
            assert action == int(expected[step].argmax()) + 1
