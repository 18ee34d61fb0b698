"""What a policy remembers stands at the start of each segment: exactly what it saw of the episode before."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from soulsgui.environments.make import Vector
from soulsgui.environments.spaces import BoxSpec
from soulsgui.environments.step import EnvStepper, StepResult
from soulsgui.errors import EnvironmentFault
from soulsgui.policies.remembered import Remembered, remembered_by
from soulsgui.sampling.rollout import Rollout
from soulsgui.sampling.segments import steps_that_fit
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, Segments, pack_chunk
from tests.environments.toys import Counter, NativeCounter
from tests.wire.unpacking import unpack_chunk

BOX = BoxSpec((2,), "float32", (0.0,), (1000.0,))


class Witness:
    """Remembers the episode it sees and how many observations of it; an episode has a new first one."""

    def __init__(self) -> None:
        self.remembered = Remembered({"seen": (2,)})

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Any = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        known = self.remembered.fields["seen"]
        assert len(known) == len(obs)
        told = np.stack((obs[:, 0], known[:, 1] + 1), axis=1).astype(np.float32)
        self.remembered.fields = {"seen": told}
        return np.zeros(len(obs), np.int64), np.zeros(len(obs), np.float32)


def _same_step(num_envs: int) -> Vector:
    def make(length: int) -> Callable[[], gymnasium.Env[Any, Any]]:
        return lambda: Counter(length)

    return SyncVectorEnv(
        [make(3 + index) for index in range(num_envs)], autoreset_mode=AutoresetMode.SAME_STEP
    )


MODES = pytest.mark.parametrize("make", [NativeCounter, _same_step], ids=["next_step", "same_step"])


def check(segments: Segments) -> int:
    """Check what is remembered at the start of segments; return how many begin within an episode."""
    pack = unpack_chunk(pack_chunk("r", "c", segments), "r", "c", (2,), "float32", state={"seen": (2,)})
    seen = pack.state["seen"]
    episode = segments.obs[np.cumsum(segments.length + 1) - segments.length - 1, 0]
    within = segments.first_step > 0
    np.testing.assert_array_equal(seen[:, 1], segments.first_step)
    np.testing.assert_array_equal(seen[within, 0], episode[within])
    assert not seen[~within].any()
    return int(within.sum())


def rollout_of(make: Callable[[int], Vector], witness: Witness, segment_length: int = 4) -> Rollout:
    return Rollout(
        EnvStepper(make(3)), BOX, segment_length, 3, lambda _: None, remembered=remembered_by(witness)
    )


@MODES
@pytest.mark.parametrize("segment_length", [1, 2, 64])
def test_each_segment_has_what_was_remembered_before_it(
    make: Callable[[int], Vector], segment_length: int
) -> None:
    witness = Witness()
    rollout = rollout_of(make, witness, segment_length)
    within = 0
    # Between two calls the weights change, often within an episode.
    for model_id in range(6):
        for segments in rollout.play(witness.act, model_id, 0, 17, lambda: True):
            within += check(segments)
    assert within > 5


@MODES
def test_new_episodes_are_begun_with_nothing(make: Callable[[int], Vector]) -> None:
    witness = Witness()
    rollout = rollout_of(make, witness)
    for segments in rollout.play(witness.act, 0, 0, 7, lambda: True):
        check(segments)
    assert rollout.end_episodes(witness.act, lambda: True)
    for segments in rollout.play(witness.act, 0, 0, 14, lambda: True):
        check(segments)
    rollout.begin_anew(EnvStepper(make(3)))
    assert not witness.remembered.fields["seen"].any()
    for segments in rollout.play(witness.act, 0, 0, 14, lambda: True):
        check(segments)


class _Failing(EnvStepper):
    def step(self, actions: NDArray[np.int64]) -> StepResult:
        if self.failing:
            raise EnvironmentFault("it is gone", "")
        return super().step(actions)

    failing = False


def test_a_step_that_failed_is_not_remembered_in_the_environment_made_anew() -> None:
    witness = Witness()
    stepper = _Failing(NativeCounter(3))
    rollout = Rollout(stepper, BOX, 4, 3, lambda _: None, remembered=witness.remembered)
    for segments in rollout.play(witness.act, 0, 0, 6, lambda: True):
        check(segments)
    stepper.failing = True
    with pytest.raises(EnvironmentFault):
        list(rollout.play(witness.act, 0, 0, 6, lambda: True))
    rollout.begin_anew(EnvStepper(NativeCounter(3)))
    for segments in rollout.play(witness.act, 0, 0, 9, lambda: True):
        check(segments)


def test_a_chunk_of_large_states_is_not_larger_than_is_taken() -> None:
    size = 8192
    steps = steps_that_fit((2,), "float32", state_size=size)
    assert steps * 4 * size <= MAX_CHUNK_BYTES
    assert steps < steps_that_fit((2,), "float32")


def test_a_policy_without_memory_remembers_nothing() -> None:
    assert not remembered_by(object()).fields
