"""Target and loss of deep Q-learning against cases worked out by hand."""

import pytest
import torch

from soulsgui.rl.losses.dqn import TDLossName, double_dqn_target, td_loss

REWARD = torch.tensor([1.0, 2.0, 3.0])
NEVER = torch.zeros(3, dtype=torch.bool)
# The networks disagree on the best action of the first two rows.
ONLINE_Q = torch.tensor([[5.0, 4.0], [0.0, 1.0], [-1.0, -2.0]])
TARGET_Q = torch.tensor([[10.0, 20.0], [30.0, 40.0], [-3.0, -7.0]])


def test_double_lets_the_online_network_choose_and_the_target_network_value() -> None:
    target = double_dqn_target(REWARD, NEVER, ONLINE_Q, TARGET_Q, 0.5, double=True)
    assert target.tolist() == [1 + 5, 2 + 20, 3 - 1.5]


def test_plain_takes_the_target_networks_highest_value() -> None:
    target = double_dqn_target(REWARD, NEVER, ONLINE_Q, TARGET_Q, 0.5, double=False)
    assert target.tolist() == [1 + 10, 2 + 20, 3 - 1.5]


@pytest.mark.parametrize("double", [True, False])
def test_a_final_state_has_no_future_whatever_its_value(double: bool) -> None:
    endless = torch.full((3, 2), torch.inf)
    ended = torch.tensor([True, False, True])
    target = double_dqn_target(REWARD, ended, ONLINE_Q, endless, 0.5, double)
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
    loss = td_loss(q_taken, target, kind)
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert q_taken.grad is not None
    steepest = 1.0 if kind == "huber" else 3.0
    assert (4 * q_taken.grad).tolist() == pytest.approx([0.5, -steepest, 1.0, 0.0])


def test_only_valid_actions_follow() -> None:
    mask = torch.tensor([[False, True], [True, False], [True, True]])
    target = double_dqn_target(REWARD, NEVER, ONLINE_Q, TARGET_Q, 0.5, True, mask)
    assert target.tolist() == [1 + 10, 2 + 15, 3 - 1.5]
    target = double_dqn_target(REWARD, NEVER, ONLINE_Q, TARGET_Q, 0.5, False, ~mask | mask[2])
    assert target.tolist() == [1 + 10, 2 + 20, 3 - 1.5]
    target = double_dqn_target(REWARD, NEVER, ONLINE_Q, TARGET_Q, 0.5, False, mask)
    assert target.tolist() == [1 + 10, 2 + 15, 3 - 1.5]
