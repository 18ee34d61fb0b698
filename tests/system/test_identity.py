"""The identity of processes: true ones are known again, forged ones never."""

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from soulsgui.system import (
    ProcessIdentity,
    boot_id,
    process_identity,
    same_boot,
    same_process,
    started_process_identity,
)

PLATFORMS = pytest.mark.parametrize("platform", ["linux", "darwin"])


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for its standard input to end."""
    process = subprocess.Popen([sys.executable, "-c", "input()", "marker"], stdin=subprocess.PIPE)
    started_process_identity(process.pid)
    yield process
    process.kill()
    process.communicate()


def identity_of(pid: int, platform: str = sys.platform) -> ProcessIdentity:
    identity = process_identity(pid, platform)
    assert identity is not None
    return identity


@PLATFORMS
def test_a_living_process_is_known_again(child: subprocess.Popen[bytes], platform: str) -> None:
    identity = identity_of(child.pid, platform)
    assert identity["cmdline"][-1] == "marker"
    assert same_process(identity, platform)


@PLATFORMS
def test_an_ended_process_is_not_the_same_before_and_after_it_was_waited_for(
    child: subprocess.Popen[bytes], platform: str
) -> None:
    identity = identity_of(child.pid, platform)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not same_process(identity, platform)
    child.wait()
    assert not same_process(identity, platform)
    assert process_identity(child.pid, platform) is None


@pytest.mark.parametrize(
    "forged",
    [
        {"start_time": 0.0},
        {"start_time": math.nan},
        {"boot_id": "another boot"},
        {"cmdline": ["nginx"]},
        {"cmdline": None},
        {"pid": 1},
        {"pid": 0},
        {"pid": -1},
        {"pid": 2**80},
        {"pid": "1"},
        {"start_time": "soon"},
        {"boot_id": None},
    ],
)
def test_a_record_with_anything_wrong_is_nobody(
    child: subprocess.Popen[bytes], forged: dict[str, object]
) -> None:
    assert not same_process({**identity_of(child.pid), **forged})


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


def test_an_empty_record_is_nobody() -> None:
    assert not same_process({})


def test_a_pid_used_again_by_the_same_command_is_told_apart(child: subprocess.Popen[bytes]) -> None:
    identity = identity_of(child.pid)
    one_tick_s = 1 / os.sysconf("SC_CLK_TCK")
    assert not same_process({**identity, "start_time": identity["start_time"] - one_tick_s})


def test_without_the_kernels_id_the_boot_time_names_the_boot(tmp_path: Path) -> None:
    assert boot_id(tmp_path / "missing", lambda: 1700000000.4) == "boot-1700000000"


def test_the_kernels_id_names_the_boot(tmp_path: Path) -> None:
    file = tmp_path / "boot_id"
    file.write_text("07fbf9f7-f848-4f07\n")
    assert boot_id(file) == "07fbf9f7-f848-4f07"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("abc", "abc", True),
        ("abc", "abd", False),
        ("boot-1000", "boot-1059", True),
        ("boot-1000", "boot-1060", False),
        ("boot-1000", "1000", False),
        ("boot-1000", "boot-x", False),
    ],
)
def test_computed_boot_times_may_waver(first: str, second: str, same: bool) -> None:
    assert same_boot(first, second) is same


def test_the_identity_of_a_process_that_is_just_beginning_waits_for_its_command_line(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = identity_of(child.pid)
    seen = [ProcessIdentity(**known), ProcessIdentity(**known), known]
    for early in seen[:2]:
        early["cmdline"] = []
    monkeypatch.setattr("soulsgui.system.identity.process_identity", lambda pid: seen.pop(0))
    assert started_process_identity(child.pid) == known
    assert seen == []


def test_nobody_is_waited_for_who_has_ended_or_never_gets_a_command_line(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = ProcessIdentity(**{**identity_of(child.pid), "cmdline": []})
    monkeypatch.setattr("soulsgui.system.identity.process_identity", lambda pid: bare)
    assert started_process_identity(child.pid, limit_s=0.01) == bare
    monkeypatch.setattr("soulsgui.system.identity.process_identity", lambda pid: None)
    assert started_process_identity(child.pid) is None
