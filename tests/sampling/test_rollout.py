"""A rollout: every transition once and in order, ended episodes, hidden states, people, actions, masks."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from soulsgui.environments.actions import action_from_space
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec, Mask, MultiDiscreteSpec
from soulsgui.environments.make import Vector
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import HUMAN, EnvStepper, StepResult
from soulsgui.errors import EnvironmentCheckError, EnvironmentFault, UsageError
from soulsgui.experience.segments import TERMINATED, TRUNCATED, Segments
from soulsgui.policies.numpy_recurrent import Remembered, remembered_by
from soulsgui.sampling.rollout import FinishedEpisode, Rollout
from soulsgui.sampling.segments import SegmentRecorder, steps_that_fit
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, pack_chunk
from tests.environments.toys import SPACES_TAKEN, Counter, Masked, NativeCounter, Taking, valid_at
from tests.sampling.free_trainer import places
from tests.wire.chunks import unpack_chunk


def same_step(num_envs: int) -> Vector:
    """Counters of lengths 3, 4, 5 …, reset in the step that ends the episode."""

    made = [partial(Counter, 3 + index) for index in range(num_envs)]
    return SyncVectorEnv(made, autoreset_mode=AutoresetMode.SAME_STEP)


MODES = pytest.mark.parametrize("make", [NativeCounter, same_step], ids=["next_step", "same_step"])
AUTORESET = pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
SPACES = SpacesSpec(BoxSpec((2,), "float32", (0.0,), (1000.0,)), DiscreteSpec(2))
MASKED = SpacesSpec(SPACES.observation, DiscreteSpec(4, start=1, masked=True))
LENGTHS = (3, 4, 5)
Transition = tuple[int, int, int]
"""(environment, episode, step)"""


def _act(obs: NDArray[Any], rng: Any, mask: Any, number: int = 0) -> Any:
    """Says minus a number as log-probability, so that mixed-up weights are seen."""
    return np.zeros(len(obs), np.int64), np.full(len(obs), -number, np.float32)


def _rollout(vector: Vector, segment_length: int, ended: list[FinishedEpisode] | None = None) -> Rollout:
    return Rollout(EnvStepper(vector), SPACES, segment_length, 3, ([] if ended is None else ended).append)


class _Played:
    """A rollout, and what it told."""

    def __init__(self, vector: Vector) -> None:
        self.ended: list[FinishedEpisode] = []
        self.rollout = _rollout(vector, 64, self.ended)

    def play(self, quota: int) -> set[tuple[int, int, int]]:
        """Play and return the recorded (environment, episode, step)."""
        parts = self.rollout.play(_act, 1, 7, quota, lambda: True)
        return {place for part in parts for place in places(part)}


@pytest.fixture
def played(make: Callable[[int], Vector]) -> _Played:
    return _Played(make(3))


@MODES
def test_every_environment_ends_the_episode_it_is_in_and_tells_of_it_once(played: _Played) -> None:
    asked = iter([])
    assert played.rollout.end_episodes(_act, lambda: next(asked)), "nothing has begun, so nothing is stepped"
    played.play(6)  # two steps of each
    assert played.ended == []
    asked = iter([True, False])
    assert not played.rollout.end_episodes(_act, lambda: next(asked)), "broken off"
    assert [one.env_index for one in played.ended] == [0]
    assert played.rollout.end_episodes(_act, lambda: True)
    assert sorted((one.env_index, one.length) for one in played.ended) == list(enumerate(LENGTHS))
    assert sorted(one.total_return for one in played.ended) == [sum(range(1, n + 1)) for n in LENGTHS]


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


LENGTH = 6


class Shared(Counter):
    """An episode has 6 steps; a person plays some of each odd one."""

    def __init__(self, by_hand: tuple[int, ...]) -> None:
        super().__init__(LENGTH)
        self.by_hand = by_hand

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, *told, info = super().step(action)
        return obs, *told, info | ({HUMAN: True} if obs[0] % 2 and obs[1] in self.by_hand else {})


@AUTORESET
@pytest.mark.parametrize(
    ("by_hand", "pieces"),
    [
        ((3, 4), [(0, 0, 6, TERMINATED), (1, 0, 2, 0), (1, 4, 2, TRUNCATED), (2, 0, 6, TERMINATED)]),
        ((LENGTH,), [(0, 0, 6, TERMINATED), (1, 0, 5, 0), (2, 0, 6, TERMINATED)]),
    ],
)
def test_steps_by_hand_leave_a_gap_and_their_episode_is_not_told_of(
    mode: AutoresetMode, by_hand: tuple[int, ...], pieces: list[tuple[int, ...]]
) -> None:
    ended: list[FinishedEpisode] = []
    vector = SyncVectorEnv([lambda: Shared(by_hand)], autoreset_mode=mode)
    rollout = _rollout(vector, 100, ended)
    (found,) = rollout.play(_act, 1, 2, 3 * LENGTH - len(by_hand), lambda: True)
    columns = found.episode, found.first_step, found.length, found.flags
    assert [tuple(map(int, row)) for row in zip(*columns, strict=True)] == pieces
    assert rollout.human_steps == len(by_hand)
    assert [episode.total_return for episode in ended] == [21.0, 21.0]


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


def check(segments: Segments) -> list[Transition]:
    """Check segments of counters against what a counter does; return their transitions in order."""
    assert segments.length.min() > 0
    pack = unpack_chunk(pack_chunk("r", "c", segments), "r", "c", (2,), "float32")
    assert pack.steps == segments.steps
    row = at = 0
    for index in range(segments.count):
        env, episode = int(segments.env_index[index]), int(segments.episode[index])
        first, length = int(segments.first_step[index]), int(segments.length[index])
        steps = np.arange(first, first + length + 1)
        np.testing.assert_array_equal(segments.obs[row : row + length + 1, 0], episode)
        np.testing.assert_array_equal(segments.obs[row : row + length + 1, 1], steps)
        np.testing.assert_array_equal(segments.reward[at : at + length], steps[1:])
        ended = first + length == 3 + env
        expected = 0 if not ended else TRUNCATED if episode % 2 else TERMINATED
        assert segments.flags[index] == expected
        row, at = row + length + 1, at + length
    return places(segments)


@MODES
@pytest.mark.parametrize("quota", [1, 7, 24, 48])
@pytest.mark.parametrize("segment_length", [5, 8, 256])
def test_rounds_are_gapless_quotas(make: Callable[[int], Vector], quota: int, segment_length: int) -> None:
    rollout = _rollout(make(3), segment_length)
    seen: set[Transition] = set()
    for model_id in (1, 2, 3):
        parts = list(rollout.play(partial(_act, number=model_id), model_id, 7, quota, lambda: True))
        assert sum(part.steps for part in parts) == quota
        assert all(part.length.max() <= segment_length for part in parts)
        assert all((part.log_prob == -model_id).all() for part in parts)
        found = [transition for part in parts for transition in check(part)]
        assert not seen & set(found)
        seen |= set(found)
        for env in range(3):  # of a length of 3 + env
            mine = sorted(transition for transition in found if transition[0] == env)
            for (_, episode, step), (_, *after) in pairwise(mine):
                assert after == ([episode, step + 1] if step + 1 < 3 + env else [episode + 1, 0])


def test_an_early_end_leaves_nothing_for_the_next_weights_and_observations_are_within_bounds() -> None:
    rollout = _rollout(NativeCounter(2), 16)
    asked = iter([True, True, True, False])
    first = list(rollout.play(partial(_act, number=1), 1, 7, 100, lambda: next(asked)))
    assert sum(part.steps for part in first) == 6
    second = list(rollout.play(partial(_act, number=2), 2, 8, 10, lambda: True))
    assert sum(part.steps for part in second) == 10
    for parts, number in ((first, 1), (second, 2)):
        assert all((part.model_id_last == number).all() for part in parts)
        assert all((part.log_prob == -number).all() for part in parts)
    box = BoxSpec((2,), "float32", (0.0,), (2.0,))
    rollout = Rollout(EnvStepper(NativeCounter(1)), SpacesSpec(box, DiscreteSpec(2)), 16, 1, [].append)
    (part,) = rollout.play(_act, 1, 7, 6, lambda: True)
    assert part.obs.max() == 2
    assert box.contains(part.obs).all()


@MODES
def test_finished_episodes_are_told_with_their_returns(make: Callable[[int], Vector]) -> None:
    ended: list[FinishedEpisode] = []
    rollout = _rollout(make(2), 16, ended)
    list(rollout.play(_act, 1, 7, 60, lambda: True))
    for env, length in ((0, 3), (1, 4)):
        ours = [episode for episode in ended if episode.env_index == env]
        assert len(ours) >= 5
        assert [episode.terminated for episode in ours] == [not n % 2 for n in range(len(ours))]
        told = {(episode.total_return, episode.length) for episode in ours}
        assert told == {(length * (length + 1) / 2, length)}
        assert all(episode.seconds >= 0 for episode in ours)


@pytest.mark.parametrize(("hold_s", "parts"), [(0.0, 5), (3600.0, 1)])
def test_steps_are_held_back_for_a_time(hold_s: float, parts: int) -> None:
    rollout = _rollout(same_step(2), 16)
    open_steps = []

    def go_on() -> bool:
        open_steps.append(rollout.open_steps)
        return len(open_steps) <= 5

    found = list(rollout.play(_act, 1, 7, 100, go_on, hold_s))
    assert [part.steps for part in found] == [10 // parts] * parts
    assert open_steps == [0 if parts == 5 else 2 * step for step in range(6)]
    assert rollout.open_steps == 0


def test_what_is_cut_fits_into_a_chunk_and_nothing_gives_no_segments() -> None:
    side = 256
    recorder = SegmentRecorder(4, SpacesSpec(BoxSpec((side, side), "float32"), DiscreteSpec(2)), 256)
    assert 1 < recorder.capacity < 256
    obs = np.zeros((4, side, side), np.float32)
    none, all_ = np.zeros(4, np.bool_), np.ones(4, np.bool_)
    for _ in range(recorder.capacity):  # each step an episode: no chunk is larger
        result = StepResult(obs, np.zeros(4, np.float32), all_, none, all_, obs, none)
        recorder.add(obs, np.zeros(4, np.int64), np.zeros(4, np.float32), result)
    segments = recorder.cut(1, 7)
    assert MAX_CHUNK_BYTES // 2 < len(pack_chunk("r", "c", segments)) <= MAX_CHUNK_BYTES
    steps = steps_that_fit(SPACES, {"seen": (8192,)})
    assert steps * 4 * 8192 <= MAX_CHUNK_BYTES
    assert SegmentRecorder(steps, SPACES, 256, {"seen": (8192,)}).capacity == 1
    with pytest.raises(UsageError, match=f"at most {steps:,} do.\nSet env.num_envs lower"):
        SegmentRecorder(steps + 1, SPACES, 256, {"seen": (8192,)})
    assert steps < steps_that_fit(SPACES, {})
    recorder, stepper = SegmentRecorder(1, MASKED, 4), EnvStepper(NativeCounter(1))
    assert recorder.cut(1, 1) is None
    obs, action = stepper.reset(seed=1), np.zeros(1, np.int64)
    recorder.add(obs, action, np.zeros(1, np.float32), stepper.step(action), np.array([False]))
    assert (recorder.length, recorder.cut(1, 1), recorder.length) == (1, None, 0)


def _draw(obs: NDArray[Any], rng: np.random.Generator, mask: Mask) -> Any:
    """Choose among the valid actions; the others raise."""
    return np.array([rng.choice(np.flatnonzero(row)) for row in mask]) + 1, np.zeros(len(obs), np.float32)


@AUTORESET
@pytest.mark.parametrize("segment_length", [1, 5, 64])
def test_each_observation_comes_with_its_mask(mode: AutoresetMode, segment_length: int) -> None:
    vector = SyncVectorEnv([lambda: Masked(3), lambda: Masked(4)], autoreset_mode=mode)
    rollout = Rollout(EnvStepper(vector), MASKED, segment_length, 3, [].append)
    rows = 0
    for segments in rollout.play(_draw, 1, 7, 40, lambda: True):
        lengths = np.array([3, 4])[segments.env_index]
        ended = np.zeros(len(segments.obs), np.bool_)
        last = np.cumsum(segments.length + 1) - 1
        ended[last] = segments.obs[last, 1] == lengths
        np.testing.assert_array_equal(segments.action_mask, valid_at(segments.obs) | ended[:, None])
        rows += len(segments.obs)
    assert rows >= 40


@pytest.mark.parametrize(("make", "masked"), [(Masked, False), (Counter, True)])
def test_masks_that_only_one_side_knows_of_are_an_error(make: Any, masked: bool) -> None:
    vector = SyncVectorEnv([make], autoreset_mode=AutoresetMode.SAME_STEP)
    rollout = Rollout(EnvStepper(vector), MASKED.with_masks(masked), 8, 3, [].append)
    with pytest.raises(EnvironmentCheckError, match="action masks"):
        next(rollout.play(_act, 1, 7, 8, lambda: True))


def test_environments_that_come_in_place_of_others_have_masks_of_their_own() -> None:
    def stepper(make: Any) -> EnvStepper:
        return EnvStepper(SyncVectorEnv([make], autoreset_mode=AutoresetMode.SAME_STEP))

    rollout = Rollout(stepper(Masked), MASKED, 8, 3, [].append)
    for steps in (4, 5):
        (segments,) = rollout.play(_draw, 1, 7, steps, lambda: True)
        np.testing.assert_array_equal(segments.action_mask[0], [True, True, False, False])
        rollout.begin_anew(stepper(Masked))
    rollout.begin_anew(stepper(Counter))
    with pytest.raises(EnvironmentCheckError, match="action masks on the server, but not here"):
        next(rollout.play(_act, 1, 7, 8, lambda: True))
