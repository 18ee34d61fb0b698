import re
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QMessageBox, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.gui.models.rules import Question
from soulsgui.gui.runs.checkpoints import NoteDialog
from soulsgui.gui.widgets.ask import ask
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.wire.control import (
    ConfigValues,
    ErrorCode,
    Preset,
    RunStatus,
    ServerStatus,
    Status,
)
from tests.gui.fake_feed import HELLO, LOST, FakeFeed, refusal
from tests.gui.reading import part_of

pytestmark = pytest.mark.usefixtures("theme")
UP = ServerStatus(reachable=True)
RUN = RunStatus(id="r1", name="lunar-2", state="running", checkpoint_age_s=125.0)
CONNECTED = Connection(ConnectionState.CONNECTED, "my-server")
CONFIG = ConfigValues(
    defaults={"env.id": "CartPole-v1", "clients.local": 2, "stop.mean_return": None},
    saved={"env.id": "Acrobot-v1"},
    running={},
    text="",
    hash="",
    path="",
)
LUNAR = Preset(
    name="lunarlander_ppo",
    title="LunarLander with PPO",
    about="Until it lands well.",
    values={"env.id": "LunarLander-v3", "stop.mean_return": 200},
)


def running_feed() -> FakeFeed:
    feed = FakeFeed(Status(run=RUN, server=UP), CONNECTED, HELLO)
    feed.answers = {"config.presets": {"presets": [LUNAR.model_dump(mode="json")]}, "config.get": CONFIG}
    return feed


def idle_feed() -> FakeFeed:
    feed = running_feed()
    feed.status = Status(server=UP)
    return feed


# --- a new run ---


def opened(qtbot: QtBot, feed: FakeFeed, **more: object) -> NewRunDialog:
    dialog = NewRunDialog(feed, **more)  # type: ignore[arg-type]
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(dialog)
    dialog.open()
    return dialog


def new_run(qtbot: QtBot, feed: FakeFeed, **more: object) -> NewRunDialog:
    dialog = opened(qtbot, feed, **more)
    qtbot.waitUntil(lambda: dialog.preset.count() == 3 and dialog.start.isEnabled())
    return dialog


def started(feed: FakeFeed) -> dict[str, Any]:
    """What the run is started with, as far as something was said."""
    params = feed.sent_of("run.start")[0].params
    assert params.keys() == {"preset", "overrides", "name", "note", "if_active"}
    return {name: given for name, given in params.items() if given}


def test_a_run_begins_with_the_current_settings_as_they_are(qtbot: QtBot) -> None:
    feed = idle_feed()
    dialog = new_run(qtbot, feed)
    assert dialog.clients.value() == 2
    assert dialog.goal.text() == ""
    assert "Acrobot-v1" in dialog.hint.text()
    feed.answers["run.start"] = {"run_id": "r2", "run_dir": "/d/runs/r2"}
    with qtbot.waitSignal(dialog.started) as told:
        qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    assert told.args == [{"run_id": "r2", "run_dir": "/d/runs/r2"}]
    assert started(feed) == {"if_active": "refuse"}
    assert not dialog.isVisible()


def test_a_preset_fills_the_fields_and_names_what_still_wins(qtbot: QtBot) -> None:
    feed = idle_feed()
    dialog = new_run(qtbot, feed, preset="lunarlander_ppo")
    assert dialog.goal.text() == "200"
    assert "Until it lands well." in dialog.hint.text()
    assert "env.id = Acrobot-v1" in dialog.hint.text()
    dialog.name.setText(" second ")
    dialog.note.setPlainText("try it")
    dialog.clients.setValue(3)
    dialog.goal.clear()
    qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    assert started(feed) == {
        "preset": "lunarlander_ppo",
        "overrides": {"clients.local": 3, "stop.mean_return": None},
        "name": "second",
        "note": "try it",
        "if_active": "refuse",
    }


def test_settings_of_another_run_go_along(qtbot: QtBot) -> None:
    feed = idle_feed()
    settings = {"seed": 7, "clients.local": 1, "env.id": "Pong"}
    dialog = new_run(qtbot, feed, overrides=settings)
    assert dialog.clients.value() == 1
    assert "Trains Pong." in dialog.hint.text(), "they win over what is saved"
    assert dialog.preset.currentText() == "Settings of the chosen run"
    qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    assert started(feed)["overrides"] == settings


def test_an_active_run_is_stopped_only_where_the_button_says_so(qtbot: QtBot) -> None:
    feed = running_feed()
    dialog = new_run(qtbot, feed)
    assert "lunar-2" in dialog.active.text()
    assert "2 min" in dialog.active.text()
    assert "Stop it" in dialog.start.text().replace("&", "")
    qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    assert started(feed)["if_active"] == "stop"


def test_a_refused_start_keeps_the_dialog_with_the_reason(qtbot: QtBot) -> None:
    feed = idle_feed()
    dialog = new_run(qtbot, feed)
    feed.answers["run.start"] = refusal("Box2D is missing.", "Install it.")
    with qtbot.waitSignal(dialog.start.problem):
        qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    assert dialog.isVisible()
    assert dialog.wrong.text() == "Box2D is missing.\nInstall it."
    qtbot.mouseClick(dialog.cancel, Qt.MouseButton.LeftButton)
    assert not dialog.isVisible()


def test_a_goal_that_is_no_number_is_not_taken_for_none(qtbot: QtBot) -> None:
    feed = idle_feed()
    dialog = new_run(qtbot, feed)
    qtbot.keyClicks(dialog.goal, "1e")
    assert not dialog.start.isEnabled()
    assert dialog.no_goal.isVisible()
    qtbot.keyClick(dialog.goal, Qt.Key.Key_Return)
    assert feed.sent_of("run.start") == []
    qtbot.keyClicks(dialog.goal, "3")
    assert not dialog.no_goal.isVisible()
    qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    assert started(feed)["overrides"] == {"stop.mean_return": 1000.0}


def asking(qtbot: QtBot, feed: FakeFeed) -> NewRunDialog:
    """A dialog whose questions are not answered yet."""
    feed.answers = {}
    dialog = opened(qtbot, feed, preset="lunarlander_ppo")
    qtbot.waitUntil(lambda: bool(feed.sent_of("config.get") and feed.sent_of("config.presets")))
    return dialog


def give_presets(feed: FakeFeed) -> None:
    feed.sent_of("config.presets")[-1].call.answer({"presets": [LUNAR.model_dump(mode="json")]})


def give_settings(feed: FakeFeed) -> None:
    give_presets(feed)
    feed.sent_of("config.get")[-1].call.answer(CONFIG.model_dump(mode="json"))


def test_enter_before_the_settings_are_here_begins_the_run_as_soon_as_they_are(qtbot: QtBot) -> None:
    feed = running_feed()
    dialog = asking(qtbot, feed)
    qtbot.keyClicks(dialog.name, "walk")
    qtbot.keyClick(dialog.name, Qt.Key.Key_Return)
    # The run that goes on ends meanwhile.
    feed.change_run(RUN.model_copy(update={"state": "finished"}))
    feed.sent_of("config.get")[0].call.answer(CONFIG.model_dump(mode="json"))
    assert not feed.sent_of("run.start"), "which settings the preset has is not known yet"
    give_presets(feed)
    [begun] = feed.sent_of("run.start")
    assert (begun.params["name"], begun.params["preset"]) == ("walk", "lunarlander_ppo")


@pytest.mark.parametrize("lost", [True, False])
def test_enter_is_forgotten_where_the_settings_can_not_be_had(qtbot: QtBot, lost: bool) -> None:
    feed = idle_feed()
    dialog = asking(qtbot, feed)
    qtbot.keyClick(dialog.name, Qt.Key.Key_Return)
    for asked in list(feed.sent):
        asked.call.refuse(refusal(code=ErrorCode.NO_ANSWER if lost else ErrorCode.NOT_NOW))
    if lost:
        feed.connect_as(LOST)
    feed.connect_as(CONNECTED)
    dialog.again.click()
    qtbot.waitUntil(lambda: len(feed.sent_of("config.get")) == len(feed.sent_of("config.presets")) == 2)
    give_settings(feed)
    assert dialog.start.isEnabled()
    assert not feed.sent_of("run.start")


def test_what_is_typed_before_the_settings_come_stays(qtbot: QtBot) -> None:
    feed = idle_feed()
    dialog = asking(qtbot, feed)
    dialog.clients.setValue(5)
    give_settings(feed)
    assert (dialog.clients.value(), dialog.goal.text()) == (5, "200")
    qtbot.keyClicks(dialog.goal, "5")
    dialog.preset.setCurrentIndex(0)
    assert (dialog.clients.value(), dialog.goal.text()) == (5, "2005")


def test_settings_that_do_not_come_can_be_asked_for_again(qtbot: QtBot) -> None:
    feed = idle_feed()
    dialog = asking(qtbot, feed)
    for command in ("config.presets", "config.get"):
        feed.sent_of(command)[0].call.silent.emit(refusal("No answer from my-server."))
    assert dialog.wrong.text().startswith("No answer")
    qtbot.mouseClick(dialog.again, Qt.MouseButton.LeftButton)
    assert not dialog.wrong.isVisible()
    assert not dialog.again.isVisible()
    qtbot.waitUntil(lambda: len(feed.sent_of("config.get")) == len(feed.sent_of("config.presets")) == 2)
    give_settings(feed)
    assert dialog.start.isEnabled()
    assert dialog.preset.count() == 3


def test_settings_are_asked_for_when_the_connection_is_back(qtbot: QtBot) -> None:
    feed = idle_feed()
    feed.connect_as(LOST)
    dialog = opened(qtbot, feed)
    assert feed.sent == []
    feed.connect_as(CONNECTED)
    qtbot.waitUntil(dialog.start.isEnabled)
    feed.connect_as(LOST)
    assert (dialog.start.isEnabled(), bool(dialog.start.toolTip())) == (False, True)


def test_the_dialog_of_a_new_run_grows_with_what_it_says(qtbot: QtBot) -> None:
    feed = running_feed()
    dialog = new_run(qtbot, feed)
    width = dialog.width()
    dialog.preset.offer([LUNAR.model_copy(update={"title": 9 * "CartPole with double DQN "})])
    dialog.preset.setCurrentIndex(2)
    dialog.wrong.setText("One sentence.\nAnother one.\nA third one.")
    dialog.wrong.show()
    layout = dialog.layout()
    assert layout is not None
    qtbot.waitUntil(lambda: dialog.height() >= layout.totalHeightForWidth(dialog.width()))
    assert dialog.note.geometry().bottom() < dialog.clients.geometry().top()
    assert dialog.width() == width, "whatever the titles are"
    assert dialog.clients.lineEdit().textMargins().left() > 0


def test_a_dialog_that_grows_stays_on_the_screen(qtbot: QtBot) -> None:
    dialog = FittingDialog()
    qtbot.addWidget(dialog)
    label = QLabel("short", dialog)
    QVBoxLayout(dialog).addWidget(label)
    dialog.show()
    room = dialog.screen().availableGeometry()
    dialog.move(room.right() - 150, room.bottom() - 50)
    label.setMinimumSize(400, 300)
    qtbot.waitUntil(lambda: dialog.width() >= 400)
    assert room.contains(dialog.frameGeometry())


# --- mnemonics ---


def mnemonics(dialog: QWidget) -> list[str]:
    found = [re.search(r"&(\w)", button.text()) for button in dialog.findChildren(QPushButton)]
    assert all(found), [button.text() for button in dialog.findChildren(QPushButton)]
    return [match[1].lower() for match in found if match is not None]


@pytest.mark.parametrize("yes", ["Stop it", "Continue", "Cancel it"])
def test_each_button_of_a_question_has_a_mnemonic_of_its_own(qtbot: QtBot, yes: str) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    ask(window, Question("Stop?", "It is saved first.", yes), window.close)
    box = part_of(window, QMessageBox)
    found = mnemonics(box)
    assert len(found) == len(set(found)) == 2
    box.close()


def test_the_dialog_of_a_note_has_mnemonics(qtbot: QtBot) -> None:
    dialog = NoteDialog("Note", "run", "", lambda *_: idle_feed().call("runs.list"))
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(dialog)
    assert sorted(mnemonics(dialog)) == ["c", "s"]
