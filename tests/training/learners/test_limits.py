import itertools

import pytest

from soulsgui.config.sections.algorithms import DQNSettings
from soulsgui.training.learners.limits import (
    AHEAD_S,
    FIRST_STEPS,
    PUBLISH_S,
    IntervalStats,
    Pace,
    ReplayBand,
    beside_waiting,
    entries_to_read,
    publish_interval,
    steps_ahead,
)


def test_the_learner_waits_above_the_band_and_the_streams_below_it() -> None:
    band = ReplayBand(ratio=4, slack=20, batch_size=10)
    assert (band.may_draw, band.may_insert, band.room, band.value) == (True, True, 5, 0)
    band.drawn = 20  # 2 batches, nothing taken in
    assert (band.may_draw, band.may_insert) == (False, True)
    band.inserted = 2  # 28 may be drawn
    assert not band.may_draw
    band.inserted = 3  # 32
    assert band.may_draw
    band.inserted = 10  # drawn 20 of 40: the lower edge
    assert (band.may_insert, band.room) == (True, 0)
    band.inserted = 11
    assert (band.may_insert, band.room) == (False, -1)
    # What is owed meets the ratio without its slack.
    band.drawn, band.inserted = 30, 10
    assert (band.owes, band.value) == (True, 3.0)
    band.drawn = 40
    assert (band.owes, band.may_draw) == (False, True)
    # It is as wide as its tolerance, or a batch.
    for ratio, starts, slack in ((16, 1000, 1600), (1, 10, 64)):
        settings = DQNSettings(replay_ratio=ratio, replay_ratio_tolerance=0.1, learning_starts=starts)
        assert ReplayBand.of(settings, 64).slack == pytest.approx(slack)


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1, 16, 700])
@pytest.mark.parametrize("batch_size", [1, 64])
def test_never_do_both_sides_wait(ratio: float, batch_size: int) -> None:
    settings = DQNSettings(replay_ratio=ratio, learning_starts=1, batch_size=batch_size)
    band = ReplayBand.of(settings, batch_size)
    for inserted in range(200):
        for batches in range(0, 400, 7):
            band.inserted, band.drawn = inserted, batches * batch_size
            assert band.may_draw or band.may_insert


def test_the_ratio_is_met_whoever_is_faster() -> None:
    for chunk, updates in ((1, 100), (500, 1)):
        band = ReplayBand.of(DQNSettings(replay_ratio=16, learning_starts=1000, batch_size=64), 64)
        for _ in range(20_000):
            if band.may_insert:
                band.inserted += chunk
            for _ in range(updates):
                if band.may_draw:
                    band.drawn += 64
        assert abs(band.drawn - 16 * band.inserted) <= band.slack + 16 * chunk
        assert band.value == pytest.approx(16, rel=0.01)


def test_the_pace_is_that_of_the_work_and_forgets_half_each_second() -> None:
    pace = Pace()
    assert pace.steps_per_s is None
    for _ in range(50):
        pace.note(20, 0.1)
        assert pace.steps_per_s == pytest.approx(200)
    pace = Pace()
    pace.note(1000, 1.0)
    pace.note(0, 1.0)  # of both, steps and seconds, half of the first is left
    assert pace.steps_per_s == pytest.approx(500 / 1.5)


SETTINGS = DQNSettings(max_policy_lag=200, max_model_delay=10, buffer_size=100_000)
STEPS_PER_UPDATE = 4.0


@pytest.mark.parametrize(
    ("publish_s", "steps_per_s", "steps_per_update", "ahead"),
    [
        (0.02, 1000.0, 4.0, 100),  # five publishes of 0.02 s
        (0.2, 1000.0, 4.0, int(1000 * AHEAD_S)),
        (0.02, 7.0, 4.0, 0),
        (0.2, 1e9, 4.0, 600),  # 150 updates
        (0.02, None, 4.0, 600),
        (0.2, None, 1e6, FIRST_STEPS),
    ],
)
def test_as_much_is_on_its_way_as_the_learner_takes_in_while_it_is_fresh(
    publish_s: float, steps_per_s: float | None, steps_per_update: float, ahead: int
) -> None:
    assert steps_ahead(SETTINGS, publish_s, steps_per_s, steps_per_update) == ahead
    small = DQNSettings(buffer_size=200, learning_starts=100)
    assert steps_ahead(small, 0.2, None, 1e6) == 200, "no more than a small memory holds"


@pytest.mark.parametrize(
    ("outstanding", "steps_per_s", "interval"),
    [
        (0, 1000.0, 0.2),  # weights are a quarter of 200 updates old
        (0, 2000.0, 0.1),
        (0, 1e9, 0.02),
        (0, 10.0, PUBLISH_S),
        (2000, 1000.0, 0.4),  # in within 2 s, which is 5 publishes
        (1000, 10.0, 20.0),
        (10_000, None, 0.02),
    ],
)
def test_weights_are_published_while_they_are_young_or_less_often_while_too_much_is_on_its_way(
    outstanding: int, steps_per_s: float | None, interval: float
) -> None:
    found = publish_interval(SETTINGS, 0.02, outstanding, steps_per_s, STEPS_PER_UPDATE)
    assert found == pytest.approx(interval)
    for publish_s, pace in itertools.product([0.01, 0.2, 3.0], [5.0, 4000.0]):
        granted = steps_ahead(SETTINGS, publish_s, pace, STEPS_PER_UPDATE)
        alone, beside = (
            publish_interval(SETTINGS, publish_s, steps, pace, STEPS_PER_UPDATE) for steps in (0, granted)
        )
        assert alone == beside, "what is granted never slows publishing down"


def test_beyond_half_of_what_may_wait_nothing_is_granted_and_entries_are_read_as_room_allows() -> None:
    granted = [beside_waiting(101, waiting) for waiting in (0, 30.9, 50.9, 51, 101, 300)]
    assert granted == [101, 71, 51, 0, 0, 0]
    cases = [(1000, 10, 5), (1000, 10, 0), (5, 10, 1), (-5, 10, 1), (1e9, 1, 1), (100, 0, 1)]
    assert [entries_to_read(*case, 200) for case in cases] == [20, 100, 1, 1, 200, 100]


@pytest.mark.parametrize("learner", [200.0, 1000.0])  # updates per second
@pytest.mark.parametrize("ratio", [1.0, 16.0, 32.0])
@pytest.mark.parametrize("way_s", [0.001, 0.005])
def test_samples_are_no_older_than_max_policy_lag_wants(learner: float, ratio: float, way_s: float) -> None:
    """A learner, clients that are as quick as they may, and the way between them, on a clock of its own."""
    settings = DQNSettings(replay_ratio=ratio, learning_starts=1000, batch_size=64)
    band, per_update = ReplayBand.of(settings, 64), 64 / ratio
    pace, tick = learner * per_update, 0.25 * settings.max_policy_lag / 4 / learner
    updates, weights, published_at, debt = 0, 0, 0.0, 0.0
    under_way: list[tuple[float, int, int]] = []  # when they come, transitions, updates of their weights
    lags: list[int] = []
    for turn in range(20_000):
        now = turn * tick
        while under_way and under_way[0][0] <= now and band.may_insert:
            _, count, made_with = under_way.pop(0)
            band.inserted += count
            lags += [updates - made_with] * count
        outstanding = sum(count for _, count, _ in under_way)
        ahead = beside_waiting(steps_ahead(settings, 0.02, pace, per_update), band.waiting)
        if outstanding < ahead // 2:
            under_way.append((now + 2 * way_s, ahead - outstanding, weights))
        debt += tick * learner
        while debt >= 1:
            debt -= 1
            if band.may_draw:
                band.drawn += 64
                updates += 1
        if now - published_at >= publish_interval(settings, 0.02, outstanding, pace, per_update):
            published_at, weights = now, updates
    assert sorted(lags)[int(0.95 * len(lags))] <= settings.max_policy_lag
    assert updates > 0.9 * turn * tick * learner


def test_rates_waits_and_lag_are_those_since_the_last_row() -> None:
    interval = IntervalStats(began=100.0, update=50, env_steps=1000)
    interval.learner.set(True, 100.0)
    interval.learner.set(False, 100.5)
    interval.ingest.set(True, 101.0)
    assert interval.close(102.0, 250, 1400) == {
        "updates_per_s": 100.0, "env_steps_per_s": 200.0, "learner_wait_s": 0.5, "ingest_wait_s": 1.0,
    }  # fmt: skip
    assert interval.policy_lag is None
    interval.taken_in(10, 50.0)
    interval.taken_in(30, 30.0)
    assert interval.policy_lag == pytest.approx(2.0), "a mean over transitions"
    assert interval.close(104.0, 250, 1400) == {
        "updates_per_s": 0.0, "env_steps_per_s": 0.0, "learner_wait_s": 0.0, "ingest_wait_s": 2.0,
    }  # fmt: skip
    assert interval.policy_lag is None
