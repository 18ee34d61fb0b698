import gymnasium
import numpy as np
import pytest

from soulsgui.environments.make import make_env
from soulsgui.environments.partial import ShowOnly
from soulsgui.errors import EnvironmentCheckError

NAME = "soulsgui.environments.partial:ShowOnly"


def test_only_the_chosen_numbers_are_shown_within_their_bounds() -> None:
    env = make_env("CartPole-v1", {}, [{NAME: {"indices": [0, 2]}}])
    whole = env.unwrapped.observation_space
    assert isinstance(env.observation_space, gymnasium.spaces.Box)
    np.testing.assert_array_equal(env.observation_space.high, whole.high[[0, 2]])
    np.testing.assert_array_equal(env.observation_space.low, whole.low[[0, 2]])
    seen, _ = env.reset(seed=1)
    np.testing.assert_array_equal(seen, np.asarray(env.unwrapped.state, np.float32)[[0, 2]])
    seen = env.step(1)[0]
    np.testing.assert_array_equal(seen, np.asarray(env.unwrapped.state, np.float32)[[0, 2]])
    assert env.observation_space.contains(seen)


@pytest.mark.parametrize("indices", [[], [4], [-1]])
def test_places_that_are_not_there_are_refused(indices: list[int]) -> None:
    with pytest.raises(EnvironmentCheckError, match="has no places"):
        ShowOnly(gymnasium.make("CartPole-v1"), indices)


def test_what_is_no_row_of_numbers_is_refused() -> None:
    with pytest.raises(EnvironmentCheckError, match="Only rows"):
        make_env("FrozenLake-v1", {}, [{NAME: {"indices": [0]}}])
