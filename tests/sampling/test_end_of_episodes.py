"""Ending the episodes one is in: every environment does, nothing is recorded, the numbers stay right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from soulsgui.environments.make import Vector
from soulsgui.environments.spaces import BoxSpec
from soulsgui.environments.step import EnvStepper
from soulsgui.sampling.rollout import FinishedEpisode, Rollout
from tests.environments.toys import Counter, NativeCounter

BOX = BoxSpec((2,), "float32", (0.0,), (1000.0,))
LENGTHS = (3, 4, 5)


def _act(
    obs: NDArray[Any], rng: np.random.Generator, mask: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    return np.zeros(len(obs), np.int64), np.zeros(len(obs), np.float32)


def _same_step() -> Vector:
    makers: list[Callable[[], Counter]] = [lambda length=length: Counter(length) for length in LENGTHS]  # type: ignore[misc]
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)


MODES = pytest.mark.parametrize(
    "make", [lambda: NativeCounter(len(LENGTHS)), _same_step], ids=["next_step", "same_step"]
)


class _Played:
    """A rollout, and what it told."""

    def __init__(self, vector: Vector) -> None:
        self.ended: list[FinishedEpisode] = []
        self.rollout = Rollout(EnvStepper(vector), BOX, 64, 3, self.ended.append)

    def play(self, quota: int) -> set[tuple[int, int, int]]:
        """Play and return the recorded (environment, episode, step)."""
        found = set()
        for part in self.rollout.play(_act, 1, 7, quota, lambda: True):
            for env, episode, first, length in zip(
                part.env_index, part.episode, part.first_step, part.length, strict=True
            ):
                found |= {(int(env), int(episode), int(first) + step) for step in range(length)}
        return found


@pytest.fixture
def played(make: Callable[[], Vector]) -> Any:
    made = _Played(make())
    yield made
    made.rollout.close()


@MODES
def test_every_environment_ends_the_episode_it_is_in_and_tells_of_it_once(played: _Played) -> None:
    played.play(6)  # two steps of each
    assert played.ended == []
    assert played.rollout.end_episodes(_act, lambda: True)
    assert sorted((one.env_index, one.length) for one in played.ended) == list(enumerate(LENGTHS))
    assert [one.total_return for one in played.ended] == [sum(range(1, n + 1)) for n in LENGTHS]


@MODES
def test_nothing_is_stepped_where_no_episode_has_begun(played: _Played) -> None:
    def never() -> bool:
        raise AssertionError("a step")

    assert played.rollout.end_episodes(_act, never)
    assert played.ended == []


@MODES
def test_what_was_not_recorded_leaves_a_gap_and_no_wrong_number(played: _Played) -> None:
    before = played.play(6)
    assert before == {(env, 0, step) for env in range(3) for step in (0, 1)}
    played.rollout.end_episodes(_act, lambda: True)
    after = played.play(30)
    assert not before & after
    # The last environment has just ended its first episode: it begins the next one, recorded from its start.
    assert min(one for one in after if one[0] == 2) == (2, 1, 0)
    # The first one is in the middle of an episode of which nothing was recorded so far.
    env, episode, step = min(one for one in after if one[0] == 0)
    assert (env, episode) == (0, 1)
    assert step > 0
    assert {one.length for one in played.ended if one.env_index == 0} == {3}


@MODES
def test_it_can_be_broken_off_and_taken_up_again(played: _Played) -> None:
    played.play(6)
    left = 1

    def once() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    assert not played.rollout.end_episodes(_act, once)
    assert [one.env_index for one in played.ended] == [0]
    assert played.rollout.end_episodes(_act, lambda: True)
    assert {one.env_index for one in played.ended} == {0, 1, 2}
