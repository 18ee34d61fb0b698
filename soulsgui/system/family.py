"""This process and everything it started: how much memory that takes, and how it is ended."""

import contextlib

import psutil


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


def kill_tree(pid: int) -> None:
    """End a process and everything it started, at once; one that is gone already is no error."""
    with contextlib.suppress(psutil.Error):
        leader = psutil.Process(pid)
        _kill([*leader.children(recursive=True), leader])


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def descends_from(pid: int, ancestor: int) -> bool:
    """Whether a process is another one, or was started by it or by something that it started.

    Args:
        pid: The process; one that is gone or hidden descends from nobody.
        ancestor: The other one.
    """
    if pid == ancestor:
        return True
    try:
        return any(parent.pid == ancestor for parent in psutil.Process(pid).parents())
    except psutil.Error:
        return False
