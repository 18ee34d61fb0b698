"""Episodes of invited clients count when the samples that came of them back what they tell."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from soulsgui.telemetry.backing import WAITS_S, Backing
from soulsgui.telemetry.intake import DropReason
from soulsgui.training.intake.arrived import ArrivedEpisodes
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.messages.session import Episode
from tests.telemetry.helpers import RUN_ID, arrivals, episode


class Run:
    """A client that tells episodes, and a trainer that takes samples of it."""

    def __init__(self) -> None:
        self.backing, self.trainer = Backing(), ArrivedEpisodes()
        self.counted: list[float] = []
        self.refused: Counter[DropReason] = Counter()
        self._now, self._told = 0.0, 0

    def comes(self, *episodes: Episode) -> None:
        """Samples of whole episodes come."""
        for one in episodes:
            self.trainer.note("pc", 1, one.length, one.total_return, abs(one.total_return))

    def tells(self, *episodes: Episode, client: str = "pc") -> None:
        found, refused = self.backing.sort_out(arrivals(*episodes, client=client, first=self._told + 1))
        self._told += len(episodes)
        self.counted += [one.episode.total_return for one in found]
        self.refused.update(one.reason for one in refused)

    def passes(self, seconds: float, **told: Any) -> None:
        """Time passes, in which the trainer tells of itself twice a second."""
        for _ in range(int(seconds * 2)):
            self._now += 0.5
            state = {"phase": "collecting", "arrived": self.trainer.told(["pc"]), "attempt": 1} | told
            self.backing.hear(
                NodeState(name="trainer", instance=Instance(), tick=0, run_id=RUN_ID, **state), self._now
            )
            self.tells()


def test_an_episode_waits_for_its_steps_and_then_counts() -> None:
    run = Run()
    run.tells(episode(5.0))
    run.tells(episode(9.0), client="client-1")
    assert run.counted == [9.0], "the server's own clients are not asked"
    run.passes(1.0)
    assert run.backing.waiting == {"pc"}
    run.comes(episode(5.0))
    run.passes(0.5)
    assert (run.counted, run.backing.waiting) == ([9.0, 5.0], set())


@pytest.mark.parametrize("forged", [1e29, -1e29, 1000.0])
def test_what_no_steps_back_is_refused_after_a_time_and_holds_nothing_else_up(forged: float) -> None:
    run = Run()
    run.comes(*(episode(5.0) for _ in range(10)))
    run.passes(0.5)
    run.tells(episode(forged), *(episode(5.0) for _ in range(10)))
    assert run.counted == [5.0] * 10
    run.passes(WAITS_S - 1)
    assert not run.refused
    run.passes(2)
    assert (run.counted, run.refused) == ([5.0] * 10, {DropReason.UNBACKED: 1})


def test_whoever_sends_nothing_has_no_episodes_however_many_are_told() -> None:
    run = Run()
    run.tells(*(episode(1.0) for _ in range(3000)))
    assert run.refused[DropReason.UNBACKED] == 3000 - 1024, "the newest of them wait"
    run.passes(WAITS_S + 1)
    assert (run.counted, run.refused[DropReason.UNBACKED]) == ([], 3000)


def test_more_or_longer_episodes_than_came_do_not_count() -> None:
    run = Run()
    run.comes(*(episode(5.0) for _ in range(20)))
    run.passes(0.5)
    run.tells(*(episode(5.0) for _ in range(1000)))
    assert len(run.counted) == 40, "twice as many"
    run = Run()
    run.comes(*(episode(0.0) for _ in range(20)))
    run.passes(0.5)
    run.tells(*(episode(0.0, length=10**6) for _ in range(20)))
    assert not run.counted


def test_the_rewards_of_many_episodes_make_no_good_ones() -> None:
    """The sums of what is told would be the same."""
    run, rng = Run(), np.random.default_rng(1)
    best = 0.0
    for _ in range(50):
        run.comes(*(episode(20.0, length=20) for _ in range(25)))
        run.passes(0.5)
        honest = (episode(20.0, length=20) for _ in range(int(rng.integers(30))))
        run.tells(episode(500.0, length=500), *honest)
        best = max(best, float(np.mean(run.counted[-100:])))
    assert best <= 3 * 20.0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["dense", "sparse", "signs", "costs"])
@pytest.mark.parametrize("sent", [1.0, 0.6])
def test_all_that_is_honest_counts_also_where_steps_are_dropped(seed: int, kind: str, sent: float) -> None:
    """Of a client that gets better, and tells an episode up to two seconds before its last steps come."""
    rng, run = np.random.default_rng(seed), Run()
    under_way: list[Episode] = []
    played = 0
    for turn in range(200):
        made = []
        for _ in range(int(rng.integers(4))):
            length = max(int(rng.exponential(20 + turn)), 1)
            value = {
                "dense": float(length),
                "sparse": float(rng.random() < turn / 400),
                "signs": float(rng.normal(turn - 100, 100)),
                "costs": -float(length),
            }[kind]
            made.append(episode(value, length=length))
        run.tells(*made)
        played += len(made)
        under_way += made
        if turn % 4 == 3:
            for one in under_way:
                if rng.random() < sent:
                    size = abs(one.total_return) + (50.0 if kind == "signs" else 0.0)
                    run.trainer.note("pc", 1, one.length, one.total_return, size)
            under_way = []
        run.passes(0.5)
    run.passes(WAITS_S + 1)
    assert len(run.counted) >= 0.97 * played
    assert sent < 1 or not run.refused


def test_time_counts_while_the_trainer_takes_samples_and_another_one_counts_anew() -> None:
    run = Run()
    run.tells(episode(1.0))
    run.passes(2 * WAITS_S, phase="paused")
    run.passes(2 * WAITS_S, phase="updating")
    assert not run.refused
    run.comes(*(episode(1.0) for _ in range(50)))
    run.passes(0.5)
    run.tells(*(episode(1.0) for _ in range(50)))
    assert len(run.counted) == 51
    run.trainer = ArrivedEpisodes()
    run.comes(*(episode(400.0) for _ in range(3)))
    run.passes(0.5, attempt=2)
    run.tells(*(episode(400.0) for _ in range(3)))
    assert len(run.counted) == 54


def test_whoever_is_invited_anew_is_not_judged_by_what_another_sent_under_its_name() -> None:
    run = Run()
    run.comes(*(episode(1e6) for _ in range(20)))
    run.passes(0.5)
    run.tells(*(episode(1e6) for _ in range(20)))
    run.trainer.forget("pc")
    run.passes(0.5)
    run.tells(episode(5e5))
    assert run.counted == [1e6] * 20, "nothing has come of it"
    run.comes(episode(5.0))
    run.tells(episode(5.0))
    run.passes(0.5)
    assert run.counted[20:] == [5.0]
