"""TD3 and TQC: one update is that of the papers written out; the actor of TD3 waits, and clients explore."""

import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.agents.td3 import TD3Agent
from soulsgui.rl.gradients.sac import SACRows, draw
from soulsgui.rl.gradients.td3 import FIGURES
from soulsgui.rl.losses.q_learning import quantile_huber_loss
from tests.rl.agents.cases import BOUNDED as SPACES
from tests.rl.agents.cases import Recorder
from tests.rl.support import client_of, sac_settings, transitions


def td3_agent(**changes: Any) -> TD3Agent:
    quick = {"agent": "td3", "policy_init_scale": 1.0, "observations": False}
    return TD3Agent(SPACES, sac_settings(**quick | changes), seed=0)


def said(critics: Any, obs: Tensor, action: Tensor) -> list[Tensor]:
    return [critic(torch.cat((obs, action), 1)) for critic in critics]


def as_tensors(rows: SACRows) -> list[Tensor]:
    return [torch.from_numpy(column) for column in rows]


def flattened(parts: Any) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


def test_two_updates_are_those_of_the_paper_written_out() -> None:
    agent = td3_agent(target_tau=0.25, learning_rate=1e-2)
    recorder, nets, theirs = Recorder(agent), agent.networks, copy.deepcopy(agent.networks)
    assert nets.target_actor is not None
    assert theirs.target_actor is not None
    critics = [parameter for critic in theirs.critics for parameter in critic.parameters()]
    of_critics = torch.optim.Adam(critics, lr=1e-2)
    of_actor = torch.optim.Adam(theirs.actor.parameters(), lr=1e-2)
    for number in range(2):
        agent.update(transitions(30, number, SPACES))
        obs, action, reward, next_obs, discount, noise = as_tensors(recorder.rows[-1])
        assert action.abs().max() == 1, "some were cut off"
        with torch.no_grad():
            next_action = theirs.target_actor(next_obs).tanh() + (0.2 * noise).clamp(-0.5, 0.5)
            next_q = torch.minimum(*said(theirs.targets, next_obs, next_action.clamp(-1, 1)))
            target = reward + discount * next_q[:, 0]
        q = torch.cat(said(theirs.critics, obs, action), 1)
        loss = 0.5 * (q - target[:, None]).square().sum(1).mean()
        worth = said(theirs.critics, obs, theirs.actor(obs).tanh())[0].mean()
        for parameter, gradient in zip(critics, torch.autograd.grad(loss, critics), strict=True):
            parameter.grad = gradient
        figures = dict(zip(FIGURES, recorder.told[-1].figures.tolist(), strict=True))
        assert figures["critic_loss"] == pytest.approx(loss.item(), rel=1e-5)
        assert figures["target_mean"] == pytest.approx(target.mean().item(), rel=1e-5)
        moves = number == 1
        if moves:
            (-worth).backward(inputs=list(theirs.actor.parameters()))  # type: ignore[no-untyped-call]
            of_actor.step()
        of_critics.step()
        pairs = [(nets.actor, theirs.actor), *zip(nets.critics, theirs.critics, strict=True)]
        for ours, other in pairs:
            torch.testing.assert_close(flattened(ours.parameters()), flattened(other.parameters()))
        followed = [theirs.target_actor, *theirs.targets]
        for ours, (_, learned), old in zip((nets.target_actor, *nets.targets), pairs, followed, strict=True):
            before, now = flattened(old.parameters()), flattened(learned.parameters())
            expected = before + 0.25 * (now - before) if moves else before
            torch.testing.assert_close(flattened(ours.parameters()), expected)


@pytest.mark.parametrize("delay", [1, 3])
def test_actor_and_targets_move_at_every_few_updates(delay: int) -> None:
    agent = td3_agent(policy_delay=delay)
    for number in range(1, 7):
        before = agent.state()[0]
        agent.update(transitions(16, number, SPACES))
        now = agent.state()[0]
        moved = {name.partition(".")[0] for name in now if not np.array_equal(now[name], before.get(name))}
        waiting = {"actor", "target_actor", "target_0", "target_1"}
        assert moved & waiting == (set() if number % delay else waiting)
        assert {"critic_0", "critic_1"} <= moved


def test_clients_add_noise_to_the_action_which_is_large_before_there_is_something_to_be_near_to() -> None:
    agent = td3_agent(exploration_noise=0.25)
    obs = np.repeat(np.random.default_rng(0).normal(3, 2, (1, 4)).astype(np.float32), 20_000, axis=0)
    for deviation in (1.0, 0.25):
        policy = client_of(agent)
        middle = np.tanh(agent.outputs(obs[:1]))
        np.testing.assert_allclose(policy.greedy(obs[:1]), middle, atol=1e-6)
        stored, _ = policy.act(obs, np.random.default_rng(1))
        np.testing.assert_allclose((stored - middle).std(axis=0), deviation, rtol=0.03)
        taken = policy.to_environment(stored)
        np.testing.assert_allclose(taken, np.clip(stored, -1, 1) * [2, 0.5] + [0, 0.5], atol=1e-6)
        agent.update(transitions(16, 0, SPACES))


def test_an_update_of_tqc_is_that_of_the_paper_written_out() -> None:
    changes = {"agent": "tqc", "critics": 3, "quantiles": 5, "dropped_quantiles": 2, "target_entropy": -1.0}
    agent = SACAgent(SPACES, sac_settings(policy_init_scale=1.0, observations=False, **changes), seed=0)
    nets = copy.deepcopy(agent.networks)
    recorder = Recorder(agent)
    agent.update(transitions(30, 0, SPACES))
    obs, action, reward, next_obs, discount, noise = as_tensors(recorder.rows[0])
    alpha = nets.log_temperature.exp().item()
    drawn = partial(draw, agent.networks)
    agent.networks.actor.load_state_dict(nets.actor.state_dict())  # as it was before the step
    with torch.no_grad():
        next_action, next_log_prob = drawn(next_obs, noise[0])
        pooled = torch.cat(said(nets.targets, next_obs, next_action), 1).sort(1).values[:, :9]
        target = reward[:, None] + discount[:, None] * (pooled - alpha * next_log_prob[:, None])
    levels = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9])
    loss = sum(
        (quantile_huber_loss(one, levels, target).loss / 5 for one in said(nets.critics, obs, action)),
        torch.zeros(()),
    )
    parameters = [parameter for critic in nets.critics for parameter in critic.parameters()]
    of_critics = flattened(torch.autograd.grad(loss, parameters))
    fresh, log_prob = drawn(obs, noise[1])
    worth = torch.stack(said(nets.critics, obs, fresh)).mean((0, 2))
    of_actor = flattened(
        torch.autograd.grad((alpha * log_prob - worth).mean(), list(agent.networks.actor.parameters()))
    )
    found = agent._flat.gradient
    torch.testing.assert_close(found[: len(of_actor)], of_actor, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(found[len(of_actor) : -1], of_critics, atol=1e-6, rtol=1e-4)
    assert found[-1].item() == pytest.approx(-alpha * (log_prob.mean().item() - 1.0), rel=1e-4)
