"""The memory of the DQN family: windows over segments, priorities, and the same draws after a resume."""

from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from soulsgui.environments.box import BoxSpec
from soulsgui.errors import CheckpointError
from soulsgui.experience.segments import Segments
from soulsgui.rl.buffers.memory import ReplayMemory, WindowReplay
from soulsgui.rl.buffers.replay import NStepBatch, UniformReplay
from tests.experience.segments import segments_of

BOX = BoxSpec((1,), "float32")
GAMMA = 0.5


def memory(n: int = 3, alpha: float | None = None, capacity: int = 50) -> WindowReplay:
    return WindowReplay(UniformReplay(capacity, BOX), n, GAMMA, alpha)


def segment(
    first: int,
    count: int,
    source: int = 0,
    episode: int = 0,
    terminated: bool = False,
    truncated: bool = False,
) -> Segments:
    """Return steps `first` to `first + count` of an episode; step t is seen as t and rewarded by t + 1."""
    steps = np.arange(first, first + count)
    return segments_of(
        obs=np.arange(first, first + count + 1, dtype=np.float32)[:, None],
        length=np.array([count]),
        reward=(steps + 1).astype(np.float32),
        terminated=np.array([terminated]),
        truncated=np.array([truncated]),
        source=np.array([source]),
        episode=np.array([episode]),
        first_step=np.array([first]),
    )


def by_step(replay: WindowReplay) -> dict[int, tuple[float, float, float]]:
    """Return what is drawn of each step: reward, discount, what follows."""
    batch: NStepBatch = replay.draw(500, np.random.default_rng(0)).batch
    rows = zip(batch.obs[:, 0], batch.reward, batch.discount, batch.next_obs[:, 0], strict=True)
    return {
        int(step): (float(reward), float(discount), float(after)) for step, reward, discount, after in rows
    }


@pytest.mark.parametrize("alpha", [None, 0.6])
def test_windows_reach_over_segments_and_end_with_their_episode(alpha: float | None) -> None:
    replay: ReplayMemory = memory(alpha=alpha)
    replay.add(segment(0, 2))
    replay.add(segment(2, 2, terminated=True))
    assert by_step(replay) == {  # type: ignore[arg-type]
        0: (1 + 0.5 * 2 + 0.25 * 3, 0.125, 3),
        1: (2 + 0.5 * 3 + 0.25 * 4, 0, 4),
        2: (3 + 0.5 * 4, 0, 4),
        3: (4, 0, 4),
    }


def test_a_cut_off_tail_is_as_short_as_what_there_is_and_values_what_followed() -> None:
    replay = memory()
    replay.add(segment(0, 2, truncated=True))
    replay.add(segment(10, 1, episode=1))
    assert by_step(replay) == {0: (2.0, 0.25, 2), 1: (2.0, 0.5, 2), 10: (11.0, 0.5, 11)}


def test_windows_of_one_step_are_transitions() -> None:
    replay = memory(n=1)
    replay.add(segment(0, 3, terminated=True))
    assert by_step(replay) == {0: (1, 0.5, 1), 1: (2, 0.5, 2), 2: (3, 0, 3)}


def test_what_surprised_more_is_drawn_more_and_weighs_less() -> None:
    replay = memory(n=1, alpha=1.0)
    replay.add(segment(0, 4))
    replay.beta = 1.0
    number = replay.draw(400, np.random.default_rng(0)).number
    assert number is not None
    assert np.bincount(number).tolist() == [100, 100, 100, 100]
    replay.learned(np.arange(4), np.array([1.0, 1.0, 1.0, 5.0]))
    batch, number = replay.draw(800, np.random.default_rng(0))
    assert number is not None
    assert np.bincount(number).tolist() == [100, 100, 100, 500]
    weights = {int(step): float(weight) for step, weight in zip(batch.obs[:, 0], batch.weight, strict=True)}
    assert weights == pytest.approx({0: 1.0, 1: 1.0, 2: 1.0, 3: 0.2}, rel=1e-4)
    replay.beta = 0.0
    assert set(replay.draw(100, np.random.default_rng(0)).batch.weight) == {1.0}


def test_uniform_draws_have_neither_weights_nor_priorities() -> None:
    replay = memory(n=1)
    replay.add(segment(0, 4))
    drawn = replay.draw(10, np.random.default_rng(0))
    assert (drawn.number, drawn.batch.weight) == (None, None)


@pytest.mark.parametrize(("n", "alpha"), [(1, None), (3, None), (1, 0.6), (3, 0.6)])
def test_a_restored_memory_gives_the_same_draws_and_goes_on_alike(n: int, alpha: float | None) -> None:
    replay, again = memory(n, alpha), memory(n, alpha)
    for first in range(0, 60, 3):
        replay.add(segment(first, 3))
    if alpha is not None:
        number = replay.draw(20, np.random.default_rng(3)).number
        assert number is not None
        replay.learned(number, np.random.default_rng(4).random(20))
    again.load_state(load(save(replay.state())))
    for _ in range(2):
        _same(replay.draw(64, np.random.default_rng(5)), again.draw(64, np.random.default_rng(5)))
        for one in (replay, again):
            one.add(segment(60, 4))  # goes on where the last segment ended


def _same(first: Any, second: Any) -> None:
    for one, other in zip((*first.batch, first.number), (*second.batch, second.number), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("other", [memory(3, 0.6, 40), memory(1, 0.6), memory(3, None, 40)])
def test_a_memory_of_another_kind_is_refused_and_nothing_changes(other: WindowReplay) -> None:
    replay = memory(3, 0.6)
    replay.add(segment(0, 3))
    other.add(segment(0, 2))
    before = by_step(replay)
    with pytest.raises(CheckpointError):
        replay.load_state(other.state())
    assert by_step(replay) == before
