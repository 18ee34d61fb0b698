import gc
from typing import Any

import pytest
from PySide6.QtCore import QEvent, SignalInstance
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Call, Feed, connection_over, usual_timeout_s
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.gui.shell.protocol import notify_problem
from soulsgui.gui.states import run_is_active
from soulsgui.wire.control import (
    ApiError,
    ClientCount,
    ClientsChange,
    ErrorCode,
    Event,
    EventChange,
    Job,
    JobChange,
    LogChange,
    LogLine,
    RunStatus,
    ServerStatus,
    Snapshot,
    Status,
    StatusChange,
)
from tests.gui.fake_feed import HELLO, LIVE, LOST, FakeShell, refusal
from tests.states import client, service

NOW = 1_790_000_000.0
UP = ServerStatus(reachable=True)
REDIS = service("redis")
RUNNING = RunStatus(id="run-1", state="running")


def event(number: int) -> Event:
    return Event(number=number, time=NOW, level="warning", what=f"event {number}")


@pytest.fixture
def feed(qapp: object) -> Feed:
    made = Feed(clock=lambda: NOW)
    made.take(Snapshot(cursor=10, status=Status(services=[REDIS], server=UP), events=[event(1)]), "my-server")
    return made


def heard(signal: SignalInstance) -> list[Any]:
    told: list[Any] = []
    signal.connect(lambda *args: told.append(args[0] if len(args) == 1 else args))
    return told


def lines(cursor: int) -> LogChange:
    return LogChange(cursor=cursor, lines=[LogLine(service="trainer", number=cursor, text="x")])


def test_a_snapshot_is_the_whole_state(feed: Feed) -> None:
    taken = heard(feed.snapshot_taken)
    new = Snapshot(cursor=20, status=Status(run=RUNNING, server=UP), events=[event(7)])
    assert feed.take(new, "my-server")
    assert taken == [feed.status] == [new.status]
    assert (feed.events, feed.cursor, feed.last_data) == ([event(7)], 20, NOW)
    assert feed.connection == Connection(ConnectionState.CONNECTED, "my-server")


def test_a_message_is_taken_once_and_a_missing_one_asks_for_a_new_beginning(feed: Feed) -> None:
    told = heard(feed.log_arrived)
    for cursor in (11, 11, 10, 12):
        assert feed.take(lines(cursor))
    assert not feed.take(lines(14))
    assert feed.cursor is None
    assert feed.take(Snapshot(cursor=14, status=Status()), "my-server")
    assert feed.take(lines(15))
    assert [arrived[0].number for arrived in told] == [11, 12, 15]


def test_the_same_runner_goes_on_where_it_was_and_another_one_begins_anew(feed: Feed) -> None:
    feed.greet(HELLO)
    feed.take(Snapshot(cursor=30, status=Status()), "my-server")
    feed.greet(HELLO.model_copy())
    assert feed.cursor == 30
    feed.greet(HELLO.model_copy(update={"pid": 101}))
    assert feed.cursor is None


def test_of_a_status_only_what_changed_is_told(feed: Feed) -> None:
    run, services = heard(feed.run_changed), heard(feed.services_changed)
    server, refused = heard(feed.server_changed), heard(feed.allowed_changed)
    feed.take(StatusChange(cursor=11, run=RUNNING, services=[REDIS], server=UP), "my-server")
    assert refused == []
    allowed = {"run.stop": "No run is active."}
    feed.take(StatusChange(cursor=12, run=RUNNING, services=[REDIS], server=UP, allowed=allowed), "my-server")
    assert len(refused) == 1
    assert feed.status.allowed == allowed
    assert (run, services, server) == ([RUNNING], [], [])
    assert feed.status.run == RUNNING
    assert feed.connection.state is ConnectionState.CONNECTED


def test_clients_change_one_by_one_and_can_be_forgotten(feed: Feed) -> None:
    told = heard(feed.clients_changed)
    feed.take(ClientsChange(cursor=11, changed=[client("a"), client("b")]))
    later = client("a", episodes=5)
    feed.take(ClientsChange(cursor=12, changed=[later], removed=["b"]))
    assert feed.status.clients == [later]
    assert told[-1] == ([later], ["b"])


def test_events_are_kept_but_not_for_ever(feed: Feed) -> None:
    told = heard(feed.event_arrived)
    for number in range(2, 700):
        feed.take(EventChange(cursor=9 + number, event=event(number)))
    assert len(told) == 698
    assert [feed.events[0].number, feed.events[-1].number] == [200, 699]


def test_a_connection_is_with_or_without_a_run() -> None:
    states = {"none": False, "finished": False, "starting": True, "paused": True, "saving": True}
    for run_state, active in states.items():
        run = RunStatus.model_validate({"id": "run-1", "state": run_state})
        state = ConnectionState.CONNECTED if active else ConnectionState.NO_RUN
        assert connection_over(Status(run=run, server=UP), "x").state is state
        assert run_is_active(run_state) is active


def test_redis_down_says_how_it_ended() -> None:
    redis = service("redis", "backoff", outcome="killed by SIGKILL")
    found = connection_over(Status(services=[redis]), "my-server")
    assert found.state is ConnectionState.REDIS_DOWN
    assert "killed by SIGKILL" in found.detail
    given_up = redis.model_copy(update={"state": "failed", "failures": 5})
    assert "given up: start it again" in connection_over(Status(services=[given_up]), "my-server").detail
    retried = given_up.model_copy(update={"restart_in_s": 40.0})
    assert "The runner starts it again." in connection_over(Status(services=[retried]), "my-server").detail


def test_the_same_connection_is_told_once(feed: Feed) -> None:
    told = heard(feed.connection_changed)
    feed.set_connection(feed.connection)
    feed.set_connection(LOST)
    assert told == [LOST]
    assert feed.status.services == [REDIS], "what was known stays while the connection is cut"


def test_a_command_is_carried_and_kept_until_its_answer(qapp: QApplication, feed: Feed) -> None:
    carried: list[tuple[Call, dict[str, Any]]] = []
    feed.carry_with(lambda call, params: carried.append((call, params)))
    told = heard(feed.call("service.local_clients", {"count": 3}).done)
    gc.collect()
    assert len(feed.findChildren(Call)) == 1
    call, params = carried.pop()
    assert (call.server, params) == ("my-server", {"count": 3})
    call.answer({"count": 3})
    assert told == [ClientCount(count=3)]
    del call
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert feed.findChildren(Call) == []


@pytest.mark.parametrize("lost", [True, False])
def test_without_a_connection_a_command_fails_and_says_so(qtbot: QtBot, feed: Feed, lost: bool) -> None:
    if lost:
        feed.carry_with(lambda call, params: pytest.fail("nothing can be carried"))
        feed.set_connection(LOST)
    call = feed.call("run.stop")
    with qtbot.waitSignal(call.failed) as failed:
        pass
    error = failed.args[0]
    assert isinstance(error, ApiError)
    assert "connected" in error.message
    assert error.remedy


def test_of_a_server_that_is_left_no_command_says_that_it_does_not_run(qtbot: QtBot, feed: Feed) -> None:
    feed.carry_with(lambda call, params: None)
    told = heard(feed.call("run.stop").failed)
    waiting = feed.job("checkpoint.evaluate")
    waiting.answer(Job(id="1", command="checkpoint.evaluate", state="running").model_dump(mode="json"))
    told_of_job = heard(waiting.failed)
    told_of_file = heard(feed.job("runs.export", save_to="/home/me/a.soulsrun").failed)
    feed.leave_calls()
    feed.forget(remote=True)
    assert [error.message for error in told + told_of_job] == 2 * ["my-server was left before it answered."]
    (lost,) = told_of_file
    assert lost.message == "my-server was left before /home/me/a.soulsrun was here."
    assert lost.remedy == "Show it again, and ask for the file again."


def test_that_no_answer_came_holds_until_one_does(qtbot: QtBot, feed: Feed, shell: FakeShell) -> None:
    feed.carry_with(lambda call, params: None)
    feed.answered_late.connect(shell.settle)
    call = feed.call("server.shutdown", timeout_s=0.01)
    call.tell_problem(lambda error: notify_problem(shell, error))
    qtbot.waitUntil(lambda: [told.text for told in shell.told] == ["No answer from my-server."])
    call.answer({})
    assert shell.told == []


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (refusal("No runner answers at http://x.", code=ErrorCode.NO_ANSWER), []),
        (refusal("Not while it runs."), ["Not while it runs."]),
    ],
)
def test_that_no_runner_answers_is_said_until_it_is_back(
    feed: Feed, shell: FakeShell, error: ApiError, left: list[str]
) -> None:
    feed.carry_with(lambda call, params: None)
    feed.answered_late.connect(shell.settle)
    call = feed.call("run.stop")
    call.tell_problem(lambda error: notify_problem(shell, error))
    call.refuse(error)
    feed.set_connection(LOST)
    assert [told.text for told in shell.told] == [error.message]
    feed.set_connection(LIVE)
    assert [told.text for told in shell.told] == left


def test_a_job_tells_its_progress_to_the_command_that_waits_for_it(feed: Feed) -> None:
    feed.carry_with(lambda call, params: None)
    saving, stopping = feed.call("checkpoint.save"), feed.call("run.stop")
    saved, stopped = heard(saving.progressed), heard(stopping.progressed)
    job = Job(id="1", command="checkpoint.save", state="running", progress="60 %")
    feed.take(JobChange(cursor=11, job=job))
    assert (saved, stopped) == (["60 %"], [])
    saving.drop()
    stopping.drop()


def test_saving_takes_longer_than_asking() -> None:
    commands = ("run.stop", "checkpoint.save", "server.shutdown", "checkpoint.list")
    assert [usual_timeout_s(command) for command in commands] == [60.0, 60.0, 60.0, 10.0]
