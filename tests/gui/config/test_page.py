from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtWidgets import QLabel, QLineEdit, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.config.schema import shipped_with
from soulsgui.errors import SoulsGuiError
from soulsgui.gui.config.draft import Draft
from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.gui.config.page import ConfigDialog, ConfigEditor, ConfigPage
from soulsgui.gui.config.soulsai import ImportedDialog
from soulsgui.gui.feed import Call
from soulsgui.gui.settings.form import SettingsForm
from soulsgui.gui.settings.row import SettingRow
from soulsgui.gui.settings.spec import specs
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.command_button import Stage
from soulsgui.runner import settings_file
from soulsgui.runner.refusal import as_api_error
from soulsgui.wire.control import ConfigCheckParams, ConfigSaveParams, ConfigValues, ErrorCode
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, FakeShell, Result, refusal
from tests.gui.questions import answer, question
from tests.gui.reading import choose, part_of, shown, words_of

FORM, TEXT, DIFFERENCES = 0, 1, 2
BUSY = (Stage.RUNNING, Stage.DONE)
DEFAULTS = {key: spec.info.default for key, spec in specs().items()}
RUNNING = {**DEFAULTS, **shipped_with(DEFAULTS), "env.num_envs": 2, "ppo.gamma": 0.98}
OWN = """# What this server trains by default.
env:
  num_envs: 2   # the machine is small

ppo:
  # patient
  gamma: 0.995
"""


THEIRS = OWN + "\nseed: 99   # theirs\n"


Opened = tuple[ConfigPage, FakeFeed, FakeShell]
"""A page before a played feed, which does with a file what the runner does."""


@pytest.fixture(scope="module")
def shared(theme: Theme, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """One page for all tests: its form takes a second to build."""
    feed, shell = FakeFeed(), FakeShell(tmp_path_factory.mktemp("window"))
    with pytest.MonkeyPatch.context() as patch:
        # The button says "Saved" no longer than it takes to see it.
        patch.setattr("soulsgui.gui.widgets.command_button._DONE_MS", 1)
        page = ConfigPage(feed, shell)  # type: ignore[arg-type]
    page.resize(1100, 690)
    page.views.fill(Draft(), {})
    page.show()
    yield page, feed, shell
    page.hide()
    page.deleteLater()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "config.yaml"
    path.parent.mkdir()
    path.write_text(OWN)
    return path


@pytest.fixture
def page(qtbot: QtBot, shared: Opened, file: Path) -> ConfigPage:
    page, feed, shell = shared
    feed.answers = answers(file)
    feed.connect_as(LIVE)
    page.discard_changes()
    page.conflict_bar.hide()
    page.views.setCurrentIndex(FORM)
    page.activateWindow()
    page.landing.setFocus()
    page.refresh()
    ready(qtbot, page)
    timers = page.findChildren(QTimer, options=Qt.FindChildOption.FindDirectChildrenOnly)
    qtbot.waitUntil(lambda: page.text == OWN and page.head.save.stage not in BUSY)
    qtbot.waitUntil(lambda: not any(timer.isActive() for timer in timers))
    feed.sent.clear()
    shell.told.clear()
    return page


@pytest.fixture
def played(page: ConfigPage, shared: Opened) -> FakeFeed:
    return shared[1]


@pytest.fixture
def window(page: ConfigPage, shared: Opened) -> FakeShell:
    return shared[2]


def answers(file: Path) -> dict[str, Any]:
    folders = Folders(file.parent, file.parent)

    def checked(params: dict[str, Any]) -> Result:
        return {"problems": settings_file.problems(folders, ConfigCheckParams.model_validate(params))}

    def saved(params: dict[str, Any]) -> Result:
        try:
            return settings_file.save(folders, ConfigSaveParams.model_validate(params))
        except SoulsGuiError as error:
            return as_api_error(error, "config.save")

    return {
        "config.get": lambda _: settings_file.values(folders, RUNNING),
        "config.presets": {"presets": [preset.model_dump(mode="json") for preset in settings_file.presets()]},
        "config.check": checked,
        "config.save": saved,
    }


def values(text: str, **fields: Any) -> ConfigValues:
    usual: dict[str, Any] = {"defaults": DEFAULTS, "saved": {}, "running": RUNNING, "path": "/c/config.yaml"}
    return ConfigValues.model_validate(usual | {"text": text, "hash": f"hash of {text}"} | fields)


def ready(qtbot: QtBot, editor: ConfigEditor) -> None:
    qtbot.waitUntil(
        lambda: editor.views.filled and editor.presets.box.count() > 1 and editor.head.state.text() == "Saved"
    )


def find_written(qtbot: QtBot, editor: ConfigEditor, file: Path, text: str) -> None:
    file.write_text(text)
    editor.refresh()
    qtbot.waitUntil(lambda: editor.text == text)


def form_of(editor: ConfigEditor) -> SettingsForm:
    return part_of(editor, SettingsForm)


def row_of(editor: ConfigEditor, key: str) -> SettingRow:
    return form_of(editor).row(key)


def line_of(editor: ConfigEditor, key: str) -> QLineEdit:
    return part_of(row_of(editor, key).editor, QLineEdit)


def type_into(qtbot: QtBot, editor: ConfigEditor, key: str, words: str) -> None:
    editor.views.setCurrentIndex(FORM)
    line = line_of(editor, key)
    line.selectAll()
    qtbot.keyClicks(line, words)


def save(qtbot: QtBot, editor: ConfigEditor) -> None:
    qtbot.waitUntil(editor.head.save.isEnabled)
    with qtbot.waitSignal(editor.head.save.finished):
        qtbot.keyClick(editor, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: editor.head.state.text() == "Saved")


def test_changes_and_resets_in_the_form_are_saved_with_every_comment(
    qtbot: QtBot, page: ConfigPage, window: FakeShell, file: Path
) -> None:
    type_into(qtbot, page, "seed", "7")
    assert page.head.state.text() == "Not saved yet"
    save(qtbot, page)
    text = file.read_text()
    assert yaml.safe_load(text) == {"env": {"num_envs": 2}, "ppo": {"gamma": 0.995}, "seed": 7}
    for comment in ("# What this server trains by default.", "# the machine is small", "# patient"):
        assert comment in text
    assert window.told[-1].level == "success"
    assert "seed" in window.told[-1].detail
    gamma = row_of(page, "ppo.gamma")
    gamma.reset.click()
    assert gamma.editor.read() == (0.99, "")
    save(qtbot, page)
    assert yaml.safe_load(file.read_text()) == {"env": {"num_envs": 2}, "seed": 7}


@pytest.mark.parametrize(
    ("way", "without", "with_it"),
    [("may_leave", "Discard", "Save"), ("before_run", "Start without", "Save and use")],
)
def test_changes_and_mistakes_are_asked_about_before_the_page_is_left_and_before_a_run_begins(
    qtbot: QtBot, page: ConfigPage, file: Path, way: str, without: str, with_it: str
) -> None:
    went: list[bool] = []
    ask = partial(getattr(page, way), went.append)
    ask()
    assert went == [True], "there is nothing to ask"
    type_into(qtbot, page, "seed", "8")
    ask()
    assert question(page).icon() is QMessageBox.Icon.Question
    answer(page, "Cancel")
    ask()
    answer(page, without)
    assert went == [True, False, True]
    assert page.unsaved is (way == "before_run"), "what was typed stays for a run after this one"

    type_into(qtbot, page, "ppo.gamma", "1.5")
    page.views.setCurrentIndex(DIFFERENCES)
    ask()
    assert "ppo.gamma = 1.5" in question(page).informativeText()
    assert question(page).icon() is QMessageBox.Icon.Warning
    assert all(button.icon().isNull() for button in question(page).buttons())
    answer(page, "Fix it")
    assert page.views.currentIndex() == FORM
    assert page.window().focusWidget() is line_of(page, "ppo.gamma")
    ask()
    answer(page, "Cancel")
    assert went == [True, False, True, False, False]
    assert page.head.state.text() == "1 mistake"
    qtbot.waitUntil(lambda: len(page.views.text.problems) == 1)
    ask()
    answer(page, without)
    assert went.pop()
    assert page.unsaved is bool(page.problem_bar.problems) is (way == "before_run")
    assert file.read_text() == OWN

    type_into(qtbot, page, "ppo.gamma", "0.9")
    qtbot.waitUntil(lambda: not page.problem_bar.problems)
    ask()
    answer(page, with_it)
    qtbot.waitUntil(lambda: went == [True, False, True, False, False, True])
    assert yaml.safe_load(file.read_text())["ppo"] == {"gamma": 0.9}


def test_a_mistake_that_was_just_mended_keeps_nobody_from_saving(
    qtbot: QtBot, page: ConfigPage, file: Path
) -> None:
    type_into(qtbot, page, "ppo.gamma", "1.5")
    qtbot.waitUntil(lambda: page.problem_bar.problems and page.head.state.text() == "1 mistake")
    type_into(qtbot, page, "ppo.gamma", "0.9")
    qtbot.keyClick(page, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: page.head.state.text() == "Saved")
    assert yaml.safe_load(file.read_text())["ppo"] == {"gamma": 0.9}


def test_a_value_typed_wrong_is_not_saved_and_lost_in_no_view(
    qtbot: QtBot, page: ConfigPage, file: Path
) -> None:
    line = line_of(page, "network.hidden_sizes")
    type_into(qtbot, page, "network.hidden_sizes", "many")
    assert page.head.state.text() == "1 mistake"
    assert row_of(page, "network.hidden_sizes").wrong.text()
    qtbot.keyClick(page, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    answer(page, "Fix it")
    page.views.setCurrentIndex(TEXT)
    assert "hidden_sizes: many" in page.views.text.toPlainText()
    page.views.text.setPlainText(f"seed: 8\n{page.text}")
    qtbot.waitUntil(lambda: len(page.views.text.problems) == 1)
    assert not page.head.save.isEnabled()
    page.views.setCurrentIndex(FORM)
    assert line.text() == "many"
    page.presets.chosen.emit("lunarlander_ppo")
    assert line.text() == "many"
    assert page.head.state.text() == "1 mistake"
    assert file.read_text() == OWN


def test_mistakes_in_the_text_are_shown_at_line_and_setting_and_what_is_no_yaml_leaves_the_form_alone(
    qtbot: QtBot, page: ConfigPage, file: Path
) -> None:
    text = page.views.text
    page.views.setCurrentIndex(TEXT)
    text.setPlainText("ppo: [1,\n")
    qtbot.waitUntil(lambda: page.head.state.text() == "1 mistake")
    page.views.setCurrentIndex(FORM)
    assert not form_of(page).isEnabled()
    page.discard_changes()
    assert form_of(page).isEnabled()
    assert row_of(page, "ppo.gamma").editor.read() == (0.995, "")
    page.views.setCurrentIndex(TEXT)
    text.setPlainText(OWN.replace("gamma: 0.995", "gama: 0.995\n  clip: 70"))
    qtbot.waitUntil(lambda: len(page.problem_bar.problems) == 2)
    assert set(text.problems) == {7, 8}
    assert "ppo.gamma" in text.problems[7]
    page.problem_bar.open("1")
    assert text.textCursor().blockNumber() + 1 == 8
    page.views.setCurrentIndex(FORM)
    assert "10" in row_of(page, "ppo.clip").wrong.text()
    assert not page.head.save.isEnabled()
    page.views.setCurrentIndex(TEXT)
    text.setPlainText("ppo:\n  learning_rate: {schedule: linear, from: 0.001, to: 0}\n")
    qtbot.waitUntil(lambda: "stop.env_steps" in text.problems.get(2, ""))
    text.setPlainText(OWN.replace("gamma: 0.995", "clip: 0.3"))
    save(qtbot, page)
    assert yaml.safe_load(file.read_text())["ppo"] == {"clip": 0.3}


def test_a_preset_lies_under_ones_own_settings_and_says_which_still_win(
    qtbot: QtBot, page: ConfigPage, played: FakeFeed, file: Path
) -> None:
    presets = page.presets
    find_written(qtbot, page, file, "env:\n  id: CartPole-v1\nstop:\n  mean_return: 50\n  window: 7\n")
    choose(presets.box, "lunarlander_ppo")
    assert {"env.id", "stop.mean_return"} <= set(presets.winning)
    assert "LunarLander-v3" in presets.words.text()
    save(qtbot, page)
    saved = yaml.safe_load(file.read_text())
    assert saved["preset"] == "lunarlander_ppo"
    assert (saved["env"]["id"], saved["stop"]["mean_return"]) == ("CartPole-v1", 50)
    presets.give.click()
    assert presets.winning == []
    assert row_of(page, "env.id").editor.read() == ("LunarLander-v3", "")
    save(qtbot, page)
    saved = yaml.safe_load(file.read_text())
    assert "env" not in saved
    assert saved["preset"] == "lunarlander_ppo"
    played.answers["config.get"] = values("preset: gone\n", preset="gone")
    page.refresh()
    qtbot.waitUntil(lambda: "no such preset" in presets.about.text())


def test_what_a_configuration_of_soulsai_sets_is_offered_and_saved_by_the_user(
    qtbot: QtBot, page: ConfigPage, window: FakeShell, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = file.with_name("config_d.yaml")
    theirs.write_text("algorithm: PPO\ngamma: 0.9\nredis_address: redis\nppo:\n  n_steps: 77\n")

    def chosen(_title: str, kinds: str, then: Callable[[str], object], _parent: QWidget) -> None:
        assert "*.yaml" in kinds
        then(str(theirs))

    monkeypatch.setattr("soulsgui.gui.config.page.ask_for_file", chosen)
    type_into(qtbot, page, "seed", "5")
    page.presets.soulsai.click()
    dialog = part_of(page, ImportedDialog)
    assert "Nothing is saved yet" in words_of(dialog)
    assert dialog.left_out.toPlainText().startswith("redis_address: ")
    dialog.leave.click()
    assert page.views.currentWidget() is page.views.differences
    assert page.head.state.text() == "Not saved yet"
    assert file.read_text() == OWN
    save(qtbot, page)
    saved = yaml.safe_load(file.read_text())
    assert (saved["seed"], saved["algorithm"]) == (5, "ppo")
    assert saved["ppo"] == {"gamma": 0.9, "n_steps": 77, "normalize_advantage": "none"}
    assert "# patient" in file.read_text()
    theirs.write_text("env: [")
    page.presets.soulsai.click()
    assert window.told[-1].level == "error"
    assert "config_d.yaml, line 1: not valid YAML" in window.told[-1].text
    assert not page.unsaved


def change_meanwhile(qtbot: QtBot, page: ConfigPage, file: Path) -> None:
    """Type something, let somebody else write the file, and try to save."""
    type_into(qtbot, page, "ppo.gamma", "0.9")
    file.write_text(THEIRS)
    with qtbot.waitSignal(page.head.save.problem):
        page.head.save.click()
    qtbot.waitUntil(page.conflict_bar.isVisible)
    assert file.read_text() == THEIRS


def test_edits_can_be_kept_on_a_file_changed_meanwhile_or_given_up_or_saved_over_it(
    qtbot: QtBot, page: ConfigPage, file: Path
) -> None:
    bar = page.conflict_bar
    change_meanwhile(qtbot, page, file)
    bar.reload_button.click()
    assert (page.head.state.text(), page.text) == ("Saved", THEIRS)
    assert row_of(page, "seed").editor.read() == (99, "")
    assert file.read_text() == THEIRS
    find_written(qtbot, page, file, OWN)
    assert not bar.isVisible(), "nothing was typed: what is there now is simply shown"
    change_meanwhile(qtbot, page, file)
    bar.merge_button.click()
    assert page.head.state.text() == "Not saved yet"
    save(qtbot, page)
    mine = {"env": {"num_envs": 2}, "ppo": {"gamma": 0.9}}
    assert yaml.safe_load(file.read_text()) == mine | {"seed": 99}
    for comment in ("# theirs", "# patient"):
        assert comment in file.read_text()
    find_written(qtbot, page, file, OWN)
    change_meanwhile(qtbot, page, file)
    with qtbot.waitSignal(page.head.save.finished):
        bar.overwrite_button.click()
    assert yaml.safe_load(file.read_text()) == mine
    assert not bar.isVisible()
    page.views.setCurrentIndex(TEXT)
    page.views.text.setPlainText("seed: [")
    file.write_text("seed: 9\n")
    page.refresh()
    qtbot.waitUntil(bar.isVisible)
    assert not bar.merge_button.isEnabled()
    assert bar.merge_button.toolTip()


def test_until_there_is_a_form_it_is_said_why(qtbot: QtBot, fake: FakeFeed, shell: FakeShell) -> None:
    def asked(times: int) -> Call:
        qtbot.waitUntil(lambda: len(fake.sent_of("config.get")) == times)
        return fake.sent_of("config.get")[-1].call

    fake.connection = LOST
    page = shown(qtbot, ConfigPage(fake, shell))  # type: ignore[arg-type]
    (waiting,) = (label for label in page.views.findChildren(QLabel) if "Not connected" in label.text())
    fake.connect_as(LIVE)
    qtbot.waitUntil(lambda: waiting.text() == "Reading the configuration …")
    asked(1).refuse(refusal("It can't be read.", "Mend the disk."))
    assert waiting.text() == "It can't be read.\nMend the disk."
    page.refresh()
    busy = asked(2)
    busy.silent.emit(refusal("No answer from my-server.", code=ErrorCode.NO_ANSWER))
    asked(3)
    busy.answer(values("seed: 3\n").model_dump(mode="json"))
    assert page.head.state.text() == "Saved", "it came late, and is shown all the same"
    assert not waiting.isVisible()


def test_without_a_connection_one_can_go_on_typing_and_all_of_it_is_checked_at_once_afterwards(
    qtbot: QtBot, page: ConfigPage, played: FakeFeed
) -> None:
    def checked() -> list[int]:
        texts = [one.params["text"] for one in played.sent_of("config.check")]
        return [yaml.safe_load(text)["seed"] for text in texts if text != OWN]

    played.connect_as(LOST)
    type_into(qtbot, page, "seed", "1")
    assert not page.head.save.isEnabled()
    assert page.head.save.toolTip() == "Not connected to my-server."
    played.connect_as(LIVE)
    type_into(qtbot, page, "seed", "12")
    qtbot.waitUntil(lambda: bool(checked()))
    assert checked() == [12]
    assert page.head.save.isEnabled()


def test_a_refused_save_tells_why_and_what_is_typed_while_it_is_saved_stays_unsaved(
    qtbot: QtBot, page: ConfigPage, played: FakeFeed, window: FakeShell
) -> None:
    played.answers["config.save"] = refusal("No space left.", "Free some.", ErrorCode.FAILED)
    type_into(qtbot, page, "seed", "4")
    page.head.save.click()
    qtbot.waitUntil(lambda: page.head.save.stage is Stage.FAILED)
    assert (window.told[-1].text, window.told[-1].detail) == ("No space left.", "Free some.")
    assert yaml.safe_load(page.text)["seed"] == 4
    del played.answers["config.save"]
    page.head.save.click()
    type_into(qtbot, page, "seed", "45")
    saved = values(OWN + "seed: 4\n")
    played.answers["config.get"] = saved
    played.sent_of("config.save")[-1].call.answer({"text": saved.text, "hash": saved.hash})
    assert page.head.state.text() == "Not saved yet"
    assert yaml.safe_load(page.text)["seed"] == 45


def test_the_running_value_stands_beside_the_planned_one_and_leads_to_the_setting(
    qtbot: QtBot, page: ConfigPage
) -> None:
    type_into(qtbot, page, "ppo.epochs", "12")
    page.views.setCurrentIndex(DIFFERENCES)
    model = page.views.differences.model
    rows = {
        one.spec.key: (one.planned, one.running, one.running_differs, one.unsaved) for one in model.records
    }
    assert rows == {
        "env.num_envs": (2, 2, False, False),
        "ppo.gamma": (0.995, 0.98, True, False),
        "ppo.epochs": (12, DEFAULTS["ppo.epochs"], True, True),
    }
    page.views.differences.table.row_opened.emit(model.index(0, 0))
    assert page.views.currentIndex() == FORM
    page.views.setCurrentIndex(TEXT)
    page.show_where(setting="ppo.clip")
    assert page.views.currentIndex() == FORM


def test_an_agent_brings_its_shipped_values_along(qtbot: QtBot, page: ConfigPage) -> None:
    for key, value in (("algorithm", "dqn"), ("dqn.agent", "r2d2"), ("dqn.batch_size", 320)):
        row_of(page, key).typed.emit(key, value, "")
    memory, batch = row_of(page, "network.recurrent"), row_of(page, "dqn.batch_size")
    qtbot.waitUntil(lambda: memory.editor.read() == ("lstm", ""))
    assert not memory.reset.isVisible(), "it is shipped so"
    assert "640" in batch.reset.toolTip(), "what the user set stays, and can be taken back to the agent's"
    batch.reset_asked.emit("dqn.batch_size")
    row_of(page, "dqn.agent").typed.emit("dqn.agent", "dqn", "")
    qtbot.waitUntil(lambda: memory.editor.read() == ("none", ""))
    assert batch.editor.read() == (128, "")


def test_the_tab_in_front_comes_back_at_the_next_start(
    qtbot: QtBot, page: ConfigPage, played: FakeFeed, window: FakeShell
) -> None:
    page.views.setCurrentWidget(page.server)
    page.hide()
    again = ConfigPage(played, window)  # type: ignore[arg-type]
    qtbot.addWidget(again)
    page.show()
    again.show()
    assert again.views.currentWidget() is again.server
    assert not again.head.isVisible(), "what is about the file lies over the tab"
    again.views.setCurrentIndex(FORM)
    assert again.head.isVisible()


def test_the_dialog_stays_at_enter_and_asks_when_it_is_closed(
    qtbot: QtBot, fake: FakeFeed, shell: FakeShell, file: Path
) -> None:
    fake.answers = answers(file)
    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = ConfigDialog(fake, shell, parent)  # type: ignore[arg-type]
    dialog.open()
    ready(qtbot, dialog.editor)
    type_into(qtbot, dialog.editor, "seed", "21")
    qtbot.keyClick(dialog.editor, Qt.Key.Key_Return)
    assert dialog.isVisible()
    type_into(qtbot, dialog.editor, "ppo.gamma", "1.5")
    dialog.close()
    answer(dialog, "Fix it")
    assert dialog.isVisible()
    type_into(qtbot, dialog.editor, "ppo.gamma", "0.9")
    dialog.close()
    assert dialog.isVisible()
    with qtbot.waitSignal(dialog.finished):
        answer(dialog, "Save")
    assert yaml.safe_load(file.read_text())["seed"] == 21


def test_new_run_leads_to_its_settings_and_takes_what_is_saved_there(
    qtbot: QtBot, fake: FakeFeed, shell: FakeShell, file: Path
) -> None:
    fake.answers = answers(file)
    own = f"{OWN}alerts: {{webhook: 'https://example.org/x'}}\n"
    file.write_text(own)  # the server tells of secrets in the text alone
    window: Any = QWidget()
    window.open_config, window.settings, window.notify = shell.open_config, shell.settings, shell.notify
    qtbot.addWidget(window)
    chosen = {"dqn.gamma": 0.9, "dqn.batch_size": DEFAULTS["dqn.batch_size"], "seed": 7}
    new_run = NewRunDialog(fake, chosen, "cartpole_dqn", parent=window)
    new_run.open()
    qtbot.waitUntil(new_run.config.isEnabled)
    assert new_run.differs.text() == (
        "env.num_envs = 2, seed = 7, dqn.gamma = 0.9, else as the preset CartPole with double DQN"
    )

    def opened() -> ConfigDialog:
        new_run.config.click()
        dialog = part_of(new_run, ConfigDialog)
        qtbot.waitUntil(lambda: dialog.editor.views.filled and dialog.editor.unsaved)
        return dialog

    dialog = opened()
    assert dialog.editor.presets.box.currentData() == "cartpole_dqn"
    assert yaml.safe_load(dialog.editor.text) == {
        "preset": "cartpole_dqn",
        "seed": 7,
        "env": {"num_envs": 2},
        "dqn": {"gamma": 0.9},
        "ppo": {"gamma": 0.995},
        "alerts": {"webhook": "https://example.org/x"},
    }
    dialog.editor.views.setCurrentWidget(dialog.editor.server)
    with qtbot.waitSignal(dialog.finished):
        dialog.close()  # what was not touched is left without a question
    qtbot.waitUntil(lambda: new_run.findChild(ConfigDialog) is None)
    assert file.read_text() == own
    dialog = opened()
    assert dialog.editor.views.currentIndex() == FORM, "what the run begins with, whatever was in front"
    type_into(qtbot, dialog.editor, "seed", "21")
    with qtbot.waitSignal(dialog.editor.head.save.finished):
        dialog.editor.head.save.click()
    dialog.close()
    said = "env.num_envs = 2, seed = 21, dqn.gamma = 0.9, else as the preset CartPole with double DQN"
    qtbot.waitUntil(lambda: new_run.differs.text() == said)
    assert new_run.preset.currentText() == "Current settings"
    fake.answers["run.start"] = {"run_id": "r2", "run_dir": ""}
    new_run.start.click()
    (sent,) = fake.sent_of("run.start")
    assert (sent.params["preset"], sent.params["overrides"]) == ("", {})


def test_the_tabs_stay_where_they_are_whichever_is_in_front(qtbot: QtBot, page: ConfigPage) -> None:
    bar, layout = page.views.tabBar(), page.layout()
    assert layout is not None
    heights = set()
    for tab in range(page.views.count()):
        page.views.setCurrentIndex(tab)
        of_file = page.views.currentWidget() not in (page.running, page.server)
        qtbot.waitUntil(lambda shown=of_file: page.head.isVisible() == page.presets.isVisible() == shown)
        layout.activate()
        heights.add(bar.mapTo(page, QPoint()).y())
    assert len(heights) == 1
