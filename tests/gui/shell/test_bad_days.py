"""Bad days of somebody who trains: what the window says, where it leads, and that nothing is lost.

One test each; a few more stand where the rest of what they need is: another computer's server and a window
that is killed in `test_remote`, a first join without torch and a client that is too old in
`tests/gui/client_mode/test_page_runner`, a disk that is full of a run in `tests/end_to_end/test_full_disk`.
"""

import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from pytestqt.qtbot import QtBot
from redis import ConnectionError as NoRedisError

from soulsgui.config.paths import Folders
from soulsgui.gui.clients.page import ClientsPage
from soulsgui.gui.config.mending import MendConfigDialog
from soulsgui.gui.config.page import ConfigPage
from soulsgui.gui.models.connection import ConnectionState
from soulsgui.gui.shell import connector, runner_link
from soulsgui.gui.shell.connector import SleepWatch
from soulsgui.gui.shell.update import UpdateDialog
from soulsgui.gui.widgets.command_button import Stage
from soulsgui.wire.access import Address
from soulsgui.wire.api_client import CONTROL_FILE
from tests.end_to_end.server import RunningServer, processes_below, soulsgui, wait_for
from tests.faults.proxy import Proxy
from tests.faults.small_disk import fill, small_disk
from tests.faults.waiting import LIMIT_S
from tests.gui.reading import part_of, words_of
from tests.gui.shell.conftest import OpenWindow, folders_below
from tests.gui.shell.driving import OpenedWindow, control_of, write_control

S = ConnectionState
TEN_MINUTES_S = 600.0


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual limit is far below what a busy machine may take."""
    monkeypatch.setattr(runner_link, "_PING_EVERY_S", LIMIT_S)


@pytest.fixture
def place(server: RunningServer) -> Folders:
    return folders_below(server.folder)


def config_page(opened: OpenedWindow) -> ConfigPage:
    opened.until_live()
    opened.window.show_page("config")
    page = opened.window.pages.made("config")
    assert isinstance(page, ConfigPage)
    opened.until(lambda: page.views.filled, "the configuration is shown")
    return page


def save_until(opened: OpenedWindow, page: ConfigPage, done: Callable[[], object], what: str) -> None:
    """Save as a user would, again where a slow machine has lost the connection meanwhile."""

    def saves() -> object:
        button = page.head.save
        if button.isEnabled() and button.stage in (Stage.IDLE, Stage.DONE, Stage.FAILED) and not done():
            button.click()
        return done()

    opened.until(saves, what)


@pytest.fixture
def own_server(folders: Folders, tmp_path: Path) -> Iterator[Folders]:
    """Folders of a server that a window starts; it is ended with the test."""
    yield folders
    if (folders.server / CONTROL_FILE).exists():
        soulsgui("shutdown", folder=tmp_path)
    wait_for(lambda: not processes_below(tmp_path), "nothing is left running")


@pytest.mark.allow_warnings
def test_a_port_that_is_taken_is_told_with_who_has_it_and_changed_from_the_banner(
    open_window: OpenWindow, own_server: Folders
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        own_server.config.mkdir(parents=True)
        own_server.overrides.write_text(f"seed: 7\ncontrol:\n  port: {port}\n")
        opened = open_window(own_server, may_start=True)
        opened.until_state(S.START_FAILED)
        said = words_of(opened.window.banner)
        assert re.search(rf"Port {port} of the control interface is taken by .*{os.getpid()}", said)
        free = re.search(r"set control\.port to (\d+), which is free", said)
        assert free is not None, said
        opened.window.banner.button.click()
        dialog = part_of(opened.window, MendConfigDialog)
        dialog.text.setPlainText(dialog.text.toPlainText().replace(str(port), free[1]))
        dialog.again.click()
        opened.until_live()
    assert control_of(own_server).port == int(free[1])
    assert yaml.safe_load(own_server.overrides.read_text())["seed"] == 7


def test_a_token_that_is_wrong_is_told_and_the_right_one_taken_as_soon_as_it_is_there(
    open_window: OpenWindow, place: Folders, folders: Folders
) -> None:
    write_control(folders, control_of(place).model_copy(update={"token": "wrong"}))
    opened = open_window(folders)
    opened.until_state(S.WRONG_TOKEN)
    window = opened.window
    assert "does not accept this window's token" in words_of(window.banner)
    assert "restarted, or belongs to another user" in words_of(window.banner)
    assert (window.toolbar.new_run.isEnabled(), bool(window.toolbar.new_run.toolTip())) == (False, True)
    write_control(folders, control_of(place))
    opened.until_live()
    assert not window.banner.isVisible()
    assert window.toolbar.new_run.isEnabled()


def test_a_server_that_moved_is_followed_and_what_was_typed_stays(
    open_window: OpenWindow, place: Folders, folders: Folders
) -> None:
    there = control_of(place)
    with closing(Proxy(Address(there.host, there.port))) as first:
        write_control(folders, there.model_copy(update={"port": first.address.port}))
        opened = open_window(folders)
        page = config_page(opened)
        page.views.text.setPlainText("seed: 11\n")
    opened.until_state(S.RECONNECTING)
    said = words_of(opened.window.banner)
    assert "Connection to my-server lost, trying again" in said
    assert "Data as of " in said
    assert "Training continues without this window." in said
    assert page.isVisible()
    assert "Not connected to my-server" in page.head.save.toolTip()
    write_control(folders, there)
    opened.until_live()
    assert not opened.window.banner.isVisible()
    assert (page.text, page.unsaved) == ("seed: 11\n", True)


def test_a_window_that_is_too_old_says_how_to_update_it(
    open_window: OpenWindow, place: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "API_VERSION", 0)
    opened = open_window(place)
    opened.until_state(S.TOO_OLD)
    assert "This window is too old for my-server" in words_of(opened.window.banner)
    opened.window.banner.button.click()
    dialog = part_of(opened.window, UpdateDialog)
    assert "newer than this window" in words_of(dialog)
    assert dialog.commands.toPlainText()
    dialog.reject()


def test_a_disk_that_is_full_is_told_and_what_was_typed_is_saved_once_there_is_room(
    open_window: OpenWindow, server: RunningServer, place: Folders, folders: Folders
) -> None:
    with small_disk(place.config, "64k") as disk:
        filler = fill(disk)
        write_control(folders, control_of(place))
        opened = open_window(folders)
        page = config_page(opened)
        page.views.text.setPlainText("seed: 12\n")
        said = f"There is no space left on the disk to write {place.overrides}"
        save_until(opened, page, lambda: said in words_of(opened.window.messages), "it is told")
        assert "Free some space there" in words_of(opened.window.messages)
        assert (page.text, page.unsaved) == ("seed: 12\n", True)
        assert not [path for path in disk.iterdir() if path != filler], "nothing half written is left"
        filler.unlink()
        save_until(opened, page, lambda: not page.unsaved, "it is saved")
        assert place.overrides.read_text() == "seed: 12\n"


def test_two_windows_that_save_one_configuration_lose_neither_change(
    open_window: OpenWindow, server: RunningServer, place: Folders, tmp_path: Path
) -> None:
    server.api.command("config.save", {"text": "seed: 1   # ours\n"})
    opened: list[OpenedWindow] = []
    for name in ("first", "second"):
        write_control(folders_below(tmp_path / name), control_of(place))
        opened.append(open_window(folders_below(tmp_path / name)))
    (first, one), (second, two) = ((each, config_page(each)) for each in opened)
    one.views.text.setPlainText("seed: 2   # ours\n")
    two.views.text.setPlainText("seed: 1   # ours\nppo:\n  n_steps: 48\n")
    save_until(first, one, lambda: not one.unsaved, "the first one's is saved")
    save_until(second, two, two.conflict_bar.isVisible, "the second one is told")
    assert "changed" in words_of(two.conflict_bar)
    assert yaml.safe_load(place.overrides.read_text()) == {"seed": 2}, "nothing was overwritten"
    two.conflict_bar.merge_button.click()
    save_until(second, two, lambda: not two.unsaved, "both are saved")
    text = place.overrides.read_text()
    assert (yaml.safe_load(text), "# ours" in text) == ({"seed": 2, "ppo": {"n_steps": 48}}, True)


@pytest.mark.allow_warnings
def test_a_click_while_redis_is_killed_is_answered_and_means_what_it_says(
    open_window: OpenWindow, server: RunningServer, place: Folders, folders: Folders
) -> None:
    server.api.command("clients.invite.create", {"client": "gamer-31"})
    write_control(folders, control_of(place))
    opened = open_window(folders)
    opened.until_live()
    opened.window.show_page("clients")
    page = opened.window.pages.made("clients")
    assert isinstance(page, ClientsPage)
    opened.until(lambda: page.roster.model.row_of("gamer-31") is not None, "it is listed")
    page.roster.choose("gamer-31")
    pause = page.roster.buttons["pause"]
    opened.until(pause.isEnabled, "it can be paused")
    redis = server.pid("redis")
    assert redis is not None

    def wished() -> bool:
        try:
            with server.redis() as client:
                found = client.get("souls:to:gamer-31")
        except NoRedisError:  # it does not listen yet
            return False
        return found is not None and json.loads(found)["state"] == "pause"

    os.kill(redis, signal.SIGSTOP)  # so that the click can't be over before
    pause.click()
    assert pause.stage is Stage.RUNNING
    os.kill(redis, signal.SIGKILL)
    opened.until(lambda: pause.stage is not Stage.RUNNING, "the click is answered")
    answer, told = pause.stage, words_of(opened.window.messages)
    opened.until(lambda: server.pid("redis") not in (None, redis), "there is another Redis")
    opened.until(lambda: opened.feed.connection.state is S.NO_RUN, "the window knows")
    assert not opened.window.banner.isVisible()
    if answer is not Stage.DONE:
        assert told, "what was not done is told"
        opened.until(pause.isEnabled, "it can be tried again")
        pause.click()
    opened.until(wished, "it is paused")
    opened.until(lambda: "will pause" in page.details.values["state"].text(), "the page says so")


def test_ten_minutes_of_sleep_of_window_or_runner_alarm_nobody(
    qtbot: QtBot,
    open_window: OpenWindow,
    server: RunningServer,
    place: Folders,
    folders: Folders,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead_s = [0.0]
    write_control(folders, control_of(place))
    opened = open_window(folders, sleep=SleepWatch(wall=lambda: time.time() + ahead_s[0]))
    opened.until_live()
    feed, window = opened.feed, opened.window
    states: list[ConnectionState] = []
    feed.connection_changed.connect(lambda now: states.append(now.state))
    with qtbot.waitSignal(feed.snapshot_taken):
        ahead_s[0] += TEN_MINUTES_S
    assert states == []
    assert not window.messages.rows

    redis, events = server.pid("redis"), [one.number for one in feed.events]
    monkeypatch.setattr(runner_link, "_PING_EVERY_S", 0.5)  # that it is silent is noticed soon
    with qtbot.waitSignal(feed.snapshot_taken):
        ahead_s[0] += TEN_MINUTES_S
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        opened.until_state(S.RECONNECTING)
        monkeypatch.setattr(runner_link, "_PING_EVERY_S", LIMIT_S)
        assert "Training continues without this window." in words_of(window.banner)
        assert not window.status_line.isEnabled()
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    opened.until_live()
    assert not window.banner.isVisible()
    assert window.status_line.isEnabled()
    assert server.pid("redis") == redis, "what it watches over was not taken for dead"
    assert [one.number for one in feed.events] == events
    assert not window.messages.rows
