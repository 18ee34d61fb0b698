"""The V-trace agent: corrected updates from older samples, the same curve after a resume."""

from typing import Any

import numpy as np
import pytest
import torch

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import TERMINATED, TRUNCATED, Segments
from soulsgui.policies.exploration import START, Moment
from soulsgui.rl.agents.vtrace import VTraceAgent
from soulsgui.rl.buffers.rollout import SegmentQueue
from soulsgui.rl.losses.policy import vtrace
from tests.environments.toys import SPACES_TAKEN
from tests.experience.segments import segments_of
from tests.rl.agents.cases import aged_batch, taking
from tests.rl.support import SPACES, changed, random_batch, vtrace_settings


def make_agent(seed: int = 0, spaces: SpacesSpec = SPACES, **changes: Any) -> VTraceAgent:
    return VTraceAgent(spaces, vtrace_settings(**changes), seed)


@pytest.mark.parametrize("takes", ["one choice", *(kind for kind in SPACES_TAKEN if kind != "words")])
def test_samples_of_the_present_weights_have_ratio_1(takes: str) -> None:
    falling = {"schedule": "linear", "from": 1e-2, "to": 0.0}
    agent = make_agent(spaces=SPACES if takes == "one choice" else taking(takes), learning_rate=falling)
    for index in range(3):
        agent.settings = changed(agent.settings, "vtrace", epochs=1 + index % 2)
        agent.update(random_batch(agent, seed=index), Moment(250 * index, 1000))
        figures = agent.figures()
        assert figures["learning_rate"] == pytest.approx(1e-2 * (1 - 0.25 * index))
        if index != 1:
            assert figures["rho_mean"] == pytest.approx(1, abs=1e-4)
            assert figures["behaviour_kl"] == pytest.approx(0, abs=1e-4)
    assert agent.normaliser.count, "statistics have moved away from their start"


@pytest.mark.parametrize("clip", [None, 0.3])
def test_the_gradient_is_that_of_the_loss_written_out(clip: float | None) -> None:
    agent = make_agent(clip=clip, entropy_coef=0.1, rho_clip=1.2, c_clip=0.8, learning_rate=1e-30)
    batch = aged_batch(agent)
    obs = torch.from_numpy(agent.normaliser.normalise(batch.obs))
    log_probs = agent.policy(obs)[batch.step_rows].log_softmax(1)
    log_prob = log_probs[range(batch.steps), batch.action - 1]
    value = agent.value(obs)[:, 0]
    ratio = (log_prob - torch.from_numpy(batch.log_prob)).exp()
    found = vtrace(
        ratio.detach().log(),
        torch.from_numpy(batch.reward),
        value[batch.step_rows].detach(),
        value[batch.step_rows + 1].detach(),
        torch.from_numpy(batch.terminated_steps),
        torch.from_numpy(batch.ends),
        gamma=0.9, rho_clip=1.2, c_clip=0.8,
    )  # fmt: skip
    if clip is None:
        policy_loss = -(found.advantage * log_prob).mean()
    else:
        worth = found.advantage / ratio.detach().clamp(max=1.2)
        policy_loss = -torch.minimum(ratio.clamp(max=3) * worth, ratio.clamp(0.7, 1.3) * worth).mean()
        assert ((ratio > 3) & (worth < 0)).any()
    value_loss = 0.5 * (value[batch.step_rows] - found.target).square().mean()
    entropy = -(log_probs.exp() * log_probs).sum(1).mean()
    loss = policy_loss + 0.5 * value_loss - 0.1 * entropy
    parameters = [*agent.policy.parameters(), *agent.value.parameters()]
    expected = torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, parameters)])
    agent.update(batch, START)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(agent._flat.gradient, expected, atol=1e-5, rtol=1e-4)
    figures = agent.figures()
    assert figures["policy_loss"] == pytest.approx(policy_loss.item(), abs=1e-5)
    assert figures["rho_clip_fraction"] == pytest.approx((ratio > 1.2).float().mean().item())
    assert figures["grad_norm"] == pytest.approx(expected.norm().item(), rel=1e-4)


@pytest.mark.parametrize("clip", [None, 0.3])
def test_an_episode_teaches_the_same_however_it_was_cut_on_its_way(clip: float | None) -> None:
    settings: dict[str, Any] = {"clip": clip, "learning_rate": 1e-30, "normalize_advantage": True}
    agent, other, apart = (make_agent(**settings) for _ in range(3))
    whole = aged_batch(agent)
    whole.flags[:] = [0, TERMINATED, TRUNCATED, 0]
    agent.update(whole, START)
    other.update(_cut(whole, most=3, sources=True), START)
    torch.testing.assert_close(other._flat.gradient, agent._flat.gradient, atol=1e-6, rtol=1e-4)
    assert other.figures() == pytest.approx(agent.figures(), rel=1e-4, abs=1e-6)
    # Each piece for itself sees no further than its end.
    apart.update(_cut(whole, most=3, sources=False), START)
    assert (apart._flat.gradient - agent._flat.gradient).norm() > 0.1 * agent._flat.gradient.norm()


def _cut(whole: Segments, most: int, sources: bool) -> Segments:
    """Return the same steps as they come in pieces: the first of each segment, then the second of each ..."""
    waiting = SegmentQueue()
    starts = np.cumsum(whole.length) - whole.length
    for begin in range(0, int(whole.length.max()), most):
        for index in np.flatnonzero(whole.length > begin):
            upto = min(begin + most, int(whole.length[index]))
            steps, row = slice(starts[index] + begin, starts[index] + upto), starts[index] + index
            last = upto == whole.length[index]
            found = segments_of(
                env_index=np.array([index]), episode=np.zeros(1, int),
                first_step=np.array([begin]), length=np.array([upto - begin]),
                terminated=whole.terminated[index : index + 1] & last,
                truncated=whole.truncated[index : index + 1] & last,
                obs=whole.obs[row + begin : row + upto + 1], action=whole.action[steps],
                log_prob=whole.log_prob[steps], reward=whole.reward[steps],
                source=np.array([index]) if sources else None,
            )  # fmt: skip
            waiting.add(found)
    return waiting.take(whole.steps)


@pytest.mark.parametrize("said", [-1e30, -200.0])
@pytest.mark.parametrize("clip", [None, 0.2])
def test_a_probability_that_nobody_can_mean_spoils_nothing(said: float, clip: float | None) -> None:
    agent = make_agent(clip=clip)
    batch = random_batch(agent)
    batch.log_prob[3] = said
    batch.reward[3] = -50.0
    agent.update(batch, START)
    assert agent._flat.gradient.norm() < 1e4
    assert all(np.isfinite(array).all() for array in agent.state()[0].values())
    figures = agent.figures()
    assert np.isfinite(list(figures.values())).all()
    assert abs(figures["behaviour_kl"]) < 1, "the guard against divergence is not moved by it"
