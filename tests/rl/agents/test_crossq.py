"""CrossQ: its updates are those of the paper written out, and its actor waits."""

import copy
from itertools import chain

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from soulsgui.rl.agents.crossq import CrossQAgent
from soulsgui.rl.distributions import softplus_std
from soulsgui.rl.gradients.crossq import FIGURES
from soulsgui.rl.networks.renorm import BatchRenorm
from tests.rl.agents.cases import BOUNDED as SPACES
from tests.rl.agents.cases import Recorder
from tests.rl.support import sac_settings, transitions

COUNT = 30


def crossq_agent(**changes: object) -> CrossQAgent:
    quick = {"agent": "crossq", "policy_init_scale": 1.0, "observations": False}
    return CrossQAgent(SPACES, sac_settings(**quick | changes), seed=0)


def said(network: nn.Sequential, inputs: Tensor, learns: bool = False) -> Tensor:
    """Return what a network says, normalised by its batch, of which it learns, or by what it has learned."""
    for layer in network:
        if isinstance(layer, BatchRenorm):
            mean, var = layer.running_mean, layer.running_var
            if learns:
                mean, var = inputs.mean(0), inputs.var(0, correction=0)
                layer.running_mean = 0.99 * layer.running_mean + 0.01 * mean.detach()
                layer.running_var = 0.99 * layer.running_var + 0.01 * inputs.var(0).detach()
            inputs = (inputs - mean) / (var + 1e-3).sqrt() * layer.weight + layer.bias
        else:
            inputs = layer(inputs)
    return inputs


def drawn(outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions and their log-probabilities."""
    mean, raw = outputs.chunk(2, 1)
    std = softplus_std(raw, 1.0)
    latent = mean + std * noise
    density = Normal(mean, std).log_prob(latent) - (1 - latent.tanh().square()).log()
    return latent.tanh(), density.sum(1)


def test_two_updates_are_those_of_the_paper_written_out() -> None:
    agent = crossq_agent(learning_rate=1e-2, policy_delay=2)
    recorder, nets, theirs = Recorder(agent), agent.networks, copy.deepcopy(agent.networks)
    assert nets.following == []
    critics = list(chain.from_iterable(critic.parameters() for critic in theirs.critics))
    of_critics = torch.optim.Adam(critics, lr=1e-2, betas=(0.5, 0.999))
    others = [*theirs.actor.parameters(), theirs.log_temperature]
    of_others = torch.optim.Adam(others, lr=1e-2, betas=(0.5, 0.999))
    for number in range(2):
        agent.update(transitions(COUNT, number, SPACES))
        rows = recorder.rows[-1]
        obs, action, reward, next_obs, discount, noise = (torch.from_numpy(column) for column in rows)
        alpha = theirs.log_temperature.exp().item()
        with torch.no_grad():
            next_action, next_log_prob = drawn(said(theirs.actor, next_obs), noise[0])
        both = torch.cat((torch.cat((obs, action), 1), torch.cat((next_obs, next_action), 1)))
        q, next_q = torch.cat([said(critic, both, learns=True) for critic in theirs.critics], 1).split(COUNT)
        target = reward + discount * (next_q.amin(1) - alpha * next_log_prob).detach()
        loss = 0.5 * (q - target[:, None]).square().sum(1).mean()
        for parameter, gradient in zip(critics, torch.autograd.grad(loss, critics), strict=True):
            parameter.grad = gradient
        figures = dict(zip(FIGURES, recorder.told[-1].figures.tolist(), strict=True))
        assert figures["critic_loss"] == pytest.approx(loss.item(), rel=1e-4)
        assert figures["target_mean"] == pytest.approx(target.mean().item(), rel=1e-4)
        assert figures["entropy"] == pytest.approx(-next_log_prob.mean().item(), rel=1e-4)
        assert figures["temperature"] == pytest.approx(alpha)
        if number == 1:
            fresh, log_prob = drawn(said(theirs.actor, obs, learns=True), noise[1])
            worth = torch.cat([said(critic, torch.cat((obs, fresh), 1)) for critic in theirs.critics], 1)
            of_actor = (alpha * log_prob - worth.amin(1)).mean()
            of_alpha = -(theirs.log_temperature * (log_prob.detach() - 2)).mean()
            (of_actor + of_alpha).backward(inputs=others)  # type: ignore[no-untyped-call]
            of_others.step()
        of_critics.step()
        torch.testing.assert_close(nets.log_temperature, theirs.log_temperature)
        pairs = [(nets.actor, theirs.actor), *zip(nets.critics, theirs.critics, strict=True)]
        for ours, other in pairs:
            for name, tensor in other.state_dict().items():
                if not name.endswith("num_batches_tracked"):
                    found = ours.state_dict()[name]
                    torch.testing.assert_close(found, tensor, rtol=1e-3, atol=1e-4, msg=name)


def test_actor_and_temperature_move_at_every_few_updates_as_do_their_statistics() -> None:
    agent = crossq_agent(policy_delay=3)
    for number in range(1, 7):
        before = agent.state()[0]
        agent.update(transitions(16, number, SPACES))
        now = agent.state()[0]
        moved = {name.partition(".")[0] for name in now if not np.array_equal(now[name], before.get(name))}
        waiting = {"actor", "log_temperature"}
        assert moved & waiting == (set() if number % 3 else waiting)
        assert {"critic_0", "critic_1"} <= moved
    assert now["actor.0.num_batches_tracked"] == 2
    assert now["critic_1.3.num_batches_tracked"] == 6
