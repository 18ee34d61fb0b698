"""PPO's losses against cases worked out by hand."""

import math

import pytest
import torch

from soulsgui.rl.losses import ppo as losses


def log(*ratios: float) -> torch.Tensor:
    return torch.tensor(ratios).log()


def test_without_a_change_of_policy_the_loss_is_the_mean_negative_advantage() -> None:
    assert losses.clipped_policy_loss(log(1, 1), torch.tensor([3.0, -1.0]), 0.2).item() == pytest.approx(-1)


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.5, 2.0, -1.2 * 2),  # a good action, already more likely: no more gain
        (0.5, 2.0, -0.5 * 2),  # a good action that became less likely: full loss
        (0.5, -2.0, 0.8 * 2),  # a bad action, already less likely: no more gain
        (1.5, -2.0, 1.5 * 2),  # a bad action that became more likely: full loss
    ],
)
def test_only_gains_beyond_the_clip_are_cut_off(ratio: float, advantage: float, expected: float) -> None:
    loss = losses.clipped_policy_loss(log(ratio), torch.tensor([advantage]), 0.2)
    assert loss.item() == pytest.approx(expected)


def test_value_loss_is_half_the_mean_squared_error() -> None:
    assert losses.value_loss(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0])).item() == pytest.approx(2.5)


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
