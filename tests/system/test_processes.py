"""Processes: groups, identity, shares of the processor, becoming another program; with real processes."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from soulsgui.system import (
    ProcessIdentity,
    SpareTime,
    become,
    boot_id,
    can_pin,
    hold_back,
    kill_group,
    leave_terminal,
    new_session_kwargs,
    process_identity,
    raise_open_files,
    same_boot,
    same_process,
    started_process_identity,
    starting_deaf,
    stop_signals,
    terminate_group,
)
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


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_a_polite_child_in_its_own_session_ends_when_asked_and_is_gone(spawn: Spawn, platform: str) -> None:
    child = spawn(WAITS)
    assert first_line(child) == "ready"
    assert os.getsid(child.pid) == child.pid != os.getsid(0)
    assert terminate_group(child.pid)
    assert child.wait(LIMIT_S) == -signal.SIGTERM
    assert not terminate_group(child.pid)
    assert not kill_group(child.pid, platform)


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_a_grandchild_that_ignores_all_is_killed_also_after_its_parent(spawn: Spawn, platform: str) -> None:
    leader = spawn(FAMILY)
    grandchild = psutil.Process(int(first_line(leader)))
    if platform == "linux":
        assert terminate_group(leader.pid)
        leader.wait(LIMIT_S)
        assert grandchild.is_running()
    assert kill_group(leader.pid, platform)
    leader.wait(LIMIT_S)
    psutil.wait_procs([grandchild], timeout=LIMIT_S)
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


@pytest.mark.allow_warnings
def test_whoever_can_not_be_ended_is_told_and_keeps_nobody_else_alive(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leader, kill = spawn(FAMILY), psutil.Process.kill
    assert first_line(leader)

    def protected(process: psutil.Process) -> None:
        if process.pid == leader.pid:
            raise psutil.AccessDenied(process.pid)
        kill(process)

    monkeypatch.setattr(psutil.Process, "kill", protected)
    assert kill_group(leader.pid, "win32")
    assert f"Process {leader.pid} can't be ended: " in caplog.text
    assert leader.wait(LIMIT_S) == 0, "whom it waited for was killed"


def test_windows_children_get_a_group_without_a_window_and_ctrl_break_where_a_console_is_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        if sent:
            raise OSError(87, "The parameter is incorrect")
        sent.append((pid, number))

    monkeypatch.setattr(os, "kill", kill)
    assert [terminate_group(4711, platform="win32") for _ in range(2)] == [True, False]
    assert sent == [(4711, 1)]
    assert new_session_kwargs("win32") == {"creationflags": 0x0800_0200}


@pytest.mark.parametrize("pid", [-1, 0, 1, os.getpgrp()])
@pytest.mark.parametrize("signal_to", [kill_group, terminate_group])
def test_everybody_and_ourselves_are_never_signalled(pid: int, signal_to: Callable[[int], bool]) -> None:
    with pytest.raises(ValueError, match="process group"):
        signal_to(pid)


def test_macos_calls_a_group_of_zombies_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    nobody = 2**22 + 1
    assert not kill_group(nobody, platform="darwin")
    with pytest.raises(PermissionError):
        kill_group(nobody, platform="linux")


def test_stop_signals_differ_by_system_and_under_nohup_the_end_of_the_terminal_is_none() -> None:
    assert [int(number) for number in stop_signals("win32")] == [signal.SIGINT, 21]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert stop_signals("linux") == [signal.SIGINT, signal.SIGTERM]
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert stop_signals("linux") == [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()", "marker"], stdin=subprocess.PIPE)
    started_process_identity(process.pid)
    yield process
    process.kill()
    process.communicate()


def identity_of(pid: int, platform: str = sys.platform) -> ProcessIdentity:
    identity = process_identity(pid, platform)
    assert identity is not None
    return identity


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_living_process_is_known_again_and_an_ended_one_not_before_and_after_it_was_waited_for(
    child: subprocess.Popen[bytes], platform: str
) -> None:
    identity = identity_of(child.pid, platform)
    assert identity["cmdline"][-1] == "marker"
    assert same_process(identity, platform)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not same_process(identity, platform)
    child.wait()
    assert not same_process(identity, platform)
    assert process_identity(child.pid, platform) is None


def test_a_record_with_anything_wrong_is_nobody(child: subprocess.Popen[bytes]) -> None:
    known = identity_of(child.pid)
    one_tick_s = 1 / os.sysconf("SC_CLK_TCK")
    wrong: dict[str, tuple[object, ...]] = {
        "start_time": (0.0, math.nan, "soon", known["start_time"] - one_tick_s),
        "boot_id": ("another boot", None),
        "cmdline": (["nginx"], None),
        "pid": (1, 0, -1, 2**80, "1"),
    }
    assert same_process(known)
    for name, values in wrong.items():
        for value in values:
            assert not same_process({**known, name: value}), (name, value)
    assert not same_process({})


@pytest.mark.skipif(sys.platform != "linux", reason="how Linux ends a process")
def test_a_process_lives_until_everything_it_holds_is_given_back() -> None:
    # Much memory makes the moment long in which it has no command line any more, and still holds its files.
    program = "import time; held = bytearray(100_000_000); print(flush=True); time.sleep(600)"
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            identity = started_process_identity(child.pid)
            assert identity is not None
            child.kill()
            while same_process(identity):
                pass
            assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE


def test_the_kernels_id_names_the_boot_and_without_it_the_boot_time(tmp_path: Path) -> None:
    file = tmp_path / "boot_id"
    assert boot_id(file, lambda: 1700000000.4) == "boot-1700000000"
    file.write_text("07fbf9f7-f848-4f07\n")
    assert boot_id(file) == "07fbf9f7-f848-4f07"


def test_computed_boot_times_may_waver() -> None:
    assert same_boot("abc", "abc")
    assert same_boot("boot-1000", "boot-1059")
    others = (("abc", "abd"), *(("boot-1000", other) for other in ("boot-1060", "1000", "boot-x")))
    assert not any(same_boot(first, second) for first, second in others)


def test_an_identity_waits_for_the_command_line_of_a_process_that_is_just_beginning(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = identity_of(child.pid)
    bare = ProcessIdentity(**{**known, "cmdline": []})
    seen: list[ProcessIdentity | None] = [bare, bare, known]
    monkeypatch.setattr("soulsgui.system.processes.process_identity", lambda pid: seen.pop(0))
    assert started_process_identity(child.pid) == known
    assert seen == []
    # Nobody is waited for who never gets one, or has ended.
    monkeypatch.setattr("soulsgui.system.processes.process_identity", lambda pid: bare)
    assert started_process_identity(child.pid, limit_s=0.01) == bare
    monkeypatch.setattr("soulsgui.system.processes.process_identity", lambda pid: None)
    assert started_process_identity(child.pid) is None


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


@pytest.mark.parametrize(
    ("platform", "cores", "before", "after"),
    [
        ("win32", 2, (0x20, 8), (0x4000, [6, 7])),
        ("linux", 2, (0, 8), (10, [6, 7])),
        # Who holds back more already stays so.
        ("win32", None, (0x40, 8), (0x40, list(range(8)))),
        ("linux", 4, (15, 1), (15, [0])),
        # macOS lends no single cores.
        ("darwin", 1, (0, 8), (10, list(range(8)))),
    ],
)
def test_the_whole_family_goes_behind_the_others(
    platform: str, cores: int | None, before: tuple[int, int], after: tuple[int, list[int]]
) -> None:
    child = _Process(*before)
    leader = _Process(*before, [child])
    hold_back(1, cores, platform, lambda _: leader)
    assert [(one.priority, one.cores) for one in (leader, child)] == [after] * 2
    assert can_pin(platform) == (platform != "darwin")


def test_a_real_process_is_held_back_and_one_that_is_gone_is_no_error(child: Any) -> None:
    hold_back(child.pid, 1)
    process = psutil.Process(child.pid)
    assert process.nice() in (10, 0x4000)
    if can_pin():
        assert len(process.cpu_affinity()) == 1
    child.kill()
    child.wait()
    hold_back(child.pid, 1)


def test_spare_time_is_all_that_is_used_while_there_is_any() -> None:
    now = used = 0.0
    idle: list[bool] = []
    spare_time = SpareTime(lambda: now, lambda: used, idle.append)
    # What it has of each second: it is told at the changes alone, and a starved one goes on as one of many.
    for share in (0.02, 0.2, 0.02, 0.005, 0.05, 0.9):
        now, used = now + 1.0, used + share
        spare_time.look()
    assert idle == [True, False, True]
    now, used = now + 0.5, used + 0.001  # too soon to tell
    spare_time.look()
    assert idle == [True, False, True]


LOOKS_TWICE = """
import os, resource, sys
from soulsgui.system import SpareTime
if "ordinary" in sys.argv:
    resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
    if os.getuid() == 0:
        os.setuid(65534)
spare_time = SpareTime(iter((0.0, 1.0, 2.0)).__next__, iter((0.0, 0.9, 0.9)).__next__)
for _ in range(2):
    spare_time.look()
    print(os.sched_getscheduler(0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a class of its own for it")
@pytest.mark.parametrize("user", ["ordinary", "ours"])
def test_a_process_that_finds_spare_time_uses_no_other_if_it_may_return(user: str) -> None:
    told = subprocess.run([sys.executable, "-c", LOOKS_TWICE, user], stdout=subprocess.PIPE, check=True)
    first, then = map(int, told.stdout.split())
    assert then == os.SCHED_OTHER, "one that is starved has a share again"
    assert first == os.SCHED_OTHER or (user, first) == ("ours", os.SCHED_IDLE)


SECRET = "a-word-nobody-should-see"

BEFORE = """
import os, sys
from soulsgui.system import become
print(os.getpid(), flush=True)
become([sys.executable, "-c", sys.argv[1]], os.environ | {"SAID": "hello"})
"""
AFTER = """
import os, sys
print(os.getpid(), os.environ["SAID"], flush=True)
sys.stdin.read()
sys.exit(7)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a process of Windows stays what it is")
def test_the_command_line_is_gone_while_the_process_stays() -> None:
    words = [sys.executable, "-c", BEFORE, AFTER, SECRET]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    child = subprocess.Popen(words, cwd=Path(__file__).parents[2], **pipes)
    assert child.stdin is not None
    assert child.stdout is not None
    assert int(child.stdout.readline()) == child.pid
    assert child.stdout.readline() == f"{child.pid} hello\n"
    assert SECRET not in " ".join(psutil.Process(child.pid).cmdline())
    child.stdin.close()
    child.stdout.close()
    assert child.wait(LIMIT_S) == 7


@pytest.mark.processes
def test_on_windows_a_child_takes_over_with_its_exit_code() -> None:
    with pytest.raises(SystemExit) as ended:
        become([sys.executable, "-c", "raise SystemExit(7)"], {}, platform="win32")
    assert ended.value.code == 7


@pytest.mark.parametrize(("platform", "sessions"), [("linux", 1), ("darwin", 1), ("win32", 0)])
def test_a_process_leaves_the_terminal_of_its_program(
    platform: str, sessions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ignored = [], []
    monkeypatch.setattr(os, "setsid", lambda: begun.append(1), raising=False)
    monkeypatch.setattr(signal, "signal", lambda number, handler: ignored.append((number, handler)))
    with starting_deaf(platform):
        deaf = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert deaf == bool(sessions)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    leave_terminal(platform)
    assert len(begun) == sessions
    assert ignored == [(signal.SIGINT, signal.SIG_IGN)]


FIRST_OF_MULTIPROCESSING = """
import signal
from multiprocessing import resource_tracker
from soulsgui.system import starting_deaf
with starting_deaf():
    resource_tracker.getfd()
    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no resource tracker")
def test_the_first_process_of_multiprocessing_begins_as_deaf_as_others() -> None:
    words = [sys.executable, "-c", FIRST_OF_MULTIPROCESSING]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "True\n"


class Limits:
    """Stands for `resource`; no more than `takes` are given."""

    RLIMIT_NOFILE, RLIM_INFINITY = 7, -1

    def __init__(self, soft: int, hard: int, takes: int = 2**62) -> None:
        self.now, self.takes = (soft, hard), takes

    def getrlimit(self, kind: int) -> tuple[int, int]:
        assert kind == self.RLIMIT_NOFILE
        return self.now

    def setrlimit(self, _kind: int, limits: tuple[int, int]) -> None:
        if limits[0] > self.takes:
            raise ValueError("not allowed to raise maximum limit")
        self.now = limits


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        (Limits(1024, 4096), 4096),
        (Limits(1024, 2**20), 65_536),
        (Limits(256, Limits.RLIM_INFINITY, takes=10_240), 10_240),
        (Limits(256, 1024, takes=0), 256),
        (Limits(100_000, 2**20), 100_000),
    ],
)
def test_as_many_files_may_be_open_as_the_system_allows(limits: Limits, most: int) -> None:
    assert raise_open_files("linux", limits) == most
    assert limits.now[0] == most
    assert raise_open_files("win32", limits) is None
