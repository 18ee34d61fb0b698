"""Recurrent Q-learning: value rescaling and its inverse, windows in sequences, target, loss and priority."""

import math

import numpy as np
import pytest
import torch

from soulsgui.rl.losses.r2d2 import (
    r2d2_target,
    rescaled,
    sequence_loss,
    sequence_windows,
    unscaled,
)


def test_values_are_rescaled_by_the_formula() -> None:
    found = rescaled(torch.tensor([0.0, 3.0, -8.0, 99.0]), epsilon=0.01)
    assert found.tolist() == pytest.approx([0, 1 + 0.03, -2 - 0.08, 9 + 0.99])


def test_the_inverse_is_the_closed_form() -> None:
    x = torch.tensor([-30.0, -0.5, 0.0, 0.2, 7.0], dtype=torch.float64)
    root = ((1 + 4 * 1e-3 * (x.abs() + 1 + 1e-3)).sqrt() - 1) / (2 * 1e-3)
    torch.testing.assert_close(unscaled(x), x.sign() * (root.square() - 1), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("size", [0.0, 1e-6, 1e-3, 1.0, 50.0, 1e4, 1e7])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_inverse_undoes_it_in_float32_to_the_last_digits(size: float, sign: float) -> None:
    x = torch.tensor([sign * size])
    torch.testing.assert_close(unscaled(rescaled(x)), x, rtol=3e-6, atol=0.0)
    torch.testing.assert_close(rescaled(unscaled(x)), x, rtol=3e-6, atol=0.0)


def test_windows_stay_within_their_sequence() -> None:
    reward = np.array([[1, 1], [2, 2], [4, 0]], np.float32)
    valid = np.array([[True, True], [True, True], [True, False]])
    terminated = np.array([[False, False], [False, True], [False, False]])
    window = sequence_windows(reward, terminated, valid, 2, 0.5)
    assert window.reward.tolist() == [[2, 2], [4, 2], [4, 0]]
    assert window.row[:, 0].tolist() == [2, 3, 3]
    assert window.row[:2, 1].tolist() == [2, 2]
    assert window.discount[:, 0].tolist() == [0.25, 0.25, 0.5]
    assert window.discount[:2, 1].tolist() == [0, 0]


def test_the_target_is_made_of_plain_values_and_rescaled_again() -> None:
    reward, discount = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, 0.0]])
    row = torch.tensor([[1, 1]])
    target_q = torch.tensor([[[0.0, 0.0]] * 2, [[10.0, 20.0], [torch.inf, torch.inf]]])
    online_q = torch.tensor([[[0.0, 0.0]] * 2, [[5.0, 4.0], [1.0, 2.0]]])
    found = r2d2_target(reward, discount, row, target_q, online_q)
    future = unscaled(torch.tensor(10.0)).item()
    expected = rescaled(torch.tensor([[1 + 0.5 * future, 2.0]]))
    torch.testing.assert_close(found, expected)
    assert found[0, 0].item() == pytest.approx(math.sqrt(2 + 0.5 * future) - 1 + 1e-3 * (1 + 0.5 * future))


def test_the_loss_counts_learned_steps_alike_and_the_priority_mixes_largest_and_mean() -> None:
    q = torch.tensor([[9.0, 9.0], [1.0, 9.0], [3.0, 2.0]], requires_grad=True)
    target = torch.zeros(3, 2)
    learned = torch.tensor([[False, False], [True, False], [True, True]])
    found = sequence_loss(q, target, learned, torch.tensor([1.0, 0.5]))
    assert found.loss.item() == pytest.approx(0.5 * (1 + 9 + 0.5 * 4) / 3)
    assert found.error.tolist() == pytest.approx([0.9 * 3 + 0.1 * 2, 2])
    found.loss.backward()
    assert q.grad is not None
    assert not q.grad[~learned].any()
    torch.testing.assert_close(q.grad[1:, 0], torch.tensor([1.0, 3.0]) / 3)


def test_only_valid_actions_follow() -> None:
    reward, discount, row = torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2, dtype=torch.int64)
    target_q = torch.tensor([[[0.0, 0.0]] * 2, [[10.0, 20.0], [30.0, 40.0]]])
    mask = torch.tensor([[[False, True], [True, True]]])
    assert torch.allclose(r2d2_target(reward, discount, row, target_q, target_q, ~mask), target_q[1:, :, 0])
    found = r2d2_target(reward, discount, row, target_q, -target_q, mask)
    torch.testing.assert_close(found, torch.tensor([[20.0, 30.0]]))
