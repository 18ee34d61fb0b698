"""Quantile regression against cases worked out by hand, and against distributions it must find."""

import math

import pytest
import torch
from torch import Tensor, nn

from soulsgui.rl.losses.quantile import midpoints, quantile_huber_loss, quantile_target


def test_levels_are_the_middles_of_equal_parts() -> None:
    assert midpoints(4).tolist() == [0.125, 0.375, 0.625, 0.875]


def test_the_loss_of_a_case_worked_out_by_hand() -> None:
    # As many samples as quantiles would hide which axis is summed and which is averaged.
    # u = target_j - predicted_i: [[0.5, 3, 2], [-1.5, 1, 0]]; Huber: [[0.125, 2.5, 1.5], [1, 0.5, 0]].
    # Times |level - 1{u < 0}|: 0.25 everywhere in the first row, 0.25, 0.75, 0.75 in the second.
    found = quantile_huber_loss(torch.tensor([[0.0, 2.0]]), midpoints(2), torch.tensor([[0.5, 3.0, 2.0]]))
    assert found.loss.item() == pytest.approx(0.25 * 4.125 / 3 + (0.25 * 1 + 0.75 * 0.5) / 3)
    assert found.error.item() == pytest.approx(5.5 / 3 - 1)


@pytest.mark.parametrize(
    ("kappa", "expected"), [(0.0, [3.0, 0.5]), (1.0, [2.5, 0.125]), (2.0, [2.0, 0.0625])]
)
def test_kappa_is_where_the_loss_turns_linear_at_slope_1(kappa: float, expected: list[float]) -> None:
    target = torch.tensor([[3.0], [-0.5]])
    losses = [
        quantile_huber_loss(torch.zeros(1, 1), torch.tensor([level]), target[i : i + 1], kappa).loss.item()
        for i, level in enumerate((1.0, 0.0))
    ]
    assert losses == pytest.approx(expected)


def test_samples_are_weighted_and_no_gradient_reaches_the_target() -> None:
    predicted = torch.zeros(2, 1, requires_grad=True)
    target = torch.ones(2, 1, requires_grad=True)
    found = quantile_huber_loss(predicted, midpoints(1), target, weight=torch.tensor([1.0, 0.25]))
    assert found.loss.item() == pytest.approx((0.25 + 0.25 * 0.25) / 2)
    found.loss.backward()
    assert target.grad is None
    assert predicted.grad is not None
    assert predicted.grad.flatten().tolist() == pytest.approx([-0.25, -0.0625])
    assert not found.error.requires_grad


NEXT_TARGET = torch.tensor([[[0.0, 2.0], [5.0, -1.0]]] * 3)  # means 1 and 2
NEXT_ONLINE = torch.tensor([[[4.0, 4.0, 1.0], [0.0, 0.0, 6.0]]] * 3)  # means 3 and 2
REWARD = torch.tensor([1.0, 2.0, 3.0])


def test_double_chooses_by_the_online_means_and_values_by_the_target_quantiles() -> None:
    discount = torch.tensor([0.5, 0.25, 0.0])
    double = quantile_target(REWARD, discount, NEXT_TARGET, NEXT_ONLINE, double=True)
    assert double.tolist() == [[1, 2], [2, 2.5], [3, 3]]
    plain = quantile_target(REWARD, discount, NEXT_TARGET, NEXT_ONLINE, double=False)
    assert plain.tolist() == [[3.5, 0.5], [3.25, 1.75], [3, 3]]


def test_a_final_state_has_no_future_whatever_its_quantiles() -> None:
    endless = torch.full((3, 2, 2), torch.inf)
    assert quantile_target(REWARD, torch.zeros(3), endless, endless, True).tolist() == [
        [1, 1],
        [2, 2],
        [3, 3],
    ]


def normal_quantiles(level: Tensor) -> Tensor:
    return 10 * math.sqrt(2) * torch.erfinv(2 * level - 1)


def test_quantiles_learned_from_scattered_rewards_keep_their_spread() -> None:
    # One state, rewards from N(0, 10): on the wrong axis the quantiles collapse onto the mean.
    generator = torch.Generator().manual_seed(0)
    theta = torch.zeros(1, 32, requires_grad=True)
    optimiser = torch.optim.SGD([theta], lr=40.0)
    total, last = torch.zeros(1, 32), 200
    for step in range(800):
        rewards = 10 * torch.randn(256, generator=generator)
        optimiser.zero_grad()
        target = quantile_target(rewards, torch.zeros(256), torch.zeros(256, 1, 4), torch.empty(0), False)
        quantile_huber_loss(theta.expand(256, -1), midpoints(32), target).loss.backward()
        optimiser.step()
        if step >= 800 - last:
            total += theta.detach() / last
    expected = normal_quantiles(midpoints(32))
    assert total.std(correction=0).item() == pytest.approx(expected.std(correction=0).item(), rel=0.03)
    assert total.std(correction=0).item() == pytest.approx(10, rel=0.06)
    torch.testing.assert_close(total[0], expected, atol=1.0, rtol=0.0)


def test_implicit_quantiles_learned_at_random_levels_keep_their_spread() -> None:
    # IQN: levels are drawn anew for each sample, and a function of the level is learned.
    generator = torch.Generator().manual_seed(0)
    linear = nn.Linear(3, 1)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)

    def predict(level: Tensor) -> Tensor:
        # Features that can express the quantiles of a normal distribution.
        z = normal_quantiles(level.clamp(1e-3, 1 - 1e-3)) / 10
        features = torch.stack((torch.ones_like(z), z, z**3 / 10), dim=-1)
        return linear(features).squeeze(-1)

    optimiser = torch.optim.Adam(linear.parameters(), lr=0.1)
    for _ in range(500):
        level = torch.rand(256, 8, generator=generator)
        rewards = 10 * torch.randn(256, generator=generator)
        target = rewards[:, None].expand(-1, 8)
        optimiser.zero_grad()
        quantile_huber_loss(predict(level), level, target).loss.backward()
        optimiser.step()
    learned = predict(midpoints(16)).detach()
    expected = normal_quantiles(midpoints(16))
    assert learned.std(correction=0).item() == pytest.approx(expected.std(correction=0).item(), rel=0.1)
    torch.testing.assert_close(learned, expected, atol=2.0, rtol=0.0)


def test_at_the_true_quantiles_of_a_sample_the_gradient_vanishes() -> None:
    # Of 8 target samples, the level 0.25 lies between the second and the third; kappa 0: pure regression.
    target = torch.arange(8.0)[None]
    predicted = torch.tensor([[1.5, 5.5]], requires_grad=True)
    quantile_huber_loss(predicted, torch.tensor([[0.25, 0.75]]), target, kappa=0.0).loss.backward()
    assert predicted.grad is not None
    assert predicted.grad.tolist() == [[0, 0]]


def test_only_valid_actions_follow() -> None:
    mask = torch.tensor([[True, False], [False, True], [True, True]])
    discount = torch.ones(3)
    double = quantile_target(torch.zeros(3), discount, NEXT_TARGET, NEXT_ONLINE, True, mask)
    assert double.tolist() == [[0, 2], [5, -1], [0, 2]]
    plain = quantile_target(torch.zeros(3), discount, NEXT_TARGET, NEXT_ONLINE, False, mask)
    assert plain.tolist() == [[0, 2], [5, -1], [5, -1]]
