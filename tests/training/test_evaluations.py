"""Evaluations by clients: who is asked, until when, and who is asked next."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from soulsgui.training.evaluations import (
    BEGIN_WITHIN_S,
    EPISODE_WITHIN_S,
    LOOK_EVERY_S,
    STILL_FOR_S,
    ClientEvaluations,
    Moving,
    next_in_turn,
)
from soulsgui.training.intake.sessions import Session
from soulsgui.training.publisher import TrainingPosition
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import GreedyPlay, Heartbeat
from soulsgui.wire.messages.node import NodeState, Verdict
from soulsgui.wire.messages.session import Grant, GreedyOrder
from tests.faults.waiting import until
from tests.training.nodes import STARTS, RunningNode, RunNode, dqn_settings, join

IDLE = GreedyPlay()
EVERY = 5


def node_state(name: str, run_id: str = "run", **fields: Any) -> str:
    return NodeState(name=name, instance=Instance(), tick=1, run_id=run_id, **fields).to_json()


ELSEWHERE = node_state("evaluator", phase="frozen")  # the evaluator leaves it to clients


class Stage:
    """The trainer's parts as the evaluations use them; they are the stage's own intake and server."""

    def __init__(self, *clients: str, **changed: Any) -> None:
        wanted: dict[str, Any] = {"evaluation__every_updates": EVERY, "evaluation__episodes": 3}
        settings = dqn_settings(**wanted | changed)
        self.sessions = self
        self.by_client: dict[str, Session] = {}
        self.beats: dict[str, Heartbeat] = {}
        self.absent: dict[str, str] = {}
        self.held: set[int] = set()
        self.told: list[tuple[str, GreedyOrder | None]] = []
        self.evaluator = ELSEWHERE
        self.telemetry: str | None = None
        self.now = 100.0
        self.roster = self
        run = SimpleNamespace(settings=settings, folder=SimpleNamespace(run_id="run"), attempt=1)
        attempt: Any = SimpleNamespace(run=run, keys=Keys("t:"), intake=self, publisher=self)
        self.evaluations = ClientEvaluations(attempt, 0)
        for client in clients:
            self.join(client)

    def eligible(self) -> dict[str, Session]:
        return {name: one for name, one in self.by_client.items() if name not in self.absent}

    def why_absent(self, client: str) -> str:
        return self.absent.get(client, "")

    def grant(self, session: Session) -> Grant:
        return session.grant(1)

    def tell_all(self, _: Any, grants: dict[str, Grant]) -> None:
        self.told += [(client, grant.greedy) for client, grant in grants.items()]

    def hold(self, model_ids: set[int]) -> None:
        self.held = model_ids - {-1}

    def mget(self, keys: list[str]) -> list[Any]:
        assert keys == ["t:node:evaluator", "t:node:telemetry"]
        return [self.evaluator, self.telemetry]

    def join(self, client: str, greedy: GreedyPlay | None = IDLE, session: str = "1-1") -> None:
        self.by_client[client] = Session(client, session, 2)
        self.beat(client, greedy)

    def beat(self, client: str, greedy: GreedyPlay | None) -> None:
        session = self.by_client[client].id
        self.beats[client] = Heartbeat(
            client=client, instance=Instance(), counter=1, session=session, greedy=greedy
        )

    def look(self, after_s: float = LOOK_EVERY_S) -> bool | None:
        self.now += after_s
        self.evaluations.look(cast("Any", self), self.now)
        return self.evaluations.asks

    def publish(self, update: int) -> dict[str, int]:
        """Publish the weights of an update; return which client is asked for which model."""
        self.evaluations.publishing(TrainingPosition(100 + update, update, 10 * update, update), self.now)
        return self.asked

    @property
    def asked(self) -> dict[str, int]:
        return {name: one.greedy.model_id for name, one in self.by_client.items() if one.greedy is not None}


def test_one_client_is_asked_at_a_time_with_the_weights_that_are_due() -> None:
    stage = Stage("client-1", "client-2")
    assert stage.look() is True
    assert stage.publish(4) == {}
    assert stage.publish(6) == {"client-1": 106}
    asked = stage.by_client["client-1"].greedy
    assert asked == GreedyOrder(model_id=106, count=3, attempt=1, update=6, env_steps=60, episodes=6, least=3)
    assert stage.held == {106}
    stage.beat("client-1", GreedyPlay(model_id=106))
    for update in (10, 15):
        stage.look(60.0)
        assert stage.publish(update) == {"client-1": 106}, "it takes its time"
    stage.telemetry = node_state("telemetry", evaluated=106)
    stage.look()
    assert stage.told == [("client-1", None)]
    assert stage.publish(16) == {"client-2": 116}, "the next one in turn"
    assert stage.held == {106, 116}, "the runner may yet want to save the best"


def test_somebody_may_ask_for_one_with_the_next_weights_and_is_told_why_nobody_can_play() -> None:
    stage = Stage("client-1")
    with pytest.raises(ValueError, match="no client"):
        stage.evaluations.ask("a", 7)
    stage.look()
    stage.evaluations.ask("a", 7)
    stage.evaluations.ask("b", 5)
    assert stage.publish(1) == {"client-1": 101}
    asked = stage.by_client["client-1"].greedy
    assert asked is not None
    assert (asked.count, asked.least, asked.asked) == (7, 7, ["a", "b"])
    stage.evaluations.ask("c", 1)
    stage.join("client-1", session="1-2")
    stage.look()
    assert stage.publish(2) == {"client-1": 102}, "who began anew plays it after all, with what came since"
    again = stage.by_client["client-1"].greedy
    assert again is not None
    assert (again.count, again.asked) == (7, ["a", "b", "c"])
    for changed, said in (
        ({"evaluation__every_updates": 0}, "every_updates"),
        ({"determinism": "lockstep", "clients__local": 1}, "share"),
    ):
        with pytest.raises(ValueError, match=said):
            Stage("client-1", **changed).evaluations.ask("a", 7)


@pytest.mark.parametrize(
    ("judged_by", "scheduled", "confirming"),
    [("training", (3, None, 3), (100, 50.0, 20)), ("evaluation", (100, 50.0, 3), None)],
)
def test_a_goal_takes_as_many_episodes_as_say_whether_it_is_reached(
    judged_by: str, scheduled: tuple[int, float | None, int], confirming: tuple[int, float, int] | None
) -> None:
    stage = Stage("client-1", stop__mean_return=50.0, stop__judged_by=judged_by)

    def asked_after(update: int) -> GreedyOrder:
        stage.look()
        stage.publish(update)
        return stage.by_client["client-1"].greedy

    asked = asked_after(5)
    assert (asked.count, asked.goal, asked.least) == scheduled
    if confirming is not None:
        verdict = Verdict(best_by="evaluation", to_confirm=40)
        stage.telemetry = node_state("telemetry", evaluated=105, verdict=verdict)
        asked = asked_after(6)
        assert (asked.confirms, (asked.count, asked.goal, asked.least)) == (40, confirming)


def test_another_is_asked_when_one_is_gone_begins_anew_or_does_not_begin() -> None:
    for why in ("paused", "left", "silent", "quarantined"):
        stage = Stage("client-1", "client-2")
        stage.look()
        assert stage.publish(5) == {"client-1": 105}
        stage.beat("client-1", GreedyPlay(model_id=105, played=2))
        stage.absent["client-1"] = why
        stage.look()
        assert stage.asked == {}
        assert stage.publish(6) == {"client-2": 106}, "at once, not when the next one is due"
        assert stage.held == {106}
    stage = Stage("client-1")
    stage.look()
    stage.publish(5)
    stage.beat("client-1", GreedyPlay(model_id=105))
    stage.look()
    stage.join("client-1", session="2-1")
    stage.look()
    assert stage.publish(6) == {"client-1": 106}
    stage.look(BEGIN_WITHIN_S / 2)
    assert stage.asked == {"client-1": 106}
    stage.look(BEGIN_WITHIN_S)
    assert stage.told[-1] == ("client-1", None)
    assert stage.publish(7) == {"client-1": 107}, "there is no other"


def test_one_that_beats_and_does_not_play_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    stage = Stage("client-1", "client-2", client__hang_seconds=1.0)
    stage.look()
    assert stage.publish(5) == {"client-1": 105}
    for second in range(int(STILL_FOR_S)):
        stage.beat("client-1", GreedyPlay(model_id=105, steps=second))
        stage.look(1.0)
    stage.look(10_000.0)
    assert stage.asked == {"client-1": 105}, "it made steps, and nobody looked for a while"
    for _ in range(int(STILL_FOR_S)):
        stage.look(1.0)
    assert stage.told == [("client-1", None)]
    assert "client-1 does not play model 105 to its end: it made no step for 60 s" in caplog.text
    assert stage.publish(6) == {"client-2": 106}, "at once"


@pytest.mark.parametrize(
    ("plays", "stuck_after_s", "why"),
    [
        (lambda _: GreedyPlay(), STILL_FOR_S, "it made no step for 60 s"),
        (lambda s: GreedyPlay(played=3, steps=s), STILL_FOR_S, "its episodes did not come for 60 s"),
        (lambda s: GreedyPlay(played=3 + s, steps=s), STILL_FOR_S, "its episodes did not come for 60 s"),
        (lambda s: GreedyPlay(played=s % 2), STILL_FOR_S + 1, "it made no step for 60 s"),
        (lambda s: GreedyPlay(steps=s), EPISODE_WITHIN_S, "no episode ended for 60 minutes"),
        (lambda s: GreedyPlay(played=s // 3599, steps=s), None, ""),
    ],
    ids=["nothing", "all and more steps", "more than all", "to and fro", "no end", "slowly"],
)
def test_an_evaluation_gets_on_with_steps_and_episodes(
    plays: Callable[[int], GreedyPlay], stuck_after_s: float | None, why: str
) -> None:
    moving = Moving(3, STILL_FOR_S)
    assert moving.stuck(plays(0), 1.0) == ""
    found = ((second, moving.stuck(plays(second), 1.0)) for second in range(1, 3 * 3599))
    assert next((one for one in found if one[1]), (None, "")) == (stuck_after_s, why)


def test_who_knows_nothing_of_it_is_not_asked_and_nobody_where_it_is_not_wanted() -> None:
    stage = Stage()
    assert stage.look() is None, "nobody is there of whom it is known"
    stage.join("old", greedy=None)
    assert stage.look() is False
    assert stage.publish(5) == {}
    stage.join("new")
    assert stage.look() is True
    assert stage.publish(6) == {"new": 106}, "what was due is made up for"
    for changed, evaluator in (
        ({}, node_state("evaluator", phase="waiting")),
        ({}, node_state("evaluator", run_id="another", phase="frozen")),
        ({"determinism": "lockstep", "clients__local": 1}, ELSEWHERE),
    ):
        stage = Stage("client-1", **changed)
        stage.evaluator = evaluator
        assert not stage.look()
        assert stage.publish(5) == {}


@pytest.mark.parametrize(
    ("clients", "turns"),
    [
        ("", [[], []]),
        ("a", [["a"], ["a"]]),
        ("b a", [["a", "b"], ["b", "a"]]),
        ("c b a d", [["a", "b", "c"], ["b", "c", "d"]]),
        ("client-1 a client-2 b", [["client-1"], ["client-1"]]),
    ],
)
def test_of_invited_clients_several_are_asked_and_of_own_ones_one(
    clients: str, turns: list[list[str]]
) -> None:
    sessions = {client: Session(client, "1-1", 1) for client in clients.split()}
    asked = [[one.client for one in next_in_turn(sessions, last)] for last in ("", "a")]
    assert asked == turns


def test_invited_clients_play_an_evaluation_together_and_who_fails_is_asked_last() -> None:
    stage = Stage("a", "b", "c", "d", client__hang_seconds=1.0)
    stage.look()
    assert stage.publish(5) == dict.fromkeys("abc", 105)
    assert {stage.by_client[name].greedy.players for name in "abc"} == {3}
    stage.beat("a", GreedyPlay(model_id=105, played=3))
    stage.beat("b", GreedyPlay(model_id=105))
    stage.telemetry = node_state("telemetry", played={"a": 105})
    for second in range(2 * int(STILL_FOR_S)):
        stage.beat("b", GreedyPlay(model_id=105, steps=second))
        stage.beat("c", GreedyPlay(model_id=105, steps=min(second, 30)))
        stage.look(1.0)
    assert stage.asked == {}, "c makes no step any more; a was done, and has waited longer"
    assert stage.publish(6) == dict.fromkeys("abd", 106), "not who failed"
    stage.telemetry = node_state("telemetry", evaluated=106)
    stage.look()
    assert stage.told[-3:] == [(name, None) for name in "dab"]


@pytest.mark.parametrize(
    ("clients", "next_ones"),
    [("a b", "b"), ("a b c", "bc"), ("a b c d", "bcd")],
    ids=["two", "three", "four"],
)
def test_who_says_that_it_has_played_and_sends_nothing_holds_no_evaluation_up(
    clients: str, next_ones: str
) -> None:
    stage = Stage(*clients.split(), client__hang_seconds=1.0)
    stage.look()
    asked = stage.publish(5)
    assert set(asked) == set(clients.split()[:3])
    for client in asked:
        stage.beat(client, GreedyPlay(model_id=105, played=3))
    honest = asked.keys() - {"a"}
    stage.telemetry = node_state("telemetry", played=dict.fromkeys(honest, 105))
    for _ in range(int(STILL_FOR_S) + 1):
        stage.look(1.0)
    assert stage.asked == {}, "it has had its time"
    assert stage.publish(6) == dict.fromkeys(next_ones, 106), "those who have sent theirs are not to blame"
    stage.telemetry = node_state("telemetry", evaluated=106)
    stage.look()
    again = stage.publish(10)
    assert len(again) == min(len(clients.split()), 3 if "d" in clients else 2), "one alone decides once"


def test_the_last_one_is_waited_for_as_long_as_what_the_others_took_makes_likely() -> None:
    stage = Stage("a", "b", "c")
    stage.look()
    stage.publish(5)

    def step(second: int, *played: str) -> None:
        stage.telemetry = node_state("telemetry", played=dict.fromkeys(played, 105))
        for client in "abc":
            stage.beat(client, GreedyPlay(model_id=105, steps=second))
        stage.look(1.0)

    step(0)
    for second in range(1, 200):
        step(second, "a")
    assert stage.asked, "of two who differ, the quick one may be who lies"
    for second in range(200, 2000):
        step(second, "a", "b")
    assert stage.asked, "it may be a slow computer"
    for second in range(2000, 2400):
        step(second, "a", "b")
    assert not stage.asked
    assert stage.publish(6) == {"a": 106, "b": 106}


def test_the_node_asks_with_weights_it_keeps(run_node: RunNode, tmp_path: Path) -> None:
    settings = dqn_settings(evaluation__every_updates=EVERY, evaluation__episodes=3)
    with run_node(settings) as node:
        told = node_state("evaluator", tmp_path.name, phase="frozen")
        node.connection.set(node.keys.node("evaluator"), told)
        old, player = join(node, "a-old"), join(node, "b")
        player.beat(greedy=IDLE)
        node.wait_for(lambda state: state.asks_clients, "it knows that somebody can be asked")
        until(lambda: (player.deliver(STARTS // 4), order_for(node, "b"))[1], "it asks")  # type: ignore[func-returns-value]
        order = order_for(node, "b")
        assert (order.count, order.attempt) == (3, 1)
        assert order_for(node, old.name) is None
        # The node goes on learning in a thread of its own while this one asks.
        kept = partial(node.node.weights_snapshot, order.model_id, 1.0, "evaluation")
        until(lambda: kept().info.updates == order.update, "the weights of that order")
        counted = node_state("telemetry", tmp_path.name, evaluated=order.model_id)
        node.connection.set(node.keys.node("telemetry"), counted)
        until(lambda: order_for(node, "b") != order, "it asks no longer")


def order_for(node: RunningNode, client: str) -> GreedyOrder | None:
    """What stands in the grant of a client."""
    grant = Grant.read(node.connection.get(node.keys.grant(client)))
    return None if grant is None else grant.greedy
