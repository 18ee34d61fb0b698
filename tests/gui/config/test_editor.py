"""The editor of the configuration before a played runner: what it asks, allows and says."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from soulsgui.config.schema import shipped_with
from soulsgui.gui.config.draft import Draft
from soulsgui.gui.config.page import ConfigEditor, ConfigPage
from soulsgui.gui.settings.spec import specs
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.command_button import Stage
from soulsgui.wire.control import ConfigValues, ErrorCode, Preset
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, FakeShell, refusal

DEFAULTS = {key: spec.info.default for key, spec in specs().items()}
PRESET = Preset(name="small", title="Small networks", values={"ppo.epochs": 3})
VALUES = ConfigValues(
    defaults=DEFAULTS,
    saved={"seed": 3},
    running={**DEFAULTS, **shipped_with(DEFAULTS), "seed": 5},
    text="seed: 3\n",
    hash="h1",
    path="/config/config.yaml",
)


@pytest.fixture
def server(fake: FakeFeed) -> FakeFeed:
    return answering(fake)


def answering(fake: FakeFeed) -> FakeFeed:
    fake.answers |= {
        "config.get": VALUES,
        "config.presets": {"presets": [PRESET.model_dump(mode="json")]},
        "config.check": {"problems": []},
    }
    return fake


class Opened(NamedTuple):
    """A page before a played runner, in a played window."""

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
    page.editor.views.fill(Draft(VALUES.text, VALUES.hash), DEFAULTS)
    page.show()
    page.hide()
    yield Opened(page, feed, shell)
    page.deleteLater()


@pytest.fixture
def opened(qtbot: QtBot, shared: Opened) -> Iterator[Opened]:
    page, feed, shell = shared
    answering(feed).connect_as(LIVE)
    editor = page.editor
    editor.discard_changes()
    editor.views.setCurrentIndex(0)
    page.show()
    page.refresh()
    timers = editor.findChildren(QTimer, options=Qt.FindChildOption.FindDirectChildrenOnly)
    qtbot.waitUntil(lambda: editor.text == VALUES.text and editor.presets.box.count() > 1)
    qtbot.waitUntil(lambda: editor.head.state == "Saved" and not any(timer.isActive() for timer in timers))
    qtbot.waitUntil(lambda: editor.head.save.stage is Stage.IDLE)
    feed.sent.clear()
    shell.told.clear()
    yield shared
    page.hide()


@pytest.fixture
def editor(opened: Opened) -> ConfigEditor:
    return opened.page.editor


@pytest.fixture
def played(opened: Opened) -> FakeFeed:
    return opened.feed


@pytest.fixture
def window(opened: Opened) -> FakeShell:
    return opened.shell


def type_into(qtbot: QtBot, editor: ConfigEditor, key: str, words: str) -> None:
    assert editor.views.form is not None
    line = editor.views.form.row(key).editor.findChild(QLineEdit)
    assert line is not None
    line.selectAll()
    qtbot.keyClicks(line, words)


def test_a_hidden_page_asks_nothing(qtbot: QtBot, server: FakeFeed, shell: FakeShell) -> None:
    page = ConfigPage(server, shell)  # type: ignore[arg-type]
    qtbot.addWidget(page)
    server.take_snapshot(server.status)
    qtbot.wait(20)
    assert server.sent == []
    assert page.editor.views.form is None


def test_a_file_that_a_busy_server_does_not_send_is_asked_for_again(
    qtbot: QtBot, server: FakeFeed, shell: FakeShell
) -> None:
    del server.answers["config.get"]
    page = ConfigPage(server, shell)  # type: ignore[arg-type]
    qtbot.addWidget(page)
    page.show()
    qtbot.waitUntil(lambda: bool(server.sent_of("config.get")))
    server.answers["config.get"] = VALUES
    silence = refusal("No answer from my-server.", code=ErrorCode.NO_ANSWER)
    server.sent_of("config.get")[0].call.silent.emit(silence)
    qtbot.waitUntil(lambda: page.editor.head.state == "Saved")
    page.hide()


def test_what_was_typed_is_checked_once_after_a_moment(
    qtbot: QtBot, editor: ConfigEditor, played: FakeFeed
) -> None:
    type_into(qtbot, editor, "ppo.epochs", "12")
    qtbot.waitUntil(lambda: bool(checked(played)))
    assert checked(played) == ["seed: 3\nppo:\n  epochs: 12\n"]


def checked(played: FakeFeed) -> list[str]:
    """The texts that were sent to be checked, but for the saved one."""
    texts = [one.params["text"] for one in played.sent_of("config.check")]
    return [text for text in texts if text != VALUES.text]


def test_what_is_typed_while_it_is_saved_stays_unsaved(
    qtbot: QtBot, editor: ConfigEditor, played: FakeFeed
) -> None:
    type_into(qtbot, editor, "seed", "4")
    editor.head.save.click()
    type_into(qtbot, editor, "seed", "45")
    played.answers["config.get"] = VALUES.model_copy(update={"text": "seed: 4\n", "hash": "h2"})
    played.sent_of("config.save")[0].call.answer({"text": "seed: 4\n", "hash": "h2"})
    assert editor.head.state == "Not saved yet"
    assert editor.text == "seed: 45\n"


def test_a_conflict_whose_text_is_no_yaml_can_not_be_merged(
    qtbot: QtBot, editor: ConfigEditor, played: FakeFeed
) -> None:
    editor.views.setCurrentIndex(1)
    editor.views.text.setPlainText("seed: [")
    played.answers["config.get"] = VALUES.model_copy(update={"text": "seed: 9\n", "hash": "h9"})
    editor.refresh()
    qtbot.waitUntil(editor.conflict_bar.isVisible)
    assert not editor.conflict_bar.merge_button.isEnabled()
    assert editor.conflict_bar.merge_button.toolTip()


def test_without_a_connection_one_can_go_on_typing_and_saving_waits(
    qtbot: QtBot, editor: ConfigEditor, played: FakeFeed
) -> None:
    played.connect_as(LOST)
    type_into(qtbot, editor, "seed", "4")
    assert not editor.head.save.isEnabled()
    assert editor.head.save.toolTip() == "Not connected to my-server."
    played.connect_as(LIVE)
    qtbot.waitUntil(lambda: bool(checked(played)))
    assert editor.text == "seed: 4\n"
    assert editor.head.save.isEnabled()


def test_the_running_value_stands_beside_the_planned_one_and_leads_to_the_setting(
    qtbot: QtBot, editor: ConfigEditor
) -> None:
    page = editor.parent()
    assert isinstance(page, ConfigPage)
    type_into(qtbot, editor, "ppo.epochs", "12")
    editor.views.setCurrentIndex(2)
    model = editor.views.differences.model
    seed, epochs = model.records
    assert (seed.spec.key, seed.shipped, seed.planned, seed.running) == ("seed", DEFAULTS["seed"], 3, 5)
    assert (seed.unsaved, epochs.spec.key, epochs.planned, epochs.unsaved) == (False, "ppo.epochs", 12, True)
    editor.views.differences.table.selectRow(0)
    editor.views.differences.table.row_opened.emit(model.index(0, 0))
    assert editor.views.currentIndex() == 0
    editor.views.setCurrentIndex(1)
    page.show_where(setting="ppo.clip")
    assert editor.views.currentIndex() == 0


def test_an_agent_brings_its_shipped_values_along(qtbot: QtBot, editor: ConfigEditor) -> None:
    form = editor.views.form
    assert form is not None
    for key, value in (("algorithm", "dqn"), ("dqn.agent", "r2d2"), ("dqn.batch_size", 320)):
        form.row(key).typed.emit(key, value, "")
    memory, batch = form.row("network.recurrent"), form.row("dqn.batch_size")
    qtbot.waitUntil(lambda: memory.editor.read() == ("lstm", ""))
    assert not memory.reset.isVisible(), "it is shipped so"
    assert "640" in batch.reset.toolTip(), "what the user set stays, and can be taken back to the agent's"
    shipped = {one.spec.key: one.shipped for one in editor.views.differences.model.records}
    assert shipped["dqn.batch_size"] == 640
    batch.reset_asked.emit("dqn.batch_size")
    form.row("dqn.agent").typed.emit("dqn.agent", "dqn", "")
    qtbot.waitUntil(lambda: memory.editor.read() == ("none", ""))
    assert batch.editor.read() == (128, "")


def test_a_preset_that_is_not_known_is_said_so(qtbot: QtBot, editor: ConfigEditor, played: FakeFeed) -> None:
    played.answers["config.get"] = VALUES.model_copy(
        update={"text": "preset: gone\n", "hash": "h2", "preset": "gone"}
    )
    editor.refresh()
    qtbot.waitUntil(lambda: "no such preset" in editor.presets.words)


# The last one: the button goes on telling of the refusal.
def test_a_refused_save_tells_why_and_loses_nothing(
    qtbot: QtBot, editor: ConfigEditor, played: FakeFeed, window: FakeShell
) -> None:
    type_into(qtbot, editor, "seed", "4")
    editor.head.save.click()
    played.sent_of("config.save")[0].call.refuse(refusal("No space left.", "Free some.", ErrorCode.FAILED))
    assert (window.told[-1].text, window.told[-1].detail) == ("No space left.", "Free some.")
    assert editor.head.save.stage is Stage.FAILED
    assert editor.text == "seed: 4\n"
