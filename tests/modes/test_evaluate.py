"""Evaluation: every episode from its own seed, every episode counts, faults in words."""

import threading
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from soulsgui.config.sections.run import LEAST_TO_CONFIRM, settles
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import CheckpointError, ProcessFault
from soulsgui.modes.evaluate import (
    MOST_SIDE_BY_SIDE,
    Asked,
    Evaluation,
    EvaluationError,
    Unfinished,
    check_spaces,
    evaluate,
)
from soulsgui.policies.numpy_recurrent import Remembered
from soulsgui.sampling.watchdog import EnvironmentLimits, Watchdog
from tests.environments.toys import Room
from tests.faults.waiting import LIMIT_S

Obs = NDArray[np.float32]


class Seeded(gymnasium.Env[Obs, int]):
    """Shows its seed; goes on for `1 + seed % 7` steps; each gives the action as its reward."""

    observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, masked: bool = False, breaks_at: int = 1000) -> None:
        self.masked, self.breaks_at = masked, breaks_at
        self.begun_with: list[int] = []
        self.closed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        self.begun_with.append(seed)
        self.left = 1 + seed % 7
        return np.array([seed], np.float32), self.info()

    def step(self, action: int) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        if self.begun_with[-1] == self.breaks_at:
            raise SystemExit("the game has crashed")
        ended = self.left == 0
        even = self.begun_with[-1] % 2 == 0
        obs = np.array([self.begun_with[-1]], np.float32)
        return obs, float(action), ended and even, ended and not even, self.info()

    def info(self) -> dict[str, Any]:
        return {"action_mask": np.array([1, 1, 0], np.int8)} if self.masked else {}

    def close(self) -> None:
        self.closed = True


class Stub:
    """A policy that takes the last valid action, or draws one."""

    num_actions, first_action = 3, 0

    def greedy(self, obs: NDArray[Any], mask: Any = None) -> NDArray[Any]:
        valid = np.ones((len(obs), 3), np.bool_) if mask is None else mask
        return 2 - valid[:, ::-1].argmax(axis=1)

    def act(self, obs: NDArray[Any], rng: np.random.Generator, mask: Any = None) -> Any:
        return rng.integers(3, size=len(obs)), np.zeros(len(obs), np.float32)

    def to_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        return action


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Seeded]:
    """Every `Seeded` that a test makes."""
    found: list[Seeded] = []
    init = Seeded.__init__

    def keep(self: Seeded, **how: Any) -> None:
        init(self, **how)
        found.append(self)

    monkeypatch.setattr(Seeded, "__init__", keep)
    return found


def test_every_episode_begins_from_its_own_seed_and_counts_whatever_its_length(made: list[Seeded]) -> None:
    found = evaluate(Stub(), Seeded, Asked(40, 5))
    lengths = [1 + (5 + k) % 7 for k in range(40)]
    assert list(found.lengths) == lengths
    assert list(found.returns) == [2.0 * length for length in lengths]
    assert sorted(seed for env in made for seed in env.begun_with) == list(range(5, 45))
    assert len(made) == MOST_SIDE_BY_SIDE
    assert all(env.closed for env in made)
    masked = evaluate(Stub(), lambda: Seeded(masked=True), Asked(4, 0))
    assert list(masked.returns) == [1.0, 2.0, 3.0, 4.0], "only valid actions are offered"
    first, again, other = (
        evaluate(Stub(), Seeded, Asked(20, seed, greedy=False)).returns for seed in (3, 3, 10)
    )
    assert first == again != other, "what is drawn is the same again from the same seed only"


def test_figures_are_those_of_the_episodes() -> None:
    found = evaluate(Stub(), Seeded, Asked(3, 0)).to_json()
    told = {
        "returns": (2.0, 4.0, 6.0),
        "lengths": (1, 2, 3),
        "episodes": 3,
        "mean_return": 4.0,
        "mean_length": 2.0,
    }
    assert found == found | told | {"min_return": 2.0, "max_return": 6.0}
    assert found["std_return"] == pytest.approx((8 / 3) ** 0.5)
    assert found["seconds"] >= 0


class Counting(Stub):
    """Takes action 1 in every step but the first two of an episode, which it counts in its memory."""

    def __init__(self) -> None:
        self.remembered = Remembered({"steps": (1,)})

    def greedy(self, obs: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        steps = self.remembered.fields["steps"] + 1
        self.remembered.fields = {"steps": steps}
        return (steps[:, 0] > 2).astype(np.int64)


def test_a_memory_stays_with_its_episode_and_is_blank_at_the_beginning_of_the_next() -> None:
    found = evaluate(Counting(), Seeded, Asked(40, 0))
    assert list(found.returns) == [max(length - 2.0, 0.0) for length in found.lengths]


def test_what_breaks_or_is_no_return_is_told_in_words_and_it_ends_when_it_is_asked_to(
    made: list[Seeded], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EvaluationError, match="raised in a step: SystemExit: the game has crashed"):
        evaluate(Stub(), lambda: Seeded(breaks_at=2), Asked(4))
    assert [env.closed for env in made] == [True] * 4
    asked = iter([True, True, False])
    with pytest.raises(Unfinished):
        evaluate(Stub(), Seeded, Asked(7), go_on=lambda: next(asked))
    assert len(made) == 4 + 1, "it is asked before each environment is made and begun"
    for reward in (float("nan"), float("inf"), 1e300):
        ended = np.zeros(1, np.float32), reward, True, False, {}
        monkeypatch.setattr(Seeded, "step", lambda *_, ended=ended: ended)
        with pytest.raises(EvaluationError, match=r"raised in a step: .*It gave the reward (nan|inf)"):
            evaluate(Stub(), Seeded, Asked(1))


@pytest.mark.parametrize("place", ["reset", "step", "close"])
def test_an_environment_that_hangs_is_noticed_wherever_it_does(place: str) -> None:
    told, go_on = list[ProcessFault](), threading.Event()

    class Hanging(Seeded):
        def hang(self, here: str) -> None:
            if here == place:
                assert go_on.wait(LIMIT_S)

        def reset(self, **how: Any) -> Any:
            self.hang("reset")
            return super().reset(**how)

        def step(self, action: int) -> Any:
            self.hang("step")
            return super().step(action)

        def close(self) -> None:
            self.hang("close")

    def hangs(fault: ProcessFault) -> None:
        told.append(fault)
        go_on.set()

    watchdog = Watchdog(EnvironmentLimits(0.5), hangs)
    watchdog.start()
    far = list[tuple[int, int]]()
    try:
        evaluate(Stub(), Hanging, Asked(2, told=lambda *how: far.append(how)), watchdog=watchdog)
    finally:
        watchdog.close()
    assert [one.message.partition(" takes longer")[0] for one in told] == [
        f"The environment hangs: {'being closed' if place == 'close' else f'a {place}'}"
    ]
    assert far[-1] == (1, 2)


def test_an_environment_with_other_spaces_is_refused() -> None:
    same = SpacesSpec.from_env(Seeded.observation_space, Seeded.action_space, masked=True).to_json()
    check_spaces(Seeded, same, "Seeded-v0")
    other = same | {"observation": {**same["observation"], "shape": [2]}}
    with pytest.raises(CheckpointError, match="a different observation space than Seeded-v0"):
        check_spaces(Seeded, other, "Seeded-v0")


class Noting(Stub):
    """A policy that notes what it is shown."""

    def __init__(self) -> None:
        self.shown: list[NDArray[Any]] = []

    def greedy(self, obs: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        self.shown.append(obs)
        return np.zeros(len(obs), np.int64)


def test_observations_are_shown_as_training_shows_them() -> None:
    policy = Noting()
    evaluate(policy, lambda: Seeded(breaks_at=0), Asked(2, 1000))
    assert np.concatenate(policy.shown).max() == 1000, "seed 1001 lies outside"
    policy = Noting()
    found = evaluate(policy, lambda: Room(length=4), Asked(2))
    assert found.returns == (4.0, 4.0)
    spec = SpacesSpec.from_env(Room().observation_space, Room().action_space).observation
    assert all(spec.contains(obs).all() for obs in policy.shown)
    assert [obs["f1"][0, 0] for obs in policy.shown] == [1, 2, 3, 4]
    cards = Noting()
    evaluate(cards, lambda: gymnasium.make("Blackjack-v1"), Asked(3))
    assert {(obs.dtype.str, obs.shape[1:]) for obs in cards.shown} == {("<i4", (3,))}


def test_an_episode_that_does_not_end_is_cut_and_that_is_told() -> None:
    # Episodes of 1 + seed % 7 steps: those that end with the last step they may make were not cut.
    found = evaluate(Stub(), Seeded, Asked(7, 0), max_steps=5)
    assert found.lengths == (1, 2, 3, 4, 5, 5, 5)
    assert (found.cut, found.to_json()["cut"], found.to_json()["max_steps"]) == (2, 2, 5)
    assert found.cut_words.startswith("2 of 7 episodes did not end and were cut at 5 steps")
    assert evaluate(Stub(), Seeded, Asked(7, 0), max_steps=7).cut_words == ""


def test_as_many_episodes_are_played_as_say_whether_a_goal_is_reached() -> None:
    assert not settles([500.0] * (LEAST_TO_CONFIRM - 1), 475)
    assert settles([500.0] * LEAST_TO_CONFIRM, 475)
    # A standard deviation of 10 over 20 episodes is a standard error of 2.2.
    near, far = ([mean - 9.75, mean + 9.75] * 10 for mean in (480.0, 482.0))
    assert not settles(near, 475)
    assert settles(far, 475)
    assert settles(near * 5, 480), "enough is enough"
    assert (Evaluation((1.0,), (1,), 0.0) + Evaluation((2.0, 6.0), (1, 1), 0.0)).mean_return == 3.0


def test_a_goal_out_of_reach_is_not_confirmed_by_chance() -> None:
    # Blackjack: what is lost and won makes -0.05 at best; windows of 20 training episodes reach 0.5 soon.
    rng = np.random.default_rng(1)
    returns = rng.choice([1.0, 0.0, -1.0], p=[0.43, 0.09, 0.48], size=(2000, 100))
    windows = returns[:, :20].mean(axis=1)
    assert (windows >= 0.5).sum() >= 5
    confirmed = 0
    for drawn in returns:
        played = next(drawn[:n] for n in range(20, 101, 20) if settles(drawn[:n], 0.5))
        confirmed += played.mean() >= 0.5
    assert confirmed == 0
