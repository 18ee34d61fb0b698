from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from soulsgui.environments.make import longest_episode, make_env, make_vector
from soulsgui.environments.partial import ShowOnly
from soulsgui.errors import EnvironmentCheckError

TOYS = "tests.environments.toys"
SHOW_ONLY = "soulsgui.environments.partial:ShowOnly"
REGISTER = f"gymnasium.register(id='Counter-v0', entry_point='{TOYS}:Counter')"


def test_an_id_is_made_with_its_arguments_and_the_module_in_front_imported() -> None:
    env = make_env("CartPole-v1", {"sutton_barto_reward": True, "max_episode_steps": 3}, [])
    env.reset(seed=0)
    results = [env.step(0) for _ in range(3)]
    assert [result[1] for result in results] == [0, 0, 0]
    assert results[-1][3], "max_episode_steps goes to gymnasium.make"
    env = make_env(f"{TOYS}:ToysCounter-v0", {"length": 2}, [])
    assert type(env.unwrapped).__name__ == "Counter"


def test_wrappers_go_around_from_the_inside_out() -> None:
    env = make_env(
        f"{TOYS}:ToysCounter-v0",
        {},
        [{f"{TOYS}:Doubled": {"factor": 3.0}}, "FlattenObservation", {"TimeLimit": {"max_episode_steps": 1}}],
    )
    env.reset()
    assert env.step(0)[1:4] == (3.0, False, True)
    names = [type(layer).__name__ for layer in (env, env.env, env.env.env)]
    assert names == ["TimeLimit", "FlattenObservation", "Doubled"]


def test_the_native_vector_form_is_used_where_nothing_stands_in_its_way() -> None:
    vector = make_vector("CartPole-v1", {"sutton_barto_reward": True}, [], 3)
    assert isinstance(vector, CartPoleVectorEnv)
    assert vector.num_envs == 3
    assert vector.max_episode_steps == 500


@pytest.mark.parametrize(
    ("env_id", "kwargs", "wrappers"),
    [
        ("CartPole-v1", {}, ["FlattenObservation"]),
        ("Acrobot-v1", {}, []),
        (f"{TOYS}:ToysCounter-v0", {"length": 2}, []),  # its vector form does not take `length`
    ],
)
def test_else_environments_step_one_after_the_other_and_begin_differently(
    env_id: str, kwargs: dict[str, int], wrappers: list[str]
) -> None:
    vector = make_vector(env_id, kwargs, wrappers, 2)
    assert isinstance(vector, SyncVectorEnv)
    assert vector.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    obs, _ = vector.reset(seed=0)
    assert len(obs) == 2
    assert not np.array_equal(obs[0], obs[1]) or "Counter" in env_id
    vector.close()


@pytest.mark.parametrize(
    ("env_id", "kwargs", "wrappers", "message", "remedy"),
    [
        ("CartPool-v1", {}, [], "CartPool-v1", "CartPole-v1"),
        ("CartPole-v7", {}, [], "CartPole-v7", "CartPole-v1"),
        ("LunarLander-v2", {}, [], "deprecated", "LunarLander-v3"),
        ("Nowhere/Game-v0", {}, [], "Nowhere", "module:Nowhere/Game-v0"),
        ("no_such_module:Game-v0", {}, [], "no_such_module", "pip install no_such_module"),
        ("CartPole-v1", {"gravitas": 1}, [], "gravitas", "env.kwargs"),
        ("CartPole-v1", {"suton_barto_reward": 1}, [], "suton", "is sutton_barto_reward. Under"),
        (f"{TOYS}:Counter", {}, [], "registers no environment of that name", REGISTER),
        (f"{TOYS}:ToysFaulty-v0", {"fault": "constructor"}, [], "no graphics here", "fault"),
        ("CartPole-v1", {}, ["FlatenObservation"], "FlatenObservation", "FlattenObservation"),
        ("CartPole-v1", {}, [f"{TOYS}:Dubled"], "Dubled", "Doubled"),
        ("CartPole-v1", {}, ["no_such_module:Wrap"], "no_such_module", "pip install no_such_module"),
        ("CartPole-v1", {}, [{"TimeLimit": {"steps": 1}}], "TimeLimit", "env.wrappers"),
        ("CartPole-v1", {}, [{"TimeLimit": {"max_steps": 1}}], "TimeLimit", "it takes: max_episode_steps"),
        ("CartPole-v1", {}, [{"TimeLimit": None, "Autoreset": None}], "TimeLimit", "entry of its own"),
        ("CartPole-v1", {}, ["unittest.mock:MagicMock"], "MagicMock is not a wrapper", "module:Class"),
        ("CartPole-v1", {}, ["operator:call", "os:system"], "operator:call is not a wrapper", "module:Class"),
        ("CartPole-v1", {}, [f"{TOYS}:Counter"], "Counter is not a wrapper", "module:Class"),
    ],
)
def test_what_can_not_be_made_is_told_with_a_remedy(
    env_id: str, kwargs: dict[str, object], wrappers: list[object], message: str, remedy: str
) -> None:
    for make in (make_env, lambda *args: make_vector(*args, num_envs=2)):
        with pytest.raises(EnvironmentCheckError) as caught:
            make(env_id, kwargs, wrappers)
        assert message in caught.value.message
        assert remedy in caught.value.remedy


def test_a_missing_extra_is_named_with_its_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def creator(**kwargs: object) -> None:
        raise gymnasium.error.DependencyNotInstalled('Box2D is missing, run `pip install "gymnasium[box2d]"`')

    monkeypatch.setitem(
        gymnasium.registry,
        "ToysMissing-v0",
        gymnasium.envs.registration.EnvSpec("ToysMissing-v0", entry_point=creator),
    )
    with pytest.raises(EnvironmentCheckError) as caught:
        make_env("ToysMissing-v0", {}, [])
    assert caught.value.remedy == 'Install what is missing: pip install "gymnasium[box2d]"'


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("CartPoel-v1", "The nearest known name is CartPole-v1."),
        ("cartpole", "The nearest known name is CartPole-v1."),
        ("Nope-v9", "Check the spelling, or write module:Name."),  # like Hopper-v5 by little but its version
        ("Game-v5", "Check the spelling, or write module:Name."),
        ("../x:Env-v0", None),
    ],
)
def test_a_mistyped_name_is_corrected_once_and_only_to_a_near_one(name: str, remedy: str | None) -> None:
    with pytest.raises(EnvironmentCheckError) as caught:
        make_env(name, {}, [])
    if remedy is None:
        assert "not a module name" in caught.value.message
        assert "pip" not in caught.value.remedy
    else:
        assert (caught.value.message, caught.value.remedy) == (f"There is no environment “{name}”.", remedy)


@pytest.mark.parametrize(
    ("env_id", "kwargs", "wrappers", "longest"),
    [
        ("CartPole-v1", {}, [], 500),
        ("CartPole-v1", {"max_episode_steps": 70}, [], 70),
        ("CartPole-v1", {"max_episode_steps": -1}, [], 9),
        ("CliffWalking-v1", {}, [], 9),
        ("CliffWalking-v1", {}, ["FlattenObservation", {"TimeLimit": {"max_episode_steps": 30}}], 30),
        ("CliffWalking-v1", {}, [{"gymnasium.wrappers:TimeLimit": {"max_episode_steps": 30}}], 30),
        ("CliffWalking-v1", {}, [{"FlattenObservation": None}], 9),
    ],
)
def test_how_long_an_episode_may_take_is_known_of_an_environment(
    env_id: str, kwargs: dict[str, Any], wrappers: list[Any], longest: int
) -> None:
    assert longest_episode(env_id, kwargs, wrappers, otherwise=9) == longest


def test_only_the_chosen_numbers_are_shown_within_their_bounds() -> None:
    env = make_env("CartPole-v1", {}, [{SHOW_ONLY: {"indices": [0, 2]}}])
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
        make_env("FrozenLake-v1", {}, [{SHOW_ONLY: {"indices": [0]}}])
