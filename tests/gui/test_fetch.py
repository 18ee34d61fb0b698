import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.calls import Call
from soulsgui.gui.fetch import Fetch
from soulsgui.wire.control import ApiError, ErrorCode


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
