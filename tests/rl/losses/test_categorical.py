"""C51 against cases worked out by hand: the projection keeps mass and mean, also exactly on an atom."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.rl.losses.categorical import categorical_loss, categorical_target, projected, support

ATOMS = support(0.0, 4.0, 5)


def project(reward: float, discount: float, probs: list[float]) -> list[float]:
    found = projected(
        torch.tensor([reward]), torch.tensor([discount]), torch.tensor([probs], dtype=torch.float32), ATOMS
    )
    assert found.dtype == torch.float32
    return found[0].tolist()


def test_atoms_are_even_and_include_both_ends() -> None:
    assert ATOMS.tolist() == [0, 1, 2, 3, 4]
    for lowest, highest, atoms in ((0.0, 0.0, 5), (1.0, 0.0, 5), (0.0, 1.0, 1)):
        with pytest.raises(ValueError, match="no support"):
            support(lowest, highest, atoms)


def test_mass_between_atoms_is_shared_by_closeness() -> None:
    # 0.25 + 0.5 * z: 0.25, 0.75, 1.25 ...
    assert project(0.25, 0.5, [1, 0, 0, 0, 0]) == [0.75, 0.25, 0, 0, 0]
    assert project(0.25, 0.5, [0, 0.5, 0, 0, 0.5]) == [0.125, 0.375, 0.375, 0.125, 0]


@pytest.mark.parametrize("atom", range(5))
def test_mass_that_falls_exactly_on_an_atom_stays_there_whole(atom: int) -> None:
    one_hot = [float(i == atom) for i in range(5)]
    assert project(0.0, 1.0, one_hot) == one_hot
    assert project(float(atom), 0.0, [0.2] * 5) == pytest.approx(one_hot)


def test_what_leaves_the_support_is_gathered_at_its_ends() -> None:
    assert project(9.0, 1.0, [0.25, 0.25, 0.25, 0.25, 0]) == [0, 0, 0, 0, 1]
    assert project(-2.5, 1.0, [0.25, 0.25, 0.25, 0.25, 0]) == [0.75 + 0.125, 0.125, 0, 0, 0]


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


def test_double_chooses_by_the_online_means() -> None:
    # Target means: 1 and 3; online means: 3 and 1.
    low, high = torch.tensor([0.0, 1, 0, 0, 0]), torch.tensor([0.0, 0, 0, 1, 0])
    target = torch.stack((low, high)).log()[None]
    online = torch.stack((high, low)).log()[None]
    reward, discount = torch.tensor([1.0]), torch.tensor([1.0])
    double, _ = categorical_target(reward, discount, target, online, ATOMS, double=True)
    plain, _ = categorical_target(reward, discount, target, online, ATOMS, double=False)
    assert double.tolist() == [[0, 0, 1, 0, 0]]
    assert plain.tolist() == [[0, 0, 0, 0, 1]]


def test_the_loss_is_the_cross_entropy_and_the_error_the_divergence() -> None:
    target = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    probs = torch.tensor([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]])
    found = categorical_loss(probs.log(), target, torch.tensor([1.0, 0.5]))
    entropies = [0.5 * math.log(4) + 0.5 * math.log(2), math.log(2)]
    assert found.loss.item() == pytest.approx((entropies[0] + 0.5 * entropies[1]) / 2)
    assert found.error.tolist() == pytest.approx([entropies[0] - math.log(2), math.log(2)], abs=1e-6)


def test_where_nothing_is_to_be_learned_error_and_gradient_are_0() -> None:
    logits = torch.tensor([[0.3, -1.0, 2.0]], requires_grad=True)
    log_probs = logits.log_softmax(1)
    found = categorical_loss(log_probs, log_probs.exp())
    found.loss.backward()
    assert logits.grad is not None
    assert logits.grad.tolist()[0] == pytest.approx([0, 0, 0], abs=1e-6)
    assert found.error.item() == pytest.approx(0, abs=1e-6)
    assert not found.error.requires_grad


def test_returns_beyond_the_support_are_counted_and_those_at_its_edge_are_not() -> None:
    log_probs = torch.tensor([[[0.0, 0, 0, 0, 1]]]).log().expand(6, 1, 5)  # 4 for sure
    reward = torch.tensor([0.0, 4.0, 1.0, -4.1, 5.0, -0.1])
    discount = torch.tensor([1.0, 0.0, 0.9, 1.0, 0.0, 0.0])  # to: 4, 4, 4.6, -0.1, 5, -0.1
    _, beyond = categorical_target(reward, discount, log_probs, log_probs, ATOMS, double=True)
    assert beyond.item() == pytest.approx(4 / 6)


def test_only_valid_actions_follow() -> None:
    low, high = torch.tensor([0.0, 1, 0, 0, 0]), torch.tensor([0.0, 0, 0, 1, 0])
    log_probs = torch.stack((low, high)).log().expand(2, 2, 5)
    mask = torch.tensor([[True, False], [True, True]])
    for double in (True, False):
        found, _ = categorical_target(
            torch.zeros(2), torch.ones(2), log_probs, log_probs, ATOMS, double, mask
        )
        assert found.tolist() == [low.tolist(), high.tolist()]
