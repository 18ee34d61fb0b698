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


def test_entropy_of_a_uniform_policy_is_the_log_of_the_number_of_actions() -> None:
    uniform = torch.log_softmax(torch.zeros(7, 4), 1)
    assert losses.categorical_entropy(uniform).item() == pytest.approx(math.log(4))
    certain = torch.log_softmax(torch.tensor([[100.0, 0.0]]), 1)
    assert losses.categorical_entropy(certain).item() == pytest.approx(0, abs=1e-6)


def test_log_prob_picks_the_action_taken() -> None:
    log_probs = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]])
    assert losses.categorical_log_prob(log_probs, torch.tensor([1, 0])).tolist() == [-2, -3]


def test_the_kl_estimate_is_zero_without_a_change_and_right_on_average() -> None:
    assert losses.approximate_kl(log(1, 1)).item() == 0
    old, new = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    # Samples in the proportions of the old policy: one of each action.
    estimate = losses.approximate_kl((new / old).log()).item()
    assert estimate == pytest.approx((old * (old / new).log()).sum().item())


def test_masked_actions_have_probability_0_no_entropy_and_no_gradient() -> None:
    logits = torch.tensor([[1.0, 5.0, 1.0], [0.0, 2.0, 3.0]], requires_grad=True)
    mask = torch.tensor([[True, False, True], [False, True, False]])
    log_probs = torch.log_softmax(losses.masked_logits(logits, mask), dim=1)
    torch.testing.assert_close(log_probs.exp(), torch.tensor([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]))
    entropy = losses.categorical_entropy(log_probs)
    torch.testing.assert_close(entropy, torch.tensor(0.5 * math.log(2)))
    (entropy + losses.categorical_log_prob(log_probs, torch.tensor([0, 1])).sum()).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[~mask] == 0).all()
    assert losses.masked_logits(logits, torch.zeros(2, 0, dtype=torch.bool)) is logits
