import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulsgui.runner.policy import RestartHistory, RestartLimits

LIMITS = RestartLimits()
STEADY = RestartLimits(jitter=0.0)


def failed_at(moments: list[float], limits: RestartLimits = LIMITS) -> RestartHistory:
    history = RestartHistory()
    for moment in moments:
        history = history.after_failure(moment, limits)
    return history


def test_pauses_double_up_to_the_longest() -> None:
    history, pauses = RestartHistory(), []
    for moment in range(9):
        history = history.after_failure(float(moment), STEADY)
        pauses.append(history.delay_s(STEADY, random.Random(1)))
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_chance_moves_each_pause_by_a_fifth_at_most() -> None:
    rng = random.Random(1)
    pauses = [failed_at([0.0, 1.0]).delay_s(LIMITS, rng) for _ in range(200)]
    assert min(pauses) >= 0.8
    assert max(pauses) <= 1.2
    assert max(pauses) - min(pauses) > 0.2


def test_the_fifth_failure_in_five_minutes_is_the_last() -> None:
    moments = [0.0, 60.0, 120.0, 180.0]
    assert not failed_at(moments).given_up(LIMITS)
    assert failed_at([*moments, 299.0]).given_up(LIMITS)


def test_failures_older_than_five_minutes_do_not_count() -> None:
    history = failed_at([0.0, 100.0, 200.0, 300.0, 400.0, 500.0])
    assert not history.given_up(LIMITS)
    assert history.failures == 3


def test_a_minute_of_health_forgives_everything() -> None:
    history = failed_at([0.0, 1.0, 2.0])
    assert history.after_running(59.0, LIMITS) == history
    assert history.after_running(60.0, LIMITS) == RestartHistory()


@given(st.integers(1, 5000), st.integers())
def test_a_pause_is_never_longer_than_the_longest(failures: int, seed: int) -> None:
    history = RestartHistory(in_a_row=failures)
    assert 0 < history.delay_s(LIMITS, random.Random(seed)) <= LIMITS.longest_delay_s


@pytest.mark.parametrize("jitter", [0.0, 0.2])
def test_a_service_that_fails_at_once_gets_five_tries_within_ten_seconds(jitter: float) -> None:
    limits, rng = RestartLimits(jitter=jitter), random.Random(7)
    now, tries, history = 0.0, 1, RestartHistory()
    while True:
        history = history.after_failure(now, limits)
        if history.given_up(limits):
            break
        now += history.delay_s(limits, rng)
        tries += 1
    assert tries == 5
    assert now < 10
