"""Which numbers of an environment can be learned from."""

import numpy as np
import pytest
from numpy.typing import NDArray

from soulsgui.environments.finite import ObservationCheck, check_rewards
from soulsgui.environments.spaces import BoxSpec
from soulsgui.errors import EnvironmentCheckError

MAX = 3.4e38


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e16, -MAX])
def test_rewards_that_can_not_be_computed_with_are_errors(value: float) -> None:
    check_rewards(np.array([1e15, -1e15, 0.9e15], np.float32))
    with pytest.raises(EnvironmentCheckError, match="scale them by a wrapper"):
        check_rewards(np.array([0, value], np.float32))


@pytest.mark.parametrize(
    ("low", "high", "values", "good"),
    [
        (None, None, [1e15, -1e15], True),
        (None, None, [0, np.nan], False),
        (None, None, [0, np.inf], False),
        (None, None, [0, -1e16], False),
        ((-1.0,), (1.0,), [np.inf, -1e16], True),  # moved onto the bounds
        ((-1.0,), (1.0,), [np.nan, 0], False),
        ((-1.0, -np.inf), (1.0, np.inf), [np.inf, 0], True),
        ((-1.0, -np.inf), (1.0, np.inf), [0, np.inf], False),
        ((-MAX,), (MAX,), [0, 1e16], False),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_observations_that_can_not_be_learned_from_are_errors(
    low: tuple[float, ...] | None, high: tuple[float, ...] | None, values: list[float], good: bool, dtype: str
) -> None:
    check, obs = ObservationCheck(BoxSpec((2,), dtype, low, high)), np.array([[0, 0], values], dtype)
    if good:
        check(obs)
    else:
        with pytest.raises(EnvironmentCheckError, match="in an observation"):
            check(obs)


@pytest.mark.parametrize("values", [np.array([[60000]], np.float16), np.full((1, 1), 255, np.uint8)])
def test_small_kinds_of_numbers_pass(values: NDArray[np.generic]) -> None:
    ObservationCheck(BoxSpec((1,), str(values.dtype)))(values)
