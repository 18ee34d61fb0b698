"""Distributions in numpy: proportions, closed forms, masks, and numerical integration of the squashed one."""

import math
from typing import Any

import numpy as np
import pytest

from soulsgui.policies.distributions import (
    LARGEST_LOG_STD,
    LEAST_STD,
    NumpyCategorical,
    NumpyGaussian,
    NumpyMultiBinary,
    NumpyMultiDiscrete,
    NumpyTanhGaussian,
    exponential_std,
    softplus_std,
)


def rows(*values: float, count: int = 1) -> Any:
    return np.tile(np.array(values, np.float32), (count, 1))


def test_a_choice_has_the_probabilities_of_its_softmax() -> None:
    choice = NumpyCategorical(np.log(rows(1, 2, 5)) + 100)
    assert np.exp(choice.log_prob(np.array([2]))).item() == pytest.approx(5 / 8, rel=1e-4)
    expected = -sum(p * math.log(p) for p in (1 / 8, 2 / 8, 5 / 8))
    assert choice.entropy().item() == pytest.approx(expected, rel=1e-4)
    assert choice.mode().tolist() == [2]
    assert choice.log_prob(np.array([0])).dtype == choice.entropy().dtype == np.float32


def test_draws_follow_the_probabilities() -> None:
    choice = NumpyCategorical(np.log(rows(1, 2, 5, count=8_000)))
    drawn = choice.sample(np.random.default_rng(0))
    assert drawn.dtype == np.int64
    expected = np.array([1_000, 2_000, 5_000])
    assert ((np.bincount(drawn) - expected) ** 2 / expected).sum() < 13.8, "by chance once in 1000"


def test_what_is_masked_is_never_drawn_and_adds_nothing_to_the_entropy() -> None:
    mask = np.array([[True, False, True, False]] * 5_000)
    choice = NumpyCategorical(rows(0.0, 80.0, 0.0, 3.0, count=5_000), mask)
    drawn = choice.sample(np.random.default_rng(0))
    assert set(drawn.tolist()) == {0, 2}
    np.testing.assert_allclose(choice.entropy(), math.log(2), rtol=1e-6)
    assert (np.exp(choice.log_prob(np.ones(5_000, np.int64))) == 0).all()
    np.testing.assert_allclose(np.exp(choice.log_prob(drawn)), 0.5, rtol=1e-6)
    assert set(choice.mode().tolist()) <= {0, 2}


def test_a_draw_at_the_very_end_falls_to_an_action_that_is_possible() -> None:
    class Last(np.random.Generator):
        def random(self, *args: Any, **kwargs: Any) -> Any:
            return np.full(args[0], 1.0, np.float32)

    choice = NumpyCategorical(rows(0.0, 0.0, 0.0), np.array([[True, True, False]]))
    assert choice.sample(Last(np.random.PCG64(0))).tolist() == [1]


def test_an_observation_that_allows_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        NumpyCategorical(rows(1, 2, count=2), np.array([[True, False], [False, False]]))


def test_several_choices_add_up() -> None:
    logits, mask = rows(1, 2, 3, 4, 5), np.array([[True, False, True, True, False]])
    both = NumpyMultiDiscrete(logits, (2, 3), mask)
    first, second = NumpyCategorical(logits[:, :2], mask[:, :2]), NumpyCategorical(logits[:, 2:], mask[:, 2:])
    action = np.array([[0, 1]])
    assert both.log_prob(action) == first.log_prob(action[:, 0]) + second.log_prob(action[:, 1])
    assert both.entropy() == first.entropy() + second.entropy()
    assert both.mode().tolist() == [[0, 1]]
    assert both.sample(np.random.default_rng(0)).shape == (1, 2)


def test_yes_or_no_follows_the_log_odds_however_extreme() -> None:
    bits = NumpyMultiBinary(np.log(rows(3, 1 / 4, 1, count=4_000)))
    drawn = bits.sample(np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), [0.75, 0.2, 0.5], atol=0.03)
    log_prob = bits.log_prob(np.array([[1, 0, 1]] * 4_000))
    np.testing.assert_allclose(log_prob, math.log(0.75 * 0.8 * 0.5), rtol=1e-5)
    expected = -sum(p * math.log(p) + (1 - p) * math.log(1 - p) for p in (0.75, 0.2, 0.5))
    np.testing.assert_allclose(bits.entropy(), expected, rtol=1e-5)
    assert bits.mode()[0].tolist() == [1, 0, 0]
    bits = NumpyMultiBinary(rows(200.0, -200.0))
    assert bits.entropy().tolist() == [0]
    assert bits.log_prob(np.array([[0, 1]])).tolist() == [-400]
    assert bits.sample(np.random.default_rng(0)).tolist() == [[1, 0]]


def test_a_gaussian_has_its_density_and_entropy() -> None:
    gaussian = NumpyGaussian(rows(1.0, -1.0), np.array([2.0, 0.5], np.float32))
    density = math.exp(-0.5) / math.sqrt(2 * math.pi) / 2 * math.exp(-2) / math.sqrt(2 * math.pi) / 0.5
    assert gaussian.log_prob(rows(3.0, 0.0)).item() == pytest.approx(math.log(density), rel=1e-6)
    assert gaussian.entropy().item() == pytest.approx(math.log(2 * math.pi * math.e), rel=1e-6)
    assert gaussian.mode().tolist() == [[1, -1]]


LOW, HIGH = np.array([-2.0], np.float32), np.array([6.0], np.float32)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.5), (1.0, 1.0), (-2.0, 0.3), (0.5, 2.0)])
def test_the_squashed_density_integrates_to_1_and_to_its_entropy(mean: float, std: float) -> None:
    # Over u: da = slope du, so that density(a) * slope du is what each u contributes.
    u = np.linspace(mean - 8 * std, mean + 8 * std, 40_001).astype(np.float32)[:, None]
    squashed = NumpyTanhGaussian(np.full_like(u, mean), np.array([std], np.float32), LOW, HIGH)
    log_density = squashed.log_prob(u).astype(np.float64)
    slope = 4.0 / np.cosh(u[:, 0].astype(np.float64)) ** 2
    weight = np.exp(log_density) * slope * (16 * std / 40_000)
    assert weight.sum() == pytest.approx(1.0, abs=1e-3)
    assert -(weight * log_density).sum() == pytest.approx(squashed.entropy()[0], abs=3e-3)


@pytest.mark.parametrize("mean", [0.0, 0.3, 2.0, 15.0, 400.0])
def test_the_squashed_entropy_is_the_integral_up_to_the_largest_deviation(mean: float) -> None:
    std = np.append(np.geomspace(1e-3, 100, 60), math.exp(LARGEST_LOG_STD) + LEAST_STD)[:, None]
    # In steps that are small for the Gaussian, and for the slope, which bends around 0.
    z = np.union1d(np.linspace(-9, 9, 20_001), np.linspace(-20, 20, 20_001) / 1e3)
    expected = []
    for deviation in std[:, 0]:
        bend = (np.linspace(-20, 20, 20_001) - mean) / deviation
        at = np.union1d(z, bend[np.abs(bend) < 9])
        u = mean + deviation * at
        log_density = -np.square(at) / 2 - math.log(deviation * math.sqrt(2 * math.pi))
        log_density -= 2 * (math.log(2) - u - np.logaddexp(0, -2 * u)) + math.log(4)
        weight = np.exp(-np.square(at) / 2) / math.sqrt(2 * math.pi)
        expected.append(np.trapezoid(-weight * log_density, at))
    found = NumpyTanhGaussian(
        np.full_like(std, mean, np.float32), std.astype(np.float32), LOW, HIGH
    ).entropy()
    # Beyond a few thousand nats float32 has no thousandths.
    np.testing.assert_allclose(found, expected, atol=1e-3, rtol=1e-6)


def test_actions_stay_within_the_bounds_and_densities_finite_however_far_out() -> None:
    squashed = NumpyTanhGaussian(rows(0.0, count=4), np.array([5.0], np.float32), LOW, HIGH)
    far = np.array([[-60.0], [-9.0], [9.0], [60.0]], np.float32)
    action = squashed.to_action(far)
    assert action[[0, 3], 0].tolist() == [-2, 6]
    assert ((action >= LOW) & (action <= HIGH)).all()
    # log(1 - tanh(60)^2) = 2 (log 2 - 60) up to rounding.
    expected = -0.5 * 144 - math.log(5 * math.sqrt(2 * math.pi)) - 2 * (math.log(2) - 60) - math.log(4)
    assert squashed.log_prob(far)[3] == pytest.approx(expected, rel=1e-5)


def test_deviations_begin_at_the_initial_one_and_never_vanish() -> None:
    assert softplus_std(np.zeros(1, np.float32), 0.5).item() == pytest.approx(0.5, rel=1e-6)
    assert softplus_std(np.full(1, -200, np.float32), 0.5).item() == pytest.approx(1e-3)
    assert softplus_std(np.full(1, 50, np.float32), 0.5).item() == pytest.approx(49.57, abs=0.01)
    raw = np.array([0, 1, -200, 1e30], np.float32)
    expected = [0.5, 0.001 + 0.499 * math.e, 0.001, math.exp(10)]
    np.testing.assert_allclose(exponential_std(raw, 0.5), expected, rtol=1e-4)
    for transform in (softplus_std, exponential_std):
        with pytest.raises(ValueError, match="above"):
            transform(np.zeros(1, np.float32), 0.001)
