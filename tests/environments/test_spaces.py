import json
import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.check import check
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.make import make_env
from soulsgui.environments.spaces import (
    SpacesSpec,
    reference_observation,
    report_lines,
    same_outputs,
    spaces_words,
)
from soulsgui.errors import EnvironmentCheckError


def spec_of(box: spaces.Box) -> SpacesSpec:
    return SpacesSpec.from_env(box, spaces.Discrete(2))


def through_json(spec: SpacesSpec) -> SpacesSpec:
    return SpacesSpec.from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False)))


@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLander-v3", "Acrobot-v1", "MountainCar-v0"])
def test_spaces_of_environments_survive_json(env_id: str) -> None:
    env = make_env(env_id, {}, [])
    spec = SpacesSpec.from_env(env.observation_space, env.action_space)
    assert through_json(spec) == spec
    assert hash(through_json(spec)) == hash(spec)
    assert spec.observation.contains(np.stack([env.reset(seed=i)[0] for i in range(5)])).all()


@settings(deadline=None)
@given(bounds=st.lists(st.tuples(*[st.floats(width=32, allow_nan=False)] * 2).map(sorted), min_size=1))
def test_float32_bounds_survive_json_exactly(bounds: list[list[float]]) -> None:
    low, high = np.array(bounds, np.float32).T
    spec = spec_of(spaces.Box(low, high, dtype=np.float32))
    read = through_json(spec)
    assert read == spec
    for bound, original, unbounded in (
        (read.observation.low, low, -math.inf),
        (read.observation.high, high, math.inf),
    ):
        expanded = np.broadcast_to(np.array(unbounded if bound is None else bound, np.float32), low.shape)
        np.testing.assert_array_equal(expanded, original)


def test_equal_bounds_are_written_once_and_large_whole_numbers_stay_exact() -> None:
    images = spec_of(spaces.Box(0, 255, (84, 84, 4), np.uint8)).to_json()["observation"]
    assert (images["low"], images["high"]) == ([0], [255])
    free = spec_of(spaces.Box(-np.inf, np.inf, (3,), np.float32)).to_json()["observation"]
    assert (free["low"], free["high"]) == (None, None)
    large = spec_of(spaces.Box(-(2**63), 2**63 - 1, (1,), np.int64))
    assert through_json(large).observation.high == (2**63 - 1,), "exact"


def test_only_finite_observations_within_the_bounds_are_contained() -> None:
    spec = spec_of(spaces.Box(np.float32([-1, -np.inf]), np.float32([1, np.inf]), dtype=np.float32))
    rows = np.array(
        [[0, 0], [1, 1e30], [1.01, 0], [-1.01, 0], [np.nan, 0], [0, np.nan], [0, np.inf], [0, -np.inf]],
        np.float32,
    )
    assert spec.observation.contains(rows).tolist() == [True, True] + [False] * 6


@settings(deadline=None)
@given(data=st.data())
def test_agrees_with_gymnasium_on_finite_values(data: st.DataObject) -> None:
    box = spaces.Box(np.array([[-1, 0], [2, -5]]), np.array([[1, 0], [3, 5]]), dtype=np.float32)
    value = st.floats(-6, 6, width=32)
    row = np.array(data.draw(st.lists(value, min_size=4, max_size=4)), np.float32).reshape(2, 2)
    assert spec_of(box).observation.contains(row[None]).tolist() == [box.contains(row)]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((3, 4), np.float32), ((3, 2), np.float64), ((3,), np.float32), ((), np.float64), ((0, 2), np.float32)],
)
def test_another_shape_or_dtype_is_never_contained(shape: tuple[int, ...], dtype: Any) -> None:
    spec, array = SpacesSpec(BoxSpec((2,), "float32"), DiscreteSpec(2)), np.zeros(shape, dtype)
    assert spec.observation.contains(array).tolist() == [False] * (shape[0] if shape else 1)
    assert not spec.action.contains(array).any()


def test_actions_begin_at_start() -> None:
    spec = SpacesSpec.from_env(spaces.Box(0, 1, (1,)), spaces.Discrete(3, start=2))
    assert spec.action == DiscreteSpec(3, 2)
    assert spec.action.contains(np.array([1, 2, 4, 5])).tolist() == [False, True, True, False]
    assert not spec.action.contains(np.array([2.0, 3.0])).any()
    assert not spec.action.contains(np.array([[2], [3]])).any()
    assert through_json(spec) == spec


SHOWN_BY_NONE = [
    spaces.Text(3),
    spaces.Graph(spaces.Discrete(2), None),
    spaces.Dict({"a": spaces.Box(0, 1, (1,)), "b": spaces.Sequence(spaces.Discrete(2))}),
    spaces.Tuple([spaces.Discrete(2), spaces.Dict({"b": spaces.Text(3)})]),
    spaces.Tuple([spaces.Box(0, 255, (2, 2), np.uint8)] * 2),
    spaces.Dict({}),
    spaces.Discrete(2**17),
    spaces.Discrete(5, start=2**40),
    spaces.Box(0, 1, (0,)),
]
TAKEN_BY_NONE = [
    spaces.Text(3),
    spaces.Tuple([spaces.Discrete(2)]),
    spaces.Box(0, 9, (2,), np.int64),
    spaces.Box(0, 1, (0,)),
    spaces.Box(np.float32([0, 1]), np.float32([1, 1])),
]


@pytest.mark.parametrize(
    ("shown", "taken", "words", "remedy"),
    [
        *((space, spaces.Discrete(2), "observation space", "env.wrappers") for space in SHOWN_BY_NONE),
        *((spaces.Box(0, 1, (1,)), space, "action space", " ") for space in TAKEN_BY_NONE),
    ],
)
def test_unsupported_spaces_are_told_with_a_remedy(shown: Any, taken: Any, words: str, remedy: str) -> None:
    with pytest.raises(EnvironmentCheckError, match=words) as caught:
        SpacesSpec.from_env(shown, taken)
    assert remedy in caught.value.remedy


BOX = {"type": "box", "shape": [2], "dtype": "float32", "low": None, "high": None}
DISCRETE = {"type": "discrete", "n": 2, "start": 0}
PARTS = [{"type": "discrete", "n": 2**40, "start": 0}, {"type": "words"}]
PARTS += [BOX | {"shape": shape} for shape in ([2**40], [-1, -5], [2**20, 2**20])]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"observation": BOX},
        *(
            {"observation": BOX | wrong, "action": DISCRETE}
            for wrong in (
                {"dtype": "object"},
                {"dtype": "no dtype"},
                {"low": [1, 2, 3]},
                {"low": ["much"]},
                {"type": "sphere"},
                {"shape": 3},
                # What a stranger claims takes no memory.
                *({"type": "parts", "parts": [{"path": ["a"], "space": space}]} for space in PARTS),
            )
        ),
        {"observation": BOX, "action": DISCRETE | {"n": 0}},
        {"observation": BOX, "action": DISCRETE | {"type": "box"}},
    ],
)
def test_unreadable_descriptions_are_refused(data: dict[str, Any]) -> None:
    assert SpacesSpec.from_json({"observation": BOX, "action": DISCRETE}).observation.size == 2
    with pytest.raises(EnvironmentCheckError, match="can't be read"):
        SpacesSpec.from_json(data)


TOYS = "tests.environments.toys"


def test_spaces_are_told_in_words() -> None:
    image = SpacesSpec(BoxSpec((84, 84, 3), "uint8", (0,), (255,)), DiscreteSpec(4))
    assert spaces_words(image) == ("84×84×3 numbers (uint8), between 0 and 255", "one of 4 actions")
    vector = SpacesSpec(BoxSpec((2,), "float32"), DiscreteSpec(2, -1))
    assert spaces_words(vector) == ("2 numbers (float32), unbounded", "one of 2 actions, from -1")
    half = SpacesSpec(BoxSpec((2,), "float32", (0.5, 1.0)), DiscreteSpec(2))
    assert spaces_words(half)[0] == "2 numbers (float32), between 0.5 and inf"


def test_a_good_report_names_spaces_and_speed() -> None:
    report = check(f"{TOYS}:ToysCounter-v0", {"length": 500}, [], steps=50).to_json()
    lines = report_lines(report | {"seconds_per_step": 0.004})
    assert lines[:5] == [
        f"{TOYS}:ToysCounter-v0: works",
        "  shows        2 numbers (float32), between 0 and 1000",
        "  takes        one of 2 actions",
        "  several      are stepped one after the other",
        "  speed        4 ms a step, 250 steps/s",
    ]
    assert lines[5] == "  tried        50 steps, 0 episodes"
    assert all(line.startswith("  note ") for line in lines[6:])


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
