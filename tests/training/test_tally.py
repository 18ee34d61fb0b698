"""What is told of the time between two rows."""

import pytest

from soulsgui.training.tally import Tally


def test_rates_and_waits_are_those_since_the_last_row() -> None:
    tally = Tally(began=100.0, update=50, env_steps=1000)
    tally.learner.set(True, 100.0)
    tally.learner.set(False, 100.5)
    tally.ingest.set(True, 101.0)
    assert tally.close(102.0, 250, 1400) == {
        "updates_per_s": 100.0, "env_steps_per_s": 200.0, "learner_wait_s": 0.5, "ingest_wait_s": 1.0,
    }  # fmt: skip
    assert (tally.began, tally.update, tally.env_steps) == (102.0, 250, 1400)
    assert tally.close(104.0, 250, 1400) == {
        "updates_per_s": 0.0, "env_steps_per_s": 0.0, "learner_wait_s": 0.0, "ingest_wait_s": 2.0,
    }  # fmt: skip


def test_the_lag_is_a_mean_over_transitions() -> None:
    tally = Tally(0.0, 0, 0)
    assert tally.policy_lag is None
    tally.taken_in(10, 50.0)
    tally.taken_in(30, 30.0)
    assert tally.policy_lag == pytest.approx(2.0)
    tally.close(1.0, 1, 40)
    assert tally.policy_lag is None
