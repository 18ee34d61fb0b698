import gc
import weakref

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Call, together
from soulsgui.gui.fetch import Fetch
from soulsgui.wire.control import ApiError, ClientCount, ErrorCode
from tests.gui.fake_feed import refusal


class Asked:
    def __init__(self, qtbot: QtBot, late: bool = False) -> None:
        self._qtbot = qtbot
        self.widget = QWidget()
        qtbot.addWidget(self.widget)
        self.calls: list[Call] = []
        self.away = False
        self.came: list[object] = []
        self.errors: list[ApiError] = []
        self.fetch = Fetch(
            self.widget,
            self._call,
            came=self.came.append,
            failed=self.errors.append,
            late=late,
            interval_ms=1,
        )

    def _call(self) -> Call | None:
        if self.away:
            return None
        self.calls.append(Call("service.local_clients", "my-server"))
        return self.calls[-1]

    def request(self, times: int) -> None:
        """Request once more, and wait for so many questions in all."""
        self.widget.show()
        self.fetch.request()
        self._qtbot.waitUntil(lambda: len(self.calls) == times)


@pytest.fixture
def asked(qtbot: QtBot) -> Asked:
    return Asked(qtbot)


def test_nothing_is_asked_before_somebody_looks_nor_while_nobody_answers(qtbot: QtBot, asked: Asked) -> None:
    asked.fetch.request()
    asked.fetch.request()
    qtbot.wait(10)
    assert asked.calls == []
    asked.away = True
    asked.widget.show()
    qtbot.wait(10)
    asked.away = False
    asked.request(1)
    asked.calls[0].answer({"count": 1})
    assert asked.came == [ClientCount(count=1)]


def test_one_question_at_a_time_and_one_more_after_it(qtbot: QtBot, asked: Asked) -> None:
    asked.request(1)
    asked.fetch.request()
    asked.fetch.request()
    qtbot.wait(10)
    assert len(asked.calls) == 1
    asked.calls[0].answer({"count": 1})
    qtbot.waitUntil(lambda: len(asked.calls) == 2)
    asked.calls[1].answer({"count": 2})
    assert not asked.fetch.waiting


def test_a_forgotten_question_is_not_told_of(asked: Asked) -> None:
    asked.request(1)
    asked.fetch.forget()
    asked.calls[0].answer({"count": 1})
    assert asked.came == []


@pytest.mark.parametrize("late", [True, False])
def test_a_late_answer_is_taken_where_it_is_of_use_unless_there_is_a_newer(qtbot: QtBot, late: bool) -> None:
    asked = Asked(qtbot, late)
    for times in (1, 2, 3):
        asked.request(times)
        if times < 3:
            asked.calls[-1].silent.emit(refusal(code=ErrorCode.NO_ANSWER))
    first, second, third = asked.calls
    second.answer({"count": 2})
    assert asked.came == ([ClientCount(count=2)] if late else [])
    assert asked.fetch.waiting
    third.answer({"count": 3})
    first.answer({"count": 1})
    assert asked.came[-1] == ClientCount(count=3)


@pytest.mark.parametrize(("code", "told"), [(ErrorCode.NOT_FOUND, True), (ErrorCode.NO_ANSWER, False)])
def test_a_refusal_is_told_but_not_a_lost_connection(asked: Asked, code: ErrorCode, told: bool) -> None:
    asked.request(1)
    asked.calls[0].refuse(refusal(code=code))
    assert bool(asked.errors) == told
    assert not asked.fetch.waiting


@pytest.mark.parametrize(
    "answer", [{}, {"runs": 7}, {"runs": [{"name": "a"}]}, {"runs": [{"id": "a", "env_steps": 2**63}]}]
)
def test_an_answer_of_another_shape_is_told_and_reaches_no_page(
    qapp: QApplication, answer: dict[str, object]
) -> None:
    call = Call("runs.list", "my-server")
    came: list[object] = []
    told: list[ApiError] = []
    call.done.connect(came.append)
    call.failed.connect(told.append)
    call.answer(answer)
    assert came == []
    assert "my-server was not understood (runs.list: runs" in told[0].message
    assert call.over


def calls(count: int, command: str = "clients.pause") -> tuple[list[Call], Call, list[object]]:
    parts = [Call(command, "my-server") for _ in range(count)]
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
    (alone,), whole, _ = calls(1)
    assert whole is alone
    whole.answer({})


def test_calls_together_that_are_each_answered_with_something_are_done(qapp: QApplication) -> None:
    parts, _, told = calls(2, "runs.trash")
    for part in parts:
        part.answer({"id": "r1"})
    assert told == ["done"]


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
