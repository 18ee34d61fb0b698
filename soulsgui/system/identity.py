"""The identity of a process: enough to know after a crash whether a pid is still the same process."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypedDict

import psutil


class ProcessIdentity(TypedDict):
    """What tells a process from every other one, also across restarts of the machine and reuse of its pid.

    `start_time` is in seconds since the boot on Linux (untouched by clock changes), elsewhere since 1970.
    """

    pid: int
    start_time: float
    boot_id: str
    cmdline: list[str]


_BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
_START_TOLERANCE_S = {"linux": 0.005}
_START_TOLERANCE_ELSEWHERE_S = 2.0
_BOOT_TOLERANCE_S = 60.0
_EXEC_S = 1.0


def boot_id(source: Path = _BOOT_ID_FILE, boot_time: Callable[[], float] = psutil.boot_time) -> str:
    """Names this boot of this machine: the kernel's random id, else `boot-<seconds since 1970>`.

    Args:
        source: Where Linux tells its id.
        boot_time: What to ask elsewhere.
    """
    try:
        return source.read_text(encoding="ascii").strip()
    except OSError:
        return f"boot-{boot_time():.0f}"


def same_boot(first: str, second: str) -> bool:
    """Whether two answers of `boot_id` name the same boot; computed boot times may differ by a minute."""
    if first == second:
        return True
    try:
        moments = [float(name.removeprefix("boot-")) for name in (first, second) if name.startswith("boot-")]
    except ValueError:
        return False
    return len(moments) == 2 and abs(moments[0] - moments[1]) < _BOOT_TOLERANCE_S


def process_identity(pid: int, platform: str = sys.platform) -> ProcessIdentity | None:
    """Record who runs under `pid` now.

    Returns:
        None when nobody does, it has ended (zombie), or it belongs to somebody who hides it.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        start_time = _start_time_linux(pid) if platform == "linux" else process.create_time()
        return ProcessIdentity(pid=pid, start_time=start_time, boot_id=boot_id(), cmdline=process.cmdline())
    except (psutil.Error, OSError, ValueError, OverflowError):
        return None


def started_process_identity(pid: int, limit_s: float = _EXEC_S) -> ProcessIdentity | None:
    """Record who was just started under `pid`.

    For an instant after `Popen` has returned, a process may have no command line yet: the kernel has closed
    what the parent waits for and not yet laid out the new program. A record without it would never be found
    right again.

    Args:
        pid: A child of ours.
        limit_s: How long to wait for its command line, seconds.

    Returns:
        As `process_identity`.
    """
    deadline = time.monotonic() + limit_s
    while True:
        identity = process_identity(pid)
        if identity is None or identity["cmdline"] or time.monotonic() > deadline:
            return identity
        time.sleep(0.001)


def same_process(identity: Mapping[str, object], platform: str = sys.platform) -> bool:
    """Whether the process of a record still lives; false for every record that isn't wholly right.

    Args:
        identity: What `process_identity` gave, perhaps read back from a file that anybody may have changed.
    """
    pid, start, boot = identity.get("pid"), identity.get("start_time"), identity.get("boot_id")
    if not (isinstance(pid, int) and isinstance(start, (int, float)) and isinstance(boot, str)) or pid < 2:
        return False
    now = process_identity(pid, platform)
    if now is None:
        return False
    tolerance_s = _START_TOLERANCE_S.get(platform, _START_TOLERANCE_ELSEWHERE_S)
    if not (same_boot(now["boot_id"], boot) and abs(now["start_time"] - start) <= tolerance_s):
        return False
    # Linux takes the memory of a process, and the command line in it, before its files and ports: it lives.
    ending = platform == "linux" and not now["cmdline"]
    return ending or now["cmdline"] == identity.get("cmdline")


def _start_time_linux(pid: int) -> float:
    # psutil adds the boot time, which moves with the clock. Field 22, counted after the name in brackets.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")
