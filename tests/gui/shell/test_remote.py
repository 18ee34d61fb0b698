"""A server of another computer, reached by `ssh`: here by one that runs and forwards on this machine."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
from PySide6.QtWidgets import QApplication, QPushButton, QWidget

from soulsgui.config.paths import Folders
from soulsgui.errors import UsageError
from soulsgui.gui.clients.page import ClientsPage
from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.gui.config.page import ConfigPage
from soulsgui.gui.logs.page import LogsPage
from soulsgui.gui.models.connection import ConnectionState, RemoteServer
from soulsgui.gui.overview.page import OverviewPage
from soulsgui.gui.plots.page import PlotsPage
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.runs.page import RunsPage
from soulsgui.gui.shell import connection, remote, runner_link
from soulsgui.gui.shell.remote import SshRefusedError, error_of
from soulsgui.gui.shell.servers import AddServerDialog
from soulsgui.gui.theme import Theme
from soulsgui.wire.control import RunStatus, Status
from tests.end_to_end.server import RunningServer, processes_below, wait_for
from tests.faults.waiting import LIMIT_S
from tests.gui.fake_feed import FakeFeed
from tests.gui.reading import part_of
from tests.gui.shell import fake_ssh
from tests.gui.shell.conftest import Make, folders_below
from tests.gui.shell.driving import OpenedWindow, finish
from tests.gui.shell.stub_pages import StubPage

pytestmark = pytest.mark.processes
S = ConnectionState
Page = TypeVar("Page", bound=QWidget)
HOST = "me@lab"
SETTINGS = """clients:
  local: 1
client:
  step_seconds: 0.008
ppo:
  n_steps: 32
  epochs: 1
evaluation:
  every_updates: 0
stop:
  judged_by: training
  mean_return: 1000
"""
REFUSED = {
    "nowhere": (255, "ssh: Could not resolve hostname nowhere: Name or service not known"),
    "locked": (255, "me@locked: Permission denied (publickey,password)."),
    "unknown": (255, "No ED25519 host key is known for unknown.\nHost key verification failed."),
    "changed": (255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed."),
    "bare": (127, "sh: 1: soulsgui: not found"),
}


class Ssh:
    """What stands in the place of `ssh` on the PATH, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        line = shlex.join([sys.executable, fake_ssh.__file__, str(folder)])
        self.write("ssh", f'exec {line} "$@"')

    def write(self, name: str, line: str) -> Path:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
        return path

    def fail(self, fails: dict[str, tuple[int, str]]) -> None:
        (self.folder / "fails.json").write_text(json.dumps(fails))

    @property
    def calls(self) -> list[list[str]]:
        told = self.folder / "calls.jsonl"
        return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []

    def tunnels(self) -> list[psutil.Process]:
        return [one for one in psutil.Process().children() if "-L" in one.cmdline()]


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ssh:
    # Usual limits are far below what a busy machine may take.
    for module, name in (
        (remote, "_LIMIT_S"),
        (connection, "_FAR_HELLO_TIMEOUT_S"),
        (runner_link, "_PING_EVERY_S"),
    ):
        monkeypatch.setattr(module, name, LIMIT_S)
    made = Ssh(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.folder}{os.pathsep}{os.environ['PATH']}")
    return made


class Far(OpenedWindow):
    """A window with a home of its own, in which no server has ever been."""

    def add(self, host: str, command: str = "") -> AddServerDialog:
        self.window.toolbar.servers.add_wanted.emit()
        dialog = self.window.findChildren(AddServerDialog)[-1]
        dialog.host.setText(host)
        dialog.command.setText(command)
        dialog.connect_it.click()
        return dialog


@pytest.fixture
def far(
    qapp: QApplication, qt_loop: asyncio.AbstractEventLoop, theme: Theme, tmp_path: Path
) -> Iterator[Far]:
    made = Far(qapp, theme, folders_below(tmp_path / "home"))
    made.until_state(S.WELCOME)
    yield made
    made.close()


@pytest.fixture
def command(ssh: Ssh, server: RunningServer) -> str:
    """How the server's SoulsGUI is called there."""
    places = ["--config-dir", str(server.folder / "config"), "--data-dir", str(server.folder / "data")]
    return str(ssh.write("soulsgui", f'exec {shlex.join([sys.executable, "-m", "soulsgui", *places])} "$@"'))


def page_of(far: Far, kind: type[Page], name: str) -> Page:
    far.window.show_page(name)
    page = far.window.pages.made(name)
    assert isinstance(page, kind)
    return page


def click(far: Far, button: QPushButton) -> None:
    far.until(button.isEnabled, f"{button.text()} can be clicked")
    button.click()


def test_a_window_without_any_server_file_acts_on_every_page_of_a_server_of_another_computer(
    far: Far, ssh: Ssh, server: RunningServer, command: str
) -> None:
    far.add(HOST, command)
    far.until_live()
    ask, tunnel = ssh.calls[:2]
    assert ask[ask.index("--") :] == ["--", HOST, command, "control", "--json"]
    assert tunnel[tunnel.index("--") :] == ["--", HOST, command, "control", "--hold"]
    for words in (ask, tunnel):
        assert "BatchMode=yes" in words

    window = far.window
    config = page_of(far, ConfigPage, "config")
    far.until(lambda: config.views.filled, "the file of that server")
    config.views.text.setPlainText(SETTINGS)
    file = server.folder / "config" / "config.yaml"

    def saved() -> bool:
        # Again where a slow machine has lost the connection meanwhile.
        if config.head.save.isEnabled():
            config.head.save.click()
        return file.exists() and file.read_text() == SETTINGS and not config.unsaved

    far.until(saved, "it is saved there")
    far.until_live()

    click(far, window.toolbar.new_run)
    dialog = part_of(window, NewRunDialog)
    far.until(dialog.start.isEnabled, "the settings of that server")
    dialog.name.setText("far")
    dialog.start.click()
    far.until(lambda: far.feed.status.run.updates > 0, "a run there learns")
    run = server.data / "runs" / far.feed.status.run.id
    assert json.loads((run / "config.json").read_text())["ppo"]["n_steps"] == 32
    overview = page_of(far, OverviewPage, "overview")
    far.until(lambda: len(overview.plot.curve.series) > 0, "its curve")
    overview.clients.choose("client-1")
    click(far, overview.clients.buttons["pause"])
    far.until(lambda: server.client_state("client-1") == "paused", "its client pauses")
    clients = page_of(far, ClientsPage, "clients")
    clients.roster.choose("client-1")
    click(far, clients.roster.buttons["resume"])
    far.until(lambda: server.client_state("client-1") != "paused", "it plays on")
    plots = page_of(far, PlotsPage, "plots")
    plots.show_where(metric="policy_loss")
    far.until(lambda: plots.cells and all(cell.curves for cell in plots.cells.values()), "plots")
    logs = page_of(far, LogsPage, "logs")
    logs.show_where(service="trainer")
    far.until(lambda: "start of trainer" in logs.pane.text, "its log")
    runs = page_of(far, RunsPage, "runs")
    far.until(lambda: runs.chosen is not None and runs.chosen.id == run.name, "it is among the runs")
    click(far, runs.details.checkpoints.save)
    far.until(lambda: list((run / "manual_save").glob("*/manifest.json")), "it is saved there")
    click(far, window.toolbar.stop)
    far.until(lambda: far.feed.status.run.state == "stopped", "it is stopped")
    exported = far.folders.config.parent / "far.soulsrun"
    runs.details.export_to(run.name, str(exported))
    far.until(exported.exists, "it is brought here")
    token = json.loads((server.data / "server" / "control.json").read_text())["token"]
    window.remember()
    left = [path for path in far.folders.config.parent.rglob("*") if path.is_file()]
    assert {path.name for path in left} == {"window.ini", exported.name}, "no file of a server is here"
    assert all(token.encode() not in path.read_bytes() for path in left)
    assert Preferences(far.folders).servers == [RemoteServer(HOST, command)]

    (before,), asked = ssh.tunnels(), len(ssh.calls)
    before.kill()
    far.until(lambda: far.feed.connection.state is S.RECONNECTING, "that the tunnel is gone is noticed")
    far.until(lambda: far.feed.connection.live, "there is another one")
    (after,) = ssh.tunnels()
    assert after.pid != before.pid
    assert len(ssh.calls) >= asked + 2, "each connection asks anew"

    window.show_server(None)
    far.until(lambda: far.feed.connection.state is S.WELCOME, "back at this computer")
    assert not ssh.tunnels()
    assert far.feed.hello is None
    assert window.toolbar.servers.accessibleName() == "Server: This computer"


def as_soulsgui(ssh: Ssh, server: RunningServer) -> str:
    """Return a command that does what `soulsgui control` does, in less time."""
    control = shlex.quote(str(server.data / "server" / "control.json"))
    return str(ssh.write("soulsgui", f'[ "$2" = --hold ] && exec cat\ncat {control}'))


def test_the_tunnel_ends_with_the_window(far: Far, ssh: Ssh, server: RunningServer) -> None:
    far.add(HOST, as_soulsgui(ssh, server))
    far.until_live()
    assert ssh.tunnels()
    finish(far.qapp, far.tasks)
    assert not ssh.tunnels()


# Its messages are what it prints.
WINDOW = """
import sys
from pathlib import Path
from soulsgui.config.paths import Folders
from soulsgui.gui import app

class Telling(app.MainWindow):
    def notify(self, level, text, detail="", action=None, about=""):
        print(text, detail, f"[{action.words}]" if action else "", flush=True)

app.MainWindow = Telling
home = Path(sys.argv[1])
sys.exit(app.run_window(Folders(home / "config", home / "data")))
"""


def test_a_killed_window_leaves_no_tunnel_and_the_next_one_says_so_and_shows_the_same_server(
    ssh: Ssh, server: RunningServer, tmp_path: Path
) -> None:
    command, home = as_soulsgui(ssh, server), tmp_path / "home"
    preferences = Preferences(folders_below(home))
    preferences.keep_servers([RemoteServer(HOST, command)])
    preferences.shown_server = HOST
    preferences.settings.sync()
    log, said = home / "data" / "window" / "window.log", tmp_path / "said"

    def connect_and_kill() -> None:
        words = [sys.executable, "-c", WINDOW, str(home)]
        with said.open("wb") as output:
            window = subprocess.Popen(words, env=os.environ, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_for(lambda: log.exists() and "connected to the runner" in log.read_text(), said.name)
            assert [line for line in processes_below(ssh.folder) if " -L " in line]
        finally:
            window.kill()
            window.wait(LIMIT_S)

    for start in range(2):
        connect_and_kill()
        wait_for(lambda: not processes_below(ssh.folder), "the tunnel has ended with it")
        told = "The window ended unexpectedly last time. Training was not touched by it. [Copy report]"
        assert (told in said.read_text()) is (start == 1)
        log.unlink()
    assert server.process.poll() is None


@pytest.mark.parametrize("host", REFUSED)
def test_why_there_is_no_way_is_told_and_tried_again_on_request_alone(far: Far, ssh: Ssh, host: str) -> None:
    ssh.fail(REFUSED)
    far.add(host)
    far.until(lambda: far.feed.connection.state is S.SSH_REFUSED, "it is told")
    expected = error_of(RemoteServer(host), *REFUSED[host])
    assert isinstance(expected, SshRefusedError)
    assert far.feed.connection.detail == f"{expected.message} {expected.remedy}"
    assert len(ssh.calls) == 1
    far.window.retry_wanted.emit()
    far.until(lambda: len(ssh.calls) == 2, "tried once more")


def test_what_may_pass_by_itself_is_tried_again(far: Far, ssh: Ssh) -> None:
    ssh.fail({"lab": (255, "ssh: connect to host lab port 22: Connection refused")})
    far.add("lab")
    far.until(lambda: len(ssh.calls) > 1, "another try")
    assert far.feed.connection.state is S.CONNECTING
    ssh.fail({"lab": (3, "No runner runs for this data folder (/d is missing).\nStart one: soulsgui serve")})
    far.until(lambda: "No server runs at lab: No runner" in far.feed.connection.detail, "why")


def test_what_answers_as_something_else_is_refused(far: Far, ssh: Ssh) -> None:
    for command in ("echo", "yes #", 'echo {"port":70000,"token":"t","server_id":"s","pid":1}'):
        far.add("lab", command)
        far.until(lambda: far.feed.connection.state is S.SSH_REFUSED, command)
        assert "is not how SoulsGUI answers" in far.feed.connection.detail
        far.window.show_server(None)
        far.until(lambda: far.feed.connection.state is S.WELCOME, "back")


@pytest.mark.parametrize("host", ["", "-oProxyCommand=touch x", "two words", "a\nb", "\x1b[2J", "h" * 600])
def test_what_ssh_would_take_for_something_else_is_no_host(far: Far, host: str) -> None:
    with pytest.raises(UsageError):
        RemoteServer(host)
    with pytest.raises(UsageError):
        RemoteServer("lab", host.replace(" ", "\n") if host == "two words" else host)
    dialog = far.add(host)
    assert dialog.isVisible()
    assert part_of(far.window, AddServerDialog).wrong.text()
    dialog.reject()


def test_saved_servers_that_were_damaged_count_as_none(folders: Folders) -> None:
    preferences = Preferences(folders)
    preferences.keep_servers([RemoteServer("lab"), RemoteServer("den", "/opt/soulsgui")])
    assert [server.host for server in preferences.servers] == ["lab", "den"]
    for damaged in ("x", "[1]", '[["-oX", "soulsgui"]]', '{"a": 1}', "null"):
        preferences.settings.setValue("servers/saved", damaged)
        assert preferences.servers == []


def test_a_saved_server_is_chosen_from_the_toolbar_and_forgotten(
    make: Make, folders: Folders, fake: FakeFeed, stubs: None
) -> None:
    window, wanted = make("overview"), []
    window.server_wanted.connect(wanted.append)
    selector = window.toolbar.servers

    def choose(words: str) -> None:
        selector.menu().aboutToShow.emit()
        (action,) = (one for one in selector.menu().actions() if one.text().replace("&", "") == words)
        action.trigger()

    window.open_add_server()
    dialog = part_of(window, AddServerDialog)
    dialog.host.setText("lab")
    dialog.connect_it.click()
    lab = RemoteServer("lab")
    page = window.pages.made("overview")
    assert isinstance(page, StubPage)
    page.unsaved = True
    choose("This computer")
    assert wanted == [lab], "unsaved changes are asked about"
    page.asked[0](False)
    assert (wanted, selector.accessibleName()) == ([lab], "Server: lab")
    page.unsaved = False
    choose("This computer")
    choose("lab")
    choose("Forget this server")
    assert wanted == [lab, None, lab, None]
    assert (Preferences(folders).servers, selector.accessibleName()) == ([], "Server: This computer")


def test_pages_are_made_anew_for_another_server(make: Make, fake: FakeFeed, stubs: None) -> None:
    window = make("overview")
    fake.take_snapshot(Status(run=RunStatus(id="r1", name="old", state="running")))
    before = window.pages.made("overview")
    fake.forget(remote=True)
    assert fake.status.run.id == ""
    after = window.pages.made("overview")
    assert after is not before
    assert window.pages.page is after
