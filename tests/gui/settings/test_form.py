from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QLineEdit, QListWidget, QScrollArea
from pytestqt.qtbot import QtBot

from soulsgui.config.schema import all_settings
from soulsgui.gui.settings.form import SettingsForm
from soulsgui.gui.settings.spec import specs
from soulsgui.gui.theme import Theme
from tests.gui.wheel import turn_wheel

BASE = {key: all_settings()[key].default for key in specs()}


@pytest.fixture(scope="module")
def shared(theme: Theme) -> Iterator[SettingsForm]:
    """One for all tests: its rows take a second to build."""
    made = SettingsForm()
    made.resize(1000, 700)
    made.show()
    yield made
    made.close()
    made.deleteLater()


@pytest.fixture
def form(shared: SettingsForm) -> SettingsForm:
    search(shared).clear()
    modified_only(shared).setChecked(False)
    shared.load(BASE, {"ppo.gamma": 0.95})
    return shared


def search(form: SettingsForm) -> QLineEdit:
    found = form.findChild(QLineEdit)
    assert found is not None
    return found


def modified_only(form: SettingsForm) -> QCheckBox:
    return next(box for box in form.findChildren(QCheckBox) if "odified" in box.text())


def line(form: SettingsForm, key: str) -> QLineEdit:
    found = form.row(key).editor.findChild(QLineEdit)
    assert found is not None
    return found


def write(qtbot: QtBot, form: SettingsForm, key: str, words: str) -> None:
    field = line(form, key)
    field.selectAll()
    qtbot.keyClick(field, Qt.Key.Key_Delete)
    qtbot.keyClicks(field, words)


def visible(form: SettingsForm) -> set[str]:
    return {key for key in specs() if form.row(key).isVisible()}


def test_typing_is_checked_at_once(qtbot: QtBot, form: SettingsForm) -> None:
    assert visible(form) == set(specs())
    assert (line(form, "ppo.gamma").text(), line(form, "env.id").text()) == ("0.95", "CartPole-v1")
    write(qtbot, form, "ppo.gamma", "1.5")
    assert "less than or equal to 1" in form.row("ppo.gamma").wrong.text()
    assert form.edits.own == {"ppo.gamma": 1.5}
    write(qtbot, form, "ppo.gamma", "0.9")
    assert form.row("ppo.gamma").wrong.text() == ""
    assert form.edits.own == {"ppo.gamma": 0.9}


def test_switches_and_choices_are_changes_too(qtbot: QtBot, form: SettingsForm) -> None:
    box = form.row("normalize.observations").editor.findChild(QCheckBox)
    choice = form.row("network.activation").editor.findChild(QComboBox)
    assert box is not None
    assert choice is not None
    with qtbot.waitSignal(form.edited):
        box.click()
    choice.setCurrentText("relu")
    assert form.edits.own == {
        "ppo.gamma": 0.95,
        "normalize.observations": False,
        "network.activation": "relu",
    }


def test_the_reset_button_is_there_only_for_ones_own_values_and_brings_the_shipped_one(
    qtbot: QtBot, form: SettingsForm
) -> None:
    row = form.row("ppo.gamma")
    assert row.reset.isVisible()
    assert not form.row("ppo.epochs").reset.isVisible()
    assert row.reset.toolTip() == "Back to 0.99"
    qtbot.mouseClick(row.reset, Qt.MouseButton.LeftButton)
    assert line(form, "ppo.gamma").text() == "0.99"
    assert form.edits.own == {}
    assert not row.reset.isVisible()


def test_search_leaves_only_what_matches(qtbot: QtBot, form: SettingsForm) -> None:
    qtbot.keyClicks(search(form), "discount")
    assert visible(form) == {"ppo.gamma", "dqn.gamma", "sac.gamma", "vtrace.gamma"}
    index = form.findChild(QListWidget)
    assert index is not None
    shown = [index.item(n).text() for n in range(index.count()) if not index.item(n).isHidden()]
    assert shown == ["PPO", "DQN", "SAC", "V-trace"]


def test_modified_only_leaves_ones_own_values_saved_or_typed(qtbot: QtBot, form: SettingsForm) -> None:
    write(qtbot, form, "ppo.epochs", "3")
    modified_only(form).click()
    assert visible(form) == {"ppo.gamma", "ppo.epochs"}


def test_problems_the_server_finds_stand_at_their_setting_until_it_is_changed(form: SettingsForm) -> None:
    row = form.row("ppo.learning_rate")
    form.show_problems({"ppo.learning_rate": "this schedule needs stop.env_steps.", "unknown": "x"})
    assert "needs stop.env_steps" in row.wrong.text()
    form.show_problems({})
    assert row.wrong.text() == ""
    form.show_problems({"ppo.learning_rate": "this schedule needs stop.env_steps."})
    row.typed.emit("ppo.learning_rate", 0.1, "")
    assert row.wrong.text() == ""


def test_a_setting_can_be_brought_into_view(qtbot: QtBot, form: SettingsForm) -> None:
    last = list(specs())[-1]
    form.reveal(last)
    qtbot.waitUntil(lambda: not form.row(last).visibleRegion().isEmpty())


def test_loading_again_forgets_what_was_not_saved(qtbot: QtBot, form: SettingsForm) -> None:
    write(qtbot, form, "ppo.epochs", "3")
    with qtbot.waitSignal(form.edited):
        form.load(BASE, {})
    assert form.edits.own == {}
    assert line(form, "ppo.gamma").text() == "0.99"


def test_where_the_sections_have_no_room_the_settings_have_it_at_once(
    qtbot: QtBot, form: SettingsForm, both_themes: Theme
) -> None:
    index, area = form.findChild(QListWidget), form.findChild(QScrollArea)
    assert index is not None
    assert area is not None
    for width, listed in ((480, False), (1000, True)):
        form.resize(width, 700)
        assert (index.isVisible(), area.geometry().right()) == (listed, width - 1)
        assert (area.x() > index.width()) is listed, "before Qt lays out by itself"
    both_themes.set_font_scale(200)
    qtbot.waitUntil(lambda: not index.isVisible() and area.x() == 0)
    both_themes.set_font_scale(100)
    qtbot.waitUntil(index.isVisible)


def test_values_are_told_as_yaml_has_them_also_where_they_can_only_be_read(form: SettingsForm) -> None:
    form.set_read_only(True)
    assert not line(form, "ppo.gamma").isEnabled()
    form.set_read_only(False)
    assert line(form, "ppo.gamma").isEnabled()
    form.load(BASE, {"normalize.observations": False, "ppo.n_clients": 2, "env.kwargs": {"wind": True}})
    switch = form.row("normalize.observations")
    box = switch.editor.findChild(QCheckBox)
    assert box is not None
    assert (box.text(), switch.reset.toolTip()) == ("false", "Back to true")
    assert form.row("ppo.n_clients").reset.toolTip() == "Back to null"
    assert line(form, "ppo.n_clients").placeholderText() == "null"
    assert form.row("env.kwargs").reset.toolTip() == "Back to {}"
    about = " ".join(label.text() for label in form.row("normalize.rewards").findChildren(QLabel))
    assert about.count(": true.") == 3


def test_the_wheel_scrolls_the_page_and_changes_no_choice(qtbot: QtBot, form: SettingsForm) -> None:
    choice = form.row("network.activation").editor.findChild(QComboBox)
    assert choice is not None
    before = choice.currentText()
    turn_wheel(choice, -480)
    assert choice.currentText() == before
