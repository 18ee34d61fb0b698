"""From steps to segments: every transition once, in order, with what followed it."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec, Mask
from soulsgui.environments.make import Vector
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import EnvStepper, StepResult
from soulsgui.errors import EnvironmentCheckError
from soulsgui.experience.segments import TERMINATED, TRUNCATED, Segments
from soulsgui.sampling.rollout import Act, FinishedEpisode, Rollout
from soulsgui.sampling.segments import SegmentRecorder
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, pack_chunk
from tests.environments.toys import Counter, Masked, NativeCounter
from tests.sampling.counters import MODES, same_step
from tests.wire.chunks import unpack_chunk

SPACES = SpacesSpec(BoxSpec((2,), "float32", (0.0,), (1000.0,)), DiscreteSpec(4, start=1))
MASKED = SPACES.with_masks(True)


Transition = tuple[int, int, int]
"""(environment, episode, step)"""


def check(segments: Segments) -> list[Transition]:
    """Check segments of counters against what a counter does; return their transitions in order."""
    assert segments.length.min() > 0
    pack = unpack_chunk(pack_chunk("r", "c", segments), "r", "c", (2,), "float32")
    assert pack.steps == segments.steps
    found = []
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
        found += [(env, episode, first + step) for step in range(length)]
        row, at = row + length + 1, at + length
    return found


def test_nothing_recorded_gives_no_segments() -> None:
    recorder, stepper = SegmentRecorder(1, SPACES, 4), EnvStepper(NativeCounter(1))
    assert recorder.cut(1, 1) is None
    obs, action = stepper.reset(seed=1), np.zeros(1, np.int64)
    recorder.add(obs, action, np.zeros(1, np.float32), stepper.step(action), np.array([False]))
    assert (recorder.length, recorder.cut(1, 1), recorder.length) == (1, None, 0)


def _act(number: int = 1) -> Act:
    """Says its own number as log-probability, so that mixed-up weights are seen."""

    def act(obs: NDArray[Any], rng: Any, mask: Any) -> Any:
        return np.zeros(len(obs), np.int64), np.full(len(obs), -number, np.float32)

    return act


def _rollout(vector: Vector, segment_length: int, ended: list[FinishedEpisode] | None = None) -> Rollout:
    return Rollout(EnvStepper(vector), SPACES, segment_length, 3, ([] if ended is None else ended).append)


@MODES
@pytest.mark.parametrize("quota", [1, 7, 24, 48])
@pytest.mark.parametrize("segment_length", [5, 8, 256])
def test_rounds_are_their_quota_gapless(
    make: Callable[[int], Vector], quota: int, segment_length: int
) -> None:
    rollout = _rollout(make(3), segment_length)
    seen: set[Transition] = set()
    for model_id in (1, 2, 3):
        parts = list(rollout.play(_act(model_id), model_id, 7, quota, lambda: True))
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


def test_observations_are_moved_into_their_bounds() -> None:
    box = BoxSpec((2,), "float32", (0.0,), (2.0,))
    rollout = Rollout(EnvStepper(NativeCounter(1)), SpacesSpec(box, DiscreteSpec(2)), 16, 1, [].append)
    (part,) = rollout.play(_act(), 1, 7, 6, lambda: True)
    assert part.obs.max() == 2
    assert box.contains(part.obs).all()


def test_an_early_end_leaves_nothing_for_the_next_weights() -> None:
    rollout = _rollout(NativeCounter(2), 16)
    asked = iter([True, True, True, False])
    first = list(rollout.play(_act(1), 1, 7, 100, lambda: next(asked)))
    assert sum(part.steps for part in first) == 6
    second = list(rollout.play(_act(2), 2, 8, 10, lambda: True))
    assert sum(part.steps for part in second) == 10
    for parts, number in ((first, 1), (second, 2)):
        assert all((part.model_id_last == number).all() for part in parts)
        assert all((part.log_prob == -number).all() for part in parts)


@MODES
def test_finished_episodes_are_told_with_their_returns(make: Callable[[int], Vector]) -> None:
    ended: list[FinishedEpisode] = []
    rollout = _rollout(make(2), 16, ended)
    list(rollout.play(_act(), 1, 7, 60, lambda: True))
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

    found = list(rollout.play(_act(), 1, 7, 100, go_on, hold_s))
    assert [part.steps for part in found] == [10 // parts] * parts
    assert open_steps == [0 if parts == 5 else 2 * step for step in range(6)]
    assert rollout.open_steps == 0


def test_what_is_cut_fits_into_a_chunk() -> None:
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


def _draw(obs: NDArray[Any], rng: np.random.Generator, mask: Mask) -> Any:
    """Choose among the valid actions; the others raise."""
    return np.array([rng.choice(np.flatnonzero(row)) for row in mask]) + 1, np.zeros(len(obs), np.float32)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
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
        episode, step = segments.obs.astype(np.int64).T
        index = np.arange(4)
        expected = (index == step[:, None] % 4) | (index == (episode + step + 1)[:, None] % 4)
        np.testing.assert_array_equal(segments.action_mask, expected | ended[:, None])
        rows += len(segments.obs)
    assert rows >= 40


@pytest.mark.parametrize(("make", "masked"), [(Masked, False), (Counter, True)])
def test_masks_that_only_one_side_knows_of_are_an_error(make: Any, masked: bool) -> None:
    vector = SyncVectorEnv([make], autoreset_mode=AutoresetMode.SAME_STEP)
    rollout = Rollout(EnvStepper(vector), SPACES.with_masks(masked), 8, 3, [].append)
    with pytest.raises(EnvironmentCheckError, match="action masks"):
        next(rollout.play(_act(), 1, 7, 8, lambda: True))


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
        next(rollout.play(_act(), 1, 7, 8, lambda: True))
