import getpass
import os
import shutil
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from soulsgui.system import (
    CannotTell,
    Presence,
    descends_from,
    free_disk_bytes,
    free_port,
    has_screen,
    name_on_task_bar,
    no_names_left,
    read_bytes,
    user_name,
    who_connects,
    who_listens,
)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_free_port_can_be_listened_on(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        port = free_port(host)
    except OSError:
        pytest.skip(f"{host} does not exist here")
    with socket.socket(family) as server:
        server.bind((host, port))


@pytest.mark.skipif(sys.platform != "linux", reason="others do not tell which ports these are")
def test_no_outgoing_connection_takes_a_free_port() -> None:
    least = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if least < 30_000:
        pytest.skip("here they may have nearly any")
    assert max(free_port() for _ in range(100)) < least


def test_the_program_that_listens_is_named_and_of_others_nobody() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert who_listens(port) is None, "it is only bound"
        server.listen()
        me = psutil.Process()
        assert who_listens(port) == f"{me.name()} ({me.pid})"
    assert who_listens(free_port()) is None


@pytest.mark.parametrize(
    ("pid", "told"), [(None, "a program of another user"), (2**22 + 1, "process 4194305"), (-1, None)]
)
def test_a_listener_that_hides_or_has_just_ended_is_told_of(
    monkeypatch: pytest.MonkeyPatch, pid: int | None, told: str | None
) -> None:
    def listening(kind: str) -> list[SimpleNamespace]:
        if told is None:
            raise psutil.AccessDenied
        return [SimpleNamespace(status=psutil.CONN_LISTEN, laddr=SimpleNamespace(port=6379), pid=pid)]

    monkeypatch.setattr(psutil, "net_connections", listening)
    assert who_listens(6379) == told


def test_free_space_is_told_for_folders_still_to_be_made(tmp_path: Path) -> None:
    there = shutil.disk_usage(tmp_path).free
    assert free_disk_bytes(tmp_path / "a" / "b" / "c") == pytest.approx(there, rel=0.01)


def test_inodes_are_counted_where_the_system_does(tmp_path: Path) -> None:
    assert not no_names_left(tmp_path / "a" / "b")
    for files, free, told in ((100, 0, True), (100, 1, False), (0, 0, False)):
        counted = SimpleNamespace(f_files=files, f_favail=free)
        assert no_names_left(tmp_path, lambda _, counted=counted: counted) is told
    assert not no_names_left(tmp_path, None), "Windows"


def test_a_program_that_connects_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            port = client.getsockname()[1]
            assert who_connects(port) == (os.getpid(), f"{psutil.Process().name()} ({os.getpid()})")
        assert who_connects(free_port()) == (None, "")


def test_where_a_window_can_be_shown() -> None:
    forwarded = {"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "1"}
    for env in ({"DISPLAY": ":0"}, {"WAYLAND_DISPLAY": "wayland-0"}, forwarded):
        assert has_screen(env, "linux")
    assert not any(has_screen(env, "linux") for env in ({"SSH_CONNECTION": "1"}, {"DISPLAY": ""}))
    assert all(has_screen({}, platform) for platform in ("win32", "darwin"))


@pytest.mark.parametrize("kind", [KeyError, OSError])
def test_a_user_without_an_entry_has_a_number(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise kind("uid not found")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert user_name() == str(os.getuid())


X11 = {"DISPLAY": ":0"}


def _x11(answers: dict[str, str], *tools: str, **env: str) -> Presence:
    def run(argv: list[str]) -> str:
        return answers[" ".join(argv)]

    found = tools or ("xprintidle", "xprop")
    return Presence("linux", X11 | env, lambda name: name if name in found else None, run)


@pytest.mark.parametrize(("state", "pid"), [(2, 77), (3, 77), (4, 77), (1, None), (5, None), (6, None)])
def test_windows_tells_the_last_input_and_who_fills_the_screen(state: int, pid: int | None) -> None:
    calls = SimpleNamespace(idle_s=lambda: 12.5, notification_state=lambda: state, foreground_pid=lambda: 77)
    presence = Presence("win32", windows=lambda: calls)
    assert (presence.idle_s(), presence.full_screen_pid()) == (12.5, pid)


def test_macos_and_x11_tell_the_last_input() -> None:
    said = '    | |   "HIDIdleTime" = 4500000000\n'
    presence = Presence("darwin", {}, run=lambda argv: said if argv[0] == "ioreg" else "")
    assert presence.idle_s() == 4.5
    with pytest.raises(CannotTell, match="macOS"):
        presence.full_screen_pid()
    with pytest.raises(CannotTell, match="last input"):
        Presence("darwin", {}, run=lambda _: "").idle_s()
    assert _x11({"xprintidle": "61500\n"}).idle_s() == 61.5
    with pytest.raises(CannotTell, match="does not report"):
        _x11({"xprintidle": "error"}).idle_s()


@pytest.mark.parametrize(
    ("window", "said", "pid"),
    [
        ("0x2a", "_NET_WM_STATE(ATOM) = _NET_WM_STATE_FULLSCREEN\n_NET_WM_PID(CARDINAL) = 812\n", 812),
        ("0x2a", "_NET_WM_STATE(ATOM) = _NET_WM_STATE_FULLSCREEN\n_NET_WM_PID:  not found.\n", 0),
        ("0x2a", "_NET_WM_STATE(ATOM) = \n_NET_WM_PID(CARDINAL) = 812\n", None),
        ("0x0", "", None),
    ],
)
def test_x11_names_the_program_that_fills_the_screen(window: str, said: str, pid: int | None) -> None:
    answers = {
        "xprop -root _NET_ACTIVE_WINDOW": f"_NET_ACTIVE_WINDOW(WINDOW): window id # {window}",
        f"xprop -id {window} _NET_WM_STATE _NET_WM_PID": said,
    }
    assert _x11(answers).full_screen_pid() == pid


@pytest.mark.parametrize(
    ("presence", "why"),
    [
        (Presence("linux", {}), "no X11 screen"),
        (_x11({}, WAYLAND_DISPLAY="wayland-0"), "Wayland"),
        (_x11({}, "another"), "is not installed"),
    ],
)
def test_where_nobody_tells_the_reason_is_said(presence: Presence, why: str) -> None:
    for ask in (presence.idle_s, presence.full_screen_pid):
        with pytest.raises(CannotTell, match=why):
            ask()


@pytest.mark.processes
def test_a_tool_that_can_t_be_run_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotTell, match="xprintidle does not answer"):
        Presence("linux", X11, lambda name: name).idle_s()


def test_a_process_descends_from_those_that_started_it() -> None:
    assert descends_from(os.getpid(), os.getpid())
    assert descends_from(os.getpid(), os.getppid())
    assert not descends_from(os.getppid(), os.getpid())


def test_what_was_read_of_a_connection_is_counted_where_the_system_tells() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as ours,
    ):
        theirs, _ = server.accept()
        with theirs:
            ours.sendall(bytes(1000))
            assert len(theirs.recv(600, socket.MSG_WAITALL)) == 600
            assert read_bytes(theirs, "darwin") is None
            if sys.platform == "linux":
                assert read_bytes(theirs) == 600
    assert read_bytes(theirs) is None


def test_only_windows_is_told_the_name_on_the_task_bar() -> None:
    told: list[str] = []
    shell = SimpleNamespace(SetCurrentProcessExplicitAppUserModelID=told.append)
    for platform in ("linux", "darwin"):
        name_on_task_bar("SoulsGUI", platform, shell)
    assert told == []
    name_on_task_bar("SoulsGUI", "win32", shell)
    assert told == ["SoulsGUI"]
