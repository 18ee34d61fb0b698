"""Calls together, and what is asked for again and again."""

import gc
import weakref

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Call, Fetch, together
from soulsgui.wire.control import ApiError, ErrorCode
from tests.gui.fake_feed import refusal


class Server:
    """Keeps the questions, to be answered by the test."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.away = False

    def __call__(self) -> Call | None:
        if self.away:
            return None
        self.calls.append(Call("runs.list", "my-server"))
        return self.calls[-1]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def widget(qtbot: QtBot) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    return made


@pytest.fixture
def fetch(widget: QWidget, server: Server) -> Fetch:
    return Fetch(widget, server, interval_ms=1)


def asked(qtbot: QtBot, server: Server, times: int) -> None:
    qtbot.waitUntil(lambda: len(server.calls) == times)


def test_nothing_is_asked_before_somebody_looks(
    qtbot: QtBot, fetch: Fetch, widget: QWidget, server: Server
) -> None:
    fetch.request()
    fetch.request()
    qtbot.wait(10)
    assert server.calls == []
    widget.show()
    asked(qtbot, server, 1)
    with qtbot.waitSignal(fetch.came) as came:
        server.calls[0].answer({"runs": []})
    assert came.args == [{"runs": []}]


def test_one_question_at_a_time_and_one_more_after_it(
    qtbot: QtBot, fetch: Fetch, widget: QWidget, server: Server
) -> None:
    widget.show()
    fetch.request()
    asked(qtbot, server, 1)
    fetch.request()
    fetch.request()
    qtbot.wait(10)
    assert len(server.calls) == 1
    server.calls[0].answer({})
    asked(qtbot, server, 2)
    server.calls[1].answer({})
    assert not fetch.waiting


def test_a_forgotten_question_is_not_told_of(
    qtbot: QtBot, fetch: Fetch, widget: QWidget, server: Server
) -> None:
    widget.show()
    fetch.request()
    asked(qtbot, server, 1)
    fetch.forget()
    with qtbot.assertNotEmitted(fetch.came):
        server.calls[0].answer({})


@pytest.mark.parametrize("late", [True, False])
def test_an_answer_that_comes_late_is_taken_where_it_is_of_use_unless_there_is_a_newer_one(
    qtbot: QtBot, widget: QWidget, server: Server, late: bool
) -> None:
    came: list[object] = []
    fetch = Fetch(widget, server, interval_ms=1, came=came.append, late=late)
    silence = ApiError(code=ErrorCode.NO_ANSWER, message="no answer")
    widget.show()
    for times in (1, 2, 3):
        fetch.request()
        asked(qtbot, server, times)
        if times < 3:
            server.calls[-1].silent.emit(silence)
    first, second, third = server.calls
    second.answer({"n": 2})
    assert came == ([{"n": 2}] if late else [])
    assert fetch.waiting
    third.answer({"n": 3})
    first.answer({"n": 1})
    assert came[-1] == {"n": 3}


@pytest.mark.parametrize(("code", "told"), [(ErrorCode.NOT_FOUND, True), (ErrorCode.NO_ANSWER, False)])
def test_a_refusal_is_told_but_not_a_lost_connection(
    qtbot: QtBot, fetch: Fetch, widget: QWidget, server: Server, code: ErrorCode, told: bool
) -> None:
    errors: list[ApiError] = []
    fetch.failed.connect(errors.append)
    widget.show()
    fetch.request()
    asked(qtbot, server, 1)
    server.calls[0].refuse(ApiError(code=code, message="no"))
    assert bool(errors) == told
    assert not fetch.waiting


def test_what_can_not_be_asked_now_is_asked_at_the_next_request(
    qtbot: QtBot, fetch: Fetch, widget: QWidget, server: Server
) -> None:
    widget.show()
    server.away = True
    fetch.request()
    qtbot.wait(10)
    server.away = False
    fetch.request()
    asked(qtbot, server, 1)
    server.calls[0].answer({})


def calls(count: int) -> tuple[list[Call], Call, list[object]]:
    parts = [Call("clients.pause", "my-server") for _ in range(count)]
    whole = together(parts)
    told: list[object] = []
    whole.done.connect(lambda _: told.append("done"))
    whole.failed.connect(told.append)
    return parts, whole, told


def test_calls_together_are_done_when_the_last_one_is(qapp: QApplication) -> None:
    parts, whole, told = calls(3)
    parts[0].answer({})
    parts[2].answer({})
    assert told == []
    parts[1].answer({})
    assert told == ["done"]
    assert whole.over


def test_calls_together_fail_with_the_first_reason_after_all_are_over(qapp: QApplication) -> None:
    parts, _, told = calls(3)
    first = refusal("b is gone.")
    parts[1].refuse(first)
    parts[0].refuse(refusal("a is gone."))
    assert told == []
    parts[2].answer({})
    assert told == [first]


def test_calls_together_are_freed_when_they_are_over(qapp: QApplication) -> None:
    parts, whole, _ = calls(2)
    held = [weakref.ref(call) for call in (*parts, whole)]
    while parts:
        parts.pop().answer({})
    del whole
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    gc.collect()
    assert [ref() for ref in held] == [None, None, None]


def test_a_single_call_stands_for_itself(qapp: QApplication) -> None:
    parts, whole, _ = calls(1)
    assert whole is parts[0]
    whole.answer({})
