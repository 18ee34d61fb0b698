import sqlite3
from typing import Any

import pytest
import redis

from soulsgui.config.paths import RunFolder
from soulsgui.telemetry import node as node_module
from soulsgui.telemetry.recorder import Recorder
from soulsgui.telemetry.store import StoreWriter, query_history
from soulsgui.telemetry.streams import MetricsStream
from soulsgui.wire.connection import Address
from soulsgui.wire.control import HistoryQueryParams
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.metrics import EVALUATION_RETURN, ROW_FIELD
from soulsgui.wire.messages.node import NodePhase, NodeState, Verdict
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import EPISODE_FIELD
from tests.faults.waiting import until
from tests.telemetry.helpers import (
    RUN_ID,
    Stage,
    attempt_row,
    episode,
    node_at_work,
    update_row,
)

pytestmark = pytest.mark.usefixtures("quick_node")

FORGED = [25, pytest.param(20_000, marks=pytest.mark.slow)]


def _returns(run: RunFolder) -> list[float]:
    return query_history(run.store, HistoryQueryParams(points=200_000)).value


def test_episodes_reach_the_store_and_the_windows_over_a_restart(run: RunFolder, stage: Stage) -> None:
    with node_at_work(run, stage.address):
        first = stage.wait_state(lambda state: state.phase == "waiting", "waiting for a client")
        stage.wait_state(lambda state: state.tick > first.tick, "its tick moves while nothing happens")
        stage.hello("a")
        stage.play("a", episode(1.0), episode(2.0))
        stage.join("a", "b")
        stage.wait_state(lambda state: state.episodes == 2, "the first two")
        stage.play("b", episode(3.0))
        state = stage.wait_state(lambda state: state.episodes == 3, "the third")
        assert (state.mean_return, state.env_steps, state.run_id) == (2.0, 30, RUN_ID)
        until(lambda: [stage.left("a"), stage.left("b")] == [0, 0], "stored and trimmed")
    stage.play("b", episode(4.0))
    assert stage.left("b") == 1
    with node_at_work(run, stage.address):
        until(lambda: stage.live_numbers() == [1, 2, 3, 4], "the rest after a restart")
    assert _returns(run) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.allow_warnings
def test_it_waits_for_a_missing_server_and_ends_when_asked(run: RunFolder, redis_address: Address) -> None:
    with node_at_work(run, Address(redis_address.host, 1)):
        until(run.store.exists, "the store")


@pytest.mark.allow_warnings
def test_garbage_is_counted_by_reason_and_client(run: RunFolder, stage: Stage) -> None:
    stage.join("good", "bad")
    stream = stage.keys.episodes("bad")
    stage.redis.xadd(stream, {"unknown": "field"})
    for payload in (b"\x80\x04]", b'{"run_id": 1}', b"x" * 5000):
        stage.redis.xadd(stream, {EPISODE_FIELD: payload})
    stage.play("bad", episode(run_id="another"), episode(float("nan")), episode(length=0), episode(attempt=7))
    stage.play("good", episode(1.0), episode(2.0))
    with node_at_work(run, stage.address):
        state = stage.wait_state(lambda state: sum(state.rejected.values()) == 8, "all counted")
        until(lambda: _returns(run) == [1.0, 2.0], "the good ones")
        until(lambda: stage.left("bad") == 0, "garbage off the stream")
    # JSON has no NaN: the message arrives without a number.
    expected = {"unreadable": 4, "too_large": 1, "other_run": 1, "out_of_bounds": 1, "unknown_attempt": 1}
    assert state.rejected == expected
    assert state.rejected_by_client == {"bad": expected}


@pytest.mark.allow_warnings
@pytest.mark.parametrize("forged", FORGED)
def test_forged_episodes_count_for_nothing(run: RunFolder, stage: Stage, forged: int) -> None:
    stage.join("good", "evil", "held")
    stage.publish(model_id=5)
    stage.redis.delete(stage.keys.grant("evil"))  # it never said hello
    stage.grant("held", "quarantined")
    stage.play("evil", *(episode(1e29, model_id=2**53) for _ in range(forged)))
    stage.play("held", episode(1e29))
    stage.play("good", episode(1.0, model_id=5), episode(1e29, model_id=6))
    goal = {"window": 1, "mean_return": 10_000.0}
    with node_at_work(run, stage.address, stop=goal, evaluation={"every_updates": 0}):
        state = stage.wait_state(lambda state: sum(state.rejected.values()) == forged + 2, "all counted")
    assert state.rejected_by_client == {
        "evil": {"not_admitted": forged},
        "held": {"not_admitted": 1},
        "good": {"unknown_model": 1},
    }
    assert state.verdict == Verdict(best_model_id=5, best_score=1.0)


@pytest.mark.allow_warnings
def test_what_an_admitted_client_tells_without_its_steps_is_on_no_curve(
    run: RunFolder, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.join("a", "evil", "client-1")
    stage.play("evil", episode(1.0))
    stage.tell_of("evil", *(episode(1e29, length=1) for _ in range(25)), episode(1.0))
    stage.play("a", episode(2.0))
    stage.tell_of("client-1", episode(3.0))
    with node_at_work(run, stage.address, stop={"window": 1, "mean_return": 10_000.0}):
        stage.wait_state(lambda state: state.episodes == 4, "what is honest, though it came behind")
        assert stage.left("evil") == 26, "what waits is still on the server, and is read again after a kill"
    monkeypatch.setattr("soulsgui.telemetry.backing.WAITS_S", 1.0)
    with node_at_work(run, stage.address, stop={"window": 1, "mean_return": 10_000.0}):
        stage.wait_state(lambda state: state.tick > 0, "another one")

        def count() -> dict[str, dict[str, int]]:
            stage.steps_of("evil")  # the trainer tells of itself again and again
            state = stage.state()
            return {} if state is None else state.rejected_by_client

        until(lambda: count() == {"evil": {"unbacked": 25}}, "all refused")
        until(lambda: stage.left("evil") == 0, "and off the server")
        assert stage.state().verdict.to_confirm is None
    assert sorted(_returns(run)) == [1.0, 1.0, 2.0, 3.0]


@pytest.mark.allow_warnings
def test_an_evaluation_by_one_of_several_clients_decides_nothing_alone(run: RunFolder, stage: Stage) -> None:
    stage.join("a", "evil")
    here = {"instance": Instance(host="here", pid=2), "tick": 1, "run_id": run.run_id}
    for told in (
        NodeState(name="evaluator", phase="frozen", **here),
        NodeState(name="trainer", phase="collecting", asks_clients=True, **here),
    ):
        stage.redis.set(stage.keys.node(told.name), told.to_json())
    stage.play("a", episode(1.0, model_id=1))
    goals = {"window": 1, "mean_return": 9.0, "judged_by": "evaluation"}
    with node_at_work(run, stage.address, algorithm="dqn", stop=goals):
        state = stage.wait_state(lambda now: now.episodes == 1, "one client alone")
        assert (state.judged_by, state.verdict and state.verdict.best_by) == ("evaluation", "evaluation")
        stage.play("evil", episode(1e29, model_id=1))
        state = stage.wait_state(lambda now: now.judged_by == "both", "among others it only confirms")
        played = {"kind": "evaluation", "values": {EVALUATION_RETURN: 1e29}}
        stage.tell(update_row(1).model_copy(update=played))
        stage.wait_state(lambda now: now.evaluation_return == 1e29, "the evaluation is drawn")
        state = stage.wait_state(lambda now: now.tick > state.tick + 4, "a few turns later")
        assert state.verdict == Verdict(best_by="training")


@pytest.mark.allow_warnings
def test_a_stream_of_another_type_or_deleted_leaves_the_others_alone(run: RunFolder, stage: Stage) -> None:
    stage.join("a", "b", "c")
    with node_at_work(run, stage.address):
        stage.play("a", episode(1.0))
        until(lambda: len(_returns(run)) == 1, "the first")
        stage.redis.set(stage.keys.episodes("b"), "not a stream")
        stage.play("a", episode(2.0))
        stage.play("c", episode(3.0))
        until(lambda: len(_returns(run)) == 3, "those of the others")
        state = stage.wait_state(lambda state: "b" in state.rejected_by_client, "the count")
        assert state.rejected_by_client == {"b": {"wrong_type": 1}}
        stage.redis.delete(stage.keys.episodes("b"))
        stage.play("b", episode(4.0))
        until(lambda: len(_returns(run)) == 4, "the mended one")
        stage.redis.delete(stage.keys.episodes("a"))  # and with it the group
        stage.play("a", episode(5.0))
        until(lambda: sorted(_returns(run)) == [1.0, 2.0, 3.0, 4.0, 5.0], "nothing lost, nothing doubled")
        assert stage.state().rejected_by_client == {"b": {"wrong_type": 1}}, "told once"


@pytest.mark.allow_warnings
@pytest.mark.parametrize("cut", [True, False], ids=["connections cut", "made anew in silence"])
def test_the_server_comes_back_without_its_data(run: RunFolder, stage: Stage, cut: bool) -> None:
    stage.join("a")
    stage.tell(attempt_row(1))
    # Its clock is earlier when it comes back.
    stage.redis.xadd(stage.keys.metrics, {ROW_FIELD: update_row(1, loss=1.0).to_json()}, id=f"{2**53}-0")
    with node_at_work(run, stage.address):
        stage.play("a", episode(1.0), episode(2.0))
        until(lambda: stage.live_numbers() == [1, 2], "the first two")
        # What a restart without data looks like from here: keys gone, connections cut.
        stage.redis.delete(*stage.redis.scan_iter(f"{stage.keys.config.removesuffix('config')}*"))
        for one in stage.redis.client_list():
            if cut and one["name"] == "telemetry":
                stage.redis.client_kill_filter(_id=one["id"])
        stage.join("a")
        stage.tell(update_row(2, loss=2.0))
        stage.play("a", episode(3.0))
        until(lambda: _returns(run) == [1.0, 2.0, 3.0], "the third")
        losses = HistoryQueryParams(metric="loss")
        until(lambda: query_history(run.store, losses).value == [1.0, 2.0], "the second update")


@pytest.mark.allow_warnings
@pytest.mark.parametrize(("row_comes", "env_steps"), [(True, [10, 510]), (False, [10, 20])])
def test_episodes_wait_for_the_row_of_their_attempt_for_a_time(
    run: RunFolder, stage: Stage, monkeypatch: pytest.MonkeyPatch, row_comes: bool, env_steps: list[int]
) -> None:
    if not row_comes:
        monkeypatch.setattr(node_module, "_ROW_WAIT_S", 0.05)
    stage.join("a")
    stage.tell(attempt_row(1))
    config = ServerConfig(run_id=RUN_ID, attempt=2, contract="", spaces={}, policy={})
    stage.redis.set(stage.keys.config, config.to_json())
    stage.play("a", episode(), episode(attempt=2))
    with node_at_work(run, stage.address):
        stage.wait_state(lambda state: True, "a beginning")
        if row_comes:
            stage.tell(attempt_row(2, env_steps=500, episodes=50))
        until(lambda: len(_returns(run)) == 2, "both episodes")
    assert query_history(run.store, HistoryQueryParams()).env_steps == env_steps


def _begun_further_on(stage: Stage) -> None:
    stage.join("a")
    stage.tell(attempt_row(1, env_steps=100, episodes=5))
    stage.play("a", episode(1.0))


def _failing(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception) -> list[Exception]:
    """Let a method raise an error as long as it is in the list that is returned."""
    works, errors = getattr(owner, name), [error]

    def fail(*given: Any) -> Any:
        if errors:
            raise errors[0]
        return works(*given)

    monkeypatch.setattr(owner, name, fail)
    return errors


@pytest.mark.allow_warnings
def test_what_was_not_stored_when_it_broke_is_read_again(
    run: RunFolder, stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = _failing(monkeypatch, Recorder, "record", redis.ConnectionError("cut"))
    _begun_further_on(stage)
    with node_at_work(run, stage.address):
        until(lambda: "is away" in caplog.text, "it breaks")
        errors.clear()
        until(lambda: stage.live_numbers() == [1], "the episode after all")
    assert query_history(run.store, HistoryQueryParams()).env_steps == [110]


def test_a_full_server_is_drained(run: RunFolder, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    full = _failing(
        monkeypatch, MetricsStream, "publish", redis.OutOfMemoryError("used memory > 'maxmemory'")
    )
    stage.join("a")
    with node_at_work(run, stage.address):
        for n in range(3):
            stage.play("a", episode(float(n)), episode(float(n)))
            until(lambda n=n: len(_returns(run)) == 2 * n + 2 and stage.left("a") == 0, "drained")
        state = stage.wait_state(lambda state: "memory is full" in state.error, "said so")
        assert state.phase == "collecting"
        full.clear()
        until(lambda: stage.live_numbers() == [1, 2, 3, 4, 5, 6], "told without gap or double")
        stage.wait_state(lambda state: not state.error, "mended")


@pytest.mark.allow_warnings
def test_a_full_disk_is_survived(run: RunFolder, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    error = sqlite3.OperationalError("database or disk is full")
    full = _failing(monkeypatch, StoreWriter, "add_episodes", error)
    _begun_further_on(stage)
    with node_at_work(run, stage.address):
        state = stage.wait_state(lambda state: state.phase == "frozen", "frozen")
        assert "disk is full" in state.error
        assert stage.left("a") == 1
        full.clear()
        stage.wait_state(lambda state: state.phase == "collecting" and not state.error, "mended")
    history = query_history(run.store, HistoryQueryParams())
    assert (history.env_steps, history.episode, stage.live_numbers()) == ([110], [6], [1])


@pytest.mark.allow_warnings
def test_where_the_evaluator_can_not_play_training_ranks_the_models(run: RunFolder, stage: Stage) -> None:
    evaluator = NodeState(name="evaluator", instance=Instance(host="here", pid=2), tick=1, run_id=run.run_id)
    stage.redis.set(stage.keys.node("evaluator"), evaluator.to_json())
    stage.join("a")
    stage.play("a", *(episode(5.0, model_id=3) for _ in range(2)))
    goals = {"window": 2, "mean_return": 5.0, "judged_by": "evaluation"}
    with node_at_work(run, stage.address, algorithm="dqn", stop=goals):
        state = stage.wait_state(lambda state: state.mean_return == 5.0, "counted")
        assert (state.verdict, state.best_mean_return) == (Verdict(best_by="evaluation"), None)
        assert state.judged_by == "evaluation", "it may yet be able to"
        frozen = evaluator.model_copy(update={"phase": "frozen"})
        playing = {"name": "trainer", "phase": "collecting", "asks_clients": None}
        trainer = evaluator.model_copy(update=playing)
        for told in (trainer, frozen):
            stage.redis.set(stage.keys.node(told.name), told.to_json())
        state = stage.wait_state(lambda new: new.tick > state.tick + 4, "a few turns later")
        assert state.verdict == Verdict(best_by="evaluation"), "it is not known that no client can"
        nobody = trainer.model_copy(update={"asks_clients": False})
        stage.redis.set(stage.keys.node("trainer"), nobody.to_json())
        best = Verdict(best_model_id=3, best_score=5.0)
        state = stage.wait_state(lambda state: state.verdict == best, "ranked by training")
        assert (state.best_mean_return, state.judged_by) == (5.0, "training")
        stage.play("a", episode(5.0, model_id=3))
        state = stage.wait_state(lambda new: new.verdict is not None and new.verdict.reached, "judged by it")
        ending = evaluator.model_copy(update={"phase": "stopping"})
        stage.redis.set(stage.keys.node("evaluator"), ending.to_json())
        state = stage.wait_state(lambda new: new.tick > state.tick + 4, "a few turns later")
        assert state.judged_by == "training", "also while the run is being ended"


@pytest.mark.allow_warnings
@pytest.mark.parametrize("phase", [None, "waiting", "loading", "stopping"])
def test_a_goal_does_not_wait_for_an_evaluator_that_is_gone(
    run: RunFolder, stage: Stage, monkeypatch: pytest.MonkeyPatch, phase: NodePhase | None
) -> None:
    if phase is not None:
        last = NodeState(name="evaluator", instance=Instance(), tick=1, run_id=run.run_id, phase=phase)
        stage.redis.set(stage.keys.node("evaluator"), last.to_json())
    stage.join("a")
    with node_at_work(run, stage.address, stop={"mean_return": 5.0, "window": 2}):
        stage.play("a", *(episode(5.0) for _ in range(2)))
        state = stage.wait_state(lambda state: bool(state.verdict and state.verdict.to_confirm), "it asks")
        assert state.judged_by == "both"
        monkeypatch.setattr("soulsgui.telemetry.node._GONE_S", 0.2)
        state = stage.wait_state(lambda state: bool(state.verdict and state.verdict.reached), "the goal")
        assert (state.judged_by, state.verdict and state.verdict.reached_with) == ("training", 5.0)
