from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.make import make_vector
from soulsgui.environments.step import EnvStepper, ObservationCheck, StepClock, check_rewards
from soulsgui.errors import EnvironmentCheckError
from tests.environments.toys import Counter, Faulty, NativeCounter

Transition = tuple[Any, ...]
LENGTHS = (3, 4, 5)


def by_hand(make: Any, steps: int, seed: int | None = None) -> list[Transition]:
    """Play one environment: (obs, action, reward, next_obs, terminated, truncated) of each step."""
    env = make()
    obs, _ = env.reset(seed=seed)
    transitions = []
    for index in range(steps):
        action = index % 2
        next_obs, reward, terminated, truncated, _ = env.step(action)
        transitions.append((tuple(obs), action, reward, tuple(next_obs), terminated, truncated))
        obs = env.reset()[0] if terminated or truncated else next_obs
    return transitions


def by_stepper(
    vector: VectorEnv[Any, Any, Any], steps: int, seed: int | None = None
) -> list[list[Transition]]:
    """Play a vector environment until each has `steps` transitions."""
    stepper = EnvStepper(vector)
    obs = stepper.reset(seed)
    played: list[list[Transition]] = [[] for _ in range(vector.num_envs)]
    while min(len(transitions) for transitions in played) < steps:
        actions: NDArray[np.int64] = np.array([len(transitions) % 2 for transitions in played])
        result = stepper.step(actions)
        assert result.reward.dtype == np.float32
        for index in np.flatnonzero(result.valid):
            reward, terminated, truncated = (column[index] for column in result[1:4])
            before, after = tuple(obs[index]), tuple(result.next_obs[index])
            played[index].append((before, actions[index], reward, after, terminated, truncated))
        obs = result.reset_obs
    return [transitions[:steps] for transitions in played]


@pytest.mark.parametrize("mode", [*AutoresetMode, None])
def test_every_autoreset_mode_gives_the_steps_of_single_environments(mode: AutoresetMode | None) -> None:
    """Without a mode: those of a native vector form."""
    envs = [lambda length=length: Counter(length) for length in LENGTHS]
    vector = NativeCounter(num_envs=3) if mode is None else SyncVectorEnv(envs, autoreset_mode=mode)
    expected = [by_hand(lambda length=length: Counter(length), 20) for length in LENGTHS]
    assert by_stepper(vector, 20) == expected


def test_same_seed_same_transitions() -> None:
    first, again, other = (by_stepper(make_vector("Acrobot-v1", {}, [], 2), 5, seed) for seed in (1, 1, 2))
    assert first == again != other


def test_results_are_not_overwritten_by_later_steps() -> None:
    for env_id in ("CartPole-v1", "Acrobot-v1"):
        stepper = EnvStepper(make_vector(env_id, {}, [], 2))
        stepper.reset(seed=0)
        result = stepper.step(np.array([0, 1]))
        copies = [array.copy() for array in result[:6]]
        for _ in range(3):
            stepper.step(np.array([1, 0]))
        for array, copy in zip(result[:6], copies, strict=True):
            np.testing.assert_array_equal(array, copy)


def test_a_vector_environment_without_a_mode_is_refused() -> None:
    vector = NativeCounter(2)
    vector.metadata = {}
    with pytest.raises(EnvironmentCheckError, match="does not say how it resets"):
        EnvStepper(vector)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize(
    ("fault", "words"), [("nan", "It showed nan in an observation"), ("reward", "It gave the reward inf")]
)
def test_what_nobody_can_learn_from_is_an_error(mode: AutoresetMode, fault: str, words: str) -> None:
    stepper = EnvStepper(SyncVectorEnv([Counter, lambda: Faulty(fault)], autoreset_mode=mode))
    stepper.reset()
    with pytest.raises(EnvironmentCheckError, match=words):
        stepper.step(np.zeros(2, np.int64))


def test_the_last_observation_of_an_episode_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counter, "step", lambda *_: (np.array([0, np.nan], np.float32), 0.0, True, False, {}))
    stepper = EnvStepper(SyncVectorEnv([Counter], autoreset_mode=AutoresetMode.SAME_STEP))
    stepper.reset()
    with pytest.raises(EnvironmentCheckError, match="It showed nan"):
        stepper.step(np.zeros(1, np.int64))


MAX = 3.4e38


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e16, -MAX])
def test_rewards_that_can_not_be_computed_with_are_errors(value: float) -> None:
    check_rewards(np.array([1e15, -1e15, 0.9e15], np.float32))
    with pytest.raises(EnvironmentCheckError, match="scale them with a wrapper"):
        check_rewards(np.array([0, value], np.float32))


NO_BOUNDS = (None, None)


@pytest.mark.parametrize(
    ("bounds", "values", "good"),
    [
        (NO_BOUNDS, [1e15, -1e15], True),
        (NO_BOUNDS, [0, np.nan], False),
        (NO_BOUNDS, [0, np.inf], False),
        (NO_BOUNDS, [0, -1e16], False),
        (((-1.0,), (1.0,)), [np.inf, -1e16], True),  # moved onto the bounds
        (((-1.0,), (1.0,)), [np.nan, 0], False),
        (((-1.0, -np.inf), (1.0, np.inf)), [np.inf, 0], True),
        (((-1.0, -np.inf), (1.0, np.inf)), [0, np.inf], False),
        (((-MAX,), (MAX,)), [0, 1e16], False),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_observations_that_nobody_can_learn_from_are_errors(
    bounds: Any, values: list[float], good: bool, dtype: str
) -> None:
    check = ObservationCheck(BoxSpec((2,), dtype, *bounds))
    with nullcontext() if good else pytest.raises(EnvironmentCheckError, match="in an observation"):
        check(np.array([[0, 0], values], dtype))


@pytest.mark.parametrize("values", [np.array([[60000]], np.float16), np.full((1, 1), 255, np.uint8)])
def test_small_kinds_of_numbers_pass(values: NDArray[np.generic]) -> None:
    ObservationCheck(BoxSpec((1,), str(values.dtype)))(values)


class _Time:
    """A clock that only sleeping and the test move."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


STEP, BEGIN = "step", "begin"


@pytest.mark.parametrize(
    ("step_s", "delay_s", "course", "slept", "late"),
    [
        # Steps begin on a fixed clock however long they take.
        (0.1, 0.0, [STEP, 0.03, STEP, 0.08, STEP, STEP], [0.07, 0.02, 0.1], 0),
        # The clock begins anew with a step that comes late: what was missed is not made up for.
        (0.1, 0.0, [STEP, 0.35, STEP, 0.04, STEP], [0.06], 1),
        (0.1, 0.0, [STEP, 0.104, STEP, 0.104, STEP, 0.115, STEP], [], 1),  # a tenth of a step is not late
        (0.1, 0.0, [STEP, 60.0, BEGIN, STEP], [], 0),  # a pause between turns
        (0.0, 0.0, [STEP, STEP], [], 0),
        (0.0, 0.25, [STEP, STEP], [0.25, 0.25], 0),
    ],
)
def test_steps_begin_by_the_clock_and_late_ones_are_counted(
    step_s: float, delay_s: float, course: list[Any], slept: list[float], late: int
) -> None:
    time = _Time()
    clock = StepClock(step_s, delay_s, now=time, sleep=time.sleep)
    for event in course:
        if event is STEP:
            clock.wait()
        elif event is BEGIN:
            clock.begin()
        else:
            time.now += event
    assert (time.slept, clock.late_steps) == (slept, late)
