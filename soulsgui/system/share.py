"""How much of the processor a process and everything it started may take."""

import sys
from collections.abc import Callable
from typing import Any

import psutil

_NICE = 10
# psutil.BELOW_NORMAL_PRIORITY_CLASS, which exists on Windows only.
_BELOW_NORMAL = 0x4000
_NORMAL = 0x20


def can_pin(platform: str = sys.platform) -> bool:
    """Whether a process can be kept to some of the cores: macOS decides that itself."""
    return platform != "darwin"


def hold_back(
    pid: int,
    cores: int | None = None,
    platform: str = sys.platform,
    process: Callable[[int], Any] = psutil.Process,
) -> None:
    """Let every other program go before a process and its descendants; there is no way back but a new start.

    Args:
        pid: The process; one that is gone is no error.
        cores: How many cores they may share; None for all. Where the system decides that itself, all.
        platform: A value of `sys.platform`.
        process: Finds a process.
    """
    try:
        leader = process(pid)
        family = [leader, *leader.children(recursive=True)]
    except psutil.Error:
        return
    for one in family:
        try:
            _hold_back(one, cores, platform)
        except psutil.Error:
            # It has ended meanwhile, or is another user's.
            continue


def _hold_back(one: Any, cores: int | None, platform: str) -> None:
    if platform == "win32":
        if one.nice() == _NORMAL:
            one.nice(_BELOW_NORMAL)
    elif one.nice() < _NICE:
        one.nice(_NICE)
    if cores is not None and can_pin(platform):
        allowed = one.cpu_affinity()
        if len(allowed) > cores:
            # The first ones are those that systems like best for themselves.
            one.cpu_affinity(allowed[-cores:])
