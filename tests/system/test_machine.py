"""Ports, disk and screen."""

import shutil
import socket
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from soulsgui.system import free_disk_bytes, free_port, has_screen, who_listens


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_free_port_can_be_listened_on(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        port = free_port(host)
    except OSError:
        pytest.skip(f"{host} does not exist here")
    with socket.socket(family) as server:
        server.bind((host, port))


def test_the_program_that_listens_is_named() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        me = psutil.Process()
        assert who_listens(server.getsockname()[1]) == f"{me.name()} ({me.pid})"


def test_nobody_listens_on_a_free_port() -> None:
    assert who_listens(free_port()) is None


def test_a_bound_port_without_listener_is_nobodys() -> None:
    with socket.socket() as client:
        client.bind(("127.0.0.1", 0))
        assert who_listens(client.getsockname()[1]) is None


def listening(port: int, pid: int | None) -> list[SimpleNamespace]:
    return [SimpleNamespace(status=psutil.CONN_LISTEN, laddr=SimpleNamespace(port=port), pid=pid)]


@pytest.mark.parametrize(
    ("pid", "told"), [(None, "a program of another user"), (2**22 + 1, "process 4194305")]
)
def test_a_listener_that_hides_or_has_just_ended_is_told_of(
    monkeypatch: pytest.MonkeyPatch, pid: int | None, told: str
) -> None:
    monkeypatch.setattr(psutil, "net_connections", lambda kind: listening(6379, pid))
    assert who_listens(6379) == told


def test_a_system_that_does_not_tell_names_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: str) -> list[SimpleNamespace]:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", refuse)
    assert who_listens(6379) is None


def test_free_space_is_told_for_folders_still_to_be_made(tmp_path: Path) -> None:
    there = shutil.disk_usage(tmp_path).free
    assert free_disk_bytes(tmp_path / "a" / "b" / "c") == pytest.approx(there, rel=0.01)


@pytest.mark.parametrize(
    ("env", "platform", "expected"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"SSH_CONNECTION": "1"}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "1"}, "linux", True),
        ({}, "win32", True),
        ({}, "darwin", True),
    ],
)
def test_where_a_window_can_be_shown(env: dict[str, str], platform: str, expected: bool) -> None:
    assert has_screen(env, platform) is expected
