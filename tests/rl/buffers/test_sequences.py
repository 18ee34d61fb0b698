"""Sequences: where they begin, how far they go, what of them is learned, and their priorities."""

import numpy as np
import pytest

from soulsgui.environments.box import BoxSpec
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.rl.buffers.sequences import HiddenStates, SequenceBatch, SequenceReplay
from tests.rl.drawing import Piece, Players, pieces


def replay_of(
    capacity: int = 100, burn_in: int = 2, length: int = 3, sequences: int = 50, alpha: float = 0.0
) -> SequenceReplay:
    ring = UniformReplay(capacity, BoxSpec((2,), "float32"), masked_actions=3)
    return SequenceReplay(ring, "state", 2, burn_in, length, sequences, alpha)


def add(replay: SequenceReplay, *parts: Piece, terminated: bool = False) -> None:
    replay.add(pieces(*parts, terminated=np.full(len(parts), terminated)))


def draw(replay: SequenceReplay, count: int = 60, beta: float = 0.4) -> SequenceBatch:
    replay.beta = beta
    return replay.sample(count, np.random.default_rng(0))


def begins(batch: SequenceBatch) -> set[tuple[int, int]]:
    return {(int(episode), int(step)) for episode, step in batch.state}


def test_behind_its_end_a_sequence_is_empty_and_its_last_observation_stays() -> None:
    replay = replay_of()
    add(replay, (7, 1, 0, 2), terminated=True)
    batch = draw(replay, 1)
    assert batch.valid[:, 0].tolist() == [True, True, False, False, False]
    assert batch.action[:, 0].tolist() == batch.reward[:, 0].tolist() == [1, 2, 0, 0, 0]
    assert batch.terminated[:, 0].tolist() == [False, True, False, False, False]
    assert batch.obs[:, 0].tolist() == [[1, 0], [1, 1], [1, 2], [1, 2], [1, 2], [1, 2]]
    assert (batch.reward.dtype, batch.state.dtype, batch.weight.dtype) == (np.float32,) * 3


def test_an_episode_is_learned_from_its_first_step_and_others_from_behind_the_burn_in() -> None:
    replay = replay_of()
    add(replay, (7, 1, 0, 4))
    add(replay, (7, 1, 4, 4))
    batch = draw(replay)
    for column, (_, step) in enumerate(batch.state):
        behind = [step == 0, step == 0, True, True, step == 0]
        assert batch.learned[:, column].tolist() == behind
        assert batch.exact[column] == (step == 0)


def test_a_sequence_is_drawn_once_it_has_a_step_to_learn_from() -> None:
    replay = replay_of(burn_in=3)
    add(replay, (7, 1, 5, 2))
    with pytest.raises(ValueError, match="nothing to draw"):
        draw(replay)
    add(replay, (7, 1, 7, 1))
    with pytest.raises(ValueError, match="nothing to draw"):
        draw(replay)
    add(replay, (7, 1, 8, 1))
    batch = draw(replay)
    assert begins(batch) == {(1, 5)}
    assert batch.learned.sum(axis=0).tolist() == [1] * 60
    add(replay, (7, 1, 9, 2))
    assert begins(draw(replay)) == {(1, 5), (1, 7)}
    assert draw(replay).learned.any(axis=0).all()
    replay = replay_of(burn_in=3)
    for part in ((7, 1, 5, 2), (7, 1, 8, 9), (7, 1, 17, 9)):
        add(replay, part)
    assert begins(draw(replay)) == {(1, 8), (1, 17)}, "one cut short by a gap waits for nothing"


def test_a_memory_counts_what_can_be_drawn_and_gives_sequences_for_transitions() -> None:
    replay, rng = replay_of(burn_in=3, length=5), np.random.default_rng(0)
    add(replay, (7, 1, 40, 3))
    assert (len(replay), replay.inserted) == (0, 3)
    add(replay, (7, 1, 43, 2))
    assert (len(replay), replay.drawn_with(21), replay.drawn_with(1)) == (5, 20, 5)
    number, batch = replay.draw(21, rng).number, replay.draw(1, rng).batch
    assert number is not None
    assert (len(number), len(batch.weight)) == (4, 1)
    np.testing.assert_array_equal(batch.learned.sum(0), 2)


def test_sequences_give_way_with_their_first_step_or_when_there_are_too_many() -> None:
    replay = replay_of(capacity=10, burn_in=0)
    for first in range(0, 20, 4):
        add(replay, (7, 1, first, 4))
    assert begins(draw(replay)) == {(1, 12), (1, 16)}, (
        "of the one that begins with step 8 the first steps are gone"
    )
    assert replay.sequences == 2
    replay = replay_of(burn_in=0, sequences=3)
    for first in range(0, 20, 4):
        add(replay, (7, 1, first, 4))
    assert begins(draw(replay)) == {(1, 8), (1, 12), (1, 16)}
    replay = replay_of(capacity=5, burn_in=0)
    add(replay, (7, 1, 0, 9))  # longer than the memory: it begins none
    with pytest.raises(ValueError, match="nothing to draw"):
        draw(replay)
    add(replay, (7, 1, 9, 2))
    assert begins(draw(replay)) == {(1, 9)}


def test_any_order_of_segments_gives_sequences_without_a_gap() -> None:
    replay, players = replay_of(capacity=40, sequences=12), Players()
    for _ in range(150):
        add(replay, players.play()[0], players.play()[0])
        if not replay._tree.total:
            continue
        batch = draw(replay, 20)
        assert batch.learned.any(axis=0).all()
        for column, (episode, step) in enumerate(batch.state):
            count = int(batch.valid[:, column].sum())
            assert batch.valid[:count, column].all()
            assert batch.action[:count, column].tolist() == [step + 1 + k for k in range(count)]
            assert batch.obs[: count + 1, column].tolist() == [[episode, step + k] for k in range(count + 1)]


def test_priorities_count_and_weights_undo_them() -> None:
    replay = replay_of(burn_in=0, alpha=1.0)
    add(replay, (7, 1, 0, 3), (8, 2, 0, 3))
    replay.learned(np.array([0, 1]), np.array([3.0, 1.0]))
    batch = draw(replay, 4_000, 1.0)
    np.testing.assert_allclose(np.bincount(batch.number), [3_000, 1_000], atol=2)
    np.testing.assert_allclose(batch.weight, np.where(batch.number == 0, 1 / 3, 1), rtol=1e-5)
    add(replay, (9, 3, 0, 3))
    found = np.bincount(draw(replay, 7_000, 1.0).number)
    np.testing.assert_allclose(found, [3_000, 1_000, 3_000], atol=2)
    replay = replay_of(burn_in=0, sequences=2, alpha=1.0)
    add(replay, (7, 1, 0, 3), (8, 2, 0, 3))
    add(replay, (9, 3, 0, 3))
    replay.learned(np.array([0]), np.array([1e9]))  # of one that gave way
    found = np.bincount(draw(replay, 1_000, 1.0).number, minlength=3)
    assert found.tolist() == [0, 500, 500]


def test_states_stay_those_of_their_numbers_and_take_no_more_room_than_are_held() -> None:
    rows = HiddenStates(2)
    for number in range(1000):
        oldest = max(0, number - (150 if number < 500 else 99))
        rows.put(number, np.full(2, number, np.float32), oldest)
        held = np.arange(oldest, number + 1)
        np.testing.assert_array_equal(rows.of(held), np.stack((held, held), 1))
        assert len(rows._rows) == (64 if number < 64 else 128 if number < 128 else 256)
    replay = replay_of(capacity=30, burn_in=3)
    for source in range(200):  # none of them comes back
        add(replay, (source, source, 5, 2))
    assert len(replay._waiting) <= replay.sequences == 15
