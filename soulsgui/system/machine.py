"""What this computer has: ports, disk, screen, user, somebody at it, and the packages a role needs."""

import ctypes
import getpass
import ipaddress
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

# Of Linux 4.1 and newer (linux/tcp.h, tcpi_bytes_received).
_TCP_INFO_BYTES, _BYTES_RECEIVED_AT = 256, 128


def user_name() -> str:
    """Return what the user is called; in a container, where the system may not know, its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # which one depends on version and system
        return str(os.getuid()) if hasattr(os, "getuid") else "user"


_LISTENED_AT = range(20_000, 30_000)
"""Ports below those that systems give to outgoing connections: Linux from 32,768 on, others from 49,152."""


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port of `host` that is free at this moment, and is not taken by an outgoing connection later."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in random.SystemRandom().sample(_LISTENED_AT, 20):
        with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, port))
            return port
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def who_listens(port: int) -> str | None:
    """The program that listens on a TCP port, as "nginx (812)"; None where none does or macOS hides it."""
    pid = _process_of(port, psutil.CONN_LISTEN)
    return None if pid is None else _program_name(pid)


def listens(pid: int, port: int) -> bool:
    """Whether a process of this user listens on a TCP port."""
    try:
        found = psutil.Process(pid).net_connections(kind="tcp")
    except (psutil.Error, OSError, ValueError):
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in found)


def who_connects(port: int) -> tuple[int | None, str]:
    """The process of this machine whose connection has this port on its side, and its program, likewise.

    The process is None where the system hides it, and where there is no such connection.
    """
    pid = _process_of(port, psutil.CONN_ESTABLISHED)
    return pid or None, "" if pid is None else _program_name(pid)


def read_bytes(connection: socket.socket, platform: str = sys.platform) -> int | None:
    """The bytes that were read of a TCP connection so far; None where it is closed or the system hides it."""
    if platform != "linux":
        return None
    import fcntl
    import termios

    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        (received,) = struct.unpack_from("=Q", told, _BYTES_RECEIVED_AT)
        (waiting,) = struct.unpack("=i", fcntl.ioctl(connection, termios.FIONREAD, bytes(4)))
    except (OSError, ValueError, struct.error):  # it is closed, or the system is old
        return None
    return int(received - waiting)


def _process_of(port: int, state: str) -> int | None:
    """The process of a port; 0 where the system hides it, None where there is none."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for connection in connections:
        if connection.status == state and connection.laddr and connection.laddr.port == port:
            return connection.pid or 0
    return None


def _program_name(pid: int) -> str:
    if not pid:
        return "a program of another user"
    try:
        return f"{psutil.Process(pid).name()} ({pid})"
    except psutil.Error:
        return f"process {pid}"


def is_loopback(host: str) -> bool:
    """Whether an address stays on this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def has_screen(env: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether a window can be shown: always on Windows and macOS, elsewhere where X11 or Wayland says so."""
    if platform in ("win32", "darwin"):
        return True
    return bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))


def name_on_task_bar(name: str, platform: str = sys.platform, shell: Any = None) -> None:
    """Have the task bar show this process's windows under a name and icon of their own, not Python's.

    Only Windows has to be told so, before the first window; `shell` stands for its `shell32`.
    """
    if platform == "win32":
        shell = shell or vars(ctypes)["windll"].shell32
        shell.SetCurrentProcessExplicitAppUserModelID(name)


def free_disk_bytes(path: Path) -> int:
    """Bytes this user may still write on the file system of `path`, which need not exist yet."""
    return shutil.disk_usage(_existing(path)).free


def kept_free_bytes(path: Path) -> int:
    """Bytes that are left free on the file system of `path`: of a small one an eighth."""
    return min(10**9, shutil.disk_usage(_existing(path)).total // 8)


def no_names_left(path: Path, statvfs: Callable[[Path], Any] | None = getattr(os, "statvfs", None)) -> bool:
    """Whether the file system of `path` takes no other file; some don't count them (inodes)."""
    if statvfs is None:  # Windows
        return False
    found = statvfs(_existing(path))
    return bool(found.f_files) and found.f_favail == 0


def _existing(path: Path) -> Path:
    return next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())


_TOOL_LIMIT_S = 2.0
# SHQueryUserNotificationState: a full-screen program, one that draws with Direct3D, a presentation.
_FULL_SCREEN_STATES = (2, 3, 4)


class CannotTell(Exception):
    """This system does not tell; with the reason in words."""


class WindowsCalls:
    """What is asked of Windows."""

    def __init__(self) -> None:
        self._dlls: Any = vars(ctypes)["windll"]

    def idle_s(self) -> float:
        """Return the seconds since the last input."""

        class LastInput(ctypes.Structure):
            _fields_ = (("size", ctypes.c_uint), ("tick", ctypes.c_uint))

        last = LastInput(ctypes.sizeof(LastInput), 0)
        if not self._dlls.user32.GetLastInputInfo(ctypes.byref(last)):
            raise CannotTell("Windows does not report the time of the last input.")
        # Both count milliseconds in 32 bits, and begin again after 49 days.
        return float((self._dlls.kernel32.GetTickCount() - last.tick) % 2**32) / 1000.0

    def notification_state(self) -> int:
        """Return what `SHQueryUserNotificationState` says."""
        state = ctypes.c_int(0)
        if self._dlls.shell32.SHQueryUserNotificationState(ctypes.byref(state)) != 0:
            raise CannotTell("Windows does not report whether a full-screen program is running.")
        return state.value

    def foreground_pid(self) -> int:
        """Return the process of the window in front; 0 for none."""
        pid = ctypes.c_ulong(0)
        window = self._dlls.user32.GetForegroundWindow()
        self._dlls.user32.GetWindowThreadProcessId(window, ctypes.byref(pid))
        return int(pid.value)


def _run_tool(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TOOL_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotTell(f"{argv[0]} does not answer.") from error
    return done.stdout


@dataclass(frozen=True)
class Presence:
    """Asks the system, each part of which can be injected; `run` runs a tool, or raises `CannotTell`."""

    platform: str = sys.platform
    env: Mapping[str, str] | None = None
    find: Callable[[str], str | None] = shutil.which
    run: Callable[[list[str]], str] = _run_tool
    windows: Callable[[], WindowsCalls] = WindowsCalls

    def idle_s(self) -> float:
        """Return the seconds since somebody last used keyboard or mouse."""
        if self.platform == "win32":
            return self.windows().idle_s()
        if self.platform == "darwin":
            found = re.search(r'"HIDIdleTime" = (\d+)', self.run(["ioreg", "-c", "IOHIDSystem", "-d", "4"]))
            if found is None:
                raise CannotTell("macOS does not report the time of the last input.")
            return int(found[1]) / 1e9
        self._need_x11("xprintidle")
        said = self.run(["xprintidle"]).strip()
        if not said.isdecimal():
            raise CannotTell("xprintidle does not report the time of the last input.")
        return int(said) / 1000.0

    def full_screen_pid(self) -> int | None:
        """Return the process of the full-screen program in front; None for none, 0 for an unknown one."""
        if self.platform == "win32":
            calls = self.windows()
            return calls.foreground_pid() if calls.notification_state() in _FULL_SCREEN_STATES else None
        if self.platform == "darwin":
            raise CannotTell("macOS does not report whether a program fills the screen.")
        self._need_x11("xprop")
        active = re.search(r"(0x[0-9a-f]+)", self.run(["xprop", "-root", "_NET_ACTIVE_WINDOW"]))
        if active is None or int(active[1], 16) == 0:
            return None
        said = self.run(["xprop", "-id", active[1], "_NET_WM_STATE", "_NET_WM_PID"])
        if "_NET_WM_STATE_FULLSCREEN" not in said:
            return None
        pid = re.search(r"_NET_WM_PID\(CARDINAL\) = (\d+)", said)
        return int(pid[1]) if pid is not None else 0

    def _need_x11(self, tool: str) -> None:
        env = os.environ if self.env is None else self.env
        if not env.get("DISPLAY"):
            raise CannotTell("There is no X11 screen here that could report it.")
        if env.get("WAYLAND_DISPLAY"):
            raise CannotTell("Wayland does not tell programs about others.")
        if self.find(tool) is None:
            raise CannotTell(f"{tool} is not installed; it is needed for this.")
