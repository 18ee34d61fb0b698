from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from soulsgui.policies.specs import MEMORY
from soulsgui.rl.agents.dqn import R2D2Agent
from soulsgui.rl.buffers.sequences import SequenceBatch
from soulsgui.rl.losses.q_learning import rescaled, unscaled
from tests.rl.agents.cases import BURN_IN, r2d2_agent, sequences
from tests.rl.recurrent import stepped
from tests.rl.support import client_of

CELLS = pytest.mark.parametrize("cell", ["lstm", "gru"])
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
def test_numpy_and_torch_agree_over_a_long_unroll(cell: str) -> None:
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
