"""Memories of the DQN family: windows over segments, priorities, masks, and the same draws after a resume."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from soulsgui.environments.box import BoxSpec
from soulsgui.errors import CheckpointError
from soulsgui.experience.segments import ORIGIN_BIT, Segments
from soulsgui.rl.buffers.memory import EpisodeLinks, ReplayMemory, WindowReplay
from soulsgui.rl.buffers.replay import NStepBatch, UniformReplay
from soulsgui.rl.buffers.sequences import SequenceReplay
from tests.rl.drawing import Piece, Players, mask_of, pieces

GAMMA = 0.5


def ring(capacity: int = 50, size: int = 2) -> UniformReplay:
    return UniformReplay(capacity, BoxSpec((size,), "float32"), masked_actions=3)


def memory(n: int = 3, alpha: float | None = None, **shape: int) -> WindowReplay:
    return WindowReplay(ring(**shape), n, GAMMA, alpha)


MEMORIES: dict[str, Callable[..., ReplayMemory]] = {
    "transitions": lambda **shape: memory(1, **shape),
    "windows": memory,
    "transitions by priority": lambda **shape: memory(1, 0.6, **shape),
    "windows by priority": lambda **shape: memory(3, 0.6, **shape),
    "sequences": lambda **shape: SequenceReplay(ring(**shape), "state", 2, 3, 4, 9, 0.7),
}
each_memory = pytest.mark.parametrize("make", MEMORIES.values(), ids=list(MEMORIES))


def play(players: Players, *memories: ReplayMemory, times: int) -> None:
    """Add the same segments to memories."""
    for _ in range(times):
        piece, ends = players.play()
        for each in memories:
            each.add(pieces(piece, terminated=[ends]))


def same(first: Any, second: Any) -> None:
    for one, other in zip((*first.batch, first.number), (*second.batch, second.number), strict=True):
        np.testing.assert_array_equal(one, other)


@each_memory
@pytest.mark.parametrize("times", [3, 40])
def test_a_restored_memory_draws_and_goes_on_alike(make: Callable[..., ReplayMemory], times: int) -> None:
    players, replay, again = Players(), make(), make()
    play(Players(seed=9), again, times=5)
    play(players, replay, times=times)
    replay.learned(np.arange(2), np.array([3.0, 0.1]))
    again.load_state(load(save(replay.state())))
    np.testing.assert_equal(again.state(), replay.state())
    for turn in range(4):
        assert (len(again), again.inserted) == (len(replay), replay.inserted)
        draws = [one.draw(30, np.random.default_rng(turn)) for one in (replay, again)]
        same(*draws)
        if draws[0].number is not None:
            for one in (replay, again):
                one.learned(draws[0].number, np.linspace(0, 2, len(draws[0].number)))
        play(players, replay, again, times=3)


@each_memory
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(make: Callable[..., ReplayMemory]) -> None:
    replay, smaller, good = make(), make(capacity=40), make()
    play(Players(seed=1), replay, times=30)
    play(Players(seed=2), smaller, good, times=9)
    before, state = replay.state(), good.state()
    bad = [smaller.state(), make(size=1).state() | {"obs": np.zeros((0, 1), np.float32)}]
    needed = [name for name in state if name != "origin"]  # which memories of earlier versions don't have
    bad += [{name: array for name, array in state.items() if name != missing} for missing in needed]
    # How many sources there are, and how many sequences wait, nothing else tells.
    whole = [name for name in state if state[name].ndim and name not in ("tails", "sequence.waiting")]
    bad += [state | {name: state[name][1:]} for name in whole]
    bad += [state | {name: np.full_like(state[name], np.nan)} for name in whole if name.endswith("priority")]
    bad += [state | {name: state[name] + [0, 0, 1]} for name in whole if name.endswith("counters")]
    for one in bad:
        with pytest.raises(CheckpointError):
            replay.load_state(one)
        assert all(np.array_equal(array, before[name]) for name, array in replay.state().items())
    replay.load_state(state)


@each_memory
def test_what_came_from_an_origin_is_drawn_no_more(make: Callable[..., ReplayMemory]) -> None:
    players, replay, again = Players(), make(), make()
    wanted, other = 3, 4

    def play_from(origin: int, times: int) -> None:
        for _ in range(times):
            piece, ends = players.play()
            made = pieces(piece, terminated=[ends])
            source = origin << ORIGIN_BIT | made.source
            replay.add(replace(made, source=source, reward=np.full_like(made.reward, origin)))

    def drawn(memory: ReplayMemory) -> set[float]:
        batch = memory.draw(60, np.random.default_rng(0)).batch
        reward = batch.reward[batch.valid] if hasattr(batch, "valid") else batch.reward
        # Of the first steps alone: a window of one origin sums its own rewards only.
        return {one for one in (wanted, other) if np.isin(reward, one * np.array([1, 1.5, 1.75])).any()}

    play_from(wanted, 5)
    play_from(other, 5)
    assert drawn(replay) == {wanted, other}
    inserted, kept = replay.inserted, len(replay)
    gone = replay.remove(other)
    assert (0 < gone < kept, replay.inserted, replay.remove(other)) == (True, inserted, 0)
    assert drawn(replay) == {wanted}
    again.load_state(load(save(replay.state())))
    assert drawn(again) == {wanted}, "also after a resume"
    play_from(other, 5)
    assert other in drawn(replay), "what comes later is something else"
    replay.remove(other)
    replay.remove(wanted)
    assert len(replay) == 0
    play_from(wanted, 40)  # what was removed has given way
    assert len(replay) == replay.capacity
    assert drawn(replay) == {wanted}


@each_memory
def test_masks_are_those_of_what_follows(make: Callable[..., ReplayMemory]) -> None:
    replay = make()
    play(Players(), replay, times=40)
    batch = replay.draw(200, np.random.default_rng(0)).batch
    following = batch.next_obs if isinstance(batch, NStepBatch) else batch.obs[1:]
    np.testing.assert_array_equal(batch.next_mask, mask_of(following))
    assert 0.2 < batch.next_mask.mean() < 0.9


def segment(first: int, count: int, source: int = 0, episode: int = 0, **ends: bool) -> Segments:
    """Return steps `first` to `first + count` of an episode; step t is rewarded by t + 1."""
    return pieces((source, episode, first, count), **ends)


def by_step(replay: WindowReplay) -> dict[int, tuple[float, float, float]]:
    """Return what is drawn of each step: reward, discount, what follows."""
    batch: NStepBatch = replay.draw(500, np.random.default_rng(0)).batch
    rows = zip(batch.obs[:, 1], batch.reward, batch.discount, batch.next_obs[:, 1], strict=True)
    return {
        int(step): (float(reward), float(discount), float(after)) for step, reward, discount, after in rows
    }


@pytest.mark.parametrize("alpha", [None, 0.6])
@pytest.mark.parametrize(
    ("n", "segments", "drawn"),
    [
        (
            3,
            [segment(0, 2), segment(2, 2, terminated=True)],
            {0: (1 + 1 + 0.75, 0.125, 3), 1: (2 + 1.5 + 1, 0, 4), 2: (3 + 2, 0, 4), 3: (4, 0, 4)},
        ),
        # A tail that is cut off is as short as what there is, and values what followed.
        (
            3,
            [segment(0, 2, truncated=True), segment(10, 1, episode=1)],
            {0: (2, 0.25, 2), 1: (2, 0.5, 2), 10: (11, 0.5, 11)},
        ),
        (1, [segment(0, 3, terminated=True)], {0: (1, 0.5, 1), 1: (2, 0.5, 2), 2: (3, 0, 3)}),
    ],
)
def test_windows_reach_over_segments_and_end_with_their_episode(
    n: int, segments: list[Segments], drawn: dict[int, tuple[float, ...]], alpha: float | None
) -> None:
    replay = memory(n, alpha)
    for one in segments:
        replay.add(one)
    assert by_step(replay) == drawn


def test_what_surprised_more_is_drawn_more_and_weighs_less() -> None:
    replay, uniform = memory(n=1, alpha=1.0), memory(n=1)
    for each in (replay, uniform):
        each.add(segment(0, 4))
    replay.learned(np.arange(4), np.array([1.0, 1.0, 1.0, 5.0]))
    for replay.beta, least in ((1.0, 0.2), (0.0, 1.0)):
        batch, number = replay.draw(800, np.random.default_rng(0))
        assert np.bincount(number).tolist() == [100, 100, 100, 500]
        np.testing.assert_allclose(batch.weight, np.where(batch.obs[:, 1] == 3, least, 1), rtol=1e-4)
    drawn = uniform.draw(10, np.random.default_rng(0))
    assert (drawn.number, drawn.batch.weight) == (None, None)


class Linked:
    """A ring with chains; the reward of step k of an episode is k, its observation (episode, k)."""

    def __init__(self, capacity: int) -> None:
        self.ring = UniformReplay(capacity, BoxSpec((2,), "float32"))
        self.chains = EpisodeLinks(self.ring)

    def add(self, *parts: Piece, terminated: bool = False) -> None:
        told, before = pieces(*parts, terminated=np.full(len(parts), terminated)), self.ring.stored
        self.ring.add(told.obs, told.length, told.action, told.reward - 1, told.terminated)
        self.chains.added(told, before)

    def windows(self, n: int, gamma: float = 1.0) -> dict[int, tuple[list[float], float, float]]:
        """Return next observation, discount and reward by the first step, 1000 e + k."""
        batch = self.ring.windows(np.arange(len(self.ring)), self.chains.following, n, gamma)
        np.testing.assert_array_equal(batch.action, batch.obs[:, 1] + 1)
        columns = zip(batch.obs @ [1_000, 1], batch.next_obs, batch.discount, batch.reward, strict=True)
        return {int(step): (obs.tolist(), float(gamma), float(sum_)) for step, obs, gamma, sum_ in columns}


@pytest.mark.parametrize(
    ("added", "following"),
    [
        ([(7, 1, 4, 2)], [-1, 4, -1]),  # a step is missing
        ([(7, 1, 2, 2)], [-1, 4, -1]),  # a step is there twice
        ([(7, 2, 3, 2)], [-1, 4, -1]),  # another episode
        ([(7, 2, 0, 2)], [-1, 4, -1]),  # the next episode
        ([(8, 1, 3, 2)], [-1, 4, -1]),  # another source
        ([(7, 1, 5, 2), (7, 1, 3, 2)], [-1, 4, -1, 6, -1]),  # what comes late is not joined backwards
    ],
)
def test_a_gap_ends_the_window(added: list[Piece], following: list[int]) -> None:
    memory = Linked(20)
    for piece in [(7, 1, 0, 3), *added]:
        memory.add(piece)
    assert memory.chains.following[: 3 + 2 * len(added)].tolist() == [1, 2, *following]


def test_what_overwrites_a_step_takes_its_place_in_no_chain() -> None:
    memory, players = Linked(23), Players(7, 8, 9)
    for turn in range(200):
        memory.add(*(players.play()[0] for _ in range(1 + turn % 3)))
        for action, (next_obs, _, reward) in memory.windows(5).items():
            episode, step = divmod(action, 1_000)
            length = int(next_obs[1]) - step
            assert next_obs[0] == episode
            assert 1 <= length <= 5
            assert reward == sum(range(step, step + length))


def test_segments_that_do_not_fit_at_once_leave_whole_chains() -> None:
    memory = Linked(6)
    memory.add((7, 1, 0, 2))
    memory.add((7, 1, 2, 3), (8, 5, 0, 4), (7, 1, 5, 1), (8, 5, 4, 1))
    windows = memory.windows(9)
    assert set(windows) == {1_005, 5_000, 5_001, 5_002, 5_003, 5_004}
    assert windows[5_000][0] == [5, 5]
    assert windows[1_005][0] == [1, 6]


def test_chains_are_followed_step_by_step_until_they_end() -> None:
    memory = Linked(20)
    memory.add((7, 1, 0, 2), (8, 2, 0, 4))
    path, valid = memory.chains.along(np.array([0, 2]), 4)
    assert path.T.tolist() == [[0, 1, 1, 1], [2, 3, 4, 5]]
    assert valid.T.tolist() == [[True, True, False, False], [True] * 4]
    memory = Linked(50)
    for source in range(3_000):
        memory.add((source, 0, 0, 1))
    assert len(memory.chains._tails) <= 1_024, "sources that are gone are forgotten"
