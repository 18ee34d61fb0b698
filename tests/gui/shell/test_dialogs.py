import re
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
    QLineEdit,
    QMessageBox,
    QPushButton,
    QScrollArea,
    QStyleOptionViewItem,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from soulsgui.config.layers import combine, defaults_layer, over_defaults, preset_layer, preset_names
from soulsgui.config.schema import flatten
from soulsgui.gui.config.draft import same
from soulsgui.gui.config.new_run import NewRunDialog, RunSettings
from soulsgui.gui.models.rules import Question
from soulsgui.gui.runs.checkpoints import NoteDialog
from soulsgui.gui.widgets.ask import ask
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.presets import picture_of, time_words
from soulsgui.wire.control import ConfigValues, ErrorCode, Preset, RunPlace, RunStatus, RunSummary, Status
from tests.gui.fake_feed import HELLO, LIVE, LOST, FakeFeed, refusal
from tests.gui.reading import part_of

pytestmark = pytest.mark.usefixtures("theme")
RUN = RunStatus(id="r1", name="lunar-2", state="running", checkpoint_age_s=125.0)
DEFAULTS = {"env.id": "CartPole-v1", "clients.local": 2, "stop.mean_return": None}
CONFIG = ConfigValues(
    defaults=DEFAULTS, saved={"env.id": "Acrobot-v1"}, running={}, text="", hash="", path=""
).model_dump(mode="json")
TAUGHT = {"env.id": "LunarLander-v3", "stop.mean_return": 200}
LUNAR = Preset(name="lunarlander_ppo", title="LunarLander", about="Until it lands well.", values=TAUGHT)
LUNAR = LUNAR.model_copy(update={"seconds": 95.0, "machine": "2 cores"})
PRESETS = {"presets": [LUNAR.model_dump(mode="json")]}


@pytest.fixture
def feed() -> FakeFeed:
    """No run is active."""
    made = FakeFeed(Status(), LIVE, HELLO)
    made.answers = {"config.presets": PRESETS, "config.get": CONFIG}
    return made


@pytest.fixture
def running(feed: FakeFeed) -> FakeFeed:
    feed.status = Status(run=RUN)
    return feed


def opened(qtbot: QtBot, feed: FakeFeed, **more: object) -> NewRunDialog:
    dialog = NewRunDialog(feed, **more)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(dialog)
    dialog.open()
    return dialog


def new_run(qtbot: QtBot, feed: FakeFeed, **more: object) -> NewRunDialog:
    dialog = opened(qtbot, feed, **more)
    qtbot.waitUntil(lambda: dialog.preset.count() == 3 and dialog.start.isEnabled())
    return dialog


def started(feed: FakeFeed) -> dict[str, Any]:
    params = feed.sent_of("run.start")[0].params
    assert params.keys() == {"preset", "overrides", "name", "note", "if_active"}
    return {name: given for name, given in params.items() if given}


def test_a_run_begins_with_the_current_settings_as_they_are(qtbot: QtBot, feed: FakeFeed) -> None:
    dialog = new_run(qtbot, feed)
    assert (dialog.clients.value(), dialog.goal.text()) == (2, "")
    assert "Acrobot-v1" in dialog.hint.text()
    assert dialog.picture.isHidden(), "of Acrobot none is shipped"
    feed.answers["run.start"] = {"run_id": "r2", "run_dir": "/d/runs/r2"}
    with qtbot.waitSignal(dialog.started) as told:
        dialog.start.click()
    assert told.args == [RunPlace(run_id="r2", run_dir="/d/runs/r2")]
    assert started(feed) == {"if_active": "refuse"}
    assert not dialog.isVisible()


def test_a_preset_fills_the_fields_and_names_what_still_wins(qtbot: QtBot, feed: FakeFeed) -> None:
    dialog = new_run(qtbot, feed, preset="lunarlander_ppo")
    assert dialog.goal.text() == "200"
    assert "Until it lands well. Took about 2\N{NO-BREAK SPACE}min on 2 cores." in dialog.hint.text()
    assert dialog.differs.text() == "env.id = Acrobot-v1, else as the preset LunarLander"
    dialog.name.setText(" second ")
    dialog.note.setPlainText("try it")
    dialog.clients.setValue(3)
    dialog.goal.clear()
    assert dialog.differs.text() == (
        "env.id = Acrobot-v1, clients.local = 3, stop.mean_return = none, else as the preset LunarLander"
    )
    dialog.start.click()
    assert started(feed) == {
        "preset": "lunarlander_ppo",
        "overrides": {"clients.local": 3, "stop.mean_return": None},
        "name": "second",
        "note": "try it",
        "if_active": "refuse",
    }


def test_a_preset_is_found_by_typing_and_enter_then_begins_nothing(qtbot: QtBot, feed: FakeFeed) -> None:
    dialog = new_run(qtbot, feed)
    box, none = dialog.preset, dialog.preset.currentText()
    line = part_of(box, QLineEdit)
    qtbot.mouseClick(line, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: line.selectedText() == none)
    for typed, listed, found in (
        ("nothing", "No preset has that", ""),
        ("ppo land", "LunarLander", "lunarlander_ppo"),
        ("-v3 LUNAR", "LunarLander", "lunarlander_ppo"),
    ):
        line.selectAll()
        qtbot.keyClicks(box, typed)
        assert box.popup.isVisible()
        assert [box.found.item(row).text() for row in range(box.found.rowCount())] == [listed]
        qtbot.keyClick(box.popup, Qt.Key.Key_Return)
        assert (box.currentData(), box.currentText()) == (found, "LunarLander" if found else none)
    assert dialog.goal.text() == "200"
    assert feed.sent_of("run.start") == []
    line.selectAll()
    qtbot.keyClicks(box, "nothing")
    (clear,) = line.findChildren(QToolButton)
    clear.click()
    assert [box.found.item(row).text() for row in range(box.found.rowCount())] == [none, "LunarLander"]
    for _ in range(2):
        qtbot.keyClick(box.popup, Qt.Key.Key_Down)
    qtbot.keyClick(box.popup, Qt.Key.Key_Up)
    qtbot.keyClick(box.popup, Qt.Key.Key_Return)
    assert (box.currentData(), box.currentText()) == ("", none)


@pytest.mark.parametrize("name", preset_names())
def test_the_values_shown_of_a_preset_are_those_that_a_run_begins_with(name: str) -> None:
    layer = preset_layer(name)
    config = ConfigValues.model_validate(CONFIG | {"defaults": defaults_layer().values, "saved": {}})
    choice = RunSettings(config, Preset(name=name, title="", about="", values=layer.values))
    expected = flatten(combine(over_defaults([layer])).model_dump(mode="json"))
    assert [key for key, value in expected.items() if not same(key, choice.value(key), value)] == []


def test_a_dialog_opens_before_settings_that_are_none(qtbot: QtBot, feed: FakeFeed) -> None:
    wrong = {"stop.mean_return": "high", "clients.local": [1], "seed": {"a": 1}, "algorithm": None}
    feed.answers["config.get"] = CONFIG | {"saved": wrong}
    dialog = new_run(qtbot, feed)
    assert (dialog.goal.text(), dialog.clients.value()) == ("", 0)
    dialog.seeds.setValue(2)
    dialog.as_sweep.click()


def test_a_list_that_means_the_same_as_in_the_preset_does_not_differ_from_it(
    qtbot: QtBot, feed: FakeFeed
) -> None:
    preset = LUNAR.model_copy(update={"values": {"network.hidden_sizes": [64]}})
    feed.answers["config.presets"] = {"presets": [preset.model_dump(mode="json")]}
    feed.answers["config.get"] = CONFIG | {"saved": {"network.hidden_sizes": (64,)}}
    dialog = opened(qtbot, feed, preset=preset.name)
    qtbot.waitUntil(lambda: "Until it lands well." in dialog.hint.text())
    assert dialog.differs.text() == "As the preset LunarLander"


def test_each_preset_has_a_picture_of_what_it_trains(qapp: QApplication) -> None:
    for name in preset_names():
        picture = picture_of(str(preset_layer(name).values["env.id"]))
        assert 0 < picture.width() <= 200, name
    assert picture_of("../icons/app/app-64").isNull(), "another computer may name any"


def test_the_list_of_presets_shows_a_picture_and_the_measured_time_of_each(
    qtbot: QtBot, feed: FakeFeed
) -> None:
    dialog = new_run(qtbot, feed)
    place = dialog.preset.findData("lunarlander_ppo")
    for view in (dialog.preset.view(), dialog.preset.popup):
        delegate: Any = view.itemDelegate()
        option: Any = QStyleOptionViewItem()
        delegate.initStyleOption(option, dialog.preset.model().index(place, 0))
        assert option.text.split("\N{LINE SEPARATOR}") == [
            "LunarLander",
            "about 2\N{NO-BREAK SPACE}min on 2 cores",
        ]
        assert not option.icon.isNull()
    assert dialog.preset.itemText(place) == "LunarLander"
    quick = LUNAR.model_copy(update={"seconds": 8.0})
    assert [time_words(one) for one in (quick, quick.model_copy(update={"seconds": 0.0}))] == [
        "about 8\N{NO-BREAK SPACE}s on 2 cores",
        "",
    ]


def test_settings_of_another_run_go_along(qtbot: QtBot, feed: FakeFeed) -> None:
    settings = {"seed": 7, "clients.local": 1, "env.id": "Pong"}
    dialog = new_run(qtbot, feed, overrides=settings)
    assert dialog.clients.value() == 1
    assert "Trains Pong." in dialog.hint.text(), "they win over what is saved"
    assert dialog.preset.currentText() == "Settings of the chosen run"
    dialog.start.click()
    assert started(feed)["overrides"] == settings


def test_an_active_run_is_stopped_only_where_the_button_says_so(qtbot: QtBot, running: FakeFeed) -> None:
    dialog = new_run(qtbot, running)
    assert "lunar-2" in dialog.active.text()
    assert "2 min" in dialog.active.text()
    assert "It has no goal: it only ends when you stop it." in dialog.active.text()
    assert "Stop it" in dialog.start.text().replace("&", "")
    dialog.start.click()
    assert started(running)["if_active"] == "stop"


def test_a_run_goes_into_the_queue_and_with_several_seeds_as_an_experiment(
    qtbot: QtBot, running: FakeFeed
) -> None:
    dialog = new_run(qtbot, running)
    dialog.seeds.setValue(3)
    assert "with the seeds 0 to 2" in dialog.hint.text()
    running.answers["run.start"] = {"run_id": "", "run_dir": "", "queued": [4, 5, 6]}
    with qtbot.waitSignal(dialog.started):
        dialog.queue.click()
    params = running.sent_of("run.start")[0].params
    assert (params["seeds"], params["if_active"]) == (3, "queue")


def test_nothing_waits_where_nothing_goes_on_and_a_checkpoint_brings_its_own_settings(
    qtbot: QtBot, feed: FakeFeed
) -> None:
    of_run = CONFIG | {"run": {"env.id": "Pong", "clients.local": 5}}
    feed.answers["config.get"] = lambda params: of_run if params == {"run": "r1"} else CONFIG
    dialog = new_run(qtbot, feed, checkpoint="r1/history/8")
    assert dialog.queue.isHidden()
    assert not dialog.preset.isVisible()
    assert dialog.clients.value() == 5
    assert "from the checkpoint r1/history/8" in dialog.hint.text()
    assert dialog.differs.text() == "As the checkpoint"
    assert dialog.config.isHidden()
    dialog.clients.setValue(1)
    assert dialog.differs.text() == "clients.local = 1, else as the checkpoint"
    dialog.start.click()
    params = feed.sent_of("run.start")[0].params
    assert (params["from"], params["overrides"]) == ("r1/history/8", {"clients.local": 1})
    assert "preset" not in params


def test_a_run_begins_with_the_newest_weights_of_another_one(qtbot: QtBot, feed: FakeFeed) -> None:
    of_run = CONFIG | {"run": {"env.id": "Pong", "clients.local": 5}}
    runs = [RunSummary(id="r1", name="pong", resumable=True), RunSummary(id="r2")]
    feed.answers |= {
        "config.get": lambda params: of_run if params == {"run": "r1"} else CONFIG,
        "runs.list": {"runs": [one.model_dump(mode="json") for one in runs]},
    }
    dialog = new_run(qtbot, feed, preset=LUNAR.name, overrides={"env.id": "MountainCar-v0"})
    weights = dialog.weights
    qtbot.waitUntil(lambda: weights.count() == 2)  # one of the runs has no checkpoint
    dialog.as_sweep.click()
    assert not weights.isVisible()
    dialog.as_sweep.click()
    weights.setCurrentIndex(1)
    weights.activated.emit(1)
    assert weights.currentText() == "The newest of “pong”"
    assert not dialog.start.isEnabled(), "until its settings are here"
    qtbot.waitUntil(dialog.start.isEnabled)
    assert not dialog.preset.isVisible()
    assert not dialog.as_sweep.isVisible()
    assert dialog.clients.value() == 5
    assert dialog.hint.text() == "Trains Pong. It begins from the newest checkpoint."
    assert dialog.differs.text() == "As the checkpoint", "preset and overrides are for new weights"
    weights.setCurrentIndex(0)
    weights.activated.emit(0)
    qtbot.waitUntil(lambda: dialog.start.isEnabled() and dialog.clients.value() != 5)
    assert dialog.preset.isVisible()
    assert dialog.differs.text() == "env.id = MountainCar-v0, else as the preset LunarLander"
    weights.setCurrentIndex(1)
    weights.activated.emit(1)
    qtbot.waitUntil(dialog.start.isEnabled)
    dialog.start.click()
    params = feed.sent_of("run.start")[0].params
    assert (params["from"], params["overrides"]) == ("r1", {})
    assert "preset" not in params


def begin_with(dialog: NewRunDialog, place: int) -> None:
    dialog.weights.setCurrentIndex(place)
    dialog.weights.activated.emit(place)


@pytest.fixture
def pong(feed: FakeFeed) -> FakeFeed:
    """There is a run to begin from."""
    run = RunSummary(id="r1", name="pong", resumable=True).model_dump(mode="json")
    of_run = CONFIG | {"run": {"env.id": "Pong", "clients.local": 5}}
    feed.answers |= {
        "config.get": lambda params: of_run if params else CONFIG,
        "runs.list": {"runs": [run]},
    }
    return feed


def test_the_settings_of_a_checkpoint_are_its_own_whatever_was_chosen_before(
    qtbot: QtBot, pong: FakeFeed
) -> None:
    dialog = new_run(qtbot, pong, overrides={"env.id": "Acrobot-v1"}, preset="lunarlander_ppo")
    qtbot.waitUntil(lambda: dialog.weights.count() == 2)
    begin_with(dialog, 1)
    assert not dialog.differs.text(), "until its settings are here"
    qtbot.waitUntil(dialog.start.isEnabled)
    assert dialog.hint.text() == "Trains Pong. It begins from the newest checkpoint."
    assert dialog.differs.text() == "As the checkpoint"
    dialog.start.click()
    assert pong.sent_of("run.start")[0].params["overrides"] == {}


def test_a_checkpoint_that_was_chosen_elsewhere_can_be_chosen_again(qtbot: QtBot, pong: FakeFeed) -> None:
    dialog = new_run(qtbot, pong, checkpoint="r9/history/8")
    begin_with(dialog, 0)
    qtbot.waitUntil(lambda: dialog.weights.count() == 3)
    begin_with(dialog, dialog.weights.findText("r9/history/8"))
    qtbot.waitUntil(dialog.start.isEnabled)
    assert "from the checkpoint r9/history/8" in dialog.hint.text()


def test_the_preset_that_the_user_chose_stays_when_the_list_is_another_one(
    qtbot: QtBot, feed: FakeFeed
) -> None:
    dialog = new_run(qtbot, feed, preset="lunarlander_ppo")
    dialog.preset.setCurrentIndex(0)
    other = LUNAR.model_copy(update={"title": "The Moon"})
    feed.answers["config.presets"] = {"presets": [other.model_dump(mode="json")]}
    feed.take_snapshot(Status())
    qtbot.waitUntil(lambda: dialog.preset.itemText(2) == "The Moon")
    assert dialog.preset.currentIndex() == 0


def test_a_refused_start_keeps_the_dialog_with_the_reason(qtbot: QtBot, feed: FakeFeed) -> None:
    dialog = new_run(qtbot, feed)
    feed.answers["run.start"] = refusal("Box2D is missing.", "Install it.")
    with qtbot.waitSignal(dialog.start.problem):
        dialog.start.click()
    assert dialog.isVisible()
    assert dialog.wrong.text() == "Box2D is missing.\nInstall it."
    dialog.leave.click()
    assert not dialog.isVisible()


def test_while_a_run_is_being_begun_it_cannot_be_begun_once_more_nor_taken_back(
    qtbot: QtBot, running: FakeFeed
) -> None:
    dialog = new_run(qtbot, running)
    begins, other = dialog.queue, dialog.start
    begins.click()
    assert not other.isEnabled()
    assert not dialog.config.isEnabled(), "what is typed there would go with this dialog"
    assert dialog.leave.text() == "&Close"
    running.sent_of("run.start")[0].call.refuse(refusal("The disk is full."))
    assert (begins.isEnabled(), other.isEnabled()) == (True, True)
    assert dialog.leave.text() == "&Cancel"
    other.click()
    assert not begins.isEnabled()


def test_nothing_moves_when_the_settings_come(qtbot: QtBot, feed: FakeFeed) -> None:
    dialog = asking(qtbot, feed)
    assert dialog.hint.text() == "Asking for the settings …"
    place = dialog.name.geometry()
    give_settings(feed)
    assert dialog.hint.text().startswith("Trains ")
    qtbot.wait(50)
    assert dialog.name.geometry() == place


def test_settings_are_shown_once_the_preset_of_the_file_is_known_too(qtbot: QtBot, feed: FakeFeed) -> None:
    feed.answers = {}
    dialog = opened(qtbot, feed)
    qtbot.waitUntil(lambda: asked(feed) == [1, 1])
    feed.sent_of("config.get")[0].call.answer(CONFIG | {"preset": LUNAR.name, "saved": {}})
    assert dialog.hint.text() == "Asking for the settings …"
    assert not dialog.start.isEnabled()
    assert dialog.differs.text() == ""
    feed.sent_of("config.presets")[0].call.answer(PRESETS)
    assert dialog.differs.text() == "As the preset LunarLander"
    assert dialog.goal.text() == "200"
    assert dialog.start.isEnabled()


def test_settings_that_differ_are_shown_in_as_many_lines_as_they_take(qtbot: QtBot, feed: FakeFeed) -> None:
    keys = [key for key in defaults_layer().values if key.startswith("ppo.")]
    saved = dict.fromkeys(keys, 0.125) | {"dqn.gamma": 0.5}
    feed.answers["config.get"] = CONFIG | {"defaults": dict(defaults_layer().values), "saved": saved}
    dialog = new_run(qtbot, feed)
    said = dialog.differs.text()
    assert said.endswith("…, else as the defaults")
    assert "dqn.gamma" not in dialog.differs.toolTip(), "it means nothing to PPO"
    assert 200 < len(said) < 250
    qtbot.waitUntil(lambda: dialog.differs.height() >= dialog.differs.heightForWidth(dialog.differs.width()))
    assert dialog.differs.height() > 2 * dialog.fontMetrics().lineSpacing()


def test_a_goal_that_is_no_number_is_not_taken_for_none(qtbot: QtBot, feed: FakeFeed) -> None:
    dialog = new_run(qtbot, feed)
    qtbot.keyClicks(dialog.goal, "1e")
    assert not dialog.start.isEnabled()
    assert dialog.no_goal.isVisible()
    qtbot.keyClick(dialog.goal, Qt.Key.Key_Return)
    assert feed.sent_of("run.start") == []
    qtbot.keyClicks(dialog.goal, "3")
    assert not dialog.no_goal.isVisible()
    dialog.start.click()
    assert started(feed)["overrides"] == {"stop.mean_return": 1000.0}


def test_enter_ends_no_run_but_waits_for_it(qtbot: QtBot, running: FakeFeed) -> None:
    dialog = new_run(qtbot, running)
    assert [one.property("role") for one in (dialog.start, dialog.queue)] == ["", "primary"]
    qtbot.keyClick(dialog.name, Qt.Key.Key_Return)
    [begun] = running.sent_of("run.start")
    assert begun.params["if_active"] == "queue"


def asking(qtbot: QtBot, feed: FakeFeed) -> NewRunDialog:
    """A dialog whose questions are not answered yet."""
    feed.answers = {}
    dialog = opened(qtbot, feed, preset="lunarlander_ppo")
    qtbot.waitUntil(lambda: asked(feed) == [1, 1])
    return dialog


def asked(feed: FakeFeed) -> list[int]:
    return [len(feed.sent_of(command)) for command in ("config.get", "config.presets")]


def give_settings(feed: FakeFeed) -> None:
    feed.sent_of("config.presets")[-1].call.answer(PRESETS)
    feed.sent_of("config.get")[-1].call.answer(CONFIG)


def test_the_buttons_stay_while_the_active_run_saves_for_the_first_time(
    qtbot: QtBot, running: FakeFeed
) -> None:
    running.change_run(RUN.model_copy(update={"checkpoint_age_s": None, "goal_return": 475.0}))
    dialog = new_run(qtbot, running)
    qtbot.waitUntil(dialog.queue.isVisible)
    before = dialog.height()
    running.change_run(RUN.model_copy(update={"goal_return": 475.0}))
    qtbot.waitUntil(lambda: "checkpoint" in dialog.active.text())
    qtbot.wait(50)
    assert dialog.height() == before


def test_enter_before_the_settings_are_here_begins_with_them(qtbot: QtBot, running: FakeFeed) -> None:
    dialog = asking(qtbot, running)
    qtbot.keyClicks(dialog.name, "walk")
    qtbot.keyClick(dialog.name, Qt.Key.Key_Return)
    # The run that goes on ends meanwhile.
    running.change_run(RUN.model_copy(update={"state": "finished"}))
    running.sent_of("config.get")[0].call.answer(CONFIG)
    assert not running.sent_of("run.start"), "which settings the preset has is not known yet"
    running.sent_of("config.presets")[0].call.answer(PRESETS)
    [begun] = running.sent_of("run.start")
    assert (begun.params["name"], begun.params["preset"]) == ("walk", "lunarlander_ppo")


@pytest.mark.parametrize("lost", [True, False])
def test_enter_is_forgotten_where_no_settings_come(qtbot: QtBot, feed: FakeFeed, lost: bool) -> None:
    dialog = asking(qtbot, feed)
    qtbot.keyClick(dialog.name, Qt.Key.Key_Return)
    for sent in list(feed.sent):
        sent.call.refuse(refusal(code=ErrorCode.NO_ANSWER if lost else ErrorCode.NOT_NOW))
    if lost:
        feed.connect_as(LOST)
    feed.connect_as(LIVE)
    dialog.again.click()
    qtbot.waitUntil(lambda: asked(feed) == [2, 2])
    give_settings(feed)
    assert dialog.start.isEnabled()
    assert not feed.sent_of("run.start")


def test_what_is_typed_before_the_settings_come_stays(qtbot: QtBot, feed: FakeFeed) -> None:
    dialog = asking(qtbot, feed)
    dialog.clients.setValue(5)
    give_settings(feed)
    assert (dialog.clients.value(), dialog.goal.text()) == (5, "200")
    qtbot.keyClicks(dialog.goal, "5")
    dialog.preset.setCurrentIndex(0)
    assert (dialog.clients.value(), dialog.goal.text()) == (5, "2005")


def test_settings_that_do_not_come_can_be_asked_for_again(qtbot: QtBot, feed: FakeFeed) -> None:
    dialog = asking(qtbot, feed)
    for sent in list(feed.sent):
        sent.call.silent.emit(refusal("No answer from my-server."))
    assert dialog.wrong.text().startswith("No answer")
    dialog.again.click()
    assert not dialog.wrong.isVisible()
    assert not dialog.again.isVisible()
    qtbot.waitUntil(lambda: asked(feed) == [2, 2])
    give_settings(feed)
    assert dialog.start.isEnabled()
    assert dialog.preset.count() == 3


def test_settings_are_asked_for_when_the_connection_is_back(qtbot: QtBot, feed: FakeFeed) -> None:
    feed.connect_as(LOST)
    dialog = opened(qtbot, feed)
    assert feed.sent == []
    feed.connect_as(LIVE)
    qtbot.waitUntil(dialog.start.isEnabled)
    feed.connect_as(LOST)
    assert (dialog.start.isEnabled(), bool(dialog.start.toolTip())) == (False, True)


def test_the_dialog_of_a_new_run_grows_with_what_it_says(qtbot: QtBot, running: FakeFeed) -> None:
    dialog = new_run(qtbot, running)
    width = dialog.width()
    dialog.preset.offer([LUNAR.model_copy(update={"title": 9 * "CartPole with double DQN "})])
    dialog.preset.setCurrentIndex(2)
    dialog.wrong.setText("One sentence.\nAnother one.\nA third one.")
    dialog.wrong.show()
    layout: Any = dialog.layout()
    qtbot.waitUntil(lambda: dialog.height() >= layout.totalHeightForWidth(dialog.width()))
    assert dialog.note.geometry().bottom() < dialog.clients.geometry().top()
    assert dialog.width() == width, "whatever the titles are"
    assert dialog.clients.lineEdit().textMargins().left() > 0


def test_a_dialog_that_grows_stays_on_the_screen(qtbot: QtBot) -> None:
    dialog = FittingDialog("growing", "Growing")
    qtbot.addWidget(dialog)
    label = QLabel("short", dialog)
    QVBoxLayout(dialog).addWidget(label)
    dialog.show()
    room = dialog.screen().availableGeometry()
    dialog.move(room.right() - 150, room.bottom() - 50)
    label.setMinimumSize(400, 300)
    qtbot.waitUntil(lambda: dialog.width() >= 400)
    assert room.contains(dialog.frameGeometry())


def test_a_dialog_too_high_for_the_screen_is_scrolled_up_and_down_alone(qtbot: QtBot) -> None:
    dialog = FittingDialog("growing", "Growing")
    qtbot.addWidget(dialog)
    label = QLabel("short", dialog)
    dialog.arrange(label, foot=dialog.foot())
    dialog.show()
    label.setMinimumSize(400, dialog.screen().availableGeometry().height() + 100)
    qtbot.waitUntil(lambda: dialog.findChild(QScrollArea) is not None)
    area = part_of(dialog, QScrollArea)
    qtbot.waitUntil(area.verticalScrollBar().isVisible)
    qtbot.waitUntil(lambda: area.viewport().width() >= 400)


def mnemonics(dialog: QWidget) -> list[str]:
    buttons = [button.text() for button in dialog.findChildren(QPushButton)]
    found = [match[1].lower() for words in buttons if (match := re.search(r"&(\w)", words))]
    assert len(found) == len(set(found)) == len(buttons), buttons
    return found


def test_each_button_of_a_question_and_a_note_has_a_mnemonic_of_its_own(qtbot: QtBot, feed: FakeFeed) -> None:
    for yes in ("Stop it", "Continue", "Cancel it"):
        window = QWidget()
        qtbot.addWidget(window)
        ask(window, Question("Stop?", "It is saved first.", yes), window.close)
        box = part_of(window, QMessageBox)
        assert len(mnemonics(box)) == 2
        box.close()
    dialog = NoteDialog("Note", "run", "", lambda *_: feed.call("runs.list"))
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(dialog)
    assert sorted(mnemonics(dialog)) == ["c", "s"]
