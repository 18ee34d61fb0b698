from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QListWidget,
    QPushButton,
    QScrollArea,
)
from pytestqt.qtbot import QtBot

from soulsgui.config.schema import all_settings
from soulsgui.gui.settings.form import SettingsForm
from soulsgui.gui.settings.row import SettingRow
from soulsgui.gui.settings.spec import section_titles, specs
from soulsgui.gui.theme import Theme
from tests.gui.reading import part_of, shown
from tests.gui.wheel import turn_wheel

BASE = {key: all_settings()[key].default for key in specs()}


@pytest.fixture(scope="module")
def shared(theme: Theme) -> Iterator[SettingsForm]:
    """One for all tests, with all of its rows: they take a second to make."""
    made = SettingsForm()
    for key in specs():
        made.row(key)
    made.resize(1000, 700)
    made.show()
    yield made
    made.close()
    made.deleteLater()


@pytest.fixture
def form(shared: SettingsForm) -> SettingsForm:
    part_of(shared, QLineEdit).clear()  # the search
    modified_only(shared).setChecked(False)
    shared.load(BASE, {"ppo.gamma": 0.95})
    return shared


def modified_only(form: SettingsForm) -> QCheckBox:
    return next(box for box in form.findChildren(QCheckBox) if "odified" in box.text())


def line(form: SettingsForm, key: str) -> QLineEdit:
    return part_of(form.row(key).editor, QLineEdit)


def write(qtbot: QtBot, form: SettingsForm, key: str, words: str) -> None:
    field = line(form, key)
    field.selectAll()
    qtbot.keyClick(field, Qt.Key.Key_Delete)
    qtbot.keyClicks(field, words)


def visible(form: SettingsForm) -> set[str]:
    return {key for key in specs() if form.row(key).isVisible()}


def keys_made(form: SettingsForm) -> set[str]:
    return {row.spec.key for row in form.findChildren(SettingRow)}


def test_a_row_is_made_when_it_comes_into_view_with_what_is_known_of_it(qtbot: QtBot, theme: Theme) -> None:
    form = shown(qtbot, SettingsForm(), 1000, 700)
    form.load(BASE, {"ppo.gamma": 0.95})
    form.show_problems({"ppo.gamma": "It is too small."})
    first, last = "algorithm", list(specs())[-1]
    qtbot.waitUntil(lambda: first in keys_made(form))
    bar = part_of(form, QScrollArea).verticalScrollBar()
    bar.setValue(bar.maximum())
    qtbot.waitUntil(lambda: last in keys_made(form))
    assert len(keys_made(form)) < len(specs()) / 3
    assert "ppo.gamma" not in keys_made(form)
    gamma = form.row("ppo.gamma")
    assert (line(form, "ppo.gamma").text(), gamma.wrong.text()) == ("0.95", "It is too small.")
    assert not gamma.reset.isHidden()


def test_tab_leads_through_rows_that_nobody_has_seen_yet(qtbot: QtBot, theme: Theme) -> None:
    form = shown(qtbot, SettingsForm(), 1000, 400)
    form.load(BASE, {})
    form.activateWindow()
    qtbot.waitUntil(form.isActiveWindow)
    in_order = [key for name in section_titles() for key, spec in specs().items() if spec.section == name]
    form.reveal(in_order[0])
    reached = []
    for _ in range(30):
        at = QApplication.focusWidget()
        assert at is not None
        reached.append(at.objectName().removeprefix("setting-"))
        qtbot.waitUntil(lambda at=at: not at.visibleRegion().isEmpty())
        qtbot.keyClick(at, Qt.Key.Key_Tab)
    assert reached == in_order[:30]


def test_typing_is_checked_at_once_and_forgotten_when_it_is_loaded_again(
    qtbot: QtBot, form: SettingsForm
) -> None:
    assert visible(form) == {key for key in specs() if key.partition(".")[0] not in ("dqn", "sac", "vtrace")}
    assert (line(form, "ppo.gamma").text(), line(form, "env.id").text()) == ("0.95", "CartPole-v1")
    write(qtbot, form, "ppo.gamma", "1.5")
    assert "less than or equal to 1" in form.row("ppo.gamma").wrong.text()
    assert form.edits.own == {"ppo.gamma": 1.5}
    write(qtbot, form, "ppo.gamma", "0.9")
    assert form.row("ppo.gamma").wrong.text() == ""
    with qtbot.waitSignal(form.edited):
        part_of(form.row("normalize.observations").editor, QCheckBox).click()
    part_of(form.row("network.activation").editor, QComboBox).setCurrentText("relu")
    typed = {"ppo.gamma": 0.9, "normalize.observations": False, "network.activation": "relu"}
    assert form.edits.own == typed
    with qtbot.waitSignal(form.edited):
        form.load(BASE, {})
    assert form.edits.own == {}
    assert line(form, "ppo.gamma").text() == "0.99"


def test_the_reset_button_is_there_only_for_ones_own_values_and_brings_the_shipped_one(
    form: SettingsForm,
) -> None:
    row = form.row("ppo.gamma")
    assert row.reset.isVisible()
    assert not form.row("ppo.epochs").reset.isVisible()
    assert row.reset.toolTip() == "Back to 0.99"
    row.reset.click()
    assert line(form, "ppo.gamma").text() == "0.99"
    assert form.edits.own == {}
    assert not row.reset.isVisible()


def test_settings_are_found_by_words_by_being_ones_own_and_by_their_place(
    qtbot: QtBot, form: SettingsForm
) -> None:
    last = list(specs())[-1]
    form.reveal(last)
    qtbot.waitUntil(lambda: not form.row(last).visibleRegion().isEmpty())
    write(qtbot, form, "ppo.epochs", "3")
    modified_only(form).click()
    assert visible(form) == {"ppo.gamma", "ppo.epochs"}, "saved or typed"
    modified_only(form).click()
    qtbot.keyClicks(part_of(form, QLineEdit), "discount")
    assert visible(form) == {"ppo.gamma", "dqn.gamma", "sac.gamma", "vtrace.gamma", "normalize.rewards"}
    index = part_of(form, QListWidget)
    shown = [index.item(n).text() for n in range(index.count()) if not index.item(n).isHidden()]
    assert shown == ["Normalize", "PPO", "DQN", "SAC", "V-trace"]


def test_problems_the_server_finds_stand_at_their_setting_until_it_is_changed(form: SettingsForm) -> None:
    row = form.row("ppo.learning_rate")
    form.show_problems({"ppo.learning_rate": "this schedule needs stop.env_steps.", "unknown": "x"})
    assert "needs stop.env_steps" in row.wrong.text()
    form.show_problems({})
    assert row.wrong.text() == ""
    form.show_problems({"ppo.learning_rate": "this schedule needs stop.env_steps."})
    row.typed.emit("ppo.learning_rate", 0.1, "")
    assert row.wrong.text() == ""


def test_where_the_sections_have_no_room_the_settings_have_it_at_once(
    qtbot: QtBot, form: SettingsForm, both_themes: Theme
) -> None:
    index, area = part_of(form, QListWidget), part_of(form, QScrollArea)
    for width, listed in ((480, False), (1000, True)):
        form.resize(width, 700)
        assert (index.isVisible(), area.geometry().right()) == (listed, width - 1)
        assert (area.x() > index.width()) is listed, "before Qt lays out by itself"
    both_themes.set_font_scale(200)
    qtbot.waitUntil(lambda: not index.isVisible() and area.x() == 0)
    both_themes.set_font_scale(100)
    qtbot.waitUntil(index.isVisible)


def test_what_can_only_be_read_is_reached_by_tab_and_copied(qtbot: QtBot, theme: Theme) -> None:
    form = shown(qtbot, SettingsForm(read_only=True), 1000, 700)
    form.load(BASE, {"ppo.gamma": 0.95, "normalize.observations": False, "ppo.n_clients": None})
    form.activateWindow()
    qtbot.waitUntil(form.isActiveWindow)
    told = {}
    for key in ("ppo.gamma", "normalize.observations", "determinism", "ppo.n_clients"):
        form.reveal(key)
        value = line(form, key)
        qtbot.waitUntil(value.hasFocus)
        assert value.isReadOnly()
        value.selectAll()
        qtbot.keyClicks(value, "7")
        qtbot.keyClick(value, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        told[key] = QApplication.clipboard().text()
    assert list(told.values()) == ["0.95", "false", "off", "none"]
    qtbot.keyClick(line(form, "ppo.n_clients"), Qt.Key.Key_Tab)
    assert "ppo" in QApplication.focusWidget().accessibleName()  # type: ignore[union-attr]
    assert not form.row("ppo.gamma").reset.isEnabled()
    assert form.row("ppo.gamma").reset.toolTip() == "This can only be read. Its default is 0.99."


def test_values_are_told_as_yaml_has_them(form: SettingsForm) -> None:
    form.load(BASE, {"normalize.observations": False, "ppo.n_clients": 2, "env.kwargs": {"wind": True}})
    switch = form.row("normalize.observations")
    assert part_of(switch.editor, QCheckBox).text() == "false"
    assert switch.reset.toolTip() == "Back to true"
    assert form.row("ppo.n_clients").reset.toolTip() == "Back to none"
    assert line(form, "ppo.n_clients").placeholderText() == "none"
    assert form.row("env.kwargs").reset.toolTip() == "Back to {}"
    about = " ".join(label.text() for label in form.row("normalize.rewards").findChildren(QLabel))
    assert about.count("Default with") == about.count(": true.") == 1


def test_the_wheel_scrolls_the_page_and_changes_no_choice(form: SettingsForm) -> None:
    choice = part_of(form.row("network.activation").editor, QComboBox)
    before = choice.currentText()
    turn_wheel(choice, -480)
    assert choice.currentText() == before


def test_the_sections_of_algorithms_that_are_not_chosen_are_folded(qtbot: QtBot, form: SettingsForm) -> None:
    assert not form.row("sac.learning_rate").isVisible()
    part_of(form.row("algorithm").editor, QComboBox).setCurrentText("sac")
    assert form.row("sac.learning_rate").isVisible()
    assert not form.row("ppo.clip").isVisible()
    assert form.row("ppo.gamma").isVisible(), "a value of one's own is never out of sight"
    part_of(form, QLineEdit).setText("dqn.learning_rate")
    assert form.row("dqn.learning_rate").isVisible()
    part_of(form, QLineEdit).clear()
    unfold = {
        button.text(): button for button in form.findChildren(QPushButton) if "Show the" in button.text()
    }
    unfold["Show the settings of PPO"].click()
    assert form.row("ppo.clip").isVisible()
    form.reveal("vtrace.clip")
    assert form.row("vtrace.clip").isVisible()
