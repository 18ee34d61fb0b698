"""Observations of parts: how they are stored, what networks see of them, and what can't be one."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces.utils import flatten
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.check import check
from soulsgui.environments.make import make_vector
from soulsgui.environments.observations import (
    PartsSpec,
    observation_from_json,
    observation_from_space,
    seen_of,
)
from soulsgui.environments.spaces import reference_observation, report_lines
from soulsgui.environments.step import EnvStepper
from soulsgui.errors import EnvironmentCheckError
from soulsgui.experience.frame_stacks import IMAGE, NUMBERS, Pictures
from soulsgui.sampling.rollout import Bounds
from tests.environments.toys import Room

VECTORS: dict[str, spaces.Space[Any]] = {
    "one": spaces.Discrete(5, start=-2),
    "several": spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [-3, 0]]),
    "switches": spaces.MultiBinary((2, 2)),
    "cards": spaces.Tuple([spaces.Discrete(32), spaces.Discrete(11), spaces.Discrete(2)]),
    "room": Room(picture=False).observation_space,
    "nested": spaces.Dict(
        {
            "goal": spaces.Dict({"at": spaces.Box(-1, 1, (2, 2)), "kind": spaces.Discrete(3)}),
            "hand": spaces.Tuple([spaces.MultiBinary(2), spaces.Box(-np.inf, np.inf, (1,), np.float64)]),
        }
    ),
}


def parts_of(space: spaces.Space[Any]) -> PartsSpec:
    found = observation_from_space(space)
    assert isinstance(found, PartsSpec)
    return found


@pytest.mark.parametrize("name", VECTORS)
def test_networks_see_what_gymnasium_flattens_to(name: str) -> None:
    space = VECTORS[name]
    space.seed(0)
    spec, shown = parts_of(space), [space.sample() for _ in range(20)]
    assert observation_from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False))) == spec
    stored = np.stack([spec.read(one) for one in shown])
    assert stored.dtype == ("int32" if name in ("one", "several", "switches", "cards") else "float32")
    assert spec.contains(stored).all()
    assert spec.all_whole(stored)
    seen = spec.encode(stored, images=False)
    assert (seen.dtype, seen.shape[1:]) == (np.float32, spec.seen(images=False).shape)
    np.testing.assert_allclose(seen, [flatten(space, one) for one in shown], rtol=1e-6)
    # A vector of environments shows them together.
    together = concatenate(space, shown, create_empty_array(space, n=20))
    np.testing.assert_array_equal(spec.read(together, 20), stored)


def test_choices_are_stored_as_a_number_each_and_never_normalised() -> None:
    spec = parts_of(VECTORS["room"])
    assert spec.read(Room(picture=False).reset()[0]).tolist() == [1, 0, 1, 1, 0, 0.5, 0, 0, 0]
    assert parts_of(VECTORS["one"]).read(np.int64(2)).tolist() == [2]
    # One of 10, three switches, two numbers, one of 10 and one of 2, a number.
    assert spec.fixed(False).tolist() == [True] * 13 + [False] * 2 + [True] * 12 + [False]


def test_an_image_is_kept_beside_the_numbers() -> None:
    room = Room()
    spec = parts_of(room.observation_space)
    assert (spec.shape, spec.dtype) == ((), "(12,12,1,)u1,(9,)f4")
    room.reset()
    stored = np.stack([spec.read(room.step(0)[0]) for _ in range(2)])
    assert (stored[IMAGE] == np.array([1, 2]).reshape(2, 1, 1, 1)).all()
    np.testing.assert_allclose(stored[NUMBERS][1], [3, 0, 1, 0, np.float32(2 / 9), 0.5, 2, 0, -2])
    numbers = parts_of(VECTORS["room"])
    encoded = numbers.encode(stored[NUMBERS], False)
    seen = spec.encode(stored, images=True)
    np.testing.assert_array_equal(seen[IMAGE], stored[IMAGE])
    np.testing.assert_array_equal(seen[NUMBERS], encoded)
    space = spec.seen(images=True)
    assert seen.dtype == np.dtype(space.dtype)
    assert seen_of(space.shape, space.dtype).fields[1] == space.fields[1]
    flat = spec.encode(stored, images=False)
    np.testing.assert_array_equal(flat, np.concatenate((stored[IMAGE].reshape(2, -1), encoded), axis=1))
    assert spec.seen(images=False) == BoxSpec((144 + 28,), "float32")
    assert spec.fixed(False).tolist() == [False] * 144 + numbers.fixed(False).tolist()
    assert spec.fixed(True).tolist() == numbers.fixed(True).tolist()


def test_an_image_alone_is_stored_as_it_is() -> None:
    image = spaces.Box(0, 255, (8, 9, 3), np.uint8)
    spec = parts_of(spaces.Dict({"image": image}))
    assert (spec.shape, spec.dtype) == ((8, 9, 3), "uint8")
    shown = np.full((8, 9, 3), 7, np.uint8)
    np.testing.assert_array_equal(spec.read({"image": shown}), shown)
    assert spec.seen(images=True) == BoxSpec((8, 9, 3), "uint8", (0,), (255,))
    assert spec.encode(shown[None], images=False).shape == (1, 8 * 9 * 3)


@pytest.mark.parametrize(
    ("column", "value"), [(0, 0), (0, 11), (0, 1.5), (1, 2), (1, 0.5), (4, 1.5), (4, np.nan), (8, np.inf)]
)
def test_only_what_can_be_shown_is_contained(column: int, value: float) -> None:
    for room in (Room(), Room(picture=False)):
        spec = parts_of(room.observation_space)
        rows = np.stack([spec.read(room.reset()[0])] * 3)
        numbers = rows[NUMBERS] if rows.dtype.names else rows
        numbers[1, column] = value
        assert spec.contains(rows).tolist() == [True, False, True]
        assert spec.all_whole(rows) == (value not in (0.5, 1.5) or column == 4)
    assert not spec.contains(rows.astype(np.float64)).any()


@pytest.mark.parametrize(
    ("name", "shown", "words"),
    [
        ("cards", (1, 2), "no part 2"),
        ("cards", (1, np.zeros(2, int), 0), "the part 1 of an observation has shape (2,); its space says ()"),
        ("one", 1.5, "dtype float64"),
        ("nested", {"goal": 3}, "no part goal.at"),
    ],
)
def test_what_is_shown_otherwise_than_the_space_says_is_told(name: str, shown: Any, words: str) -> None:
    with pytest.raises(ValueError, match=r"part|observation") as caught:
        parts_of(VECTORS[name]).read(shown)
    assert words in str(caught.value)


def test_the_part_that_is_not_supported_is_named_with_what_to_do() -> None:
    space = spaces.Dict({"image": spaces.Box(0, 255, (7, 7, 3), np.uint8), "mission": spaces.Text(9)})
    with pytest.raises(EnvironmentCheckError, match="The part mission of the observation space") as caught:
        observation_from_space(space)
    assert "FilterObservation" in caught.value.remedy


def test_values_are_moved_onto_their_bounds_in_each_part() -> None:
    spec = parts_of(Room().observation_space)
    rows = np.zeros(1, spec.dtype)
    rows[NUMBERS][0] = [99, -1, 2, 0.5, 7, -7, 99, 99, -99]
    moved = Bounds(spec)(rows)
    np.testing.assert_array_equal(moved[NUMBERS][0], [10, 0, 1, 0.5, 1, 0, 9, 1, -9])
    assert rows[NUMBERS][0, 0] == 99


def test_everybody_makes_the_same_reference_observation_and_it_is_one() -> None:
    for space in (*VECTORS.values(), Room().observation_space):
        spec = parts_of(space)
        made = reference_observation(spec)
        assert spec.contains(made).all()
        np.testing.assert_array_equal(made, reference_observation(spec))


@pytest.mark.parametrize("picture", [True, False])
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_an_episode_ends_with_its_own_observation(mode: AutoresetMode, picture: bool) -> None:
    vector = SyncVectorEnv([lambda: Room(2, picture), lambda: Room(3, picture)], autoreset_mode=mode)
    spec = parts_of(vector.single_observation_space)
    stepper = EnvStepper(vector)
    door = lambda rows: (rows[NUMBERS] if picture else rows)[:, 0].tolist()  # noqa: E731
    assert door(stepper.reset(0)) == [1, 1]
    stepper.step(np.zeros(2, int))
    result = stepper.step(np.zeros(2, int))
    assert spec.contains(result.next_obs).all()
    assert result.terminated.tolist() == [True, False]
    assert door(result.next_obs) == [3, 3]
    assert door(result.reset_obs) == ([1, 3] if mode is AutoresetMode.SAME_STEP else [3, 3])


@pytest.mark.parametrize(
    ("env_id", "kwargs", "shows", "masked"),
    [
        ("FrozenLake-v1", {"is_slippery": False}, "one of 16", 0),
        ("Taxi-v4", {}, "one of 500", 6),
        ("Blackjack-v1", {}, "0: one of 32; 1: one of 11; 2: one of 2", 0),
    ],
)
def test_gymnasiums_environments_work(env_id: str, kwargs: dict[str, Any], shows: str, masked: int) -> None:
    report = check(env_id, kwargs, [], steps=60)
    assert report.ok
    assert f"  shows        {shows}" in report_lines(report.to_json())
    stepper = EnvStepper(make_vector(env_id, kwargs, [], 2))
    assert report.spaces is not None
    assert report.spaces.masked_actions == masked
    assert report.spaces.observation.contains(stepper.reset(0)).all()


def test_images_with_numbers_are_an_array_of_records() -> None:
    images, numbers = np.arange(12, dtype=np.uint8).reshape(3, 2, 2), np.ones((3, 5), np.float32)
    made = Pictures(images, numbers)
    whole = np.asarray(made)
    assert (whole.dtype, whole.shape) == (np.dtype("(2,2)u1,(5,)f4"), (3,))
    np.testing.assert_array_equal(whole[IMAGE], images)
    np.testing.assert_array_equal(np.asarray(made[np.array([False, True, True])]), whole[1:])
