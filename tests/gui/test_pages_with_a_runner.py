"""Pages before a real runner: what their controls do to files, processes and who is let in."""

import json
import zipfile
from pathlib import Path

import pytest
import redis
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.clients.page import ClientsPage
from soulsgui.gui.config.running import RunningTab
from soulsgui.gui.feed import Feed
from soulsgui.gui.logs.page import LogsPage
from soulsgui.gui.runs.checkpoints import NoteDialog
from soulsgui.gui.runs.evaluate import EvaluateDialog
from soulsgui.gui.runs.page import RunsPage
from soulsgui.wire.connection import AWAY, connect
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import UNHURRIED, RunningServer
from tests.faults.waiting import until
from tests.gui.fake_feed import FakeShell
from tests.gui.questions import answer
from tests.gui.reading import part_of, shown


@pytest.fixture
def page(qtbot: QtBot, feed: Feed, shell: FakeShell, request: pytest.FixtureRequest) -> QWidget:
    return shown(qtbot, request.param(feed, shell), 1100, 700)


def click(qtbot: QtBot, button: QPushButton) -> None:
    qtbot.waitUntil(button.isEnabled)
    button.click()


def is_let_in(invitation: Invitation) -> bool:
    connection = connect(invitation.address(*invitation.addresses[0]))
    try:
        return bool(connection.ping())
    except (redis.AuthenticationError, *AWAY):
        return False
    finally:
        connection.close()


@pytest.mark.parametrize("page", [ClientsPage], indirect=True)
def test_a_computer_is_invited_told_to_pause_and_revoked(
    qtbot: QtBot, page: ClientsPage, feed: Feed, server: RunningServer
) -> None:
    dialog = shown(qtbot, InviteDialog(feed))
    dialog.name.setText("gamer-11")
    dialog.name.textEdited.emit("gamer-11")
    click(qtbot, dialog.invite)
    qtbot.waitUntil(lambda: bool(dialog.link.text()))
    invitation = Invitation.parse(dialog.link.text())
    until(lambda: server.pid("gateway") and is_let_in(invitation), "the gateway lets it in")
    qtbot.waitUntil(lambda: page.roster.model.row_of("gamer-11") is not None)
    page.roster.choose("gamer-11")
    click(qtbot, page.roster.buttons["pause"])
    qtbot.waitUntil(lambda: "will pause" in page.details.values["state"].text())
    with server.redis() as connection:
        assert json.loads(connection.get("souls:to:gamer-11") or "")["state"] == "pause"
    page.roster.entries["revoke"].trigger()
    answer(page, "Revoke")
    qtbot.waitUntil(lambda: page.details.values["state"].text() == "Revoked")
    assert not is_let_in(invitation)


@pytest.mark.parametrize("page", [LogsPage], indirect=True)
def test_lines_of_a_service_appear_when_they_are_written(
    qtbot: QtBot, page: LogsPage, server: RunningServer
) -> None:
    page.show_where(service="redis")
    with (server.data / "server" / "logs" / "redis.log").open("a", encoding="utf-8") as file:
        file.write("2026-11-20 10:00:00.000 ERROR no space left\n")
    qtbot.waitUntil(lambda: "no space left" in page.pane.text)


@pytest.mark.parametrize("page", [RunsPage], indirect=True)
def test_a_run_is_noted_saved_loaded_evaluated_changed_stopped_and_resumed(
    qtbot: QtBot, page: RunsPage, feed: Feed, shell: FakeShell, server: RunningServer, tmp_path: Path
) -> None:
    overrides = {**UNHURRIED, "env.num_envs": 1, "clients.local": 1, "ppo.epochs": 1}
    run: Path = server.start_run(name="first", overrides=overrides)
    details, tab = page.details, page.details.checkpoints
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.env_steps > 0)
    click(qtbot, details.edit)
    dialog = part_of(page, NoteDialog)
    dialog.note.setPlainText("does it hold?")
    with qtbot.waitSignal(dialog.accepted):
        dialog.save.click()
    assert json.loads((run / "run.json").read_text())["note"] == "does it hold?"

    qtbot.waitUntil(tab.save.isEnabled)
    tab.note.setText("before the change")
    with qtbot.waitSignal(tab.save.finished):
        qtbot.keyClick(tab.note, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: tab.chosen is not None and tab.chosen.kind == "manual")
    assert (run / tab.chosen.id / "note.txt").read_text() == "before the change"

    before = server.status().run
    tab.load.click()
    with qtbot.waitSignal(tab.load.finished):
        answer(page, "Load")
    now = server.status().run
    assert (now.id, now.attempt) == (before.id, before.attempt + 1)

    click(qtbot, tab.evaluate)
    dialog = part_of(page, EvaluateDialog)
    dialog.episodes.setValue(1)
    dialog.main.click()
    evaluation = tab.model.column_number("evaluation")
    qtbot.waitUntil(lambda: "±" in tab.model.index(tab.table.currentIndex().row(), evaluation).data())

    running = shown(qtbot, RunningTab(feed, shell))  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: running.form is not None and running.form.isEnabled())
    assert running.form is not None
    (line,) = running.form.row("ppo.clip").findChildren(QLineEdit)
    line.setText("0.15")
    line.textEdited.emit("0.15")
    running.keep.setChecked(False)
    with qtbot.waitSignal(running.apply.finished):
        running.apply.click()
    assert json.loads((run / "config.json").read_text())["ppo"]["clip"] == 0.15

    server.api.command("run.start", {"name": "later", "if_active": "queue", "overrides": overrides})
    (waiting,) = server.status().queue
    qtbot.waitUntil(lambda: page.model.row_of(f"queued {waiting.number}") is not None)
    page.show_where(run=f"queued {waiting.number}")
    click(qtbot, page.queue.buttons["remove"])
    with qtbot.waitSignal(page.queue.buttons["remove"].finished):
        answer(page, "Take out")
    assert server.status().queue == []

    # It may take long, and meanwhile the feed is to be heard.
    with qtbot.waitSignal(feed.call("run.stop").done):
        pass
    page.show_where(run=run.name)
    _goes_out_and_comes_in(qtbot, page, shell, run, tmp_path)
    page.show_where(run=run.name)
    qtbot.waitUntil(details.resume.isEnabled)
    with qtbot.waitSignal(details.resume.finished):
        details.resume.click()
    assert (server.status().run.id, server.status().run.attempt) == (run.name, before.attempt + 2)


def _goes_out_and_comes_in(qtbot: QtBot, page: RunsPage, shell: FakeShell, run: Path, folder: Path) -> None:
    """Export a run, take it in again, throw that away, undo this, and remove it for good."""
    file = folder / "first.soulsrun"
    page.details.export_to(run.name, str(file))
    qtbot.waitUntil(file.exists)
    assert zipfile.is_zipfile(file)
    page.import_from(str(file))
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.id != run.name)
    assert page.chosen is not None
    copy = run.parent / page.chosen.id
    assert (copy / "run.json").exists()
    page.details.trash.trigger()
    qtbot.waitUntil(lambda: not copy.exists())
    qtbot.waitUntil(lambda: shell.told[-1].action is not None)
    shell.told[-1].action.act()
    qtbot.waitUntil(copy.exists)
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.id == copy.name)
    page.details.trash.trigger()
    qtbot.waitUntil(lambda: not copy.exists())
    page.bin.click()
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.id == copy.name)
    click(qtbot, page.thrown.purge)
    with qtbot.waitSignal(page.thrown.changed):
        answer(page, "Remove")
    assert not (run.parent.parent / "trash" / "runs" / copy.name).exists()
