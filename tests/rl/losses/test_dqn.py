"""Target and loss of deep Q-learning against cases worked out by hand."""

import pytest
import torch

from soulsgui.rl.losses.dqn import TDLossName, n_step_target, td_sample_loss

REWARD = torch.tensor([1.0, 2.0, 3.0])
HALF = torch.full((3,), 0.5)
# The networks disagree on the best action of the first two rows.
ONLINE_Q = torch.tensor([[5.0, 4.0], [0.0, 1.0], [-1.0, -2.0]])
TARGET_Q = torch.tensor([[10.0, 20.0], [30.0, 40.0], [-3.0, -7.0]])


def test_double_lets_the_online_network_choose_and_the_target_network_value() -> None:
    target = n_step_target(REWARD, HALF, ONLINE_Q, TARGET_Q, double=True)
    assert target.tolist() == [1 + 5, 2 + 20, 3 - 1.5]


def test_plain_takes_the_target_networks_highest_value() -> None:
    target = n_step_target(REWARD, HALF, ONLINE_Q, TARGET_Q, double=False)
    assert target.tolist() == [1 + 10, 2 + 20, 3 - 1.5]


@pytest.mark.parametrize("double", [True, False])
def test_a_final_state_has_no_future_whatever_its_value(double: bool) -> None:
    endless = torch.full((3, 2), torch.inf)
    target = n_step_target(REWARD, torch.tensor([0.0, 0.5, 0.0]), ONLINE_Q, endless, double)
    assert target.tolist() == [1, torch.inf, 3]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("huber", (0.5 * 0.5**2 + (3 - 0.5) + 0.5 * 1 + 0) / 4),
        ("mse", (0.5 * 0.5**2 + 0.5 * 9 + 0.5 * 1 + 0) / 4),
    ],
)
def test_the_loss_is_half_the_square_and_with_huber_linear_from_1_on(
    kind: TDLossName, expected: float
) -> None:
    q_taken = torch.tensor([0.5, -1.0, 1.0, 7.0], requires_grad=True)
    target = torch.tensor([0.0, 2.0, 0.0, 7.0])
    loss = td_sample_loss(q_taken, target, kind).loss
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert q_taken.grad is not None
    steepest = 1.0 if kind == "huber" else 3.0
    assert (4 * q_taken.grad).tolist() == pytest.approx([0.5, -steepest, 1.0, 0.0])


def test_only_valid_actions_follow() -> None:
    mask = torch.tensor([[False, True], [True, False], [True, True]])
    target = n_step_target(REWARD, HALF, ONLINE_Q, TARGET_Q, True, mask)
    assert target.tolist() == [1 + 10, 2 + 15, 3 - 1.5]
    target = n_step_target(REWARD, HALF, ONLINE_Q, TARGET_Q, False, ~mask | mask[2])
    assert target.tolist() == [1 + 10, 2 + 20, 3 - 1.5]
    target = n_step_target(REWARD, HALF, ONLINE_Q, TARGET_Q, False, mask)
    assert target.tolist() == [1 + 10, 2 + 15, 3 - 1.5]


def test_a_window_is_discounted_by_what_it_says_and_ends_with_a_final_state() -> None:
    discount = torch.tensor([0.125, 0.0, 1.0])
    assert n_step_target(REWARD, discount, ONLINE_Q, TARGET_Q, True).tolist() == [1 + 1.25, 2, 0]
    endless = torch.full((3, 2), torch.inf)
    assert n_step_target(REWARD, torch.zeros(3), endless, endless, True).tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", ["huber", "mse"])
def test_weights_of_1_change_nothing_and_the_error_is_the_absolute_difference(kind: TDLossName) -> None:
    q_taken, target = torch.tensor([0.5, -1.0, 1.0, 7.0]), torch.tensor([0.0, 2.0, 0.0, 7.0])
    found = td_sample_loss(q_taken, target, kind, torch.ones(4))
    torch.testing.assert_close(td_sample_loss(q_taken, target, kind).loss, found.loss)
    assert found.error.tolist() == [0.5, 3, 1, 0]


def test_a_sample_counts_by_its_weight_and_its_huber_gradient_is_clipped() -> None:
    q_taken = torch.tensor([0.5, -1.0, 5.0, 7.0], requires_grad=True)
    target = torch.tensor([0.0, 2.0, 0.0, 7.0], requires_grad=True)
    found = td_sample_loss(q_taken, target, "huber", torch.tensor([1.0, 0.5, 0.25, 1.0]))
    assert found.loss.item() == pytest.approx((0.125 + 0.5 * 2.5 + 0.25 * 4.5) / 4)
    found.loss.backward()
    assert q_taken.grad is not None
    assert (4 * q_taken.grad).tolist() == pytest.approx([0.5, -0.5, 0.25, 0])
    assert target.grad is None
