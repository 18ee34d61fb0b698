"""The losses of soft actor-critic against cases worked out by hand."""

import math

import pytest
import torch

from soulsgui.rl.losses.sac import actor_loss, critic_loss, soft_target, temperature_loss

ALPHA = torch.tensor(0.5)


def test_the_target_takes_the_smaller_critic_and_adds_the_entropy() -> None:
    target = soft_target(
        torch.tensor([1.0, 1.0, 1.0]),
        torch.tensor([0.5, 0.25, 0.0]),
        torch.tensor([[4.0, 8.0, torch.inf], [6.0, 2.0, torch.inf]]),
        torch.tensor([-2.0, 4.0, 1.0]),
        ALPHA,
    )
    assert target.tolist() == [1 + 0.5 * (4 + 1), 1 + 0.25 * (2 - 2), 1]


def test_both_critics_learn_weighted_by_importance() -> None:
    q = torch.tensor([[1.0, 2.0], [3.0, 2.0]], requires_grad=True)
    found = critic_loss(q, torch.tensor([2.0, 0.0]), torch.tensor([1.0, 0.5]))
    assert found.loss.item() == pytest.approx((1.0 + 0.5 * 4.0) / 2)
    assert found.error.tolist() == [1, 2]
    found.loss.backward()
    assert q.grad is not None
    assert q.grad.tolist() == [[-0.5, 0.5], [0.5, 0.5]]


def test_the_actor_climbs_the_smaller_critic_and_spreads() -> None:
    log_prob = torch.tensor([1.0, -1.0], requires_grad=True)
    q = torch.tensor([[1.0, 5.0], [2.0, 3.0]], requires_grad=True)
    alpha = ALPHA.clone().requires_grad_()
    loss = actor_loss(log_prob, q, alpha)
    assert loss.item() == pytest.approx(((0.5 - 1) + (-0.5 - 3)) / 2)
    loss.backward()
    assert log_prob.grad is not None
    assert q.grad is not None
    assert log_prob.grad.tolist() == [0.25, 0.25]
    assert q.grad.tolist() == [[-0.5, 0], [0, -0.5]]
    assert alpha.grad is None


@pytest.mark.parametrize(("entropy", "rises"), [(-3.0, True), (-1.0, False)])
def test_the_temperature_rises_while_the_entropy_is_below_its_target(entropy: float, rises: bool) -> None:
    log_alpha = torch.tensor(math.log(0.2), requires_grad=True)
    log_prob = torch.tensor([-entropy - 0.5, -entropy + 0.5], requires_grad=True)
    loss = temperature_loss(log_alpha, log_prob, target_entropy=-2.0)
    # d/dlog(alpha) = -alpha * (mean log pi + target) = alpha * (entropy - target)
    loss.backward()
    assert log_alpha.grad is not None
    assert log_alpha.grad.item() == pytest.approx(0.2 * (entropy + 2.0))
    assert (log_alpha.grad < 0).item() is rises
    assert log_prob.grad is None


def test_the_temperature_finds_the_entropy_it_aims_at() -> None:
    # A policy whose entropy is log(alpha) + 1: it is -1 where log(alpha) = -2.
    log_alpha = torch.zeros((), requires_grad=True)
    optimiser = torch.optim.Adam([log_alpha], lr=0.1)
    for _ in range(150):
        optimiser.zero_grad()
        temperature_loss(log_alpha, torch.full((8,), -(log_alpha.item() + 1)), -1.0).backward()
        optimiser.step()
    assert log_alpha.item() == pytest.approx(-2.0, abs=0.05)
