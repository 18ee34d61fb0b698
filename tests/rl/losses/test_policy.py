"""Losses and targets of policies worked out by hand; those of SAC also in `gradients/test_sac.py`."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.rl.losses import policy as losses
from soulsgui.rl.losses.policy import (
    VTrace,
    critic_loss,
    double_q_target,
    quantile_critic_loss,
    smoothed_action,
    soft_target,
    truncated_target,
    vtrace,
)
from soulsgui.rl.losses.q_learning import midpoints, quantile_huber_loss
from soulsgui.rl.returns import gae


def log(*ratios: float) -> torch.Tensor:
    return torch.tensor(ratios).log()


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.5, 2.0, -1.2 * 2),  # a good action, already more likely: no more gain
        (0.5, 2.0, -0.5 * 2),  # a good action that became less likely: full loss
        (0.5, -2.0, 0.8 * 2),  # a bad action, already less likely: no more gain
        (1.5, -2.0, 1.5 * 2),  # a bad action that became more likely: full loss
        (1.0, 3.0, -3.0),  # no change of the policy
    ],
)
def test_only_gains_beyond_the_clip_are_cut_off(ratio: float, advantage: float, expected: float) -> None:
    loss = losses.clipped_policy_loss(log(ratio), torch.tensor([advantage]), 0.2)
    assert loss.item() == pytest.approx(expected)


def test_clipped_value_loss_takes_the_larger_of_both_errors() -> None:
    value, target, old = torch.tensor([2.0]), torch.tensor([3.0]), torch.tensor([0.0])
    # Moved by 2 towards the target, 0.5 allowed: the clipped value 0.5 is 2.5 away.
    assert losses.clipped_value_loss(value, target, old, 0.5).item() == pytest.approx(0.5 * 2.5**2)
    # Within the clip nothing is cut off.
    assert losses.clipped_value_loss(value, target, old, 5.0).item() == pytest.approx(0.5)


def test_huber_is_square_up_to_its_threshold_and_linear_beyond() -> None:
    errors = torch.tensor([0.5, -1.0, 3.0, -3.0])
    costs = losses.error_cost(errors, 1.0)
    assert costs.tolist() == pytest.approx([0.125, 0.5, 2.5, 2.5])
    assert losses.value_loss(errors, torch.zeros(4), 1.0).item() == pytest.approx(5.625 / 4)
    assert losses.value_loss(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0])).item() == pytest.approx(2.5)
    # Moved by 4 towards the target, 1 allowed: 3 away instead of 0, at the price of Huber.
    far = losses.clipped_value_loss(torch.tensor([4.0]), torch.tensor([4.0]), torch.tensor([0.0]), 1.0, 1.0)
    assert far.item() == pytest.approx(2.5)


def test_the_kl_estimate_is_zero_without_a_change_and_right_on_average() -> None:
    assert losses.approximate_kl(log(1, 1)).item() == 0
    old, new = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    # Samples in the proportions of the old policy: one of each action.
    estimate = losses.approximate_kl((new / old).log()).item()
    assert estimate == pytest.approx((old * (old / new).log()).sum().item())


def test_a_sample_that_nobody_can_mean_says_little_of_the_change() -> None:
    log_ratio = torch.zeros(1000)
    log_ratio[0] = 1e30
    assert losses.approximate_kl(log_ratio).item() == pytest.approx((math.exp(5) - 6) / 1000)


def run(*columns: list[float], **settings: float) -> VTrace:
    """Return the traces of ratios, rewards, values, next values, and of what is final and ends a stretch."""
    ratio, reward, value, next_value, *ends = map(torch.tensor, columns)
    return vtrace(
        ratio.log(), reward, value, next_value, *(one.bool() for one in ends), **{"gamma": 0.5} | settings
    )


def test_on_policy_targets_are_n_step_returns() -> None:
    found = run([1.0] * 3, [1.0, 2.0, 4.0], [3.0, 5.0, 7.0], [5.0, 7.0, 8.0], [0, 0, 0], [0, 0, 1])
    assert found.target.tolist() == [1 + 1 + 1 + 1, 2 + 2 + 2, 4 + 4]
    assert found.advantage.tolist() == [4 - 3, 6 - 5, 8 - 7]
    assert found.target.dtype == torch.float32


def test_a_case_worked_out_by_hand_with_both_clips() -> None:
    # Ratios 4 and 0.5, rho clipped at 2, c at 1.
    # Last: delta = 0.5 (2 + 0.5 * 8 - 4) = 1, v = 5. First: delta = 2 (1 + 0.5 * 4 - 2) = 2,
    # v = 2 + 2 + 0.5 * 1 * (5 - 4) = 4.5; advantages: 2 (1 + 0.5 * 5 - 2) = 3 and 0.5 * (2 + 4 - 4) = 1.
    found = run([4.0, 0.5], [1.0, 2.0], [2.0, 4.0], [4.0, 8.0], [0, 0], [0, 1], rho_clip=2.0, c_clip=1.0)
    assert found.target.tolist() == pytest.approx([4.5, 5])
    assert found.advantage.tolist() == pytest.approx([3, 1])
    assert found.unweighted.tolist() == pytest.approx([1.5, 2])


def test_an_action_the_policy_would_not_take_any_more_teaches_nothing() -> None:
    found = run([0.0, 1.0], [9.0, 1.0], [2.0, 3.0], [3.0, 4.0], [0, 0], [0, 1])
    assert found.target.tolist() == [2, 3]
    assert found.advantage.tolist() == [0, 0]


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
    rho_clip=st.floats(0.1, 3),
    c_clip=st.floats(0.1, 3),
    on_policy=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_sum_of_the_definition_for_any_segments(
    lengths: list[int], gamma: float, lam: float, rho_clip: float, c_clip: float, on_policy: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    count = sum(lengths)
    reward, value, next_value, log_ratio = rng.normal(size=(4, count)).astype(np.float32)
    ends = np.zeros(count, np.bool_)
    ends[np.cumsum(lengths) - 1] = True
    next_value[:-1] = np.where(ends[:-1], next_value[:-1], value[1:])
    terminated = ends & (rng.random(count) < 0.5)
    if on_policy:
        log_ratio[:], rho_clip, c_clip = 0, 1.0, 1.0
    tensors = [torch.from_numpy(x) for x in (log_ratio, reward, value, next_value, terminated, ends)]
    found = vtrace(*tensors, gamma, lam, rho_clip, c_clip)
    ratio = np.exp(log_ratio.astype(np.float64))
    rho, c = np.minimum(ratio, rho_clip), lam * np.minimum(ratio, c_clip)
    future = np.where(terminated, 0, next_value)
    delta = rho * (reward + gamma * future - value)
    for s in range(count):
        stop = int(np.flatnonzero(ends & (np.arange(count) >= s))[0])
        # Equation 1: sum over t of gamma^(t-s) * (product of c from s to t-1) * delta_t.
        total = sum(gamma ** (t - s) * np.prod(c[s:t]) * delta[t] for t in range(s, stop + 1))
        assert found.target[s].item() == pytest.approx(value[s] + total, rel=1e-4, abs=1e-4)
    if on_policy:
        expected = gae(reward, value, next_value, terminated, ends, gamma, lam)
        np.testing.assert_allclose(found.target.numpy() - value, expected, rtol=1e-4, atol=1e-5)


def test_the_target_takes_the_smaller_critic_and_adds_the_entropy() -> None:
    target = soft_target(
        torch.tensor([1.0, 1.0, 1.0]),
        torch.tensor([0.5, 0.25, 0.0]),
        torch.tensor([[4.0, 8.0, torch.inf], [6.0, 2.0, torch.inf]]),
        torch.tensor([-2.0, 4.0, 1.0]),
        torch.tensor(0.5),
    )
    assert target.tolist() == [1 + 0.5 * (4 + 1), 1 + 0.25 * (2 - 2), 1]


def test_smoothing_limits_the_noise_and_then_the_action() -> None:
    action, noise = torch.tensor([[0.0, 0.0, 0.875, -0.875]]), torch.tensor([[1.0, -4.0, 1.0, -4.0]])
    found = smoothed_action(action, noise, 0.25, 0.5)
    assert found.tolist() == [[0.25, -0.5, 1.0, -1.0]]


def test_the_target_of_td3_takes_the_smaller_critic_and_no_entropy() -> None:
    next_q = torch.tensor([[4.0, 8.0, torch.inf], [6.0, 2.0, torch.inf]])
    target = double_q_target(torch.ones(3), torch.tensor([0.5, 0.25, 0.0]), next_q)
    assert target.tolist() == [1 + 0.5 * 4, 1 + 0.25 * 2, 1]


def test_the_truncated_mixture_is_the_lowest_of_all_critics_together() -> None:
    # Two critics of three quantiles each, one dropped for each: of 1 2 3 5 8 9 the highest two, both of
    # the second critic. alpha * log pi = -1: 1 + 0.5 * (z + 1). The second state is a final one.
    quantiles = torch.tensor([[[5.0, 1.0, 3.0], [torch.inf] * 3], [[9.0, 2.0, 8.0], [torch.inf] * 3]])
    reward, discount = torch.ones(2), torch.tensor([0.5, 0.0])
    log_prob, temperature = torch.tensor([-2.0, 1.0]), torch.tensor(0.5)
    found = truncated_target(reward, discount, quantiles, log_prob, temperature, 1)
    assert found.tolist() == [[2.0, 2.5, 3.0, 4.0], [1.0] * 4]
    everything = truncated_target(reward, discount, quantiles, log_prob, temperature, 0)
    assert everything[0].tolist() == [2.0, 2.5, 3.0, 4.0, 5.5, 6.0]


def test_the_loss_of_quantile_critics_is_the_mean_over_their_quantiles_added() -> None:
    # One state, two critics of two quantiles (levels 1/4, 3/4), one target: 2. Huber: u^2 / 2 up to 1,
    # then |u| - 1/2; above the target the weight is 1 - level.
    # First, at 1 and 4: (1/4 * 1/2 + 1/4 * 3/2) / 2 = 1/4. Second, at 2 and 0: (0 + 3/4 * 3/2) / 2 = 9/16.
    q = torch.tensor([[[1.0, 4.0]], [[2.0, 0.0]]], requires_grad=True)
    found = quantile_critic_loss(q, torch.tensor([[2.0]]))
    assert found.loss.item() == pytest.approx(1 / 4 + 9 / 16)
    assert found.error.tolist() == [(0.5 + 1) / 2]
    found.loss.backward()
    assert q.grad is not None
    assert q.grad.tolist() == [[[-1 / 8, 1 / 8]], [[0.0, -3 / 8]]]


@pytest.mark.parametrize("scale", [0.1, 1.0, 1000.0])
def test_the_loss_of_quantile_critics_is_that_of_all_pairs(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    q = (scale * (5 + torch.randn(3, 8, 25, generator=generator))).requires_grad_()
    target = (scale * (5 + torch.randn(8, 40, generator=generator))).sort(1).values
    found = quantile_critic_loss(q, target)
    pairs = [quantile_huber_loss(one, midpoints(25), target) for one in q]
    expected = torch.stack([one.loss for one in pairs]).sum() / 25
    torch.testing.assert_close(found.loss, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found.error, torch.stack([one.error for one in pairs]).mean(0))
    torch.testing.assert_close(*(torch.autograd.grad(loss, q) for loss in (found.loss, expected)))


def test_both_critics_learn() -> None:
    q = torch.tensor([[1.0, 2.0], [3.0, 2.0]], requires_grad=True)
    found = critic_loss(q, torch.tensor([2.0, 0.0]))
    assert found.loss.item() == pytest.approx((1.0 + 4.0) / 2)
    assert found.error.tolist() == [1, 2]
    found.loss.backward()
    assert q.grad is not None
    assert q.grad.tolist() == [[-0.5, 1], [0.5, 1]]
