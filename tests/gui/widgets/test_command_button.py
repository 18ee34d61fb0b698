import pytest
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Call
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.boxes import column
from soulsgui.gui.widgets.command_button import CommandButton, Stage, Words
from soulsgui.wire.control import ApiError, ClientCount, ErrorCode
from tests.gui.reading import shown

WORDS = Words("Quicksave", "Saving …", "Saved")
BRIEF_S = 0.05
REFUSAL = ApiError(code=ErrorCode.NOT_NOW, message="There is no run.", remedy="Start one first.")


class Server:
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.timeout_s = 10.0

    def __call__(self) -> Call:
        self.calls.append(Call("service.local_clients", "my-server", self.timeout_s))
        return self.calls[-1]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def button(qtbot: QtBot, theme: Theme, server: Server) -> CommandButton:
    return shown(qtbot, CommandButton(WORDS, "save", server))


def test_a_click_sends_once_and_shows_progress(qtbot: QtBot, button: CommandButton, server: Server) -> None:
    button.click()
    button.click()
    assert len(server.calls) == 1
    assert button.stage is Stage.RUNNING
    assert button.text() == "Saving …"
    assert not button.isEnabled()
    server.calls[0].progressed.emit("writing 3 of 5 files")
    assert button.toolTip() == "writing 3 of 5 files"
    with qtbot.waitSignal(button.finished) as signal:
        server.calls[0].answer({"count": 1})
    assert signal.args == [ClientCount(count=1)]
    assert (button.stage, button.text()) == (Stage.DONE, "Saved")
    button.click()
    assert len(server.calls) == 2
    server.calls[1].answer({"count": 1})


def test_it_has_the_keyboard_again_after_a_refusal_unless_that_was_moved_on(
    qtbot: QtBot, theme: Theme, server: Server
) -> None:
    around = QWidget()
    button, others = CommandButton(WORDS, "save", server), [QLineEdit(), QLineEdit()]
    column(button, *others, on=around)
    shown(qtbot, around)
    for moved_on in (False, True):
        button.setFocus()
        button.click()
        assert around.focusWidget() is others[0]
        if moved_on:
            others[1].setFocus()
        server.calls[-1].refuse(REFUSAL)
        assert around.focusWidget() is (others[1] if moved_on else button)


def test_where_there_is_nothing_to_send_any_more_it_stays_as_it_was(button: CommandButton) -> None:
    button.set_words(WORDS, "save", lambda: None)
    button.click()
    assert (button.stage, button.text(), button.isEnabled()) == (Stage.IDLE, "Quicksave", True)


def test_a_refusal_gives_cause_and_remedy(qtbot: QtBot, button: CommandButton, server: Server) -> None:
    button.click()
    with qtbot.waitSignal(button.problem) as signal:
        server.calls[0].refuse(REFUSAL)
    assert signal.args == [REFUSAL]
    assert button.stage is Stage.FAILED
    assert button.isEnabled()
    assert "no run" in button.toolTip()
    assert "Start one first" in button.toolTip()


def test_without_an_answer_it_offers_a_retry(qtbot: QtBot, button: CommandButton, server: Server) -> None:
    server.timeout_s = BRIEF_S
    with qtbot.waitSignal(button.problem) as signal:
        button.click()
    error = signal.args[0]
    assert (error.code, error.message) == (ErrorCode.NO_ANSWER, "No answer from my-server.")
    assert (button.stage, button.text()) == (Stage.SILENT, "Retry")
    server.timeout_s = 10.0
    button.click()
    assert len(server.calls) == 2
    server.calls[1].answer({"count": 1})
    assert button.stage is Stage.DONE


@pytest.mark.parametrize("again", [False, True])
def test_a_late_answer_counts(qtbot: QtBot, button: CommandButton, server: Server, again: bool) -> None:
    server.timeout_s = BRIEF_S
    with qtbot.waitSignal(button.problem):
        button.click()
    server.timeout_s = 10.0
    if again:
        button.click()
    with qtbot.waitSignal(button.finished) as signal:
        server.calls[0].answer({"count": 1})
    assert signal.args == [ClientCount(count=1)]
    assert button.stage is (Stage.RUNNING if again else Stage.DONE)
    assert ("carried out after all" in button.toolTip()) is again
    server.calls[-1].answer({"count": 1})
    assert button.stage is Stage.DONE


def test_a_late_refusal_is_told_beside_the_retry(qtbot: QtBot, button: CommandButton, server: Server) -> None:
    server.timeout_s = BRIEF_S
    with qtbot.waitSignal(button.problem):
        button.click()
    server.timeout_s = 10.0
    button.click()
    with qtbot.waitSignal(button.problem) as signal:
        server.calls[0].refuse(REFUSAL)
    assert signal.args == [REFUSAL]
    assert button.stage is Stage.RUNNING
    server.calls[1].answer({"count": 1})


def test_what_is_not_possible_now_is_disabled_with_the_reason(button: CommandButton, server: Server) -> None:
    button.allow("Not connected to my-server.")
    button.click()
    assert server.calls == []
    assert button.toolTip() == "Not connected to my-server."
    button.allow("")
    assert button.isEnabled()


def test_a_call_answers_once(qtbot: QtBot) -> None:
    call = Call("server.shutdown", "my-server")
    call.answer({})
    with qtbot.assertNotEmitted(call.failed), qtbot.assertNotEmitted(call.done):
        call.refuse(REFUSAL)
        call.answer({})
    assert call.over


@pytest.mark.parametrize("silent", [False, True])
def test_a_button_that_does_something_else_now_says_so_whatever_became_of_its_last_command(
    button: CommandButton, server: Server, silent: bool
) -> None:
    button.click()
    (server.calls[0].silent.emit if silent else server.calls[0].refuse)(REFUSAL)
    button.set_words(Words("Continue", "Continuing …", "Continued"), "play", server)
    assert (button.stage, button.text()) == (Stage.IDLE, "Continue")


def test_what_was_done_is_said_in_the_words_of_what_was_sent(button: CommandButton, server: Server) -> None:
    button.click()
    button.set_words(Words("Continue", "Continuing …", "Continued"), "play", server)
    server.calls[0].answer({"count": 1})
    assert button.text() == "Saved"
