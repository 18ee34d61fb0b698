"""How much of the processor a client may take."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from soulsgui.system import can_pin, hold_back


class _Process:
    """A process of another system."""

    def __init__(self, nice: int, cores: int, children: "list[_Process] | None" = None) -> None:
        self.priority, self.cores, self._children = nice, list(range(cores)), children or []

    def children(self, recursive: bool) -> "list[_Process]":
        assert recursive
        return self._children

    def nice(self, value: int | None = None) -> int:
        self.priority = self.priority if value is None else value
        return self.priority

    def cpu_affinity(self, cores: list[int] | None = None) -> list[int]:
        self.cores = self.cores if cores is None else cores
        return self.cores


@pytest.mark.parametrize(("platform", "before", "after"), [("win32", 0x20, 0x4000), ("linux", 0, 10)])
def test_the_whole_family_goes_behind_the_others(platform: str, before: int, after: int) -> None:
    child = _Process(before, 8)
    leader = _Process(before, 8, [child])
    hold_back(1, 2, platform, lambda _: leader)
    assert [(one.priority, one.cores) for one in (leader, child)] == [(after, [6, 7])] * 2


def test_a_process_that_holds_back_more_already_stays_so() -> None:
    idle, nice = _Process(0x40, 8), _Process(15, 1)
    hold_back(1, None, "win32", lambda _: idle)
    hold_back(1, 4, "linux", lambda _: nice)
    assert (idle.priority, idle.cores) == (0x40, list(range(8)))
    assert (nice.priority, nice.cores) == (15, [0])


def test_macos_lends_no_single_cores() -> None:
    process = _Process(0, 8)
    hold_back(1, 1, "darwin", lambda _: process)
    assert (can_pin("darwin"), process.priority, len(process.cores)) == (False, 10, 8)


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as made:
        yield made
        made.kill()


def test_a_real_process_is_held_back(child: Any) -> None:
    hold_back(child.pid, 1)
    process = psutil.Process(child.pid)
    assert process.nice() in (10, 0x4000)
    if can_pin():
        assert len(process.cpu_affinity()) == 1


def test_a_process_that_is_gone_is_no_error() -> None:
    def gone(pid: int) -> Any:
        raise psutil.NoSuchProcess(pid)

    hold_back(1, 1, process=gone)
