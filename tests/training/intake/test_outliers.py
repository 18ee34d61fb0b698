"""Who stands out: whose numbers are of another size than those of the others."""

import math
from collections.abc import Callable

import gymnasium
import numpy as np
import pytest

from soulsgui.training.intake.outliers import Sizes

DECADES = 3.0


def sizes_of(**means: float) -> Sizes:
    """Return the sizes of clients of whom a thousand numbers of these means came; `client_1` is client-1."""
    sizes = Sizes()
    for client, mean in means.items():
        sizes.note(client.replace("_", "-"), 1000 * mean, 1000)
    return sizes


def test_whose_numbers_are_of_another_size_is_named_by_the_others() -> None:
    found = sizes_of(a=1.0, b=2.0, c=1e6).outliers(DECADES)
    assert found == {"c": "5e+05 times as large as those of the others"}
    assert sizes_of(a=1.0, b=1.0, c=900.0).outliers(DECADES) == {}
    assert list(sizes_of(a=1.0, b=1.0, c=900.0).outliers(1.0)) == ["c"], "where less is enough"
    assert sizes_of(a=1e6, b=2e6, c=1.0).outliers(DECADES) == {}, "smaller is no harm"


def test_nobody_is_an_outlier_against_itself_or_against_one_other() -> None:
    assert sizes_of(a=1e9).outliers(DECADES) == {}
    assert sizes_of(a=1.0, b=1e9).outliers(DECADES) == {}
    assert sizes_of(a=1.0, b=1e9).two_apart(DECADES) == "b are 1e+09 times as large as those of a"
    assert sizes_of(a=1.0, b=900.0).two_apart(DECADES) == ""
    assert sizes_of(client_1=1.0, b=1e9).two_apart(DECADES) == sizes_of(a=1.0).two_apart(DECADES) == ""
    assert list(sizes_of(client_1=1.0, b=1e9).outliers(DECADES)) == ["b"], "but against the server's own"
    many = sizes_of(client_1=1.0, b=1e9, c=1e9, d=1e9)
    assert list(many.outliers(DECADES)) == ["b", "c", "d"], "however many they are"
    assert sizes_of(client_1=1e9, b=1.0, c=1.0, d=1.0).outliers(DECADES) == {}, "which are the measure"


def test_a_fleet_that_differs_widely_by_itself_is_given_more_room() -> None:
    spread = {f"pc{number}": 10.0 ** (number / 2) for number in range(9)}  # median 10^2, deviation 10^1
    assert sizes_of(**spread).outliers(DECADES) == {}
    # With one more the median is 10^2.25, and the deviation 10^1.25.
    limit = 2.25 + 3 * 1.4826 * 1.25
    assert sizes_of(**spread, x=10 ** (limit - 0.01)).outliers(DECADES) == {}
    assert list(sizes_of(**spread, x=10 ** (limit + 0.01)).outliers(DECADES)) == ["x"]


def test_a_single_large_one_among_few_is_no_outlier_and_an_honest_past_covers_nothing() -> None:
    sizes = sizes_of(a=0.03, b=0.03, c=0.03)
    sizes.note("new", 100.0, 1)  # the goal, in the first thing that it sends
    assert sizes.outliers(DECADES) == {}
    sizes = sizes_of(a=0.03, b=0.03, c=0.03)
    sizes.note("a", 0.03 * 10**7, 10**7)
    sizes.note("a", 0.03 * 10**6 * 16, 16)  # 16 rewards, times a million
    assert list(sizes.outliers(DECADES)) == ["a"]


def test_the_first_who_finds_a_reward_is_no_outlier() -> None:
    sizes = Sizes()
    for client in ("a", "b", "c", "d"):
        sizes.note(client, 0.0, 0)
    sizes.note("d", 1000.0, 1)
    assert sizes.outliers(DECADES) == {}
    sizes.note("d", 1e6 * 20, 20)
    assert list(sizes.outliers(DECADES)) == ["d"]


def test_who_was_released_is_not_named_again() -> None:
    sizes = sizes_of(a=1.0, b=1.0, c=1e6)
    sizes.release("c")
    sizes.note("c", 1e9, 1000)
    assert sizes.outliers(DECADES) == {}


def test_those_of_whom_little_came_are_no_measure() -> None:
    lengths = Sizes(measured_from=10)
    lengths.note("client-1", 5.0, 0)  # its first episode is under way
    lengths.note("a", 2000 * 100.0, 100)
    assert lengths.outliers(DECADES) == {}
    lengths.note("client-1", 9.0 * 10, 10)
    assert lengths.outliers(DECADES) == {}, "who plays better plays longer"
    lengths.note("b", 20_000 * 100.0, 100)
    assert list(lengths.outliers(DECADES)) == ["b"]


def _balance(obs: np.ndarray) -> int:
    return int(obs[2] + 0.3 * obs[3] > 0)


def _swing(obs: np.ndarray) -> np.ndarray:
    return np.array([math.copysign(1.0, obs[1])], np.float32)


def _against(obs: np.ndarray) -> np.ndarray:
    return np.array([-2.0 * obs[2]], np.float32)


@pytest.mark.parametrize(
    ("env_id", "skilled"),
    [
        ("CartPole-v1", _balance),
        ("MountainCarContinuous-v0", _swing),
        ("Pendulum-v1", _against),
        ("FrozenLake-v1", lambda _: 1),
    ],
)
@pytest.mark.parametrize("steps", [16, 3000])
def test_better_players_and_explorers_are_no_outliers(env_id: str, skilled: Callable, steps: int) -> None:
    """On a ladder from always exploring to never, as clients of Ape-X stand."""
    sizes, lengths, returns = Sizes(), Sizes(10), Sizes(10)
    env = gymnasium.make(env_id)
    for rung in range(6):
        rng = np.random.default_rng(rung)
        env.action_space.seed(rung)
        obs, _ = env.reset(seed=rung)
        for _ in range(steps):
            explores = rng.random() < 1.0 - rung / 5
            obs, reward, terminated, truncated, _ = env.step(
                env.action_space.sample() if explores else skilled(obs)
            )
            ended = terminated or truncated
            sizes.note(f"pc{rung}", abs(reward), reward != 0)
            lengths.note(f"pc{rung}", 1, ended)
            returns.note(f"pc{rung}", abs(reward), ended)
            if ended:
                obs, _ = env.reset()
    env.close()
    assert sizes.outliers(DECADES) == lengths.outliers(DECADES) == returns.outliers(DECADES) == {}
    for client, (total, count) in list(sizes._seen.items()):
        if total and count > 1:
            cheating = Sizes()
            cheating._seen = dict(sizes._seen)
            cheating.note(client, total * 1e6, count)
            assert list(cheating.outliers(DECADES)) == [client]
