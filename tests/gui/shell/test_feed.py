import gc
from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QEvent, SignalInstance
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Call, Feed, connection_over, usual_patience_s
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.gui.shell.protocol import notify_problem
from soulsgui.gui.states import run_is_active
from soulsgui.wire.control import (
    ApiError,
    ClientsChange,
    ClientStatus,
    Event,
    EventChange,
    Hello,
    Job,
    JobChange,
    LogChange,
    LogLine,
    RunStatus,
    ServerStatus,
    ServiceStatus,
    Snapshot,
    Status,
    StatusChange,
)
from tests.gui.fake_feed import FakeShell

NOW = 1_790_000_000.0
UP = ServerStatus(reachable=True)
REDIS = ServiceStatus(name="redis", kind="redis", state="running")


def status_of(run_state: str = "none", clients: list[ClientStatus] | None = None) -> Status:
    run = RunStatus(id="" if run_state == "none" else "run-1", state=run_state)  # type: ignore[arg-type]
    return Status(run=run, services=[REDIS], clients=clients or [], server=UP)


def event(number: int) -> Event:
    return Event(number=number, time=NOW, level="warning", what=f"event {number}")


def hello(pid: int = 100) -> Hello:
    return Hello(
        version="1", server_id="s", pid=pid, started=NOW, data_dir="d", config_dir="c", capabilities=[]
    )


@pytest.fixture
def feed(qapp: object) -> Feed:
    made = Feed(clock=lambda: NOW)
    made.take(Snapshot(cursor=10, status=status_of(), events=[event(1)]), "my-server")
    return made


class Heard:
    """Remembers what a signal said."""

    def __init__(self, signal: SignalInstance) -> None:
        self.told: list[Any] = []
        signal.connect(lambda *args: self.told.append(args[0] if len(args) == 1 else args))


def lines(cursor: int) -> LogChange:
    return LogChange(cursor=cursor, lines=[LogLine(service="trainer", number=cursor, text="x")])


# --- what arrives ---


def test_a_snapshot_is_the_whole_state(feed: Feed) -> None:
    taken = Heard(feed.snapshot_taken)
    new = Snapshot(cursor=20, status=status_of("running"), events=[event(7)])
    assert feed.take(new, "my-server")
    assert taken.told == [new.status]
    assert feed.status == new.status
    assert feed.events == [event(7)]
    assert feed.cursor == 20
    assert feed.last_data == NOW
    assert feed.connection == Connection(ConnectionState.CONNECTED, "my-server")


def test_a_message_that_was_taken_already_is_not_taken_twice(feed: Feed) -> None:
    heard = Heard(feed.log_arrived)
    for cursor in (11, 11, 10, 12):
        assert feed.take(lines(cursor))
    assert [told[0].number for told in heard.told] == [11, 12]


def test_a_missing_message_asks_for_a_new_beginning(feed: Feed) -> None:
    heard = Heard(feed.log_arrived)
    assert not feed.take(lines(12))
    assert heard.told == []
    assert feed.cursor is None
    assert feed.take(Snapshot(cursor=12, status=status_of()), "my-server")
    assert feed.take(lines(13))
    assert len(heard.told) == 1


def test_the_same_runner_goes_on_where_it_was_and_another_one_begins_anew(feed: Feed) -> None:
    feed.greet(hello())
    feed.take(Snapshot(cursor=30, status=status_of()), "my-server")
    feed.greet(hello())
    assert feed.cursor == 30
    feed.greet(hello(pid=101))
    assert feed.cursor is None


def test_of_a_status_only_what_changed_is_told(feed: Feed) -> None:
    run, services, server = Heard(feed.run_changed), Heard(feed.services_changed), Heard(feed.server_changed)
    refused = Heard(feed.allowed_changed)
    running = RunStatus(id="run-1", state="running")
    feed.take(StatusChange(cursor=11, run=running, services=[REDIS], server=UP), "my-server")
    assert refused.told == []
    allowed = {"run.stop": "No run goes on."}
    feed.take(StatusChange(cursor=12, run=running, services=[REDIS], server=UP, allowed=allowed), "my-server")
    assert len(refused.told) == 1
    assert feed.status.allowed == allowed
    assert run.told == [running]
    assert services.told == []
    assert server.told == []
    assert feed.status.run == running
    assert feed.connection.state is ConnectionState.CONNECTED


def test_clients_change_one_by_one_and_can_be_forgotten(feed: Feed) -> None:
    heard = Heard(feed.clients_changed)
    first, second = ClientStatus(id="a", name="a"), ClientStatus(id="b", name="b")
    feed.take(ClientsChange(cursor=11, changed=[first, second]))
    later = first.model_copy(update={"episodes": 5})
    feed.take(ClientsChange(cursor=12, changed=[later], removed=["b"]))
    assert feed.status.clients == [later]
    assert heard.told[-1] == ([later], ["b"])


def test_events_are_kept_but_not_for_ever(feed: Feed) -> None:
    heard = Heard(feed.event_arrived)
    for number in range(2, 700):
        feed.take(EventChange(cursor=9 + number, event=event(number)))
    assert len(heard.told) == 698
    assert [feed.events[0].number, feed.events[-1].number] == [200, 699]


# --- the state of the connection ---


@pytest.mark.parametrize(
    ("run_state", "expected"),
    [
        ("none", ConnectionState.NO_RUN),
        ("finished", ConnectionState.NO_RUN),
        ("starting", ConnectionState.CONNECTED),
        ("paused", ConnectionState.CONNECTED),
        ("saving", ConnectionState.CONNECTED),
    ],
)
def test_a_connection_is_with_or_without_a_run(run_state: str, expected: ConnectionState) -> None:
    assert connection_over(status_of(run_state), "x").state is expected
    assert run_is_active(run_state) is (expected is ConnectionState.CONNECTED)


def test_redis_down_says_how_it_ended() -> None:
    redis = ServiceStatus(name="redis", kind="redis", state="backoff", outcome="killed by SIGKILL")
    found = connection_over(Status(services=[redis]), "my-server")
    assert found.state is ConnectionState.REDIS_DOWN
    assert "killed by SIGKILL" in found.detail
    given_up = redis.model_copy(update={"state": "failed", "failures": 5})
    assert "5 failures" in connection_over(Status(services=[given_up]), "my-server").detail


def test_the_same_connection_is_told_once(feed: Feed) -> None:
    heard = Heard(feed.connection_changed)
    feed.set_connection(feed.connection)
    feed.set_connection(Connection(ConnectionState.RECONNECTING, "my-server", since=NOW))
    assert len(heard.told) == 1
    assert feed.status.services == [REDIS], "what was known stays while the connection is cut"


# --- commands ---


def test_a_command_goes_to_the_connection_with_its_parameters(feed: Feed) -> None:
    carried: list[tuple[Call, dict[str, Any]]] = []
    feed.carry_with(lambda call, params: carried.append((call, params)))
    call = feed.call("service.stop", {"name": "trainer"})
    assert carried == [(call, {"name": "trainer"})]
    assert call.server == "my-server"
    call.answer({})


@pytest.mark.parametrize(
    "cut",
    [
        lambda feed: feed.set_connection(Connection(ConnectionState.RECONNECTING, "my-server")),
        lambda feed: feed.carry_with(None),
    ],
)
def test_without_a_connection_a_command_fails_and_says_so(
    qtbot: QtBot, feed: Feed, cut: Callable[[Feed], None]
) -> None:
    feed.carry_with(lambda call, params: pytest.fail("nothing can be carried"))
    cut(feed)
    call = feed.call("run.stop")
    with qtbot.waitSignal(call.failed) as failed:
        pass
    error = failed.args[0]
    assert isinstance(error, ApiError)
    assert "connected" in error.message
    assert error.remedy


def test_a_command_that_nobody_holds_is_kept_until_its_answer(qapp: QApplication, feed: Feed) -> None:
    carried: list[Call] = []
    feed.carry_with(lambda call, params: carried.append(call))
    told: list[object] = []
    feed.call("service.stop", {"name": "trainer"}).done.connect(told.append)
    gc.collect()
    assert len(feed.findChildren(Call)) == 1
    carried.pop().answer({"stopped": True})
    assert told == [{"stopped": True}]
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert feed.findChildren(Call) == []


def test_that_no_answer_came_holds_until_one_does(qtbot: QtBot, feed: Feed, shell: FakeShell) -> None:
    feed.carry_with(lambda call, params: None)
    feed.answered_late.connect(shell.settle)
    call = feed.call("config.get", patience_s=0.01)
    call.tell_problem(lambda error: notify_problem(shell, error))
    qtbot.waitUntil(lambda: [told.text for told in shell.told] == ["No answer from my-server."])
    call.answer({})
    assert shell.told == []


def test_a_job_tells_its_progress_to_the_command_that_waits_for_it(feed: Feed) -> None:
    feed.carry_with(lambda call, params: None)
    saving, stopping = feed.call("checkpoint.save"), feed.call("run.stop")
    saved, stopped = Heard(saving.progressed), Heard(stopping.progressed)
    feed.take(
        JobChange(cursor=11, job=Job(id="1", command="checkpoint.save", state="running", progress="60 %"))
    )
    assert saved.told == ["60 %"]
    assert stopped.told == []
    saving.answer({})
    stopping.answer({})


@pytest.mark.parametrize(
    ("command", "seconds"),
    [("run.stop", 60.0), ("checkpoint.save", 60.0), ("server.shutdown", 60.0), ("checkpoint.list", 10.0)],
)
def test_saving_takes_longer_than_asking(command: str, seconds: float) -> None:
    assert usual_patience_s(command) == seconds
