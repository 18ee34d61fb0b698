"""Process groups, with real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from soulsgui.system import kill_group, new_session_kwargs, stop_signals, terminate_group
from tests.faults.waiting import LIMIT_S

Spawn = Callable[[str], subprocess.Popen[str]]

WAITS = "import signal, sys; print('ready', flush=True); sys.stdin.read()"
IGNORES_TERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
# A leader whose child ignores TERM and outlives it.
FAMILY = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {IGNORES_TERM!r}], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts Python code in a session of its own; its first line is left to the test to read."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started.append(subprocess.Popen(command, text=True, **pipes, **new_session_kwargs()))
        return started[-1]

    yield start
    for process in started:
        kill_group(process.pid)
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_child_leads_a_session_of_its_own(spawn: Spawn) -> None:
    child = spawn(WAITS)
    assert os.getsid(child.pid) == child.pid != os.getsid(0)


def test_a_polite_child_ends_when_asked(spawn: Spawn) -> None:
    child = spawn(WAITS)
    assert first_line(child) == "ready"
    assert terminate_group(child.pid)
    assert child.wait(LIMIT_S) == -signal.SIGTERM


def test_a_child_that_ignores_the_request_is_killed(spawn: Spawn) -> None:
    child = spawn(IGNORES_TERM)
    assert first_line(child) == "ready"
    assert terminate_group(child.pid)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.3)
    assert kill_group(child.pid)
    assert child.wait(LIMIT_S) == -signal.SIGKILL


def test_grandchildren_are_killed_also_after_the_leader_ended(spawn: Spawn) -> None:
    leader = spawn(FAMILY)
    grandchild = psutil.Process(int(first_line(leader)))
    terminate_group(leader.pid)
    leader.wait(LIMIT_S)
    assert grandchild.is_running()
    assert kill_group(leader.pid)
    psutil.wait_procs([grandchild], timeout=10)
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


def test_windows_kills_the_whole_family(spawn: Spawn) -> None:
    leader = spawn(FAMILY)
    grandchild = psutil.Process(int(first_line(leader)))
    assert kill_group(leader.pid, platform="win32")
    assert leader.wait(LIMIT_S) == -signal.SIGKILL
    psutil.wait_procs([grandchild], timeout=10)
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_an_ended_group_is_reported_as_gone(spawn: Spawn, platform: str) -> None:
    child = spawn("pass")
    child.wait(LIMIT_S)
    assert not terminate_group(child.pid, "linux")
    assert not kill_group(child.pid, platform)


def test_windows_sends_ctrl_break(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    assert terminate_group(4711, platform="win32")
    assert sent == [(4711, 1)]


def test_windows_reports_a_console_it_can_not_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise OSError(87, "The parameter is incorrect")

    monkeypatch.setattr(os, "kill", refuse)
    assert not terminate_group(4711, platform="win32")


@pytest.mark.parametrize("pid", [-1, 0, 1, os.getpgrp()])
def test_everybody_and_ourselves_are_never_signalled(pid: int) -> None:
    with pytest.raises(ValueError, match="process group"):
        kill_group(pid)
    with pytest.raises(ValueError, match="process group"):
        terminate_group(pid)


def test_windows_children_get_a_group_and_no_console_window() -> None:
    assert new_session_kwargs("win32") == {"creationflags": 0x0800_0200}


def test_macos_calls_a_group_of_zombies_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    assert not kill_group(4711, platform="darwin")
    with pytest.raises(PermissionError):
        kill_group(4711, platform="linux")


def test_stop_signals_differ_by_system() -> None:
    assert {signal.SIGINT, signal.SIGTERM} <= set(stop_signals("linux"))
    assert [int(number) for number in stop_signals("win32")] == [signal.SIGINT, 21]


def test_under_nohup_the_end_of_the_terminal_is_no_reason_to_stop() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signal.SIGHUP not in stop_signals()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert signal.SIGHUP in stop_signals()
    finally:
        signal.signal(signal.SIGHUP, before)
