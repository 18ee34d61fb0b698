"""A rollout: ended episodes, what a policy remembers, steps by a person, actions of every kind."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from soulsgui.environments.actions import action_from_space
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec, MultiDiscreteSpec
from soulsgui.environments.make import Vector
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import HUMAN, EnvStepper, StepResult
from soulsgui.errors import EnvironmentFault
from soulsgui.experience.segments import TERMINATED, Segments
from soulsgui.policies.numpy_recurrent import Remembered, remembered_by
from soulsgui.sampling.rollout import FinishedEpisode, Rollout
from soulsgui.sampling.segments import steps_that_fit
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, pack_chunk
from tests.environments.toys import SPACES_TAKEN, Taking
from tests.sampling.counters import MODES
from tests.wire.chunks import unpack_chunk

SPACES = SpacesSpec(BoxSpec((2,), "float32", (0.0,), (1000.0,)), DiscreteSpec(2))


LENGTHS = (3, 4, 5)


def _act(obs: NDArray[Any], rng: Any, mask: Any) -> Any:
    return np.zeros(len(obs), np.int64), np.zeros(len(obs), np.float32)


class _Played:
    """A rollout, and what it told."""

    def __init__(self, vector: Vector) -> None:
        self.ended: list[FinishedEpisode] = []
        self.rollout = Rollout(EnvStepper(vector), SPACES, 64, 3, self.ended.append)

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
def played(make: Callable[[int], Vector]) -> _Played:
    return _Played(make(3))


@MODES
def test_every_environment_ends_the_episode_it_is_in_and_tells_of_it_once(played: _Played) -> None:
    asked = iter([])
    assert played.rollout.end_episodes(_act, lambda: next(asked)), "nothing has begun, so nothing is stepped"
    played.play(6)  # two steps of each
    assert played.ended == []
    assert played.rollout.end_episodes(_act, lambda: True)
    assert sorted((one.env_index, one.length) for one in played.ended) == list(enumerate(LENGTHS))
    assert [one.total_return for one in played.ended] == [sum(range(1, n + 1)) for n in LENGTHS]


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
    asked = iter([True, False])
    assert not played.rollout.end_episodes(_act, lambda: next(asked))
    assert [one.env_index for one in played.ended] == [0]
    assert played.rollout.end_episodes(_act, lambda: True)
    assert {one.env_index for one in played.ended} == {0, 1, 2}


class Witness:
    """Remembers the episode it sees and how many observations of it; an episode has a new first one."""

    def __init__(self) -> None:
        self.remembered = Remembered({"seen": (2,)})

    def act(self, obs: NDArray[Any], rng: Any, mask: Any = None) -> Any:
        known = self.remembered.fields["seen"]
        assert len(known) == len(obs)
        told = np.stack((obs[:, 0], known[:, 1] + 1), axis=1).astype(np.float32)
        self.remembered.fields = {"seen": told}
        return np.zeros(len(obs), np.int64), np.zeros(len(obs), np.float32)


def _begun_within(segments: Segments) -> int:
    """Check what is remembered at the start of segments; return how many begin within an episode."""
    pack = unpack_chunk(pack_chunk("r", "c", segments), "r", "c", (2,), "float32", state={"seen": (2,)})
    seen = pack.state["seen"]
    episode = segments.obs[np.cumsum(segments.length + 1) - segments.length - 1, 0]
    within = segments.first_step > 0
    np.testing.assert_array_equal(seen[:, 1], segments.first_step)
    np.testing.assert_array_equal(seen[within, 0], episode[within])
    assert not seen[~within].any()
    return int(within.sum())


def rollout_of(stepper: EnvStepper, witness: Witness, segment_length: int = 4) -> Rollout:
    return Rollout(stepper, SPACES, segment_length, 3, [].append, remembered=remembered_by(witness))


def _check(witness: Witness, rollout: Rollout, quota: int) -> None:
    for segments in rollout.play(witness.act, 0, 0, quota, lambda: True):
        _begun_within(segments)


@MODES
@pytest.mark.parametrize("segment_length", [1, 2, 64])
def test_a_segment_has_what_was_known_before_it(make: Callable[[int], Vector], segment_length: int) -> None:
    witness = Witness()
    rollout = rollout_of(EnvStepper(make(3)), witness, segment_length)
    within = 0
    # Between two calls the weights change, often within an episode.
    for model_id in range(6):
        for segments in rollout.play(witness.act, model_id, 0, 17, lambda: True):
            within += _begun_within(segments)
    assert within > 5


@MODES
def test_episodes_begin_with_nothing(make: Callable[[int], Vector], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> StepResult:
        raise EnvironmentFault("it is gone", "")

    witness, stepper = Witness(), EnvStepper(make(3))
    rollout = rollout_of(stepper, witness)
    _check(witness, rollout, 7)
    assert rollout.end_episodes(witness.act, lambda: True)
    _check(witness, rollout, 14)
    monkeypatch.setattr(stepper, "step", fail)
    with pytest.raises(EnvironmentFault):
        _check(witness, rollout, 6)
    rollout.begin_anew(EnvStepper(make(3)))
    assert not witness.remembered.fields["seen"].any()
    _check(witness, rollout, 14)


def test_a_chunk_of_large_states_is_not_larger_than_is_taken() -> None:
    steps = steps_that_fit(SPACES, {"seen": (8192,)})
    assert steps * 4 * 8192 <= MAX_CHUNK_BYTES
    assert steps < steps_that_fit(SPACES, {})


LENGTH = 6


class Shared(gymnasium.Env[Any, Any]):
    """An episode has 6 steps; a person plays steps 3 and 4 of each odd one, or its last."""

    observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, by_hand: tuple[int, ...]) -> None:
        self.by_hand = by_hand
        self.episode, self.steps = -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.episode, self.steps = self.episode + 1, 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        info = {HUMAN: True} if self.episode % 2 and self.steps in self.by_hand else {}
        return np.full(1, self.steps, np.float32), 1.0, self.steps == LENGTH, False, info


AUTORESET = pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])


@AUTORESET
@pytest.mark.parametrize(
    ("by_hand", "pieces"),
    [
        ((3, 4), [(0, 0, 6, TERMINATED), (1, 0, 2, 0), (1, 4, 2, TERMINATED), (2, 0, 6, TERMINATED)]),
        ((LENGTH,), [(0, 0, 6, TERMINATED), (1, 0, 5, 0), (2, 0, 6, TERMINATED)]),
    ],
)
def test_steps_by_hand_leave_a_gap_and_their_episode_is_not_told_of(
    mode: AutoresetMode, by_hand: tuple[int, ...], pieces: list[tuple[int, ...]]
) -> None:
    ended: list[FinishedEpisode] = []
    vector = SyncVectorEnv([lambda: Shared(by_hand)], autoreset_mode=mode)
    spaces = SpacesSpec(BoxSpec((1,), "float32"), DiscreteSpec(2))
    rollout = Rollout(EnvStepper(vector), spaces, 100, 1, ended.append)
    (found,) = rollout.play(_act, 1, 2, 3 * LENGTH - len(by_hand), lambda: True)
    columns = found.episode, found.first_step, found.length, found.flags
    assert [tuple(map(int, row)) for row in zip(*columns, strict=True)] == pieces
    assert rollout.human_steps == len(by_hand)
    assert [episode.total_return for episode in ended] == [6.0, 6.0]


def _of(obs: NDArray[Any], size: int) -> NDArray[np.float32]:
    """Return what the tests draw at (episode, step): some of it beyond all bounds."""
    return (obs @ np.float32([3, -2]))[:, None] + np.arange(size, dtype=np.float32)


def _taking(takes: str, mode: AutoresetMode, to_environment: Any, masked: bool = False) -> Rollout:
    vector = SyncVectorEnv([lambda n=n: Taking(takes, masked, n) for n in (3, 4)], autoreset_mode=mode)  # type: ignore[misc]
    spaces = SpacesSpec(SPACES.observation, action_from_space(SPACES_TAKEN[takes])).with_masks(masked)
    return Rollout(EnvStepper(vector), spaces, 5, 3, [].append, to_environment=to_environment)


@AUTORESET
@pytest.mark.parametrize("takes", ["box", "double", "free"])
def test_what_was_drawn_is_kept_and_what_it_becomes_is_taken(takes: str, mode: AutoresetMode) -> None:
    space: Any = SPACES_TAKEN[takes]
    size = int(np.prod(space.shape))

    def squashed(latent: NDArray[Any]) -> NDArray[Any]:
        return latent.reshape(-1, *space.shape).clip(space.low, space.high).astype(space.dtype)

    def act(obs: NDArray[Any], rng: Any, mask: Any) -> Any:
        return _of(obs, size), np.zeros(len(obs), np.float32)

    rollout = _taking(takes, mode, squashed)
    for segments in rollout.play(act, 1, 7, 40, lambda: True):
        rows = np.arange(segments.steps) + np.repeat(np.arange(segments.count), segments.length)
        np.testing.assert_array_equal(segments.action, _of(segments.obs[rows], size))


@AUTORESET
@pytest.mark.parametrize("takes", ["choices", "table"])
def test_masks_of_several_choices_come_with_their_observations(takes: str, mode: AutoresetMode) -> None:
    spec = action_from_space(SPACES_TAKEN[takes])
    assert isinstance(spec, MultiDiscreteSpec)

    def act(obs: NDArray[Any], rng: np.random.Generator, mask: NDArray[np.bool_] | None) -> Any:
        drawn = np.array([spec.random(rng, row).reshape(-1) for row in mask])
        return drawn, np.zeros(len(obs), np.float32)

    def shaped(action: NDArray[Any]) -> NDArray[Any]:
        return action.reshape(-1, *spec.space_shape)

    rollout = _taking(takes, mode, shaped, masked=True)
    told = Taking(takes, masked=True)
    for segments in rollout.play(act, 1, 7, 40, lambda: True):
        expected = [np.concatenate(told.masks(int(step))) for step in segments.obs[:, 1]]
        np.testing.assert_array_equal(segments.action_mask, np.array(expected, np.bool_))
        rows = np.arange(segments.steps) + np.repeat(np.arange(segments.count), segments.length)
        assert spec.allowed(segments.action, segments.action_mask, rows).all()


def test_masks_of_what_is_not_numbered_are_not_looked_at() -> None:
    class Odd(Taking):
        def _told(self) -> dict[str, Any]:
            return {"action_mask": np.ones(3, np.int8)}

    stepper = EnvStepper(SyncVectorEnv([lambda: Odd("switches")], autoreset_mode=AutoresetMode.SAME_STEP))
    stepper.reset(seed=0)
    assert stepper.mask is None
    assert stepper.step(np.zeros((1, 5), np.int8)).next_mask is None
    stepper.close()
