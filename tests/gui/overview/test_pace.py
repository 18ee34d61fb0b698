import numpy as np
import pytest

from soulsgui.gui.overview.pace import (
    bottleneck_words,
    gain_of_one_more,
    seconds_left,
    seconds_to,
    shares_of_time,
)
from soulsgui.wire.control import RunStatus
from tests.states import client

TIMES = np.arange(200.0)


def test_a_straight_rise_is_gone_on_with() -> None:
    assert seconds_to(300.0, TIMES, TIMES) == pytest.approx(300.0 - 199.0)
    # What was before the newer half does not matter, nor what is no number.
    bent = np.where(TIMES < 90, 1000.0, TIMES)
    bent[150] = np.nan
    assert seconds_to(300.0, TIMES, bent) == pytest.approx(101.0)
    assert seconds_to(150.0, TIMES, TIMES) == 0.0, "it is there"


@pytest.mark.parametrize(
    "values",
    [
        -TIMES,
        np.ones(200),
        np.random.default_rng(0).normal(size=200) * 100 + TIMES * 0.01,
        TIMES * 1e-9,
    ],
    ids=["falls", "flat", "noise", "never"],
)
def test_of_a_rise_that_nobody_can_see_nothing_is_said(values: np.ndarray) -> None:
    assert seconds_to(1000.0, TIMES, values) is None


def test_of_few_rows_nothing_is_said() -> None:
    assert seconds_to(300.0, TIMES[:50], TIMES[:50]) is None


def test_the_goal_that_is_nearer_ends_the_run() -> None:
    run = RunStatus(id="r", state="running", goal_env_steps=1000, env_steps=400, env_steps_per_s=100.0)
    assert seconds_left(run, None) == 6.0
    assert seconds_left(run, 4.0) == 4.0
    assert seconds_left(run.model_copy(update={"state": "stopped"}), 4.0) is None
    assert seconds_left(RunStatus(id="r", state="running"), None) is None


def test_at_its_goal_nothing_is_said_of_how_far_it_is() -> None:
    run = RunStatus(id="r", state="running")
    assert seconds_left(run, 0.0) is None, "whether it is reached is being confirmed"
    assert seconds_left(run.model_copy(update={"state": "saving"}), 4.0) is None


@pytest.mark.parametrize(
    ("waits", "clients", "in_rounds", "gain"),
    [
        (0.5, 2, False, 0.5),  # the trainer could take twice as much, a third client gives half of it
        (0.2, 1, False, 0.25),  # it could take a quarter more
        (0.0, 4, False, 0.0),
        (1.0, 4, False, 0.25),
        (1.0, 4, True, 0.25),  # learning takes no time
        (0.0, 4, True, 0.0),  # it takes all of it
        (0.5, 1, True, 2 / 1.5 - 1),
    ],
)
def test_what_one_more_client_gives(waits: float, clients: int, in_rounds: bool, gain: float) -> None:
    assert gain_of_one_more(waits, clients, in_rounds) == pytest.approx(gain)


def test_the_bottleneck_is_told_in_a_sentence() -> None:
    run = RunStatus(id="r", state="running", algorithm="dqn", learner_waits=0.5, clients_wait=0.1)
    two = [client("a"), client("b"), client("c", "lost")]
    assert bottleneck_words(run, two) == (
        "The trainer waits for samples 50 % of the time; one more client would give 50 % more steps a second."
    )
    busy = run.model_copy(update={"learner_waits": 0.0, "clients_wait": 0.38})
    assert bottleneck_words(busy, two) == (
        "Samples wait for the trainer 38 % of the time; one more client would give no more steps."
    )
    for silent in (
        run.model_copy(update={"learner_waits": None}),
        run.model_copy(update={"state": "paused"}),
    ):
        assert bottleneck_words(silent, two) == ""
    assert bottleneck_words(run, []) == ""


@pytest.mark.parametrize(
    ("learner", "samples", "shares"),
    [
        (0.3, 0.5, [0.3, 0.5, 0.2]),
        (0.4, None, [0.4, 0.0, 0.6]),
        (0.6, 0.6, [0.5, 0.5, 0.0]),  # both are measured, each over its own seconds
        (None, None, [0.0, 0.0, 1.0]),
    ],
)
def test_the_shares_of_time_are_a_whole(
    learner: float | None, samples: float | None, shares: list[float]
) -> None:
    run = RunStatus(id="r", learner_waits=learner, clients_wait=samples)
    assert list(shares_of_time(run).values()) == pytest.approx(shares)
