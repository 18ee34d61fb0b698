"""Processes: identity, groups and signals, descendants, shares of the processor, becoming another program."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, TypedDict

import psutil

logger = logging.getLogger(__name__)


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
_MOST_OPEN = (65_536, 10_240)  # where the system names no limit; the second is what macOS takes at most


def boot_id(source: Path = _BOOT_ID_FILE, boot_time: Callable[[], float] = psutil.boot_time) -> str:
    """Names this boot of this machine: the kernel's random id, else `boot-<seconds since 1970>`."""
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
    """Record who runs under `pid` now; None for nobody, for a zombie, and for what somebody hides."""
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
    right again."""
    deadline = time.monotonic() + limit_s
    while True:
        identity = process_identity(pid)
        if identity is None or identity["cmdline"] or time.monotonic() > deadline:
            return identity
        time.sleep(0.001)


def same_process(identity: Mapping[str, object], platform: str = sys.platform) -> bool:
    """Whether the process of a record still lives; false for every record that isn't wholly right."""
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


# Windows' numbers, which its `subprocess` and `signal` modules name only there.
_CREATE_NEW_PROCESS_GROUP = 0x0000_0200
_CREATE_NO_WINDOW = 0x0800_0000
_CTRL_BREAK_EVENT = 1
_SIGBREAK = 21


def new_session_kwargs(platform: str = sys.platform) -> dict[str, Any]:
    """Arguments of `subprocess.Popen` that give a child a life of its own.

    On POSIX a session (and process group) of its own: it neither gets Ctrl-C nor dies with the terminal. On
    Windows a process group and a hidden console of its own, for the same reason.
    """
    if platform == "win32":
        return {"creationflags": _CREATE_NEW_PROCESS_GROUP | _CREATE_NO_WINDOW}
    return {"start_new_session": True}


def raise_open_files(platform: str = sys.platform, limits: Any = None) -> int | None:
    """Let this process and its children have as many files and connections open as the system allows them.

    Returns how many that are; None where there is no such limit, as on Windows. `limits` stands for the
    module `resource`, which Windows does not have.
    """
    if platform == "win32":
        return None
    if limits is None:
        import resource as limits
    soft, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    if soft == limits.RLIM_INFINITY:
        return None
    for wanted in _MOST_OPEN:
        most = wanted if hard == limits.RLIM_INFINITY else min(hard, wanted)
        if soft < most:
            with contextlib.suppress(OSError, ValueError):  # macOS takes less than it says
                limits.setrlimit(limits.RLIMIT_NOFILE, (most, hard))
                return int(most)
    return int(soft)


def leave_terminal(platform: str = sys.platform) -> None:
    """Let what the terminal tells a program (Ctrl+C) not reach this process, which the program started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if platform != "win32":
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextlib.contextmanager
def starting_deaf(platform: str = sys.platform) -> Iterator[None]:
    """Let what is started meanwhile not hear Ctrl+C before it leaves the terminal (`leave_terminal`)."""
    if platform == "win32":
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # or the first process starts it meanwhile, which ends the blocking
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def terminate_group(pid: int, platform: str = sys.platform) -> bool:
    """Ask a process started with `new_session_kwargs`, and its children, to stop.

    On Windows the request is CTRL_BREAK, which reaches only processes that share the caller's console; the
    caller therefore asks through the process's own channel first and goes on to `kill_group` after the grace.

    Returns whether somebody was there to be asked.
    """
    _refuse_dangerous(pid, platform)
    if platform == "win32":
        try:
            os.kill(pid, _CTRL_BREAK_EVENT)
        except OSError:
            return False
        return True
    return _signal_group(pid, signal.SIGTERM, platform)


def kill_group(pid: int, platform: str = sys.platform) -> bool:
    """End a process of `new_session_kwargs`, its group and what left it; return whether any was there."""
    _refuse_dangerous(pid, platform)
    if platform == "win32":
        return kill_tree(pid)
    try:
        # Each of these objects knows its start time: a reused pid is never signalled.
        descendants = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        descendants = []
    was_there = _signal_group(pid, signal.SIGKILL, platform)
    _kill(descendants)
    return was_there


def leads_group(pid: int, platform: str = sys.platform) -> bool:
    """Whether a process leads a group of its own, as one does that was started with `new_session_kwargs`."""
    return platform == "win32" or os.getpgid(pid) == pid


def stop_signals(platform: str = sys.platform) -> list[signal.Signals]:
    """The signals that mean "stop cleanly", for which a role installs its handler.

    SIGHUP (the terminal is gone) is among them unless it is ignored already, as under `nohup`.
    """
    if platform == "win32":
        # Elsewhere 21 is another signal; the name is right only on Windows.
        return [signal.SIGINT, signal.Signals(_SIGBREAK)]
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hangup]


def _refuse_dangerous(pid: int, platform: str) -> None:
    # killpg(0) means our own group, killpg(1) everything we may signal.
    own_group = os.getpid() if platform == "win32" else os.getpgrp()
    if pid < 2 or pid == own_group:
        raise ValueError(f"pid {pid} does not lead a process group that may be signalled")


def _signal_group(pid: int, number: signal.Signals, platform: str) -> bool:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # macOS says so of a group of which only the unreaped leader is left.
        if platform != "darwin":
            raise
        return False
    return True


def family_memory() -> int:
    """Return the resident memory of this process and all its descendants, bytes."""
    own = psutil.Process()
    used: int = own.memory_info().rss
    for child in own.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            used += child.memory_info().rss
    return used


def kill_descendants() -> None:
    """End everything that this process started, at once."""
    _kill(psutil.Process().children(recursive=True))


def kill_tree(pid: int) -> bool:
    """End a process and everything it started, at once; return whether it was there."""
    try:
        leader = psutil.Process(pid)
        _kill([leader, *leader.children(recursive=True)])
    except psutil.Error:
        return False
    return True


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
        except psutil.Error as error:
            logger.warning("Process %d can't be ended: %s", process.pid, error)


def descends_from(pid: int, ancestor: int) -> bool:
    """Whether a process is another one, or was started by it or by something that it started."""
    if pid == ancestor:
        return True
    try:
        return any(parent.pid == ancestor for parent in psutil.Process(pid).parents())
    except psutil.Error:
        return False


_NICE = 10
LAST = 19  # about a fiftieth of a core that others want
_LOOK_EVERY_S = 1.0
_STARVED, _SPARE = 0.01, 0.1  # of a core
# psutil.BELOW_NORMAL_PRIORITY_CLASS, which exists on Windows only.
_BELOW_NORMAL = 0x4000
_NORMAL = 0x20


def can_pin(platform: str = sys.platform) -> bool:
    """Whether a process can be kept to some of the cores: macOS decides that itself."""
    return platform != "darwin"


def usable_cores(platform: str = sys.platform) -> int:
    """Return how many cores this process may use."""
    return len(psutil.Process().cpu_affinity() or ()) if can_pin(platform) else os.cpu_count() or 1


def hold_back(
    pid: int,
    cores: int | None = None,
    platform: str = sys.platform,
    process: Callable[[int], Any] = psutil.Process,
    nice: int = _NICE,
) -> None:
    """Let every other program go before a process and its descendants; only a new start undoes it.

    `nice` is how far, up to `LAST`, where the system has such steps.
    """
    try:
        leader = process(pid)
        family = [leader, *leader.children(recursive=True)]
    except psutil.Error:
        return
    for one in family:
        try:
            _hold_back(one, cores, platform, nice)
        except psutil.Error:
            # It has ended meanwhile, or is another user's.
            continue


def _hold_back(one: Any, cores: int | None, platform: str, nice: int) -> None:
    if platform == "win32":
        if one.nice() == _NORMAL:
            one.nice(_BELOW_NORMAL)
    elif one.nice() < nice:
        one.nice(nice)
    if cores is not None and can_pin(platform):
        allowed = one.cpu_affinity()
        if len(allowed) > cores:
            # The first ones are those that systems like best for themselves.
            one.cpu_affinity(allowed[-cores:])


class SpareTime:
    """Keeps this thread to the time that no other program wants of the cores, where the system lets it.

    Of the idle class it keeps no thread waiting that wakes up, as one of the lowest priority does. But
    where others want all the cores it would stand still: it leaves the class as long as it gets too little.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
        set_idle: Callable[[bool], None] | None = None,
    ) -> None:
        self._now, self._used, self._set_idle = now, used, set_idle or _set_idle
        self._idle = False
        self._looked, self._had = now(), used()

    def look(self) -> None:
        """See whether there is any; to be called a few times a second."""
        now, used = self._now(), self._used()
        if now < self._looked + _LOOK_EVERY_S:
            return
        share = (used - self._had) / (now - self._looked)
        self._looked, self._had = now, used
        idle = share > (_STARVED if self._idle else _SPARE)
        if idle != self._idle:
            self._idle = idle
            self._set_idle(idle)


def _set_idle(idle: bool, platform: str = sys.platform) -> None:
    if platform != "linux":
        return
    with contextlib.suppress(OSError):
        if idle:
            # Most users may enter the class, but not leave it again (RLIMIT_NICE), and some containers forbid
            # even that. A thread that ends right afterwards tries it.
            with ThreadPoolExecutor(1) as trial:
                trial.submit(_schedule, os.SCHED_IDLE, os.SCHED_OTHER).result()
        _schedule(os.SCHED_IDLE if idle else os.SCHED_OTHER)


def _schedule(*policies: int) -> None:
    for policy in policies:
        os.sched_setscheduler(0, policy, os.sched_param(0))


def become(argv: Sequence[str], env: Mapping[str, str], platform: str = sys.platform) -> NoReturn:
    """Go on as another program, so that what stands on our own command line is seen no more.

    Windows can't do that: there it runs as a child, and we end with its exit code.
    """
    if platform != "win32":
        os.execve(argv[0], list(argv), dict(env))
    child = subprocess.Popen(argv, env=env)
    while True:
        try:
            sys.exit(child.wait())
        except KeyboardInterrupt:
            # The child was interrupted as well, and ends in order.
            continue
