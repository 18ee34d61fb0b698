"""The reference observation, and the comparison of what networks say of it."""

import numpy as np
import pytest

from soulsgui.environments.reference import reference_observation, same_outputs
from soulsgui.environments.spaces import BoxSpec


@pytest.mark.parametrize(
    "box",
    [
        BoxSpec((4,), "float32", (-4.8, -3.4e38, -0.4, 1.0), (4.8, 3.4e38, 0.4, 1.0)),
        BoxSpec((5,), "float64"),
        BoxSpec((3, 2), "uint8", (0,), (255,)),
        BoxSpec((2,), "int32", (100,), (200,)),
        BoxSpec((2,), "float32", (-200,), (-100,)),
    ],
)
def test_it_lies_in_its_space(box: BoxSpec) -> None:
    obs = reference_observation(box)
    assert obs.dtype == np.dtype(box.dtype)
    assert obs.shape == (1, *box.shape)
    assert box.contains(obs).all()


def test_its_numbers_are_those_of_the_formula() -> None:
    obs = reference_observation(BoxSpec((2,), "float64", (0,), (1,)))
    assert obs.tolist() == [[(1 + np.sin(1.0)) / 2, (1 + np.sin(2.0)) / 2]]
    unbounded = reference_observation(BoxSpec((1,), "float64"))
    assert unbounded[0, 0] == pytest.approx(10 * np.sin(1.0))


def test_outputs_are_compared_to_a_hundred_thousandth() -> None:
    own = np.array([1.0, -2.0, 300.0], np.float32)
    assert same_outputs((), own)
    assert same_outputs((1.0, -2.0), own)
    assert same_outputs((1.000015, -2.00002, 300.002), own)
    assert not same_outputs((1.0001, -2.0, 300.0), own)
    assert not same_outputs((1.0, -2.0, 300.0, 4.0), own)
