"""A server of another computer, reached by `ssh`: here by one that runs and forwards on this machine."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QActionGroup

from soulsgui.config.paths import Folders
from soulsgui.errors import UsageError
from soulsgui.gui.models.connection import ConnectionState, RemoteServer
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.shell.remote import SshRefusedError, error_of
from soulsgui.gui.shell.server_selector import AddServerDialog
from soulsgui.wire.control import RunStatus, Status
from tests.end_to_end.server import RunningServer, processes_below, wait_for
from tests.faults.waiting import LIMIT_S
from tests.gui.fake_feed import FakeFeed
from tests.gui.reading import part_of
from tests.gui.shell.conftest import Make, folders_below
from tests.gui.shell.driving import finish
from tests.gui.shell.far import HOST, Far, Ssh
from tests.gui.shell.stub_pages import StubPage

pytestmark = pytest.mark.processes
S = ConnectionState
REFUSED = {
    "nowhere": (255, "ssh: Could not resolve hostname nowhere: Name or service not known"),
    "locked": (255, "me@locked: Permission denied (publickey,password)."),
    "unknown": (255, "No ED25519 host key is known for unknown.\nHost key verification failed."),
    "changed": (255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed."),
    "bare": (127, "sh: 1: soulsgui: not found"),
}


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
        told = "The window ended unexpectedly last time. Training was not affected. [Copy report]"
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
    ssh.fail(
        {"lab": (3, "No runner is running for this data folder (/d is missing).\nStart one: soulsgui serve")}
    )
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
    for damaged in ("x", "[1]", '[["-oX", "soulsgui"]]', '{"a": 1}', "null", "[" * 20_000):
        preferences.settings.setValue("servers/saved", damaged)
        assert preferences.servers == []


def test_what_another_window_has_saved_is_kept(folders: Folders) -> None:
    preferences = Preferences(folders)
    preferences.keep_servers([RemoteServer("lab")])
    assert preferences.keep() == ""
    path = Path(preferences.settings.fileName())
    path.write_text(path.read_text().replace("lab", "laboratory"))
    assert [server.host for server in preferences.servers] == ["laboratory"]


def test_what_another_window_shows_is_not_taken_for_what_this_one_does(folders: Folders) -> None:
    preferences = Preferences(folders)
    lab, attic = RemoteServer("lab"), RemoteServer("attic")
    preferences.keep_servers([lab, attic])
    preferences.shown_server = lab.host
    preferences.settings.sync()
    path = Path(preferences.settings.fileName())
    # A file of another size: Qt looks at that, and at the millisecond that it was written in.
    path.write_text(path.read_text().replace("shown=lab", "shown=attic"))
    assert preferences.server_to_show() == lab
    assert Preferences(folders).server_to_show() == attic


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


def test_looking_at_the_servers_again_leaves_nothing_behind(make: Make, stubs: None) -> None:
    menu = make("overview").toolbar.servers.menu()
    menu.aboutToShow.emit()
    menu.aboutToShow.emit()
    assert len(menu.findChildren(QActionGroup)) == 1


def test_pages_are_made_anew_for_another_server(make: Make, fake: FakeFeed, stubs: None) -> None:
    window = make("overview")
    fake.take_snapshot(Status(run=RunStatus(id="r1", name="old", state="running")))
    before = window.pages.made("overview")
    fake.forget(remote=True)
    assert fake.status.run.id == ""
    after = window.pages.made("overview")
    assert after is not before
    assert window.pages.page is after
