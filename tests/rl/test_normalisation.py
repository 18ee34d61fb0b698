"""Reward scaling against the sum taken step by step, over any cut into segments and rounds."""

import json
import math
from typing import Any

import numpy as np
import pytest

from soulsgui.config.sections.network import NormalizeSettings
from soulsgui.errors import CheckpointError
from soulsgui.rl.normalisation import Rewards, RewardScaler, ValueNormaliser
from tests.experience.segments import segments_of

GAMMA = 0.9
SCALED = NormalizeSettings(rewards=True)


def step_by_step(episodes: list[list[float]]) -> list[float]:
    """Return the discounted reward so far at each step."""
    totals = []
    for rewards in episodes:
        total = 0.0
        for reward in rewards:
            total = GAMMA * total + reward
            totals.append(total)
    return totals


def observe(scaler: RewardScaler | Rewards, *segments: tuple[int, int, int, list[float], bool]) -> Any:
    """Show segments: source, episode, first step, rewards, whether the episode ends with it."""
    source, episode, first_step, rewards, ended = zip(*segments, strict=True)
    reward = np.array([one for part in rewards for one in part], np.float32)
    found = segments_of(
        [len(part) for part in rewards],
        obs=np.zeros((len(reward) + len(rewards), 1)),
        reward=reward,
        terminated=ended,
        source=np.array(source),
        episode=np.array(episode),
        first_step=np.array(first_step),
    )
    look = scaler.observe if isinstance(scaler, RewardScaler) else scaler.learned_from
    return look(found, GAMMA)


def test_the_deviation_is_that_of_the_discounted_return_however_episodes_are_cut() -> None:
    first, second, other = [1.0, 2.0, -1.0, 4.0, 0.5], [3.0, 3.0], [-2.0, 1.0, 1.0]
    scaler = RewardScaler()
    # Out of order, with a seam within a round and one between two, and an episode that is new.
    observe(scaler, (7, 0, 1, first[1:3], False), (9, 4, 0, other[:2], False), (7, 0, 0, first[:1], False))
    observe(scaler, (7, 1, 0, second, False), (7, 0, 3, first[3:], True), (9, 4, 2, other[2:], True))
    assert scaler.std == pytest.approx(np.std(step_by_step([first, second, other])), rel=1e-5)


def test_a_gap_or_another_episode_begins_anew() -> None:
    scaler = RewardScaler()
    observe(scaler, (1, 0, 0, [5.0], False))
    observe(scaler, (1, 0, 2, [1.0], False))  # step 1 is missing
    observe(scaler, (1, 1, 3, [2.0], False))
    assert scaler.std == pytest.approx(np.std([5.0, 1.0, 2.0]), rel=1e-5)


def test_rewards_are_scaled_without_a_shift_then_limited() -> None:
    rewards = Rewards(NormalizeSettings(rewards=True, reward_clip=1.5))
    learned = observe(rewards, (1, 0, 0, [1.0, 2.0, -6.0], True))
    std = np.std(step_by_step([[1.0, 2.0, -6.0]]))
    np.testing.assert_allclose(learned, [1 / std, 2 / std, -1.5], rtol=1e-5)
    assert rewards.figures()["reward_std"] == pytest.approx(std)


def test_they_are_only_limited_where_that_is_all_that_is_wanted() -> None:
    rewards = Rewards(NormalizeSettings(rewards=False, reward_clip=1.0))
    np.testing.assert_array_equal(observe(rewards, (1, 0, 0, [0.5, 7.0, -3.0], True)), [0.5, 1, -1])
    assert rewards.changes
    assert (rewards.figures(), rewards.state()) == ({}, ({}, {}))
    assert not Rewards(NormalizeSettings(rewards=False)).changes


def test_without_a_known_origin_each_segment_begins_anew() -> None:
    scaler = RewardScaler()
    scaler.observe(segments_of([2, 1], np.zeros((5, 1)), reward=np.array([1.0, 1.0, 5.0])), GAMMA)
    assert scaler.std == pytest.approx(np.std([1.0, 1.9, 5.0]), rel=1e-5)


def test_what_is_saved_goes_on_in_the_middle_of_an_episode() -> None:
    rewards, again = Rewards(SCALED), Rewards(SCALED)
    observe(rewards, (2**60, 3, 0, [1.0, 1 / 3], False))
    arrays, meta = rewards.state()
    meta = json.loads(json.dumps(meta))
    again.check(meta)
    again.load(arrays, meta)
    learned = [observe(one, (2**60, 3, 2, [4.0, 0.1], False)) for one in (rewards, again)]
    np.testing.assert_array_equal(*learned)
    assert rewards.state()[1] == again.state()[1]
    assert math.isclose(rewards.figures()["reward_std"], again.figures()["reward_std"], rel_tol=0)


@pytest.mark.parametrize(
    "meta", [{}, {"rewards": [[1, 2]]}, {"rewards": 3}, {"rewards": [[1, 2, 3, "much"]]}]
)
def test_what_can_not_be_read_is_refused(meta: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="unfinished episodes"):
        Rewards(SCALED).check(meta)


def test_statistics_are_those_of_all_targets_together() -> None:
    targets = np.random.default_rng(0).normal(50, 7, 300)
    normaliser = ValueNormaliser()
    for part in np.split(targets, [1, 40, 41, 200]):
        normaliser.update(part)
    assert (normaliser.mean, normaliser.std) == pytest.approx((targets.mean(), targets.std()))
    said = normaliser.outputs(targets)
    assert (said.mean(), said.std()) == pytest.approx((0, 1), abs=1e-5)


def test_a_value_is_what_the_network_says_at_first_and_then_the_same_after_the_way_there_and_back() -> None:
    normaliser = ValueNormaliser()
    targets = np.linspace(-1000, 5000, 50, dtype=np.float32)
    np.testing.assert_array_equal(normaliser.values(targets), targets)
    np.testing.assert_array_equal(normaliser.outputs(targets), targets)
    normaliser.update(np.array([-300.0, 100.0, 2000.0]))
    np.testing.assert_allclose(normaliser.values(normaliser.outputs(targets)), targets, rtol=1e-5, atol=1e-3)


def test_targets_that_are_all_alike_divide_nothing_by_zero() -> None:
    normaliser = ValueNormaliser()
    normaliser.update(np.full(5, 3.0))
    np.testing.assert_array_equal(normaliser.outputs(np.full(2, 3.0)), [0, 0])
