"""The page of client mode before a real server, a real runner of client mode and a real client."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.gui.client_side import ClientSide, connect_client_side
from soulsgui.gui.connection_state import Connection, ConnectionState
from soulsgui.gui.loop import Tasks
from soulsgui.gui.pages.client import ClientPage, make_client_page
from soulsgui.gui.theme import Theme
from soulsgui.system import free_port
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.connection import Address
from soulsgui.wire.control import ClientStatus, RunStatus, ServerStatus, ServiceStatus, Status
from tests.end_to_end.server import RunningServer, command_line, wait_for
from tests.gui.fake_feed import FakeFeed, FakeShell, refusal
from tests.gui.shell.driving import connected_feed, fail_loudly, finish, qt_asyncio, until

NAME = "gamer-01"
LIMIT_S = 20.0
ENVS, STEPS = 4, 128


class _Shell(FakeShell):
    """A played window with a client side."""

    def __init__(self, folder: Path, side: Any) -> None:
        super().__init__(folder)
        self._side = side

    def client_side(self) -> Any:
        return self._side


@dataclass
class _Seen:
    """A page on the screen, and what it stands on."""

    app: QApplication
    page: ClientPage
    side: ClientSide
    shell: _Shell
    qtbot: QtBot

    def until(self, words: str) -> None:
        """Wait until the page says this of its state."""
        until(self.app, lambda: words in self.page.state.words, words, LIMIT_S)

    def click(self, button: Any) -> None:
        until(self.app, button.isEnabled, f"{button.text()} can be clicked")
        self.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)

    @property
    def service(self) -> ServiceStatus:
        return self.side.feed.status.services[0]


@contextmanager
def _seen(qapp: QApplication, qtbot: QtBot, folders: Folders, server: Any, tmp_path: Path) -> Iterator[_Seen]:
    """A page on the screen whose client side is connected for real; use it within `qt_asyncio`."""
    tasks = Tasks(fail_loudly)
    side = ClientSide()
    shell = _Shell(tmp_path, side)
    connect_client_side(side, folders, tasks).open()
    page = make_client_page(shell, server)
    qtbot.addWidget(page)
    page.resize(900, 800)
    page.show()
    try:
        yield _Seen(qapp, page, side, shell, qtbot)
    finally:
        page.hide()
        finish(qapp, tasks)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose run needs no more than its own client."""
    running = RunningServer(tmp_path_factory.mktemp("server"))
    try:
        running.start_run(
            overrides={
                "clients.local": 1,
                "env.num_envs": ENVS,
                "ppo.n_steps": STEPS,
                "ppo.minibatch_size": 128,
                "ppo.round_timeout": 4.0,
            }
        )
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


def _episodes_on_server(server: RunningServer, client: str) -> int:
    return len(server.api.command("history.query", {"metric": "return", "client": client})["row"])


def _own_client(server: RunningServer) -> ClientStatus:
    return next(client for client in server.status().clients if client.id == NAME)


# --- the real thing --------------------------------------------------------------------------------


def test_switched_off_it_leaves_and_switched_on_the_server_uses_its_samples(
    seen: _Seen, joined: RunningServer
) -> None:
    page = seen.page
    seen.click(page.switch.toggle)
    seen.until("Not joined")
    assert not page.switch.toggle.isChecked()
    until(seen.app, lambda: joined.client_state(NAME) == "left", "it said goodbye")
    assert seen.service.pid is None
    before = _episodes_on_server(joined, NAME)

    seen.click(page.switch.toggle)
    seen.until("Playing")
    assert page.switch.toggle.isChecked()
    until(seen.app, lambda: joined.client_state(NAME) == "online", "the server sees it play")
    until(
        seen.app, lambda: _episodes_on_server(joined, NAME) > before, "the server has its episodes", LIMIT_S
    )
    first = joined.status().run
    joined.wait_updates(2)
    later = joined.status().run
    per_update = (later.env_steps - first.env_steps) / (later.updates - first.updates)
    assert per_update > ENVS * STEPS * 1.2, "its samples are part of the rounds"
    until(seen.app, lambda: page.given.value("share").endswith("%"), "its share is told")
    assert int(page.given.value("episodes").replace(",", "")) > 0
    assert page.checks.words == ["Configuration received", "Version fits", "Environment found"]
    assert page.state.server.startswith("this computer, 127.0.0.1:")
    until(seen.app, lambda: len(page.curve.curve.series) > 0, "its own curve is drawn")


def test_pause_now_is_seen_on_the_server_until_resume(seen: _Seen, joined: RunningServer) -> None:
    seen.click(seen.page.pause)
    seen.until("Paused by you")
    until(seen.app, lambda: joined.client_state(NAME) == "paused", "the server shows it")
    steps = _own_client(joined).env_steps
    joined.wait_updates(2)
    assert _own_client(joined).env_steps == steps, "nothing is stepped while paused"
    seen.click(seen.page.resume)
    seen.until("Playing")
    until(seen.app, lambda: joined.client_state(NAME) == "online", "it plays again")


def test_pause_after_the_episode_ends_all_episodes_first(seen: _Seen, joined: RunningServer) -> None:
    episodes = _own_client(joined).episodes
    seen.click(seen.page.pause_later)
    seen.until("Paused by you")
    until(seen.app, lambda: joined.client_state(NAME) == "paused", "the server shows it")
    assert _own_client(joined).episodes >= episodes + ENVS, "each environment ended its episode"
    seen.click(seen.page.resume)
    seen.until("Playing")


def test_pausing_works_while_the_server_is_killed(seen: _Seen, joined: RunningServer) -> None:
    redis = joined.pid("redis")
    assert redis is not None
    os.kill(redis, 9)
    seen.click(seen.page.pause)
    seen.until("Paused by you")
    until(seen.app, lambda: joined.client_state(NAME) == "paused", "the server, back, shows it", LIMIT_S)
    seen.click(seen.page.resume)
    seen.until("Playing")


def test_a_killed_client_is_started_again_and_its_curve_goes_on(seen: _Seen, joined: RunningServer) -> None:
    until(seen.app, lambda: seen.side.feed.status.clients[0].episodes > 0, "an episode")
    before, old = seen.side.feed.status.clients[0].episodes, seen.service.pid
    assert old is not None
    os.kill(old, 9)
    until(seen.app, lambda: seen.service.pid not in (None, old), "another process", LIMIT_S)
    seen.until("Playing")
    until(seen.app, lambda: seen.side.feed.status.clients[0].episodes > before, "more episodes", LIMIT_S)
    call = seen.side.feed.call("history.query", {"metric": "return"})
    with seen.qtbot.waitSignal(call.done) as answered:
        pass
    rows = answered.args[0]["row"]
    assert rows == list(range(1, len(rows) + 1))


def test_the_log_opens_behind_its_button(seen: _Seen) -> None:
    assert not seen.page.log.pane.isVisible()
    seen.click(seen.page.log.button)
    until(seen.app, lambda: "start of client" in seen.page.log.pane.text, "its lines")


def test_without_its_runner_the_client_ends_by_itself_and_the_switch_starts_another_one(
    qapp: QApplication, theme: Theme, qtbot: QtBot, tmp_path: Path
) -> None:
    folders = _folders(tmp_path)
    folders.server.mkdir(parents=True)
    Address("127.0.0.1", free_port(), "x").write(folders.server_address)
    with (tmp_path / "join.log").open("ab") as log:
        join = psutil.Popen(command_line("join", "--name", NAME, folder=tmp_path), stdout=log, stderr=log)
    with qt_asyncio(qapp), _seen(qapp, qtbot, folders, FakeFeed(), tmp_path) as seen:
        seen.until("Server away since")
        until(qapp, lambda: seen.service.state == "running", "the client's process")
        assert seen.page.switch.toggle.isChecked()
        client = psutil.Process(seen.service.pid or 0)
        join.kill()
        join.wait()
        seen.until("Not joined")
        assert "stopped by itself" in seen.page.state.words
        assert not seen.page.switch.toggle.isChecked()
        until(qapp, lambda: not client.is_running(), "the client ends by itself", LIMIT_S)

        seen.click(seen.page.switch.toggle)
        assert seen.page.switch.toggle.isChecked()
        seen.until("Server away since")
        assert seen.side.feed.hello is not None
        assert seen.side.feed.hello.pid != join.pid
        seen.side.feed.call("server.shutdown")
        until(qapp, lambda: not (folders.client / CONTROL_FILE).exists(), "its runner ends", LIMIT_S)
        seen.until("Not joined")


# --- what it says, and what is asked ---------------------------------------------------------------


class _FakeSide:
    """A client side that the test plays."""

    def __init__(self, feed: FakeFeed) -> None:
        self.feed = feed
        self.switched_on = 0

    def switch_on(self) -> None:
        self.switched_on += 1


def _status(service: str = "running", state: str = "online", wish: str = "run") -> Status:
    client = ClientStatus(id=NAME, name=NAME, state=state, wish=wish, episodes=3, env_steps=1234)
    return Status(
        run=RunStatus(id="run-1"),
        services=[ServiceStatus.model_validate({"name": "client", "kind": "client", "state": service})],
        clients=[client],
        server=ServerStatus(url="redis://127.0.0.1:1", reachable=True),
    )


@pytest.fixture
def played(
    qapp: QApplication, theme: Theme, qtbot: QtBot, tmp_path: Path
) -> tuple[ClientPage, FakeFeed, _Shell]:
    """The page before a feed that the test plays."""
    fake = FakeFeed(_status())
    shell = _Shell(tmp_path, _FakeSide(fake))
    page = ClientPage(FakeFeed(), shell)  # type: ignore[arg-type]
    qtbot.addWidget(page)
    page.show()
    return page, fake, shell


Played = tuple[ClientPage, FakeFeed, _Shell]


def test_every_control_sends_its_command(played: Played, qtbot: QtBot) -> None:
    page, fake, _ = played
    for button, command, params in (
        (page.pause, "clients.pause", {"client": NAME, "after_episode": False}),
        (page.pause_later, "clients.pause", {"client": NAME, "after_episode": True}),
        (page.switch.toggle, "service.stop", {"name": "client"}),
    ):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
        assert (fake.sent[-1].command, fake.sent[-1].params) == (command, params)
    fake.take_snapshot(_status(wish="pause"))
    qtbot.waitUntil(page.resume.isEnabled)
    qtbot.mouseClick(page.resume, Qt.MouseButton.LeftButton)
    assert (fake.sent[-1].command, fake.sent[-1].params) == ("clients.resume", {"client": NAME})


def test_a_refused_switch_goes_back_and_says_why(played: Played, qtbot: QtBot) -> None:
    page, fake, shell = played
    fake.answers["service.stop"] = refusal("It does not stop.", "Wait.")
    qtbot.mouseClick(page.switch.toggle, Qt.MouseButton.LeftButton)
    assert not page.switch.toggle.isChecked()
    qtbot.waitUntil(page.switch.toggle.isChecked)
    assert [(told.level, told.text, told.detail) for told in shell.told] == [
        ("error", "It does not stop.", "Wait.")
    ]


def test_without_a_runner_the_switch_starts_one(played: Played, qtbot: QtBot) -> None:
    page, fake, shell = played
    fake.connect_as(Connection(ConnectionState.WELCOME))
    qtbot.waitUntil(lambda: "Not joined" in page.state.words)
    assert not page.switch.toggle.isChecked()
    assert not page.pause.isEnabled()
    qtbot.mouseClick(page.switch.toggle, Qt.MouseButton.LeftButton)
    assert shell.client_side().switched_on == 1
    assert page.switch.toggle.isChecked()
    fake.connect_as(Connection(ConnectionState.STARTING))
    qtbot.waitUntil(lambda: "Connecting" in page.state.words)
    assert page.switch.toggle.isChecked()


def test_a_lost_connection_dims_what_is_known_and_keeps_it(played: Played, qtbot: QtBot) -> None:
    page, fake, _ = played
    qtbot.waitUntil(lambda: page.given.value("episodes") == "3")
    fake.connect_as(Connection(ConnectionState.RECONNECTING, "this computer", since=1.0))
    qtbot.waitUntil(lambda: not page.given.isEnabled())
    assert (page.given.value("episodes"), page.given.value("steps")) == ("3", "1,234")
    assert not page.curve.isEnabled()


def test_nothing_is_drawn_while_the_page_is_hidden(played: Played, qtbot: QtBot) -> None:
    page, fake, _ = played
    qtbot.waitUntil(lambda: "Playing, episode 4" in page.state.words)
    page.hide()
    fake.take_snapshot(_status(wish="pause"))
    qtbot.wait(150)
    assert "Playing, episode 4" in page.state.words
    page.show()
    qtbot.waitUntil(lambda: "Paused by you" in page.state.words)
