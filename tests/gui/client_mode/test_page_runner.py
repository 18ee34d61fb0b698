"""The page of client mode before a real server, a real runner of client mode and a real client."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
import redis
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.gui.client_mode.consent import ConsentPanel
from soulsgui.gui.client_mode.page import ClientPage
from soulsgui.gui.client_mode.runner import ClientSide
from soulsgui.gui.loop import Tasks
from soulsgui.gui.shell.connector import connect_client_side
from soulsgui.gui.shell.update import UpdateDialog
from soulsgui.gui.theme import Theme
from soulsgui.wire.access import Address
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import UNHURRIED, RunningServer, processes_below, wait_for
from tests.gui.fake_feed import FakeFeed, FakeShell
from tests.gui.questions import answer
from tests.gui.reading import part_of, shown
from tests.gui.shell.driving import fail_loudly, finish, qt_asyncio, until
from tests.runner.joining import describe_run, invitation_to, let_in

ENVS = 4


@dataclass
class _Seen:
    app: QApplication
    page: ClientPage
    side: ClientSide
    qtbot: QtBot
    folders: Folders

    def until(self, words: str) -> None:
        self.wait(lambda: words in self.page.state.words, words)

    def wait(self, done: Callable[[], object], what: str) -> None:
        until(self.app, done, what)

    def click(self, button: Any) -> None:
        self.wait(button.isEnabled, f"{button.text()} can be clicked")
        self.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


@pytest.fixture
def training(server: RunningServer) -> RunningServer:
    """A server whose run needs no more than its own client."""
    overrides = {**UNHURRIED, "clients.local": 1, "env.num_envs": ENVS, "ppo.n_steps": 128}
    server.start_run(overrides=overrides | {"ppo.minibatch_size": 128, "ppo.round_timeout": 4.0})
    return server


def told_of(panel: ConsentPanel, name: str) -> str:
    return f"{panel.lines[name].words.text()}\n{panel.lines[name].state.word}"


@pytest.fixture
def pc(
    qapp: QApplication, theme: Theme, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[_Seen]:
    """A page on a computer without a server and without torch; its runner ends with the test."""
    folders = Folders(tmp_path / "config", tmp_path / "data")
    no_torch = tmp_path / "no_torch"
    no_torch.mkdir()
    (no_torch / "torch.py").write_text("raise ModuleNotFoundError('no torch on this computer')\n")
    monkeypatch.setenv("PYTHONPATH", str(no_torch), prepend=os.pathsep)
    tasks, side = Tasks(fail_loudly), ClientSide()
    with qt_asyncio(qapp):
        connect_client_side(side, folders, tasks).open()
        page = shown(qtbot, ClientPage(FakeFeed(), FakeShell(tmp_path, side)), 900, 800)  # type: ignore[arg-type]
        seen = _Seen(qapp, page, side, qtbot, folders)
        try:
            yield seen
        finally:
            if side.feed.connection.live:
                side.feed.call("server.shutdown")
                seen.wait(lambda: not (folders.client / CONTROL_FILE).exists(), "its runner ends")
            page.hide()
            finish(qapp, tasks)
    wait_for(lambda: not processes_below(tmp_path), "nothing is left running")


def test_a_pasted_link_is_asked_about_then_played_for_without_torch_until_it_is_forgotten_or_revoked(
    pc: _Seen, training: RunningServer, tmp_path: Path
) -> None:
    looked = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False)
    assert b"no torch on this computer" in looked.stderr
    name, page = "gamer-21", pc.page
    invitation = Invitation.parse(training.api.command("clients.invite.create", {"client": name})["link"])
    path = tmp_path / "mine.soulsgui"
    invitation.save(path)
    page.servers.open_path(str(path))
    pc.wait(lambda: "It answers at" in told_of(page.consent, "who"), "the server was asked")
    assert f"CartPole-v1 × {ENVS}" in told_of(page.consent, "what")
    assert training.client_state(name) == "joining", "nothing plays before the yes"
    pc.click(page.consent.decline)
    assert (page.consent.isVisible(), pc.side.invitation) == (False, None)
    pc.until("Not joined")
    assert not page.switch.toggle.isChecked()
    assert not pc.folders.servers.exists(), "not now changes nothing"

    QGuiApplication.clipboard().setText(f"  {invitation.link}\n")
    pc.click(page.servers.paste)
    assert page.consent.isVisible()
    pc.wait(lambda: "CartPole-v1" in told_of(page.consent, "what"), "what is agreed to")
    pc.click(page.consent.accept)
    pc.wait(page.consent.isHidden, "it was accepted")
    pc.until("Playing")
    pc.wait(lambda: training.client_state(name) == "online", "the server sees it play")
    assert page.switch.toggle.isChecked()
    assert page.server.place.text().startswith(f"{invitation.server_name}, 127.0.0.1:")
    pc.wait(lambda: page.servers.chosen is not None, "it is listed")
    pc.wait(lambda: len(page.curve.curve.series) > 0, "its own curve is drawn")

    pc.click(page.pausing.now)
    pc.until("Paused by you")
    pc.wait(lambda: training.client_state(name) == "paused", "the server shows it")
    training.api.command("clients.resume", {"client": name})
    training.wait_updates(2)
    assert training.client_state(name) == "paused", "the owner's pause wins"

    pc.click(page.pausing.resume)
    pc.until("Playing")
    pc.click(page.log.button)
    pc.wait(lambda: "start of client" in page.log.pane.text, "its lines")
    given = page.given.values
    pc.wait(lambda: given["share"].text().endswith("%"), "its share is told")
    pc.wait(lambda: given["episodes"].text() not in ("0", "—"), "its episodes are counted")
    words = ["Configuration received", "Version fits", "Environment found", "Network agrees"]
    assert [label.word for label in page.checks.labels.values()] == words
    pc.click(page.switch.toggle)
    pc.until("Not joined")
    pc.wait(lambda: training.client_state(name) == "left", "it said goodbye")
    assert pc.side.feed.status.services[0].pid is None
    pc.click(page.switch.toggle)
    pc.until("Playing")
    pc.wait(lambda: training.client_state(name) == "online", "the server sees it play again")

    pc.click(page.servers.forget)
    answer(page, "Forget")
    pc.wait(lambda: page.servers.chosen is None, "it is forgotten")
    pc.wait(lambda: training.client_state(name) == "left", "it said goodbye")
    pc.wait(lambda: not list(pc.folders.servers.iterdir()), "its files are gone")

    pc.side.open_invitation(invitation)
    pc.click(page.consent.accept)
    pc.until("Playing")
    training.api.command("clients.revoke", {"client": name})
    pc.until("no longer accepts this invitation")
    pc.side.open_invitation(invitation)
    shut_out = "does not let this computer in"
    pc.wait(lambda: shut_out in told_of(page.consent, "who"), "the server was asked again")


def test_a_client_that_is_too_old_says_what_the_server_needs_and_plays_once_that_is_here(
    pc: _Seen, redis_address: Address, redis_client: redis.Redis, gateway: Address
) -> None:
    page, prefix = pc.page, redis_address.prefix
    let_in(redis_client, prefix)
    describe_run(redis_client, prefix, clients__min_versions={"numpy": "99.5"})
    pc.side.open_invitation(invitation_to(("127.0.0.1", gateway.port), prefix=prefix, pin=gateway.pin))
    pc.click(page.consent.accept)
    pc.until("Update needed")
    assert f"It needs numpy 99.5 or newer, this computer has {numpy.__version__}." in page.state.words
    assert "Update it here; it then joins by itself." in page.state.words
    assert page.checks.labels["version"].word == "Version does not fit"
    pc.click(page.state.update_button)
    dialog = part_of(page, UpdateDialog)
    assert dialog.commands.toPlainText().endswith('-m pip install --upgrade "numpy>=99.5"')
    dialog.reject()
    describe_run(redis_client, prefix, clients__min_versions={"numpy": "1.0"})
    # By itself it looks every 30 s.
    pc.click(page.switch.toggle)
    pc.until("Not joined")
    pc.click(page.switch.toggle)
    pc.wait(lambda: page.checks.labels["version"].word == "Version fits", "the version fits")
    assert "Update needed" not in page.state.words
