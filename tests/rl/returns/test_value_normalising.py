"""Value normalisation against closed forms."""

import numpy as np
import pytest

from soulsgui.rl.returns.value_normalising import ValueNormaliser


def test_statistics_are_those_of_all_targets_together() -> None:
    targets = np.random.default_rng(0).normal(50, 7, 300)
    normaliser = ValueNormaliser()
    for part in np.split(targets, [1, 40, 41, 200]):
        normaliser.update(part)
    assert (normaliser.mean, normaliser.std) == pytest.approx((targets.mean(), targets.std()))
    said = normaliser.outputs(targets)
    assert (said.mean(), said.std()) == pytest.approx((0, 1), abs=1e-5)


def test_targets_are_the_same_after_the_way_there_and_back() -> None:
    normaliser = ValueNormaliser()
    normaliser.update(np.array([-300.0, 100.0, 2000.0]))
    targets = np.linspace(-1000, 5000, 50)
    np.testing.assert_allclose(normaliser.values(normaliser.outputs(targets)), targets, rtol=1e-5, atol=1e-3)


def test_before_the_first_targets_a_value_is_what_the_network_says() -> None:
    values = np.array([-1.5, 0.0, 3.0], np.float32)
    normaliser = ValueNormaliser()
    np.testing.assert_array_equal(normaliser.values(values), values)
    np.testing.assert_array_equal(normaliser.outputs(values), values)


def test_targets_that_are_all_alike_divide_nothing_by_zero() -> None:
    normaliser = ValueNormaliser()
    normaliser.update(np.full(5, 3.0))
    np.testing.assert_array_equal(normaliser.outputs(np.full(2, 3.0)), [0, 0])
