import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from soulsgui.runner.usage import UsageMeter, system_memory_kills
from tests.runner.children import command


def test_it_is_measured_once_a_second_at_most() -> None:
    now = [100.0]
    meter = UsageMeter(lambda: now[0])
    pid = os.getpid()
    first = meter.measure([pid])
    assert first[pid].cpu_percent is None
    assert first[pid].memory_bytes == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    now[0] += 0.9
    assert meter.measure([pid]) is first
    now[0] += 0.2
    assert meter.measure([pid])[pid].cpu_percent is not None


def test_processes_that_have_ended_are_left_out() -> None:
    now = [100.0]
    meter = UsageMeter(lambda: now[0])
    child = subprocess.Popen(command("import time; time.sleep(600)"))
    assert set(meter.measure([child.pid])) == {child.pid}
    child.kill()
    child.wait()
    now[0] += 2
    assert meter.measure([child.pid]) == {}


def test_a_new_process_is_measured_at_once() -> None:
    meter = UsageMeter(lambda: 100.0)
    assert meter.measure([]) == {}
    assert set(meter.measure([os.getpid()])) == {os.getpid()}


def test_memory_kills_are_read_from_our_control_group(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("1:name=systemd:/x\n0::/user.slice/run\n")
    (proc / "vmstat").write_text("nr_free_pages 12\noom_kill 7\n")
    (groups / "user.slice" / "run").mkdir(parents=True)
    assert system_memory_kills(proc, groups) == 7, "without a group the whole machine counts"
    (groups / "user.slice" / "run" / "memory.events").write_text(
        "low 0\noom 3\noom_kill 2\noom_group_kill 0\n"
    )
    assert system_memory_kills(proc, groups) == 2


def test_a_system_that_does_not_tell_has_no_memory_kills(tmp_path: Path) -> None:
    assert system_memory_kills(tmp_path, tmp_path) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_this_system_tells() -> None:
    assert system_memory_kills() >= 0
