"""Joining by invitation in the window: a real server, a real runner of client mode, a real client."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QMessageBox
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.gui.client_mode.page import ClientPage
from soulsgui.gui.client_mode.runner import ClientSide
from soulsgui.gui.loop import Tasks
from soulsgui.gui.shell.connection import connect_client_side
from soulsgui.gui.theme import Theme
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import RunningServer, processes_below, wait_for
from tests.faults.waiting import LIMIT_S
from tests.gui.fake_feed import FakeFeed, FakeShell
from tests.gui.shell.driving import fail_loudly, finish, qt_asyncio, until

NAME = "gamer-21"


class _Shell(FakeShell):
    """A played window with a client side."""

    def __init__(self, folder: Path, side: ClientSide) -> None:
        super().__init__(folder)
        self._side = side

    def client_side(self) -> ClientSide:
        return self._side


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a run that its own client alone keeps going."""
    running = RunningServer(tmp_path_factory.mktemp("server"))
    try:
        running.start_run(
            overrides={
                "clients.local": 1,
                "ppo.n_steps": 64,
                "ppo.minibatch_size": 64,
                "ppo.round_timeout": 4.0,
            }
        )
        yield running
    finally:
        running.close()


class _Pc:
    """Another computer with its window on the page of client mode."""

    def __init__(self, app: QApplication, qtbot: QtBot, folder: Path) -> None:
        self.folders = Folders(folder / "config", folder / "data")
        self.app, self.qtbot = app, qtbot
        self.tasks = Tasks(fail_loudly)
        self.side = ClientSide()
        self.shell = _Shell(folder, self.side)
        connect_client_side(self.side, self.folders, self.tasks).open()
        self.page = ClientPage(FakeFeed(), self.shell)  # type: ignore[arg-type]
        qtbot.addWidget(self.page)
        self.page.resize(1000, 800)
        self.page.show()

    def until(self, seen: Any, what: str) -> None:
        until(self.app, seen, what, LIMIT_S)

    def until_state(self, words: str) -> None:
        self.until(lambda: words in self.page.state.words, words)

    def click(self, button: Any) -> None:
        self.until(button.isEnabled, f"{button.text()} can be clicked")
        self.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)

    @property
    def asks(self) -> bool:
        return self.page.consent.isVisible()


@contextmanager
def pc_of(qapp: QApplication, qtbot: QtBot, folder: Path) -> Iterator[_Pc]:
    """Another computer; its runner ends with the test."""
    with qt_asyncio(qapp):
        pc = _Pc(qapp, qtbot, folder)
        try:
            yield pc
        finally:
            pc.page.hide()
            if pc.side.feed.connection.commands_possible:
                pc.side.feed.call("server.shutdown")
                pc.until(lambda: not (pc.folders.client / CONTROL_FILE).exists(), "its runner ends")
            finish(qapp, pc.tasks)
    wait_for(lambda: not processes_below(folder), "nothing is left running")


def invite(server: RunningServer, name: str = NAME) -> Invitation:
    known = {one["client"] for one in server.api.command("clients.invite.list")["invitations"]}
    made = server.api.command("clients.invite.create", {"client": name, "reissue": name in known})
    return Invitation.parse(made["link"])


def test_a_pasted_link_is_asked_about_and_then_played_for(
    qapp: QApplication, theme: Theme, qtbot: QtBot, training: RunningServer, tmp_path: Path
) -> None:
    invitation = invite(training)
    with pc_of(qapp, qtbot, tmp_path) as pc:
        page = pc.page
        QGuiApplication.clipboard().setText(f"  {invitation.link}\n")
        pc.click(page.servers.paste)
        assert pc.asks
        pc.until(lambda: "It answers at" in page.consent.words_of("who"), "the server was asked")
        assert "CartPole-v1, 4 copies" in page.consent.words_of("what")
        assert training.client_state(NAME) == "joining", "nothing plays before the yes"
        assert not (pc.folders.servers).exists()

        pc.click(page.consent.accept)
        pc.until(lambda: not pc.asks, "it was accepted")
        pc.until_state("Playing")
        pc.until(lambda: training.client_state(NAME) == "online", "the server sees it play")
        assert page.switch.toggle.isChecked()
        assert page.server.place.startswith(f"{invitation.server_name}, 127.0.0.1:")
        pc.until(lambda: page.servers.chosen is not None, "it is listed")
        pc.until(lambda: len(page.curve.curve.series) > 0, "its own curve is drawn")

        pc.click(page.pausing.now)
        pc.until_state("Paused by you")
        pc.until(lambda: training.client_state(NAME) == "paused", "the server shows it")
        training.api.command("clients.resume", {"client": NAME})
        training.wait_updates(2)
        assert training.client_state(NAME) == "paused", "the owner's pause wins"

        pc.click(page.servers.forget)
        (box,) = page.findChildren(QMessageBox)
        pc.click(next(button for button in box.buttons() if button.text().replace("&", "") == "Forget"))
        pc.until(lambda: page.servers.chosen is None, "it is forgotten")
        pc.until(lambda: training.client_state(NAME) == "left", "it said goodbye")
        assert not list(pc.folders.servers.iterdir())


def test_not_now_changes_nothing(
    qapp: QApplication, theme: Theme, qtbot: QtBot, training: RunningServer, tmp_path: Path
) -> None:
    path = tmp_path / "mine.soulsgui"
    invite(training).save(path)
    with pc_of(qapp, qtbot, tmp_path) as pc:
        pc.page.servers.open_path(str(path))
        pc.until(lambda: "It answers at" in pc.page.consent.words_of("who"), "the server was asked")
        pc.click(pc.page.consent.decline)
        assert not pc.asks
        assert pc.side.invitation is None
        pc.until_state("Not joined")
        assert not pc.page.switch.toggle.isChecked()
        assert not pc.folders.servers.exists()


def test_a_revoked_invitation_says_so_before_and_after_the_yes(
    qapp: QApplication,
    theme: Theme,
    qtbot: QtBot,
    training: RunningServer,
    tmp_path: Path,
) -> None:
    invitation = invite(training, "gamer-22")
    with pc_of(qapp, qtbot, tmp_path) as pc:
        pc.side.open_invitation(invitation)
        pc.click(pc.page.consent.accept)
        pc.until_state("Playing")
        training.api.command("clients.revoke", {"client": "gamer-22"})
        pc.until(lambda: "no longer accepts this invitation" in pc.page.state.words, "it is shut out")
        pc.side.open_invitation(invitation)
        pc.until(
            lambda: "does not let this computer in" in pc.page.consent.words_of("who"),
            "the server was asked again",
        )


def test_what_is_no_invitation_is_said(
    qapp: QApplication, theme: Theme, qtbot: QtBot, tmp_path: Path
) -> None:
    side = ClientSide(feed=FakeFeed())  # type: ignore[arg-type]
    shell = _Shell(tmp_path, side)
    page = ClientPage(FakeFeed(), shell)  # type: ignore[arg-type]
    qtbot.addWidget(page)
    QGuiApplication.clipboard().setText("")
    page.servers.paste.click()
    QGuiApplication.clipboard().setText("soulsgui://join/abc")
    page.servers.paste.click()
    page.servers.open_path(str(tmp_path / "nowhere.soulsgui"))
    said = [told.text for told in shell.told]
    assert said[0] == "There is no invitation to paste."
    assert said[1] == "The link is damaged or cut off."
    assert "There is no invitation in" in said[2]
    assert side.invitation is None
