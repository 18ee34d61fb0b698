"""Stitching: windows go on over segments of one episode, and over nothing else."""

import numpy as np
import pytest

from soulsgui.environments.box import BoxSpec
from soulsgui.rl.buffers.memory import EpisodeLinks
from soulsgui.rl.buffers.replay import UniformReplay
from tests.rl.drawing import Piece, pieces


class Memory:
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
    memory = Memory(20)
    for piece in [(7, 1, 0, 3), *added]:
        memory.add(piece)
    assert memory.chains.following[: 3 + 2 * len(added)].tolist() == [1, 2, *following]


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


def test_sources_that_are_gone_are_forgotten() -> None:
    memory = Memory(50)
    for source in range(3_000):
        memory.add((source, 0, 0, 1))
    assert len(memory.chains._tails) <= 1_024
