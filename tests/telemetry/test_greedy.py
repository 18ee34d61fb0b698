"""Greedy episodes of clients: an evaluation where they were asked for, and refused where they were not."""

from functools import partial
from typing import Any

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.telemetry.intake import Played, enough
from soulsgui.telemetry.store import query_history
from soulsgui.wire.control import HistoryQueryParams
from soulsgui.wire.keys import EntryId
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.node import NodeState, Verdict
from soulsgui.wire.messages.session import Episode, Grant, GreedyOrder
from tests.faults.waiting import until
from tests.telemetry.helpers import (
    RUN_ID,
    Stage,
    arrivals,
    attempt_row,
    episode,
    node_at_work,
    recorder_of,
)

ORDER = GreedyOrder(model_id=7, count=2, attempt=1, update=5, env_steps=50, episodes=4)


pytestmark = pytest.mark.usefixtures("quick_node")


def greedy(number: int, total_return: float, **fields: Any) -> Episode:
    return episode(total_return, number=number, **({"model_id": 7, "greedy": True} | fields))


def ask(stage: Stage, client: str, order: GreedyOrder | None) -> None:
    """Write a client's grant, as the trainer does."""
    grant = Grant(session="1-1", status="accepted", greedy=order)
    stage.redis.set(stage.keys.grant(client), grant.to_json())


def node_says(stage: Stage, name: str, **fields: Any) -> None:
    state = NodeState(name=name, instance=Instance(), tick=1, run_id=RUN_ID, **fields)
    stage.redis.set(stage.keys.node(name), state.to_json())


def test_what_was_asked_for_is_an_evaluation_and_no_training(run: RunFolder, stage: Stage) -> None:
    stage.join("a")
    stage.tell(attempt_row(1))
    ask(stage, "a", ORDER)
    goals = {"window": 1, "mean_return": 8.0, "judged_by": "evaluation"}
    # Training that is better by far neither ranks nor judges: a client that can evaluate is there.
    node_says(stage, "evaluator", phase="frozen")
    node_says(stage, "trainer", asks_clients=True)
    with node_at_work(run, stage.address, algorithm="dqn", stop=goals):
        stage.play("a", episode(99.0, model_id=6), greedy(0, 10.0, length=3))
        state = stage.wait_state(lambda state: state.episodes == 1, "the one of the training")
        assert (state.verdict, state.evaluated) == (Verdict(best_by="evaluation"), -1)
        stage.play("a", greedy(1, 6.0, length=5))
        state = stage.wait_state(lambda state: bool(state.verdict and state.verdict.reached), "it counts")
        best = Verdict(best_model_id=7, best_score=8.0, best_by="evaluation", reached=True, reached_with=8.0)
        assert state.verdict == best
        assert (state.episodes, state.mean_return, state.env_steps) == (1, 99.0, 10)
        assert (state.evaluated, state.rejected, state.evaluation_return) == (7, {}, 8.0)
        assert stage.live_numbers() == [1]
    found = query_history(run.store, HistoryQueryParams(metric="evaluation_return"))
    assert (found.value, found.env_steps, found.last_update) == ([8.0], [50], (1, 5))
    lengths = query_history(run.store, HistoryQueryParams(metric="evaluation_length"))
    assert lengths.value == [4.0]
    assert query_history(run.store, HistoryQueryParams()).value == [99.0]


@pytest.mark.allow_warnings
def test_what_nobody_asked_for_is_refused_and_counted(run: RunFolder, stage: Stage) -> None:
    stage.join("a", "liar", "stranger")
    ask(stage, "a", ORDER)
    ask(stage, "liar", None)
    with node_at_work(run, stage.address):
        stage.play("stranger", greedy(0, 1e9))
        stage.play("liar", greedy(0, 1e9), greedy(1, 1e9))
        wrong = [greedy(0, 1e9, model_id=8), greedy(0, 1e9, attempt=2), greedy(2, 1e9), greedy(-1, 1e9)]
        stage.play("a", *wrong, greedy(0, 1.0), greedy(0, 1e9), greedy(1, 3.0), greedy(1, 1e9))
        state = stage.wait_state(lambda state: state.evaluated == 7, "the honest ones")
        refused = {"stranger": 1, "liar": 2, "a": 6}
        state = stage.wait_state(lambda state: state.rejected == {"not_asked": 9}, "the others")
        assert state.rejected_by_client == {client: {"not_asked": n} for client, n in refused.items()}
        params = HistoryQueryParams(metric="evaluation_return")
        until(lambda: query_history(run.store, params).value == [2.0], "the honest mean")
        assert state.episodes == 0


JUDGED = ORDER.model_copy(update={"count": 100, "goal": 8.0, "least": 2})
CLAIMED = JUDGED.model_copy(update={"least": 20, "confirms": 4})
NEAR = [7.0, 10.0] * 10
"""At 20 episodes its mean, 8.5, is 1.5 standard errors from 8."""


@pytest.mark.parametrize(
    ("order", "returns", "count"),
    [
        (ORDER, [9.0], None),
        (ORDER, [9.0, 0.0, 0.0], 2),
        (JUDGED, [9.0, 7.0], None),
        (JUDGED, [9.0, 6.9, 50.0], 2),
        (JUDGED, [9.0] * 21, None),
        (JUDGED, [9.0] * 30, 22),
        (CLAIMED, [9.0] * 19, None),
        (CLAIMED, [1.0] * 19, None),
        (CLAIMED, [1.0] * 20, 20),
        (CLAIMED, NEAR, None),
        (CLAIMED, NEAR + [9.0] * 20, 40),
        (CLAIMED, [7.0, 9.0] * 49, None),
        (CLAIMED, [7.0, 9.0] * 50, 100),
        (CLAIMED.model_copy(update={"count": 120, "least": 120}), [1.0] * 119, None),
        (CLAIMED.model_copy(update={"count": 120, "least": 120}), [1.0] * 120, 120),
    ],
)
def test_evaluations_end_with_enough(order: GreedyOrder, returns: list[float], count: int | None) -> None:
    assert enough(order, returns) == count


def test_a_restart_goes_on_with_what_came_and_tells_once(run: RunFolder) -> None:
    evaluating = partial(recorder_of, run.store, by_evaluation=True)
    first, second = (Played(one, ORDER) for one in arrivals(greedy(0, 1.0), greedy(1, 3.0, cut=True)))
    with evaluating() as recorder:
        recorder.record([attempt_row(1)], [], EntryId(1, 0), 1.0)
        assert recorder.record_greedy([first], 1.0) == []
        assert recorder.evaluation_due is None
    with evaluating() as recorder:
        assert recorder.knows_greedy(first.arrival)
        assert not recorder.knows_greedy(second.arrival)
        assert recorder.record_greedy([second], 1.0) == []
    # Whoever is killed before the row was read as one tells it again.
    with evaluating() as recorder:
        row = recorder.evaluation_due
        assert (row.kind, row.update, row.previous) == ("evaluation", 5, 0)
        assert (row.values["evaluation_return"], row.values["evaluation_cut"]) == (2.0, 1.0)
        assert (recorder.evaluated, recorder.verdict.best_score) == (7, None)
        recorder.record([row, row], [], EntryId(1, 1), 1.0)
        assert (recorder.evaluation_due, recorder.verdict.best_score) == (None, 2.0)
        recorder.record([attempt_row(2)], [], EntryId(1, 2), 1.0)
        assert (recorder.evaluated, recorder.played) == (-1, {}), "an attempt after it may give the id again"
    with evaluating() as recorder:
        assert recorder.evaluation_due is None


def test_a_forged_evaluation_of_one_of_several_clients_is_on_no_curve(run: RunFolder, stage: Stage) -> None:
    stage.join("a", "b", "evil")
    stage.tell(attempt_row(1))
    order = ORDER.model_copy(update={"players": 3})
    for client in ("a", "b", "evil"):
        ask(stage, client, order)
    with node_at_work(run, stage.address, algorithm="dqn"):
        stage.play("evil", greedy(0, 1e29), greedy(1, 1e29))
        stage.play("a", greedy(0, 2.0), greedy(1, 4.0))
        stage.play("b", greedy(0, 5.0), episode(1.0))
        state = stage.wait_state(lambda state: state.episodes == 1, "what was sent before is stored")
        assert (state.evaluated, state.played) == (-1, {"a": 7, "evil": 7}), "b has not sent all of it"
        stage.play("b", greedy(1, 5.0))
        state = stage.wait_state(lambda state: state.evaluated == 7, "all have played")
        assert state.played == dict.fromkeys(["a", "b", "evil"], 7)
        params = HistoryQueryParams(metric="evaluation_return")
        until(lambda: query_history(run.store, params).value == [5.0], "the median")


@pytest.mark.allow_warnings
def test_a_confirmation_ends_where_it_settles_and_tells_what_was_cut(run: RunFolder, stage: Stage) -> None:
    stage.join("a")
    stage.tell(attempt_row(1))
    ask(stage, "a", CLAIMED)
    with node_at_work(run, stage.address, algorithm="dqn"):
        played = [greedy(number, total_return) for number, total_return in enumerate(NEAR)]
        stage.play("a", *played[:-1], greedy(len(NEAR) - 1, NEAR[-1], cut=True), greedy(21, 9.0))
        stage.play("a", episode(1.0))
        state = stage.wait_state(lambda state: state.episodes == 1, "what was sent before is stored")
        assert state.evaluated == -1, "20 did not settle it, and then one is missing"
        stage.play("a", greedy(20, 9.0, cut=True), *(greedy(number, 9.0) for number in range(22, 45)))
        stage.wait_state(lambda state: state.evaluated == 7, "40 do")
        ask(stage, "a", None)
        stage.play("a", greedy(45, 9.0), greedy(0, 9.0, model_id=8))
        state = stage.wait_state(lambda state: bool(state.rejected), "what nobody asked for is counted")
        assert state.rejected == {"not_asked": 1}, "not what was on its way when it was settled"
        told = HistoryQueryParams(metric="evaluation_cut")
        until(lambda: query_history(run.store, told).value == [2.0], "the curve tells what was cut")
        found = query_history(run.store, HistoryQueryParams(metric="evaluation_return"))
        assert found.value == [(sum(NEAR) + 20 * 9.0) / 40]
