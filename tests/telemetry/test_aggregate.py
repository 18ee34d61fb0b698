import math
from collections import deque

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from soulsgui.telemetry.aggregate import Aggregator, Best, Curve, Limits, Place, Window, best_of
from soulsgui.wire.messages.metrics import AttemptStart

OWN = "client-1"
_RETURNS = st.lists(st.floats(-1e30, 1e30), max_size=60)


@given(_RETURNS, st.integers(1, 20), _RETURNS)
@example([0.1, 1e30, 0.2, 0.3], 2, [])
def test_the_mean_is_that_of_the_window_rounded(values: list[float], size: int, carried: list[float]) -> None:
    assert Window(size).mean is None
    window = Window(size, carried)
    last = deque(carried, size)
    for value in values:
        window.add(value, 1, OWN)
        last.append(value)
        assert window.mean == math.fsum(last) / len(last)


def test_only_full_windows_rank_models_and_whoever_played_most_of_one_earned_it() -> None:
    aggregator = Aggregator(3, None)
    for value in (100.0, 1.0):
        aggregator.add(1, value, 1, OWN)
    assert aggregator.best is None
    aggregator.add(1, 1.0, 2, OWN)
    assert aggregator.best == Best(34.0, 1)
    for model_id in (3, 4, 5):
        aggregator.add(1, 100.0 + model_id, model_id, OWN)
    assert aggregator.best == Best(104.0, 5), "the newest of those that played as much"
    aggregator.add(1, 103.0, 6, OWN)
    assert aggregator.best == Best(104.0, 5), "the first of equals stays the best"
    episodes = [(1, 1.0, 1), (1, 9.0, 2), (1, 3.0, 3), (2, 2.0, 4), (2, 5.0, 5)]
    episodes = [(*one, OWN) for one in episodes]
    live = Aggregator(2, None)
    for episode in episodes:
        live.add(*episode)
    assert best_of(2, episodes) == live.best == Best(6.0, 3), "of a history, as seen live"


@pytest.mark.parametrize(
    ("window", "returns", "reached_with"),
    [
        (2, [50.0], None),
        (2, [50.0, 10.0], 30.0),
        (1, [9.999], None),
        (1, [10.0], 10.0),
        (1, [11.0, 0.0, 12.0], 11.0),
    ],
    ids=["not full", "full", "below", "equal", "it stays reached"],
)
def test_full_windows_reach_the_goal(window: int, returns: list[float], reached_with: float | None) -> None:
    aggregator = Aggregator(window, 10.0)
    aggregator.begin_attempt(1, ())
    for value in returns:
        aggregator.add(1, value, 1, OWN)
    assert (aggregator.reached, aggregator.reached_with) == (reached_with is not None, reached_with)


def played(aggregator: Aggregator, *episodes: tuple[str, float]) -> Aggregator:
    """Let clients play episodes, each with a newer model."""
    aggregator.begin_attempt(1, ())
    for model_id, (client, value) in enumerate(episodes, start=1):
        aggregator.add(1, value, model_id, client)
    return aggregator


def test_no_invited_client_decides_alone_among_others() -> None:
    forged = [("evil", 1e29)] * 4
    honest = [(name, value) for value in (1.0, 2.0) for name in (OWN, "pc-1")]
    both = played(Aggregator(4, 10.0), *honest, *forged)
    assert (both.reached, both.best) == (False, Best(2.0, 5)), "a window of its own says nothing"
    mixed = played(Aggregator(4, 10.0), ("evil", 1e29), (OWN, 3.0), ("evil", 1e29), (OWN, 5.0))
    assert (mixed.reached, mixed.best) == (False, Best(4.0, 4)), "of two, the lower one counts"
    three = played(Aggregator(3, 10.0), ("evil", -1e29), (OWN, 11.0), ("pc-1", 12.0))
    assert three.reached_with == 11.0, "nor does it hold the others up"
    claim = played(Aggregator(4, 10.0, judged_by="both"), *honest, *forged)
    assert claim.claim is None
    alone = played(Aggregator(4, 10.0), *forged)
    assert alone.best == Best(1e29, 4), "who plays alone has the run to itself"
    alone.add(1, 1.0, 9, OWN)
    assert alone.best == Best(1.0, 9), "and loses that when others come"
    own = played(Aggregator(2, 10.0), ("evil", 1e29), ("client-1", 11.0), ("client-1", 11.0))
    assert own.reached_with == 11.0, "the server's own clients may decide alone"


def test_what_a_resume_carries_over_counts_for_the_mean_only() -> None:
    aggregator = Aggregator(3, 10.0)
    aggregator.begin_attempt(2, [30.0, 30.0, 30.0, 30.0])
    assert aggregator.mean_return == 30.0
    assert aggregator.add(2, 0.0, 1, OWN) == 20.0
    aggregator.add(2, 0.0, 1, OWN)
    assert (aggregator.best, aggregator.reached) == (None, False)
    aggregator.add(2, 3.0, 8, OWN)
    assert (aggregator.best, aggregator.reached) == (Best(1.0, 1), False)
    # A new attempt opens the goal again and keeps the best; stragglers do not move it.
    aggregator = Aggregator(1, 10.0)
    aggregator.begin_attempt(1, ())
    aggregator.add(1, 12.0, 3, OWN)
    aggregator.begin_attempt(2, [12.0])
    assert (aggregator.reached, aggregator.best) == (False, Best(12.0, 3))
    aggregator.add(2, 1.0, 5, OWN)
    assert aggregator.add(1, 99.0, 4, OWN) == 99.0
    assert (aggregator.mean_return, aggregator.reached) == (1.0, False)


def claiming() -> Aggregator:
    """Two episodes of 11 claim a goal of 10."""
    aggregator = Aggregator(2, 10.0, judged_by="both")
    aggregator.begin_attempt(1, ())
    for _ in range(2):
        aggregator.add(1, 11.0, 3, OWN)
    assert (aggregator.claim, aggregator.reached) == (11.0, False)
    return aggregator


def test_greedy_episodes_confirm_a_claim_or_it_takes_a_new_window_of_newer_weights() -> None:
    aggregator = claiming()
    aggregator.add(1, 99.0, 3, OWN)
    assert aggregator.claim == 11.0, "there is one claim at a time"
    aggregator.answer(10.0)
    assert (aggregator.claim, aggregator.reached_with) == (None, 11.0)
    aggregator = claiming()
    aggregator.answer(9.9)
    aggregator.add(7, 99.0, 4, OWN)  # of another attempt
    aggregator.add(1, 99.0, 4, OWN)
    assert (aggregator.claim, aggregator.reached) == (None, False)
    assert aggregator.mean_return == 55.0, "the shown mean goes on"
    aggregator.add(1, 13.0, 4, OWN)
    assert aggregator.claim == 56.0
    aggregator = claiming()
    aggregator.answer(9.9, 5)
    for model_id in (4, 5, 5):
        aggregator.add(1, 13.0, model_id, OWN)
    assert (aggregator.claim, aggregator.best) == (None, Best(13.0, 5)), "the same would be refuted again"
    aggregator.add(1, 13.0, 6, OWN)
    assert aggregator.claim == 13.0
    aggregator = claiming()
    aggregator.answer()
    assert aggregator.reached_with == 11.0, "nobody can confirm it"
    aggregator = claiming()
    aggregator.begin_attempt(2, [11.0, 11.0])
    assert (aggregator.claim, aggregator.reached) == (None, False), "it ends with its attempt"


def _start(attempt: int, env_steps: int, episodes: int, update: int = 0) -> AttemptStart:
    return AttemptStart(attempt=attempt, update=update, env_steps=env_steps, episodes=episodes, time=0.0)


def test_attempts_begin_at_zero_or_their_checkpoint_once_and_stragglers_stay_in_their_own() -> None:
    curve = Curve([], {})
    assert curve.attempt == 0
    assert curve.begin(_start(1, 0, 0))
    assert not curve.begin(_start(1, 40, 4)), "once"
    assert curve.place(1) == Place(0, 0)
    assert curve.advance(1, 25) == Place(25, 1)
    assert curve.begin(_start(2, 500, 50))
    assert (curve.attempt, curve.place(2)) == (2, Place(500, 50))
    assert curve.advance(2, 7) == Place(507, 51)
    assert curve.advance(1, 10) == Place(35, 2)
    assert curve.place(2) == Place(507, 51)
    # One that nobody told of goes on where the newest stands.
    assert Curve([], {}).advance(1, 25) == Place(25, 1)
    assert Curve([_start(1, 0, 0)], {1: Place(300, 30)}).advance(4, 1) == Place(301, 31)


def test_the_limit_of_an_attempt_is_the_earliest_place_any_later_one_began_at() -> None:
    limits = Limits([_start(1, 0, 0), _start(2, 500, 50, 5), _start(3, 200, 20, 2), _start(4, 400, 40, 4)])
    assert limits.of(1) == limits.of(2) == (200, 20, 2)
    assert limits.of(3) == (400, 40, 4)
    assert limits.of(4) == (math.inf, math.inf, math.inf)
    limit = limits.of(1)
    beyond = [
        limit.overwrites_episode(env_steps=steps, episode=at)
        for steps, at in ((200, 20), (201, 20), (200, 21))
    ]
    assert beyond == [False, True, True], "beyond either axis"
