"""Environments as pictures: which can be shown, what the first shows, made small."""

from typing import Any

import numpy as np
import pytest

from soulsgui.environments.make import make_vector
from soulsgui.environments.pictures import PICTURES, first_rendered, made_small, shown_kwargs


def test_what_can_be_shown_is_made_with_its_render_mode_alone() -> None:
    assert shown_kwargs("CartPole-v1", {"sutton_barto_reward": True}) == {
        "sutton_barto_reward": True,
        "render_mode": PICTURES,
    }
    assert shown_kwargs("CartPole-v1", {"render_mode": PICTURES}) == {"render_mode": PICTURES}
    assert shown_kwargs("CartPole-v1", {"render_mode": "human"}) is None
    assert shown_kwargs("Blackjack-v9", {}) is None
    assert shown_kwargs("tests.environments.toys:ToysCounter-v0", {}) is None


@pytest.mark.parametrize("wrappers", [[], [{"TimeLimit": {"max_episode_steps": 9}}]], ids=["native", "each"])
def test_the_first_environment_is_seen_whatever_steps_them(wrappers: list[Any]) -> None:
    vector = make_vector("CartPole-v1", {"render_mode": PICTURES}, wrappers, 3)
    try:
        vector.reset(seed=0)
        before = first_rendered(vector)
        for _ in range(5):
            vector.step(np.ones(3, np.int64))
        assert before.shape == (400, 600, 3)
        assert (first_rendered(vector) != before).any()
    finally:
        vector.close()


def test_a_picture_made_small_has_the_mean_of_what_each_pixel_stands_for() -> None:
    picture = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    small = made_small(picture, 3)
    assert small.shape == (2, 3, 3)
    np.testing.assert_array_equal(small[0, 0], picture[:2, :2].mean((0, 1)).astype(np.uint8))
    np.testing.assert_array_equal(made_small(picture, 6), picture)
    assert made_small(np.zeros((1, 1000, 3), np.uint8), 240).shape == (1, 200, 3)
