"""Stitching: windows go on over segments of one episode, and over nothing else."""

import numpy as np
import pytest

from soulsgui.environments.box import BoxSpec
from soulsgui.errors import CheckpointError
from soulsgui.rl.buffers.memory import EpisodeLinks
from soulsgui.rl.buffers.replay import UniformReplay
from tests.experience.segments import segments_of

Segment = tuple[int, int, int, int]  # source, episode, first step, length


class Memory:
    """A ring with chains; the reward of step k of an episode is k, its observation (episode, k)."""

    def __init__(self, capacity: int) -> None:
        self.ring = UniformReplay(capacity, BoxSpec((2,), "float32"))
        self.chains = EpisodeLinks(self.ring)

    def add(self, *segments: Segment, terminated: bool = False) -> None:
        steps = [(episode, first + k) for _, episode, first, n in segments for k in range(n)]
        rows = [(episode, first + k) for _, episode, first, n in segments for k in range(n + 1)]
        columns = np.array(segments).T
        before = self.ring.stored
        self.ring.add(
            np.array(rows, np.float32),
            columns[3],
            np.array([episode * 1_000 + step for episode, step in steps]),
            np.array([step for _, step in steps], np.float32),
            np.full(len(segments), terminated),
        )
        source, episode, first_step, length = columns
        ids = {"source": source, "episode": episode, "first_step": first_step}
        self.chains.added(segments_of(length, np.array(rows), **ids), before)

    def windows(self, n: int, gamma: float = 1.0) -> dict[int, tuple[list[float], float, float]]:
        """Return next observation, discount and reward by action of the first step."""
        batch = self.ring.windows(np.arange(len(self.ring)), self.chains.following, n, gamma)
        columns = zip(batch.action, batch.next_obs, batch.discount, batch.reward, batch.obs, strict=True)
        found = {}
        for action, next_obs, discount, reward, obs in columns:
            assert obs.tolist() == [action // 1_000, action % 1_000]
            found[int(action)] = (next_obs.tolist(), float(discount), float(reward))
        return found


def test_a_window_goes_on_in_the_next_segment_of_its_episode() -> None:
    memory = Memory(20)
    memory.add((7, 1, 0, 3))
    assert memory.windows(4, 0.5)[1_001] == ([1, 3], 0.25, 1 + 0.5 * 2), "as far as it is known"
    memory.add((8, 2, 0, 2))
    memory.add((7, 1, 3, 3))
    assert memory.windows(4, 0.5)[1_001] == ([1, 5], 0.0625, 1 + 1 + 0.75 + 0.5)


def test_segments_that_come_together_are_stitched_as_well() -> None:
    memory = Memory(20)
    memory.add((7, 1, 0, 2), (8, 5, 0, 2), (7, 1, 2, 2), (8, 5, 2, 1))
    windows = memory.windows(3)
    assert windows[1_001] == ([1, 4], 1, 1 + 2 + 3)
    assert windows[5_000] == ([5, 3], 1, 0 + 1 + 2)


@pytest.mark.parametrize(
    "second",
    [(7, 1, 4, 2), (7, 1, 2, 2), (7, 2, 3, 2), (7, 2, 0, 2), (8, 1, 3, 2)],
    ids=["a step is missing", "a step is there twice", "other episode", "next episode", "other source"],
)
def test_a_gap_ends_the_window(second: Segment) -> None:
    memory = Memory(20)
    memory.add((7, 1, 0, 3))
    memory.add(second)
    following = memory.chains.following[:5].tolist()
    assert following == [1, 2, -1, 4, -1]


def test_a_segment_that_comes_late_is_not_joined_backwards() -> None:
    memory = Memory(20)
    memory.add((7, 1, 0, 2))
    memory.add((7, 1, 4, 2))
    memory.add((7, 1, 2, 2))
    assert memory.chains.following[:6].tolist() == [1, -1, 3, -1, 5, -1]


def test_termination_ends_the_future_of_all_windows_that_reach_it() -> None:
    memory = Memory(20)
    memory.add((7, 1, 0, 2))
    memory.add((7, 1, 2, 2), terminated=True)
    assert {action: window[1] for action, window in memory.windows(3).items()} == {
        1_000: 1, 1_001: 0, 1_002: 0, 1_003: 0,
    }  # fmt: skip


def test_what_overwrites_a_step_takes_its_place_in_no_chain() -> None:
    rng = np.random.default_rng(0)
    memory, steps = Memory(23), {7: [0, 0], 8: [0, 0], 9: [0, 0]}
    for _ in range(200):
        segments = []
        for source in rng.choice([7, 8, 9], size=rng.integers(1, 4)):
            state, length = steps[source], int(rng.integers(1, 9))
            segments.append((int(source), 10 * state[0] + int(source) - 7, state[1], length))
            state[1] += length
            if rng.random() < 0.3:
                state[:] = [state[0] + 1, 0]
        memory.add(*segments)
        for action, (next_obs, _, reward) in memory.windows(5).items():
            episode, step = divmod(action, 1_000)
            length = int(next_obs[1]) - step
            assert next_obs[0] == episode
            assert 1 <= length <= 5
            assert reward == sum(range(step, step + length))


def test_segments_that_do_not_fit_at_once_leave_whole_chains() -> None:
    memory = Memory(6)
    memory.add((7, 1, 0, 2))
    memory.add((7, 1, 2, 3), (8, 5, 0, 4), (7, 1, 5, 1), (8, 5, 4, 1))
    windows = memory.windows(9)
    assert set(windows) == {1_005, 5_000, 5_001, 5_002, 5_003, 5_004}
    assert windows[5_000][0] == [5, 5]
    assert windows[1_005][0] == [1, 6]


def test_chains_are_followed_step_by_step_until_they_end() -> None:
    memory = Memory(20)
    memory.add((7, 1, 0, 2), (8, 2, 0, 4))
    path, valid = memory.chains.along(np.array([0, 2]), 4)
    assert path.T.tolist() == [[0, 1, 1, 1], [2, 3, 4, 5]]
    assert valid.T.tolist() == [[True, True, False, False], [True] * 4]


def test_a_restored_memory_goes_on_stitching() -> None:
    memory, again = Memory(10), Memory(10)
    memory.add((7, 1, 0, 8), (8, 4, 0, 3))
    again.ring.load_state(memory.ring.state())
    again.chains.load_state(memory.chains.state())
    for one in (memory, again):
        one.add((7, 1, 8, 2))
    assert memory.windows(4) == again.windows(4)
    assert again.windows(4)[1_007][0] == [1, 10]
    with pytest.raises(CheckpointError, match="do not fit"):
        Memory(9).chains.load_state(memory.chains.state())


def test_sources_that_are_gone_are_forgotten() -> None:
    memory = Memory(50)
    for source in range(3_000):
        memory.add((source, 0, 0, 1))
    assert len(memory.chains._tails) <= 1_024
