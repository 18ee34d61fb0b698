"""The editor of the configuration over a real file: what its controls do to config.yaml."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.errors import SoulsGuiError
from soulsgui.gui.config.draft import Draft
from soulsgui.gui.config.page import ConfigDialog, ConfigEditor, ConfigPage
from soulsgui.gui.feed import Feed
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.command_button import Stage
from soulsgui.runner import settings_file
from soulsgui.runner.refusal import as_api_error
from soulsgui.wire.control import ConfigCheckParams, ConfigSaveParams
from tests.end_to_end.server import RunningServer
from tests.gui.fake_feed import FakeFeed, FakeShell, Result

FORM, TEXT, DIFFERENCES = 0, 1, 2
BUSY = (Stage.RUNNING, Stage.DONE)
OWN = """# What this server trains by default.
env:
  num_envs: 2   # the machine is small

ppo:
  # patient
  gamma: 0.995
"""


class Opened(NamedTuple):
    """A page before a played feed, which does with a file what the runner does."""

    page: ConfigPage
    feed: FakeFeed
    shell: FakeShell


@pytest.fixture(scope="module")
def shared(theme: Theme, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """One page for all tests: its form takes a second to build."""
    feed, shell = FakeFeed(), FakeShell(tmp_path_factory.mktemp("window"))
    with pytest.MonkeyPatch.context() as patch:
        # The button says "Saved" no longer than it takes to see it.
        patch.setattr("soulsgui.gui.widgets.command_button._DONE_MS", 1)
        page = ConfigPage(feed, shell)  # type: ignore[arg-type]
    page.resize(1100, 690)
    page.editor.views.fill(Draft(), {})
    page.show()
    yield Opened(page, feed, shell)
    page.hide()
    page.deleteLater()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The user's config.yaml, as a user would write it."""
    path = tmp_path / "config" / "config.yaml"
    path.parent.mkdir()
    path.write_text(OWN)
    return path


@pytest.fixture
def page(qtbot: QtBot, shared: Opened, file: Path) -> ConfigPage:
    page, feed, shell = shared
    folders = Folders(file.parent, file.parent)
    feed.answers = {
        "config.get": lambda _: settings_file.values(folders, {}),
        "config.presets": {"presets": [preset.model_dump(mode="json") for preset in settings_file.presets()]},
        "config.check": lambda params: checked(folders, params),
        "config.save": lambda params: saved(folders, params),
    }
    page.editor.discard_changes()
    page.editor.conflict_bar.hide()
    page.editor.views.setCurrentIndex(FORM)
    page.activateWindow()
    page.landing.setFocus()
    page.refresh()
    ready(qtbot, page.editor)
    qtbot.waitUntil(lambda: page.editor.text == OWN and page.editor.head.save.stage not in BUSY)
    shell.told.clear()
    return page


def checked(folders: Folders, params: dict[str, Any]) -> Result:
    return {"problems": settings_file.problems(folders, ConfigCheckParams.model_validate(params))}


def saved(folders: Folders, params: dict[str, Any]) -> Result:
    try:
        return settings_file.save(folders, ConfigSaveParams.model_validate(params))
    except SoulsGuiError as error:
        return as_api_error(error, "config.save")


@pytest.fixture
def shell(shared: Opened) -> FakeShell:
    return shared.shell


def ready(qtbot: QtBot, editor: ConfigEditor) -> None:
    qtbot.waitUntil(
        lambda: editor.views.filled and editor.presets.box.count() > 1 and editor.head.state == "Saved"
    )


def line_of(editor: ConfigEditor, key: str) -> QLineEdit:
    assert editor.views.form is not None
    line = editor.views.form.row(key).editor.findChild(QLineEdit)
    assert line is not None
    return line


def type_into(qtbot: QtBot, editor: ConfigEditor, key: str, words: str) -> None:
    """Type a value into the form with the keyboard."""
    editor.views.setCurrentIndex(FORM)
    line = line_of(editor, key)
    line.selectAll()
    qtbot.keyClicks(line, words)


def save(qtbot: QtBot, editor: ConfigEditor) -> None:
    qtbot.waitUntil(editor.head.save.isEnabled)
    with qtbot.waitSignal(editor.head.save.finished):
        qtbot.keyClick(editor, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: editor.head.state == "Saved")


def open_question(page: QWidget) -> QMessageBox:
    (box,) = (box for box in page.findChildren(QMessageBox) if box.isVisible())
    return box


def answer(page: QWidget, words: str) -> None:
    box = open_question(page)
    assert all(button.icon().isNull() for button in box.buttons())
    next(button for button in box.buttons() if button.text().replace("&", "") == words).click()


def test_a_change_in_the_form_is_saved_with_every_comment(
    qtbot: QtBot, page: ConfigPage, shell: FakeShell, file: Path
) -> None:
    type_into(qtbot, page.editor, "seed", "7")
    assert page.editor.head.state == "Not saved yet"
    save(qtbot, page.editor)
    text = file.read_text()
    assert yaml.safe_load(text) == {"env": {"num_envs": 2}, "ppo": {"gamma": 0.995}, "seed": 7}
    for comment in ("# What this server trains by default.", "# the machine is small", "# patient"):
        assert comment in text
    assert shell.told[-1].level == "success"
    assert "seed" in shell.told[-1].detail


def test_a_reset_takes_the_entry_out_of_the_file(qtbot: QtBot, page: ConfigPage, file: Path) -> None:
    assert page.editor.views.form is not None
    row = page.editor.views.form.row("ppo.gamma")
    row.reset.click()
    assert row.editor.read() == (0.99, "")
    save(qtbot, page.editor)
    assert yaml.safe_load(file.read_text()) == {"env": {"num_envs": 2}}


def test_a_value_typed_wrong_is_not_saved(qtbot: QtBot, page: ConfigPage, file: Path) -> None:
    type_into(qtbot, page.editor, "ppo.gamma", "1.5")
    assert page.editor.head.state == "1 mistake"
    assert not page.editor.head.save.isEnabled()
    qtbot.keyClick(page.editor, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    answer(page, "Mend it")
    assert page.editor.views.form is not None
    assert page.editor.views.form.row("ppo.gamma").problem
    assert file.read_text() == OWN


@pytest.mark.parametrize("way", ["may_leave", "before_run"])
def test_whoever_goes_on_past_a_mistake_mends_it_or_goes_without(
    qtbot: QtBot, page: ConfigPage, file: Path, way: str
) -> None:
    went: list[bool] = []
    ask = getattr(page, way)
    type_into(qtbot, page.editor, "seed", "8")
    type_into(qtbot, page.editor, "ppo.gamma", "1.5")
    page.editor.views.setCurrentIndex(DIFFERENCES)
    ask(went.append)
    assert "ppo.gamma = 1.5" in open_question(page).informativeText()
    assert open_question(page).icon() is QMessageBox.Icon.Warning
    answer(page, "Mend it")
    assert page.editor.views.currentIndex() == FORM
    assert page.window().focusWidget() is line_of(page.editor, "ppo.gamma")
    ask(went.append)
    answer(page, "Cancel")
    assert went == [False, False]
    assert page.editor.head.state == "1 mistake"
    qtbot.waitUntil(lambda: len(page.editor.views.text.problems) == 1)
    ask(went.append)
    answer(page, {"may_leave": "Discard", "before_run": "Start without"}[way])
    assert went == [False, False, True]
    assert page.unsaved is bool(page.editor.problem_bar.problems) is (way == "before_run")
    assert file.read_text() == OWN


def test_a_value_typed_wrong_is_lost_in_no_view(qtbot: QtBot, page: ConfigPage, file: Path) -> None:
    editor = page.editor
    type_into(qtbot, editor, "network.hidden_sizes", "many")
    editor.views.setCurrentIndex(TEXT)
    assert "hidden_sizes: many" in editor.views.text.toPlainText()
    editor.views.text.setPlainText(f"seed: 8\n{editor.text}")
    qtbot.waitUntil(lambda: len(editor.views.text.problems) == 1)
    assert not editor.head.save.isEnabled()
    editor.views.setCurrentIndex(FORM)
    assert line_of(editor, "network.hidden_sizes").text() == "many"
    editor.presets.chosen.emit("lunarlander_ppo")
    assert line_of(editor, "network.hidden_sizes").text() == "many"
    assert editor.head.state == "1 mistake"
    assert file.read_text() == OWN


def test_mistakes_in_the_text_are_shown_at_line_and_setting(
    qtbot: QtBot, page: ConfigPage, file: Path
) -> None:
    editor = page.editor
    editor.views.setCurrentIndex(TEXT)
    editor.views.text.setPlainText(OWN.replace("gamma: 0.995", "gama: 0.995\n  clip: 70"))
    qtbot.waitUntil(lambda: len(editor.problem_bar.problems) == 2)
    assert set(editor.views.text.problems) == {7, 8}
    assert "ppo.gamma" in editor.views.text.problems[7]
    editor.problem_bar.open("1")
    assert editor.views.text.textCursor().blockNumber() + 1 == 8
    editor.views.setCurrentIndex(FORM)
    assert editor.views.form is not None
    assert "10" in editor.views.form.row("ppo.clip").problem
    assert not editor.head.save.isEnabled()
    editor.views.setCurrentIndex(TEXT)
    editor.views.text.setPlainText(OWN.replace("gamma: 0.995", "clip: 0.3"))
    save(qtbot, editor)
    assert yaml.safe_load(file.read_text())["ppo"] == {"clip": 0.3}


def test_a_rule_between_settings_is_told_by_the_server(qtbot: QtBot, page: ConfigPage) -> None:
    editor = page.editor
    editor.views.setCurrentIndex(TEXT)
    editor.views.text.setPlainText("ppo:\n  learning_rate: {schedule: linear, from: 0.001, to: 0}\n")
    qtbot.waitUntil(lambda: bool(editor.problem_bar.problems))
    assert "stop.env_steps" in editor.views.text.problems[2]


def test_text_that_is_no_yaml_leaves_the_form_alone(qtbot: QtBot, page: ConfigPage) -> None:
    editor = page.editor
    editor.views.setCurrentIndex(TEXT)
    editor.views.text.setPlainText("ppo: [1,\n")
    qtbot.waitUntil(lambda: editor.head.state == "1 mistake")
    editor.views.setCurrentIndex(FORM)
    assert editor.views.form is not None
    assert not editor.views.form.isEnabled()
    editor.discard_changes()
    assert editor.views.form.isEnabled()
    assert editor.views.form.row("ppo.gamma").editor.read() == (0.995, "")


def test_a_preset_lies_under_ones_own_settings_and_says_which_still_win(
    qtbot: QtBot, page: ConfigPage, file: Path
) -> None:
    editor = page.editor
    file.write_text("env:\n  id: CartPole-v1\nstop:\n  mean_return: 50\n  window: 7\n")
    editor.refresh()
    qtbot.waitUntil(lambda: "mean_return: 50" in editor.text)
    place = editor.presets.box.findData("lunarlander_ppo")
    editor.presets.box.setCurrentIndex(place)
    editor.presets.box.activated.emit(place)
    assert {"env.id", "stop.mean_return"} <= set(editor.presets.winning)
    assert "LunarLander-v3" in editor.presets.words
    save(qtbot, editor)
    saved = yaml.safe_load(file.read_text())
    assert saved["preset"] == "lunarlander_ppo"
    assert (saved["env"]["id"], saved["stop"]["mean_return"]) == ("CartPole-v1", 50)
    editor.presets.give.click()
    assert editor.presets.winning == []
    assert editor.views.form is not None
    assert editor.views.form.row("env.id").editor.read() == ("LunarLander-v3", "")
    save(qtbot, editor)
    saved = yaml.safe_load(file.read_text())
    assert "env" not in saved
    assert saved["preset"] == "lunarlander_ppo"


def change_meanwhile(qtbot: QtBot, editor: ConfigEditor, file: Path) -> str:
    """Type something, let somebody else write the file, and try to save."""
    theirs = OWN + "\nseed: 99   # theirs\n"
    type_into(qtbot, editor, "ppo.gamma", "0.9")
    file.write_text(theirs)
    with qtbot.waitSignal(editor.head.save.problem):
        editor.head.save.click()
    qtbot.waitUntil(editor.conflict_bar.isVisible)
    assert file.read_text() == theirs
    return theirs


def test_edits_can_be_kept_on_a_file_changed_meanwhile_or_given_up_or_saved_over_it(
    qtbot: QtBot, page: ConfigPage, file: Path
) -> None:
    editor, bar = page.editor, page.editor.conflict_bar
    theirs = change_meanwhile(qtbot, editor, file)
    bar.reload_button.click()
    assert (editor.head.state, editor.text) == ("Saved", theirs)
    assert file.read_text() == theirs
    file.write_text(OWN)
    editor.refresh()
    qtbot.waitUntil(lambda: editor.text == OWN)
    change_meanwhile(qtbot, editor, file)
    bar.merge_button.click()
    assert editor.head.state == "Not saved yet"
    save(qtbot, editor)
    mine = {"env": {"num_envs": 2}, "ppo": {"gamma": 0.9}}
    assert yaml.safe_load(file.read_text()) == mine | {"seed": 99}
    for comment in ("# theirs", "# patient"):
        assert comment in file.read_text()
    file.write_text(OWN)
    editor.refresh()
    qtbot.waitUntil(lambda: editor.text == OWN)
    change_meanwhile(qtbot, editor, file)
    with qtbot.waitSignal(editor.head.save.finished):
        bar.overwrite_button.click()
    assert yaml.safe_load(file.read_text()) == mine
    assert not bar.isVisible()


def test_a_file_changed_while_nothing_was_typed_is_simply_shown(
    qtbot: QtBot, page: ConfigPage, file: Path
) -> None:
    file.write_text("seed: 5\n")
    page.editor.refresh()
    qtbot.waitUntil(lambda: page.editor.text == "seed: 5\n")
    assert page.editor.views.form is not None
    assert page.editor.views.form.row("seed").editor.read() == (5, "")
    assert not page.editor.conflict_bar.isVisible()


def test_leaving_with_unsaved_changes_asks_and_saves(qtbot: QtBot, page: ConfigPage, file: Path) -> None:
    went: list[bool] = []
    page.may_leave(went.append)
    assert went == [True]
    type_into(qtbot, page.editor, "seed", "11")
    page.may_leave(went.append)
    assert open_question(page).icon() is QMessageBox.Icon.Question
    answer(page, "Cancel")
    assert went == [True, False]
    page.may_leave(went.append)
    answer(page, "Save")
    qtbot.waitUntil(lambda: went == [True, False, True])
    assert yaml.safe_load(file.read_text())["seed"] == 11


def test_a_new_run_asks_about_unsaved_changes_it_would_not_use(
    qtbot: QtBot, page: ConfigPage, file: Path
) -> None:
    begun: list[bool] = []
    page.before_run(begun.append)
    assert begun == [True]
    type_into(qtbot, page.editor, "seed", "13")
    page.before_run(begun.append)
    answer(page, "Cancel")
    page.before_run(begun.append)
    answer(page, "Start without")
    assert begun == [True, False, True]
    assert page.unsaved, "what was typed stays"
    assert file.read_text() == OWN
    page.before_run(begun.append)
    answer(page, "Save and use")
    qtbot.waitUntil(lambda: len(begun) == 4)
    assert begun[-1] is True
    assert yaml.safe_load(file.read_text())["seed"] == 13


def test_the_dialog_saves_by_a_real_runner_and_asks_when_it_is_closed(
    qtbot: QtBot, feed: Feed, server: RunningServer, shell: FakeShell
) -> None:
    file = server.folder / "config" / "config.yaml"
    file.write_text(OWN)
    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = ConfigDialog(feed, shell, parent)
    dialog.open()
    ready(qtbot, dialog.editor)
    type_into(qtbot, dialog.editor, "seed", "21")
    qtbot.keyClick(dialog.editor, Qt.Key.Key_Return)
    assert dialog.isVisible()
    type_into(qtbot, dialog.editor, "ppo.gamma", "1.5")
    dialog.close()
    answer(dialog, "Mend it")
    assert dialog.isVisible()
    type_into(qtbot, dialog.editor, "ppo.gamma", "0.9")
    dialog.close()
    assert dialog.isVisible()
    with qtbot.waitSignal(dialog.finished):
        answer(dialog, "Save")
    assert yaml.safe_load(file.read_text())["seed"] == 21
