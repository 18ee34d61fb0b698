"""Target and loss of deep Q-learning against cases worked out by hand; those of sequences as a whole are in
`agents/test_recurrent.py`."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from soulsgui.rl.losses.q_learning import (
    TDLossName,
    categorical_loss,
    categorical_target,
    midpoints,
    n_step_target,
    projected,
    quantile_huber_loss,
    quantile_target,
    r2d2_target,
    rescaled,
    support,
    td_sample_loss,
    unscaled,
)

REWARD = torch.tensor([1.0, 2.0, 3.0])
HALF = torch.full((3,), 0.5)
# The networks disagree on the best action of the first two rows.
ONLINE_Q = torch.tensor([[5.0, 4.0], [0.0, 1.0], [-1.0, -2.0]])
TARGET_Q = torch.tensor([[10.0, 20.0], [30.0, 40.0], [-3.0, -7.0]])


def test_double_lets_the_online_network_choose_and_the_target_network_value() -> None:
    target = n_step_target(REWARD, HALF, ONLINE_Q, TARGET_Q, double=True)
    assert target.tolist() == [1 + 5, 2 + 20, 3 - 1.5]
    plain = n_step_target(REWARD, HALF, ONLINE_Q, TARGET_Q, double=False)
    assert plain.tolist() == [1 + 10, 2 + 20, 3 - 1.5]
    discount = torch.tensor([0.125, 0.0, 1.0])
    assert n_step_target(REWARD, discount, ONLINE_Q, TARGET_Q, True).tolist() == [1 + 1.25, 2, 0]
    endless = torch.full((3, 2), torch.inf)
    for double in (True, False):
        assert n_step_target(REWARD, torch.zeros(3), endless, endless, double).tolist() == [1, 2, 3]
    both = torch.full((2, 3, 2), torch.inf)
    last = r2d2_target(REWARD[None], torch.zeros(1, 3), torch.ones(1, 3, dtype=torch.int64), both, both)
    assert torch.equal(last, rescaled(REWARD[None]))


@pytest.mark.parametrize(
    ("kind", "weight", "costs", "slopes"),
    [
        ("huber", None, [0.125, 2.5, 0.5, 0], [0.5, -1, 1, 0]),
        ("mse", None, [0.125, 4.5, 0.5, 0], [0.5, -3, 1, 0]),
        ("huber", [1.0, 0.5, 0.25, 1.0], [0.125, 1.25, 0.125, 0], [0.5, -0.5, 0.25, 0]),
    ],
)
def test_the_loss_is_half_the_square_and_with_huber_linear_from_1_on(
    kind: TDLossName, weight: list[float] | None, costs: list[float], slopes: list[float]
) -> None:
    q_taken = torch.tensor([0.5, -1.0, 1.0, 7.0], requires_grad=True)
    target = torch.tensor([0.0, 2.0, 0.0, 7.0], requires_grad=True)
    found = td_sample_loss(q_taken, target, kind, None if weight is None else torch.tensor(weight))
    assert found.error.tolist() == [0.5, 3, 1, 0]
    assert found.loss.item() == pytest.approx(sum(costs) / 4)
    found.loss.backward()
    assert q_taken.grad is not None
    assert (4 * q_taken.grad).tolist() == pytest.approx(slopes)
    assert target.grad is None


def test_the_loss_of_a_case_worked_out_by_hand() -> None:
    assert midpoints(4).tolist() == [0.125, 0.375, 0.625, 0.875]
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


def test_double_chooses_by_the_online_means_and_values_by_the_target_quantiles() -> None:
    discount = torch.tensor([0.5, 0.25, 0.0])
    for double, expected in ((True, [[1, 2], [2, 2.5], [3, 3]]), (False, [[3.5, 0.5], [3.25, 1.75], [3, 3]])):
        found = quantile_target(REWARD, discount, NEXT_TARGET, NEXT_ONLINE, double)
        assert found.tolist() == expected
    endless = torch.full((3, 2, 2), torch.inf)  # a final state has no future, whatever its quantiles
    final = quantile_target(REWARD, torch.zeros(3), endless, endless, True)
    assert final.tolist() == [[1, 1], [2, 2], [3, 3]]


def test_at_the_true_quantiles_of_a_sample_the_gradient_vanishes() -> None:
    # Of 8 target samples, the level 0.25 lies between the second and the third; kappa 0: pure regression.
    target = torch.arange(8.0)[None]
    predicted = torch.tensor([[1.5, 5.5]], requires_grad=True)
    quantile_huber_loss(predicted, torch.tensor([[0.25, 0.75]]), target, kappa=0.0).loss.backward()
    assert predicted.grad is not None
    assert predicted.grad.tolist() == [[0, 0]]


ATOMS = support(0.0, 4.0, 5)


def test_atoms_are_even_and_include_both_ends() -> None:
    assert ATOMS.tolist() == [0, 1, 2, 3, 4]
    for lowest, highest, atoms in ((0.0, 0.0, 5), (1.0, 0.0, 5), (0.0, 1.0, 1)):
        with pytest.raises(ValueError, match="no support"):
            support(lowest, highest, atoms)


@pytest.mark.parametrize(
    ("reward", "discount", "probs", "expected"),
    [
        # 0.25 + 0.5 * z: 0.25, 0.75, 1.25 ... is shared by closeness.
        (0.25, 0.5, [1.0, 0, 0, 0, 0], [0.75, 0.25, 0, 0, 0]),
        (0.25, 0.5, [0, 0.5, 0, 0, 0.5], [0.125, 0.375, 0.375, 0.125, 0]),
        # What leaves the support is gathered at its ends.
        (9.0, 1.0, [0.25, 0.25, 0.25, 0.25, 0], [0, 0, 0, 0, 1]),
        (-2.5, 1.0, [0.25, 0.25, 0.25, 0.25, 0], [0.75 + 0.125, 0.125, 0, 0, 0]),
        # What falls exactly on an atom stays there whole.
        *((0.0, 1.0, atom, atom) for atom in torch.eye(5).tolist()),
        *((float(number), 0.0, [0.2] * 5, atom) for number, atom in enumerate(torch.eye(5).tolist())),
    ],
)
def test_mass_goes_to_the_atoms_around_it(
    reward: float, discount: float, probs: list[float], expected: list[float]
) -> None:
    found = projected(torch.tensor([reward]), torch.tensor([discount]), torch.tensor([probs]), ATOMS)
    assert found.dtype == torch.float32
    assert found[0].tolist() == pytest.approx(expected)


@settings(deadline=None)
@given(
    reward=st.floats(-1, 1),
    discount=st.floats(0, 1),
    lowest=st.floats(-50, 0),
    width=st.floats(1, 100),
    seed=st.integers(0, 2**32 - 1),
)
def test_mass_and_mean_are_kept_inside_the_support(
    reward: float, discount: float, lowest: float, width: float, seed: int
) -> None:
    atoms = support(lowest, lowest + width, 51)
    generator = torch.Generator().manual_seed(seed)
    probs = (3 * torch.randn(4, 51, generator=generator)).softmax(1)
    moved = (reward + discount * atoms).clamp(lowest, lowest + width)
    found = projected(torch.full((4,), reward), torch.full((4,), discount), probs, atoms)
    assert (found >= 0).all()
    torch.testing.assert_close(found.sum(1), torch.ones(4), atol=1e-5, rtol=0.0)
    # Of what is cut off at the ends, the mean of the cut mass is kept.
    torch.testing.assert_close(found @ atoms, probs @ moved, atol=1e-3, rtol=1e-4)


def test_the_loss_is_the_cross_entropy_and_the_error_the_divergence() -> None:
    target = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    log_probs = torch.tensor([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]]).log().requires_grad_()
    found = categorical_loss(log_probs, target, torch.tensor([1.0, 0.5]))
    entropies = [0.5 * math.log(4) + 0.5 * math.log(2), math.log(2)]
    assert found.loss.item() == pytest.approx((entropies[0] + 0.5 * entropies[1]) / 2)
    assert found.error.tolist() == pytest.approx([entropies[0] - math.log(2), math.log(2)], abs=1e-6)
    assert not found.error.requires_grad
    found.loss.backward()
    torch.testing.assert_close(log_probs.grad, -target * torch.tensor([[0.5], [0.25]]))


def test_returns_beyond_the_support_are_counted_and_those_at_its_edge_are_not() -> None:
    log_probs = torch.tensor([[[0.0, 0, 0, 0, 1]]]).log().expand(6, 1, 5)  # 4 for sure
    reward = torch.tensor([0.0, 4.0, 1.0, -4.1, 5.0, -0.1])
    discount = torch.tensor([1.0, 0.0, 0.9, 1.0, 0.0, 0.0])  # to: 4, 4, 4.6, -0.1, 5, -0.1
    _, beyond = categorical_target(reward, discount, log_probs, log_probs, ATOMS, double=True)
    assert beyond.item() == pytest.approx(4 / 6)


def test_values_are_rescaled_by_the_formula() -> None:
    found = rescaled(torch.tensor([0.0, 3.0, -8.0, 99.0]), epsilon=0.01)
    assert found.tolist() == pytest.approx([0, 1 + 0.03, -2 - 0.08, 9 + 0.99])


@pytest.mark.parametrize("size", [0.0, 1e-6, 1e-3, 1.0, 50.0, 1e4, 1e7])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_inverse_undoes_it_in_float32_to_the_last_digits(size: float, sign: float) -> None:
    x = torch.tensor([sign * size])
    torch.testing.assert_close(unscaled(rescaled(x)), x, rtol=3e-6, atol=0.0)
    torch.testing.assert_close(rescaled(unscaled(x)), x, rtol=3e-6, atol=0.0)


# Of two actions the target network values the first at 1 and the second at 3, the online one the other way.
LOW, HIGH = torch.tensor([0.0, 1, 0, 0, 0]), torch.tensor([0.0, 0, 0, 1, 0])
ZERO, ONE = torch.zeros(1), torch.ones(1)


def of_values(double: bool, mask: Tensor | None) -> float:
    target, online = torch.tensor([[1.0, 3.0]]), torch.tensor([[3.0, 1.0]])
    return n_step_target(ZERO, ONE, online, target, double, mask).item()


def of_quantiles(double: bool, mask: Tensor | None) -> float:
    target, online = torch.tensor([[[0.0, 2.0], [7.0, -1.0]]]), torch.tensor([[[4.0, 4.0, 1.0], [0.0, 0, 6]]])
    found = quantile_target(ZERO, ONE, target, online, double, mask)
    assert found.tolist() in ([[0, 2]], [[7, -1]]), "those of one action"
    return found.mean().item()


def of_atoms(double: bool, mask: Tensor | None) -> float:
    target, online = torch.stack((LOW, HIGH)).log()[None], torch.stack((HIGH, LOW)).log()[None]
    found, _ = categorical_target(ZERO, ONE, target, online, ATOMS, double, mask)
    return (found @ ATOMS).item()


def of_sequences(double: bool, mask: Tensor | None) -> float:
    target = torch.tensor([[1.0, 3.0]])
    online = target.flip(1) if double else target
    both = (torch.cat((torch.zeros(1, 1, 2), rescaled(one)[None])) for one in (target, online))
    row = torch.ones(1, 1, dtype=torch.int64)
    found = r2d2_target(ZERO[None], ONE[None], row, *both, None if mask is None else mask[None])
    return unscaled(found).item()


@pytest.mark.parametrize("target", [of_values, of_quantiles, of_atoms, of_sequences])
@pytest.mark.parametrize("double", [True, False])
def test_the_best_of_the_valid_actions_follows_by_who_is_to_choose_it(target: Any, double: bool) -> None:
    for mask in (None, [[True, True]]):
        allowed = None if mask is None else torch.tensor(mask)
        assert target(double, allowed) == pytest.approx(1 if double else 3)
    for action, value in ((0, 1), (1, 3)):
        assert target(double, torch.tensor([[action == 0, action == 1]])) == pytest.approx(value)
