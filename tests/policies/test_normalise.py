import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from soulsgui.policies.normalise import RunningNormaliser


def joined(parts: list[NDArray[np.float64]], clip: float = 10.0) -> RunningNormaliser:
    normaliser = RunningNormaliser(parts[0].shape[1], clip)
    for part in parts:
        normaliser.update(part)
    return normaliser


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(lambda lengths: sum(lengths) > 0),
    offset=st.floats(-1e4, 1e4),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_statistics_of_rows_however_split(lengths: list[int], offset: float, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(offset, 3, (sum(lengths), 2))
    normaliser = joined(np.split(rows, np.cumsum(lengths)[:-1]))
    assert normaliser.count == len(rows)
    np.testing.assert_allclose(normaliser.mean, rows.mean(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(normaliser.var, rows.var(0), rtol=1e-6, atol=1e-9)


def test_before_the_first_batch_it_only_clips_and_a_feature_that_never_changes_stays_finite() -> None:
    normaliser = RunningNormaliser(2, clip=3.0)
    np.testing.assert_allclose(normaliser.normalise(np.array([[0.5, -9.0]])), [[0.5, -3.0]])
    normaliser = joined([np.full((10, 1), 4.0)], clip=5.0)
    assert normaliser.normalise(np.array([[4.0], [4.1], [3.9]])).tolist() == [[0], [5], [-5]]


def test_normalised_rows_have_mean_0_and_variance_1() -> None:
    rows = np.random.default_rng(0).normal(5, 3, (1000, 3, 2))
    normalised = joined([rows.reshape(1000, 6)]).normalise(rows)
    assert normalised.dtype == np.float32
    assert normalised.shape == (1000, 6)
    np.testing.assert_allclose(normalised.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(normalised.var(0), 1, atol=1e-4)


def test_a_state_is_a_copy() -> None:
    normaliser = joined([np.ones((3, 2))])
    state, frozen = normaliser.state(), normaliser.frozen()
    normaliser.update(np.zeros((3, 2)))
    assert state["mean"].tolist() == pytest.approx([1, 1])
    assert frozen["mean"].tolist() == pytest.approx([1, 1])
