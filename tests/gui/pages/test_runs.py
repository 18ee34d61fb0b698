"""The page of the runs before a real runner: what its controls do to files and processes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.dialogs.note import NoteDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.pages.runs import RunsPage
from tests.end_to_end.server import RunningServer
from tests.gui.fake_feed import FakeShell


@pytest.fixture(scope="module")
def run(server: RunningServer) -> Path:
    """A run that goes on for as long as it is let."""
    overrides = {
        "env.num_envs": 1,
        "clients.local": 1,
        "ppo.n_steps": 64,
        "ppo.epochs": 1,
        "checkpoint.every_updates": 1_000_000,
    }
    return server.start_run(name="first", note="as shipped", overrides=overrides)


@pytest.fixture
def page(qtbot: QtBot, feed: Feed, shell: FakeShell, run: Path) -> Iterator[RunsPage]:
    made = RunsPage(feed, shell)
    qtbot.addWidget(made)
    made.resize(1100, 690)
    made.show()
    qtbot.waitUntil(lambda: made.chosen is not None)
    yield made
    made.hide()


def answer(page: QWidget, yes: str) -> None:
    """Answer the open question."""
    box = page.findChild(QMessageBox)
    assert box is not None
    next(button for button in box.buttons() if button.text().replace("&", "") == yes).click()


def note_dialog(page: QWidget) -> NoteDialog:
    found = page.findChild(NoteDialog)
    assert found is not None
    return found


def record(run: Path) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((run / "run.json").read_text())
    return loaded


def test_the_run_that_goes_on_is_listed_with_what_it_is(page: RunsPage, run: Path) -> None:
    chosen = page.chosen
    assert chosen is not None
    assert (chosen.id, chosen.name, chosen.note) == (run.name, "first", "as shipped")
    row = [
        page.model.data(page.model.index(0, page.model.column_number(name)))
        for name in ("name", "env", "algorithm", "note")
    ]
    assert row == ["first", "CartPole-v1", "PPO", "as shipped"]


def test_its_numbers_go_on_without_asking_for_the_list_again(qtbot: QtBot, page: RunsPage) -> None:
    before = page.chosen
    assert before is not None

    def goes_on() -> bool:
        now = page.chosen
        return now is not None and now.env_steps > before.env_steps and now.seconds > before.seconds

    qtbot.waitUntil(goes_on)


def test_name_and_note_are_written_to_the_record(qtbot: QtBot, page: RunsPage, run: Path) -> None:
    page.details.edit.click()
    dialog = note_dialog(page)
    dialog.name.setText("renamed")
    dialog.note.setPlainText("does it hold?")
    with qtbot.waitSignal(dialog.accepted):
        dialog.save.click()
    assert record(run)["name"] == "renamed"
    assert record(run)["note"] == "does it hold?"
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.name == "renamed")


def test_a_quicksave_is_on_disk_with_its_note_and_becomes_the_chosen_one(
    qtbot: QtBot, page: RunsPage, shell: FakeShell, run: Path
) -> None:
    tab = page.details.checkpoints
    qtbot.waitUntil(tab.save.isEnabled)
    tab.note.setText("before the change")
    with qtbot.waitSignal(tab.save.finished):
        qtbot.keyClick(tab.note, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: tab.chosen is not None and tab.chosen.kind == "manual")
    assert tab.chosen is not None
    folder = run / tab.chosen.id
    assert (folder / "note.txt").read_text() == "before the change"
    assert tab.chosen.valid
    assert tab.note.text() == ""
    assert shell.told[-1].level == "success"


def test_the_note_of_a_checkpoint_is_written_beside_it(
    qtbot: QtBot, page: RunsPage, server: RunningServer, run: Path
) -> None:
    saved = server.api.command("checkpoint.save", {"note": "old"})["checkpoint"]["id"]
    tab = page.details.checkpoints
    # Nobody told the page: the row of the checkpoint on the curves did.
    qtbot.waitUntil(lambda: tab.model.row_of(saved) is not None)
    tab.choose(saved)
    tab.edit.click()
    dialog = note_dialog(page)
    assert dialog.note.toPlainText() == "old"
    dialog.note.setPlainText("new")
    with qtbot.waitSignal(dialog.accepted):
        dialog.save.click()
    assert (run / saved / "note.txt").read_text() == "new"
    qtbot.waitUntil(lambda: tab.chosen is not None and tab.chosen.note == "new")


def test_a_damaged_checkpoint_says_why_it_can_not_be_loaded(
    qtbot: QtBot, page: RunsPage, server: RunningServer, run: Path
) -> None:
    saved = server.api.command("checkpoint.save", {})["checkpoint"]["id"]
    (run / saved / "weights.safetensors").write_bytes(b"nothing")
    tab = page.details.checkpoints
    page.refresh()
    qtbot.waitUntil(lambda: tab.model.row_of(saved) is not None)
    page.refresh()

    def damaged() -> bool:
        tab.choose(saved)
        return tab.chosen is not None and tab.chosen.id == saved and not tab.chosen.valid

    qtbot.waitUntil(damaged)
    assert not tab.load.isEnabled()
    assert "weights.safetensors" in tab.load.toolTip()


def test_events_and_settings_of_the_run_stand_in_their_tabs(
    qtbot: QtBot, page: RunsPage, shell: FakeShell, run: Path
) -> None:
    events, settings = page.details.events, page.details.settings
    page.details.tabs.setCurrentWidget(events)
    qtbot.waitUntil(lambda: events.model.rowCount() > 0)
    assert all(event.run_id == run.name for event in events.model.records)
    events.table.selectRow(0)
    events.log.click()
    assert shell.shown == [("logs", {"service": "trainer", "run": run.name})]
    page.details.tabs.setCurrentWidget(settings)
    qtbot.waitUntil(lambda: settings.form is not None)
    assert settings.form is not None
    row = settings.form.row("ppo.n_steps")
    assert row.editor.read() == (64, "")
    assert not row.editor.isEnabled()
    assert settings.form.edits.modified("ppo.n_steps")
    assert not settings.form.edits.modified("ppo.gamma")


def test_its_settings_are_offered_for_a_new_run(qtbot: QtBot, page: RunsPage, shell: FakeShell) -> None:
    with qtbot.waitSignal(page.details.again.finished):
        page.details.again.click()
    ((what, given),) = shell.opened
    assert what == "new_run"
    assert given["overrides"]["ppo.n_steps"] == 64
    assert "redis.port" not in given["overrides"]


def test_the_path_of_the_run_is_copied(page: RunsPage, run: Path) -> None:
    page.details.copy.click()
    assert Path(QGuiApplication.clipboard().text()) == run
    assert page.details.open.isVisible()


def test_loading_a_checkpoint_begins_the_next_attempt_from_it(
    qtbot: QtBot, page: RunsPage, server: RunningServer
) -> None:
    before = server.status().run
    info = server.api.command("checkpoint.save", {"note": "back to here"})["checkpoint"]
    tab = page.details.checkpoints
    qtbot.waitUntil(lambda: tab.model.row_of(info["id"]) is not None)
    tab.choose(info["id"])
    tab.load.click()
    assert server.status().run.attempt == before.attempt
    with qtbot.waitSignal(tab.load.finished):
        answer(page, "Load")
    now = server.status().run
    assert (now.id, now.attempt) == (before.id, before.attempt + 1)
    events = server.api.command("history.events", {})["events"]
    assert any(f"was resumed from {info['id']}" in event["what"] for event in events)


def test_a_stopped_run_is_resumed_from_its_newest_checkpoint(
    qtbot: QtBot, page: RunsPage, server: RunningServer, run: Path
) -> None:
    resume, attempt = page.details.resume, server.status().run.attempt
    assert not resume.isEnabled()
    assert "already" in resume.toolTip()
    server.api.command("run.stop")
    qtbot.waitUntil(resume.isEnabled)
    assert not page.details.checkpoints.save.isEnabled()
    with qtbot.waitSignal(resume.finished):
        resume.click()
    now = server.status().run
    assert (now.id, now.attempt) == (run.name, attempt + 1)
    qtbot.waitUntil(lambda: not resume.isEnabled())
