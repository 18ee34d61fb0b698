"""The page of client mode before a real server, a real runner of client mode and a real client."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.gui.client_mode.consent import ConsentPanel
from soulsgui.gui.client_mode.page import ClientPage
from soulsgui.gui.client_mode.runner import ClientSide
from soulsgui.gui.loop import Tasks
from soulsgui.gui.shell.connection import connect_client_side
from soulsgui.gui.theme import Theme
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import ClientStatus, ServiceStatus
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import RunningServer, processes_below, wait_for
from tests.faults.waiting import LIMIT_S
from tests.gui.fake_feed import FakeFeed, FakeShell
from tests.gui.questions import answer
from tests.gui.shell.driving import connected_feed, fail_loudly, finish, qt_asyncio, until

NAME = "gamer-01"
ENVS, STEPS = 4, 128


@dataclass
class _Seen:
    """A page on the screen, and what it stands on."""

    app: QApplication
    page: ClientPage
    side: ClientSide
    qtbot: QtBot
    folders: Folders

    def until(self, words: str) -> None:
        """Wait until the page says this of its state."""
        self.wait(lambda: words in self.page.state.words, words)

    def wait(self, done: Callable[[], object], what: str) -> None:
        until(self.app, done, what)

    def click(self, button: Any) -> None:
        self.wait(button.isEnabled, f"{button.text()} can be clicked")
        self.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)

    @property
    def service(self) -> ServiceStatus:
        return self.side.feed.status.services[0]


@contextmanager
def _seen(qapp: QApplication, qtbot: QtBot, folders: Folders, server: Any, tmp_path: Path) -> Iterator[_Seen]:
    """A page on the screen whose client side is connected for real; use it within `qt_asyncio`."""
    tasks = Tasks(fail_loudly)
    side = ClientSide()
    connect_client_side(side, folders, tasks).open()
    page = ClientPage(server, FakeShell(tmp_path, side))  # type: ignore[arg-type]
    qtbot.addWidget(page)
    page.resize(900, 800)
    page.show()
    try:
        yield _Seen(qapp, page, side, qtbot, folders)
    finally:
        page.hide()
        finish(qapp, tasks)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose run needs no more than its own client."""
    running = RunningServer(tmp_path_factory.mktemp("server"))
    try:
        overrides = {"clients.local": 1, "env.num_envs": ENVS, "ppo.n_steps": STEPS}
        running.start_run(overrides=overrides | {"ppo.minibatch_size": 128, "ppo.round_timeout": 4.0})
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def joined(training: RunningServer) -> Iterator[RunningServer]:
    """The same server with this computer's client playing for it."""
    join = training.spawn("join", "--name", NAME)
    wait_for(lambda: training.client_state(NAME) == "online", "the client plays", LIMIT_S)
    yield training
    join.terminate()
    join.wait(LIMIT_S)


def told_of(panel: ConsentPanel, name: str) -> str:
    """What the question says of a thing, with its state."""
    return f"{panel.lines[name].words.text()}\n{panel.lines[name].state.text()}"


def _folders(folder: Path) -> Folders:
    return Folders(folder / "config", folder / "data")


@pytest.fixture
def seen(
    qapp: QApplication, theme: Theme, qtbot: QtBot, joined: RunningServer, tmp_path: Path
) -> Iterator[_Seen]:
    """The page, connected to the runner of client mode that plays."""
    folders = _folders(joined.folder)
    with (
        qt_asyncio(qapp),
        connected_feed(qapp, folders) as server,
        _seen(qapp, qtbot, folders, server, tmp_path) as page,
    ):
        page.until("Playing")
        yield page


@pytest.fixture
def pc(qapp: QApplication, theme: Theme, qtbot: QtBot, tmp_path: Path) -> Iterator[_Seen]:
    """A page on a computer without a server; its runner ends with the test."""
    with qt_asyncio(qapp), _seen(qapp, qtbot, _folders(tmp_path), FakeFeed(), tmp_path) as seen:
        try:
            yield seen
        finally:
            if seen.side.feed.connection.commands_possible:
                seen.side.feed.call("server.shutdown")
                seen.wait(lambda: not (seen.folders.client / CONTROL_FILE).exists(), "its runner ends")
    wait_for(lambda: not processes_below(tmp_path), "nothing is left running")


# First: the client of the fixtures below plays from its first use on.
def test_a_pasted_link_is_asked_about_then_played_for_until_it_is_forgotten_or_revoked(
    pc: _Seen, training: RunningServer, tmp_path: Path
) -> None:
    name, page = "gamer-21", pc.page
    invitation = Invitation.parse(training.api.command("clients.invite.create", {"client": name})["link"])
    path = tmp_path / "mine.soulsgui"
    invitation.save(path)
    page.servers.open_path(str(path))
    pc.wait(lambda: "It answers at" in told_of(page.consent, "who"), "the server was asked")
    assert f"CartPole-v1, {ENVS} copies" in told_of(page.consent, "what")
    assert training.client_state(name) == "joining", "nothing plays before the yes"
    pc.click(page.consent.decline)
    assert (page.consent.isVisible(), pc.side.invitation) == (False, None)
    pc.until("Not joined")
    assert not page.switch.toggle.isChecked()
    assert not pc.folders.servers.exists(), "not now changes nothing"

    QGuiApplication.clipboard().setText(f"  {invitation.link}\n")
    pc.click(page.servers.paste)
    assert page.consent.isVisible()
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

    pc.click(page.servers.forget)
    answer(page, "Forget")
    pc.wait(lambda: page.servers.chosen is None, "it is forgotten")
    pc.wait(lambda: training.client_state(name) == "left", "it said goodbye")
    assert not list(pc.folders.servers.iterdir())

    pc.side.open_invitation(invitation)
    pc.click(page.consent.accept)
    pc.until("Playing")
    training.api.command("clients.revoke", {"client": name})
    pc.until("no longer accepts this invitation")
    pc.side.open_invitation(invitation)
    shut_out = "does not let this computer in"
    pc.wait(lambda: shut_out in told_of(page.consent, "who"), "the server was asked again")


def _own_client(server: RunningServer) -> ClientStatus:
    return next(client for client in server.status().clients if client.id == NAME)


def test_switched_off_it_leaves_and_switched_on_the_server_uses_its_samples(
    seen: _Seen, joined: RunningServer
) -> None:
    def episodes() -> int:
        return sum(joined.api.command("history.query", {"metric": "return", "client": NAME})["count"])

    page = seen.page
    seen.click(page.switch.toggle)
    seen.until("Not joined")
    assert not page.switch.toggle.isChecked()
    seen.wait(lambda: joined.client_state(NAME) == "left", "it said goodbye")
    assert seen.service.pid is None
    before = episodes()

    seen.click(page.switch.toggle)
    seen.until("Playing")
    assert page.switch.toggle.isChecked()
    seen.wait(lambda: joined.client_state(NAME) == "online", "the server sees it play")
    seen.wait(lambda: episodes() > before, "the server has its episodes")
    first = joined.status().run

    def steps_per_update() -> float:
        now = joined.status().run
        return (now.env_steps - first.env_steps) / max(now.updates - first.updates, 1)

    seen.wait(lambda: steps_per_update() > ENVS * STEPS * 1.2, "its samples are part of the rounds")
    given = page.given.values
    seen.wait(lambda: given["share"].text().endswith("%"), "its share is told")
    seen.wait(lambda: given["episodes"].text() not in ("0", "—"), "its episodes are counted")
    words = ["Configuration received", "Version fits", "Environment found", "Network agrees"]
    assert [label.word for label in page.checks.labels.values()] == words
    assert page.server.place.text().startswith("this computer, 127.0.0.1:")
    seen.wait(lambda: len(page.curve.curve.series) > 0, "its own curve is drawn")


def test_its_owner_pauses_it_at_once_or_after_its_episodes_also_while_the_server_is_killed(
    seen: _Seen, joined: RunningServer
) -> None:
    def press(button: QPushButton, words: str, state: str) -> None:
        seen.click(button)
        seen.until(words)
        seen.wait(lambda: joined.client_state(NAME) == state, f"the server shows it {state}")

    pausing = seen.page.pausing
    press(pausing.now, "Paused by you", "paused")
    before = _own_client(joined)
    joined.wait_updates(2)
    assert _own_client(joined).env_steps == before.env_steps, "nothing is stepped while paused"
    press(pausing.resume, "Playing", "online")
    press(pausing.later, "Paused by you", "paused")
    assert _own_client(joined).episodes >= before.episodes + ENVS, "each environment ended its episode"
    press(pausing.resume, "Playing", "online")
    redis = joined.pid("redis")
    assert redis is not None
    os.kill(redis, 9)
    press(pausing.now, "Paused by you", "paused")
    seen.click(pausing.resume)
    seen.until("Playing")
    assert not seen.page.log.pane.isVisible()
    seen.click(seen.page.log.button)
    seen.wait(lambda: "start of client" in seen.page.log.pane.text, "its lines")
