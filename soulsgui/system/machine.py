"""What the machine has: its own addresses, free ports, who holds the others, free disk, a screen."""

import ipaddress
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port of `host` that is free at this moment."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def who_listens(port: int) -> str | None:
    """The program that listens on a TCP port, as "nginx (812)".

    Returns:
        None when nobody does or the system doesn't tell (macOS, without administrator's rights).
    """
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return None
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            return _program_name(connection.pid)
    return None


def _program_name(pid: int | None) -> str:
    if pid is None:
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
    """Whether a window can be shown: always on Windows and macOS, elsewhere where X11 or Wayland says so.

    Args:
        env: The environment of the process (`os.environ`).
    """
    if platform in ("win32", "darwin"):
        return True
    return bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))


def free_disk_bytes(path: Path) -> int:
    """Bytes this user may still write on the file system of `path`, which need not exist yet."""
    existing = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(existing).free
