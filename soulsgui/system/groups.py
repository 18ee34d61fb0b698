"""Process groups: a child with a life of its own, asked to stop, ended with all its children."""

import contextlib
import os
import signal
import sys
from typing import Any

import psutil

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


def terminate_group(pid: int, platform: str = sys.platform) -> bool:
    """Ask a process started with `new_session_kwargs`, and its children, to stop.

    On Windows the request is CTRL_BREAK, which reaches only processes that share the caller's console; the
    caller therefore asks through the process's own channel first and goes on to `kill_group` after the grace.

    Args:
        pid: The process, which leads its group.

    Returns:
        Whether somebody was there to be asked.

    Raises:
        ValueError: The pid is not one of a group that may be signalled (below 2, or our own group).
        PermissionError: The group belongs to another user.
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
    """End a process started with `new_session_kwargs`, and its children, at once.

    Args:
        pid: The process, which leads its group; on POSIX its children are found even after its own end.

    Returns:
        Whether anything was there to be ended.

    Raises:
        ValueError: As `terminate_group`.
        PermissionError: The group belongs to another user.
    """
    _refuse_dangerous(pid, platform)
    if platform != "win32":
        return _signal_group(pid, signal.SIGKILL, platform)
    try:
        leader = psutil.Process(pid)
        family = [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return False
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    return True


def leads_group(pid: int, platform: str = sys.platform) -> bool:
    """Whether a process leads a group of its own, as one does that was started with `new_session_kwargs`.

    Args:
        pid: The process.
        platform: A value of `sys.platform`; Windows does not tell, so there it is always true.

    Raises:
        ProcessLookupError: There is no such process.
    """
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
