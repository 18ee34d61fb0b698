"""What environments take, as plain data: in JSON, as it is stored, and drawn by chance."""

import json
import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

from soulsgui.environments.actions import ActionSpec, BoxActionSpec, action_from_json, action_from_space
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec, MultiBinarySpec, MultiDiscreteSpec
from soulsgui.environments.spaces import SpacesSpec, action_words
from soulsgui.errors import EnvironmentCheckError
from tests.environments.toys import SPACES_TAKEN

KINDS = [name for name in SPACES_TAKEN if name != "words"]
CHOICES = MultiDiscreteSpec((3, 2), (0, 5), (2,))
SWITCHES = MultiBinarySpec((2,))
NUMBERS = BoxActionSpec(BoxSpec((2,), "float32", (-1.0,), (1.0,)))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_survives_json(name: str) -> None:
    spec = action_from_space(SPACES_TAKEN[name])
    read = action_from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False)))
    assert read == spec
    assert hash(read) == hash(spec)


@pytest.mark.parametrize("name", KINDS)
def test_drawn_actions_lie_in_the_space_and_are_read_as_they_are_stored(name: str) -> None:
    space, rng = SPACES_TAKEN[name], np.random.default_rng(0)
    spec = action_from_space(space)
    drawn = [spec.random(rng) for _ in range(200)]
    assert all(space.contains(action) for action in drawn)
    stored = np.array([spec.read(action) for action in drawn])
    assert (stored.shape[1:], stored.dtype) == (spec.shape, spec.dtype)
    assert spec.contains(stored).all()
    assert spec.all_within(stored)
    np.testing.assert_array_equal(
        stored.reshape(200, -1), np.array(drawn).reshape(200, -1).astype(spec.dtype)
    )


def test_draws_reach_every_action_that_is_valid() -> None:
    mask = np.array([0, 1, 1, 1, 0], np.bool_)
    for valid, reached in ((None, {(a, b) for a in (0, 1, 2) for b in (5, 6)}), (mask, {(1, 5), (2, 5)})):
        drawn = {tuple(CHOICES.random(np.random.default_rng(seed), valid)) for seed in range(100)}
        assert drawn == reached


STORED: list[tuple[ActionSpec, NDArray[Any], list[bool]]] = [
    (CHOICES, np.array([[0, 5], [2, 6], [3, 5], [-1, 5], [0, 4], [0, 7]]), [True, True] + [False] * 4),
    (SWITCHES, np.array([[0, 1], [1, 1], [2, 0], [0, -1]], np.int8), [True, True, False, False]),
    # What was drawn before it was squashed has no bounds.
    (NUMBERS, np.float32([[0, 9], [np.nan, 0], [0, np.inf], [-np.inf, 0]]), [True, False, False, False]),
]


@pytest.mark.parametrize(("spec", "array", "exist"), STORED)
def test_stored_actions_exist_or_not(spec: ActionSpec, array: NDArray[Any], exist: list[bool]) -> None:
    assert spec.contains(array).tolist() == exist
    assert [spec.all_within(row[None]) for row in array] == exist


@pytest.mark.parametrize("spec", [CHOICES, SWITCHES, NUMBERS])
@pytest.mark.parametrize(
    "array", [np.zeros(3), np.zeros((3, 4)), np.zeros((3, 2, 1)), np.zeros((3, 2), "U1")]
)
def test_another_shape_or_dtype_is_no_action(spec: ActionSpec, array: NDArray[Any]) -> None:
    assert spec.contains(array).tolist() == [False] * 3


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (DiscreteSpec(3, 1), [0, [1, 2]]),
        (CHOICES, [[3, 5], [0.5, 5.0], [0, 5, 5], 0]),
        (SWITCHES, [[0, 256], [0.5, 1.0]]),
        (NUMBERS, [[0.0, 1.5], [0.0, math.nan], [0.0], ["a", "b"]]),
    ],
)
def test_what_an_environment_can_not_take_is_not_read(spec: ActionSpec, values: list[Any]) -> None:
    for value in values:
        with pytest.raises((ValueError, TypeError)):
            spec.read(value)


def test_masks_are_of_numbered_choices_and_allow_an_action_in_each() -> None:
    masks = np.array([[1, 1, 0, 0, 1], [0, 0, 1, 1, 1]], np.bool_)
    actions = np.array([[0, 6], [0, 5], [2, 5], [1, 6], [99, -99]])
    allowed = CHOICES.allowed(actions, masks, np.array([0, 0, 1, 1, 0]))
    assert allowed[:4].tolist() == [True, False, True, False]
    box = spaces.Box(0, 1, (1,))
    assert SpacesSpec.from_env(box, SPACES_TAKEN["choices"]).with_masks(True).masked_actions == 9
    for name in ("switches", "box"):
        spec = SpacesSpec.from_env(box, SPACES_TAKEN[name])
        assert spec.with_masks(True) == spec
        assert spec.masked_actions == 0


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            action_from_space(SPACES_TAKEN["choices"]),
            "3 choices at once, of 3, 2 and 4 actions, from 0, 5, -1",
        ),
        (action_from_space(SPACES_TAKEN["switches"]), "5 times yes or no"),
        (action_from_space(SPACES_TAKEN["box"]), "3 numbers (float32), between -2 and 6"),
        (action_from_space(SPACES_TAKEN["free"]), "2 numbers (float32), unbounded"),
        (MultiDiscreteSpec((2,) * 12, (0,) * 12, (12,)), "12 choices at once, of 2 "),
        (MultiDiscreteSpec((2, 3, 4) * 4, (0,) * 12, (12,)), "12 choices at once, of 2 to 4 actions"),
    ],
)
def test_actions_in_words(spec: ActionSpec, words: str) -> None:
    assert action_words(spec).startswith(words)


UNREADABLE = [
    {"type": "text"},
    CHOICES.to_json() | {"sizes": []},
    CHOICES.to_json() | {"sizes": [3, 0]},
    CHOICES.to_json() | {"start": [0]},
    CHOICES.to_json() | {"start": [0, 2**70]},
    CHOICES.to_json() | {"shape": [3]},
    SWITCHES.to_json() | {"shape": [0]},
    NUMBERS.to_json() | {"dtype": "int64"},
    NUMBERS.to_json() | {"low": [1.0]},
    # A stranger's claim takes no memory.
    NUMBERS.to_json() | {"shape": [2**40], "low": [5.0], "high": [4.0]},
]


@pytest.mark.parametrize("data", UNREADABLE)
def test_unreadable_descriptions_are_refused(data: dict[str, Any]) -> None:
    observation = BoxSpec((1,), "float32").to_json()
    with pytest.raises(EnvironmentCheckError, match="can't be read"):
        SpacesSpec.from_json({"observation": observation, "action": data})
