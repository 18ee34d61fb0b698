"""The window's commands against a real runner: what is asserted is what became of the server."""

import json
from pathlib import Path

import psutil
import pytest
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import RunFolder
from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import UNHURRIED, RunningServer
from tests.gui.reading import part_of
from tests.gui.shell.conftest import OpenWindow, folders_below
from tests.gui.shell.driving import OpenedWindow

pytestmark = pytest.mark.usefixtures("stubs")


def until_run(opened: OpenedWindow, state: str) -> None:
    try:
        opened.until(lambda: opened.feed.status.run.state == state, f"the run is {state}")
    except AssertionError as error:
        # What it is now, not what it was when the waiting began.
        raise AssertionError(f"{error}; it is {opened.feed.status}") from error


def test_the_server_is_opened_to_the_network_and_then_invites_with_its_addresses(
    open_window: OpenWindow, server: RunningServer
) -> None:
    opened = open_window(folders_below(server.folder))
    opened.until_live()
    feed = opened.feed
    first = feed.hello
    opened.window.open_invite()
    dialog = part_of(opened.window, InviteDialog)
    opened.until(
        lambda: "only from the server's computer" in dialog.reach.word, "it says from where it is reached"
    )
    dialog.lan.allow.click()
    opened.until(lambda: "private network" in dialog.reach.word, "the dialog has noticed")
    assert feed.hello == first, "the server goes on"
    assert not dialog.lan.isVisible()
    opened.until(dialog.invite.isEnabled, "one can be invited")
    dialog.invite.click()
    opened.until(dialog.link.text, "the invitation")
    assert not Invitation.parse(dialog.link.text()).for_this_machine_only
    dialog.reject()


def test_a_run_from_begin_to_resume(qtbot: QtBot, open_window: OpenWindow, server: RunningServer) -> None:
    server.api.command("config.save", {"changes": UNHURRIED})
    opened = open_window(folders_below(server.folder))
    opened.until_live()
    window, feed, toolbar = opened.window, opened.feed, opened.window.toolbar
    toolbar.new_run.click()
    dialog = part_of(window, NewRunDialog)
    opened.until(dialog.start.isEnabled, "the settings are there")
    dialog.name.setText("by hand")
    dialog.note.setPlainText("from a test")
    dialog.clients.setValue(1)
    dialog.goal.setText("1000")
    with qtbot.waitSignal(dialog.started) as started:
        dialog.start.click()
    run = RunFolder(Path(started.args[0].run_dir))
    settings = json.loads(run.config.read_text())
    assert (settings["clients"]["local"], settings["stop"]["mean_return"]) == (1, 1000.0)
    record = json.loads(run.run.read_text())
    assert (record["name"], record["note"]) == ("by hand", "from a test")
    assert window.pages.shown == "overview"
    until_run(opened, "running")
    opened.until(lambda: feed.status.run.updates > 0, "it learns")

    opened.until(toolbar.quicksave.isEnabled, "it can be saved")
    with qtbot.waitSignal(toolbar.quicksave.finished):
        toolbar.quicksave.click()
    assert [one.name for one in run.manual_saves.iterdir()], "the checkpoint is on the disk"

    trainer = server.pid("trainer") or 0
    assert psutil.pid_exists(trainer)
    with qtbot.waitSignal(toolbar.stop.finished):
        toolbar.stop.click()
    assert not psutil.pid_exists(trainer)
    assert json.loads(run.run.read_text())["state"] == "stopped"
    until_run(opened, "stopped")

    opened.until(toolbar.resume.isEnabled, "it can be resumed")
    with qtbot.waitSignal(toolbar.resume.finished):
        toolbar.resume.click()
    opened.until(lambda: feed.status.run.attempt == 2, "a second attempt")
    assert feed.status.run.id == run.run_id
    until_run(opened, "running")
