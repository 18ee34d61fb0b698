"""The page of the runs before a real runner: what its controls do to files and processes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Feed
from soulsgui.gui.runs.checkpoints import NoteDialog
from soulsgui.gui.runs.page import RunsPage
from tests.end_to_end.server import RunningServer
from tests.gui.fake_feed import FakeShell
from tests.gui.questions import answer
from tests.gui.reading import part_of


@pytest.fixture(scope="module")
def run(server: RunningServer) -> Path:
    """A run that goes on for as long as it is let."""
    overrides = {"env.num_envs": 1, "clients.local": 1, "ppo.n_steps": 64, "ppo.epochs": 1}
    overrides |= {"checkpoint.every_updates": 1_000_000}
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


def test_a_run_is_noted_saved_looked_at_loaded_stopped_and_resumed(
    qtbot: QtBot, page: RunsPage, server: RunningServer, shell: FakeShell, run: Path
) -> None:
    details, tab = page.details, page.details.checkpoints
    chosen = page.chosen
    assert chosen is not None
    assert (chosen.id, chosen.name, chosen.note) == (run.name, "first", "as shipped")
    # Its numbers go on without asking for the list again.
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.env_steps > chosen.env_steps)
    details.copy.click()
    assert Path(QGuiApplication.clipboard().text()) == run
    assert details.open.isVisible()

    details.edit.click()
    dialog = part_of(page, NoteDialog)
    dialog.name.setText("renamed")
    dialog.note.setPlainText("does it hold?")
    with qtbot.waitSignal(dialog.accepted):
        dialog.save.click()
    record = json.loads((run / "run.json").read_text())
    assert (record["name"], record["note"]) == ("renamed", "does it hold?")
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.name == "renamed")

    qtbot.waitUntil(tab.save.isEnabled)
    tab.note.setText("before the change")
    with qtbot.waitSignal(tab.save.finished):
        qtbot.keyClick(tab.note, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: tab.chosen is not None and tab.chosen.kind == "manual")
    assert tab.chosen is not None
    assert tab.chosen.valid
    saved = run / tab.chosen.id
    assert (saved / "note.txt").read_text() == "before the change"
    assert tab.note.text() == ""
    assert shell.told[-1].level == "success"
    tab.edit.click()
    dialog = page.findChildren(NoteDialog)[-1]
    assert dialog.note.toPlainText() == "before the change"
    dialog.note.setPlainText("after it")
    with qtbot.waitSignal(dialog.accepted):
        dialog.save.click()
    assert (saved / "note.txt").read_text() == "after it"

    details.tabs.setCurrentWidget(details.events)
    qtbot.waitUntil(lambda: details.events.model.rowCount() > 0)
    assert all(event.run_id == run.name for event in details.events.model.records)
    details.tabs.setCurrentWidget(details.settings)
    qtbot.waitUntil(lambda: details.settings.form is not None)
    assert details.settings.form is not None
    row = details.settings.form.row("ppo.n_steps")
    assert row.editor.read() == (64, "")
    assert not row.editor.isEnabled()
    assert details.settings.form.edits.modified("ppo.n_steps")
    assert not details.settings.form.edits.modified("ppo.gamma")
    with qtbot.waitSignal(details.again.finished):
        details.again.click()
    ((what, given),) = shell.opened
    assert what == "new_run"
    assert given["overrides"]["ppo.n_steps"] == 64
    assert "redis.port" not in given["overrides"]

    before = server.status().run
    details.tabs.setCurrentWidget(tab)
    tab.load.click()
    assert server.status().run.attempt == before.attempt
    with qtbot.waitSignal(tab.load.finished):
        answer(page, "Load")
    now = server.status().run
    assert (now.id, now.attempt) == (before.id, before.attempt + 1)
    assert "already" in details.resume.toolTip()
    server.api.command("run.stop")
    qtbot.waitUntil(details.resume.isEnabled)
    assert not tab.save.isEnabled()
    with qtbot.waitSignal(details.resume.finished):
        details.resume.click()
    assert (server.status().run.id, server.status().run.attempt) == (run.name, before.attempt + 2)
    qtbot.waitUntil(lambda: not details.resume.isEnabled())
