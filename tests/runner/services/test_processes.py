import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from soulsgui.runner.base import RunnerIdentity
from soulsgui.runner.services.processes import (
    Adopted,
    Identities,
    OwnChild,
    ProcessTree,
    UsageMeter,
    kill_leftovers,
    system_memory_kills,
)
from soulsgui.system import new_session_kwargs
from tests.runner.children import (
    APART,
    PARENT,
    STUBBORN,
    alive,
    command,
    grandchild_of,
    text_of,
    until_now,
)

SLEEP = command("import time; time.sleep(600)")


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is none of ours, the leader of its own group."""
    process = subprocess.Popen(SLEEP, **new_session_kwargs())
    yield process
    process.kill()
    process.wait()


def started(script: str, log: Path) -> OwnChild:
    with log.open("ab") as output:
        child = OwnChild(command(script), output, os.environ)
    until_now(lambda: "ready" in text_of(log))
    return child


def test_a_private_record_is_read_back(tmp_path: Path, stranger: "subprocess.Popen[bytes]") -> None:
    identities = Identities(tmp_path)
    written = identities.write("trainer", SLEEP, stranger.pid)
    assert identities.read("trainer") == written
    assert identities.all() == [written]
    assert written.lives()
    if sys.platform != "win32":
        folder = tmp_path / "services"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "trainer.json").stat().st_mode) == 0o600
    stranger.kill()
    stranger.wait()
    assert not written.lives()
    assert identities.write("telemetry", SLEEP, stranger.pid) is None
    identities.forget("trainer")
    assert identities.all() == []
    identities.forget("trainer")


@pytest.mark.allow_warnings
def test_a_record_that_can_not_be_removed_keeps_nobody_from_going_on(tmp_path: Path) -> None:
    (tmp_path / "services").touch()  # a file, where a folder belongs
    Identities(tmp_path).forget("redis")


@pytest.mark.parametrize("name", ["", "../trainer", "a/b", ".hidden", "x" * 200])
def test_a_name_never_leaves_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="name of a service"):
        Identities(tmp_path).read(name)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '{"pid": 12}', "[" * 5000),
        *(
            json.dumps({"pid": 12, "start_time": 1, "boot_id": "b", "cmdline": [], "argv": []} | wrong)
            for wrong in (
                {"pid": "12"},
                {"cmdline": "sh"},
                {"argv": [1]},
                {"pid": 10**30},
                {"start_time": 10**400},
            )
        ),
        '{"pid": 1, "start_time": ' + "9" * 5000 + ', "boot_id": "", "cmdline": [], "argv": []}',
    ],
    ids=lambda text: f"{text[:12]} of {len(text)}",
)
def test_a_record_that_is_damaged_or_beyond_all_bounds_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "trainer.json").write_text(text)
    assert Identities(tmp_path).read("trainer") is None
    assert Identities(tmp_path).all() == []


FORGERIES: list[dict[str, object]] = [{"start_time": 1.0}, {"boot_id": "another-boot"}]
FORGERIES += [{"cmdline": ["soulsgui", "trainer"]}, *({"pid": pid} for pid in (1, 0, -1, os.getpid()))]


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: next(iter(forgery)))
def test_a_forged_record_is_not_taken_for_a_living_process(
    tmp_path: Path, stranger: "subprocess.Popen[bytes]", forgery: dict[str, object]
) -> None:
    identities = Identities(tmp_path)
    identities.write("trainer", SLEEP, stranger.pid)
    path = tmp_path / "services" / "trainer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | forgery))
    record = identities.read("trainer")
    assert not record.lives()
    adopted = Adopted(record)
    adopted.terminate()
    adopted.kill()
    kill_leftovers(stranger.pid)  # the group of an ended process, whose number somebody else has now
    with pytest.raises(subprocess.TimeoutExpired):
        stranger.wait(0.1)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("script", "sent"),
    [
        (STUBBORN, signal.SIGTERM),
        (PARENT, signal.SIGKILL),
        (APART, 0),
    ],
    ids=["deaf to signals", "outlived their parent", "left its session"],
)
def test_a_child_leads_a_session_and_killing_it_ends_them_all(tmp_path: Path, script: str, sent: int) -> None:
    child = started(script, tmp_path / "log")
    assert os.getsid(child.pid) == child.pid
    grandchild = grandchild_of(tmp_path / "log")
    assert (os.getsid(grandchild) == grandchild) == (sent == 0)
    os.kill(child.pid, sent)
    if sent == signal.SIGKILL:
        until_now(child.ended)
    assert alive(grandchild)
    child.kill()
    until_now(child.ended)
    assert child.code() == -9
    until_now(lambda: not alive(grandchild))


@pytest.mark.parametrize("port", [9_999_999, -5])
def test_an_identity_of_a_runner_with_an_impossible_port_is_none(port: int) -> None:
    assert RunnerIdentity.read(json.dumps({"server_id": "s", "control_port": port})) is None


def test_a_process_tree_is_the_process_and_its_children() -> None:
    tree, own, parent = ProcessTree(), os.getpid(), psutil.Process().ppid()
    assert all(tree.includes(one, own) for one in (own, parent, parent))
    assert not any(tree.includes(*pids) for pids in ((own, parent), (None, own), (own, 0), (own, 2**22 + 1)))


def test_it_is_measured_once_a_second_at_most_new_ones_at_once_and_one_that_has_ended_is_left_out() -> None:
    now = [100.0]
    meter = UsageMeter(lambda: now[0])
    assert meter.measure([]) == {}
    pid = os.getpid()
    first = meter.measure([pid])
    assert first[pid].cpu_percent is None
    assert first[pid].memory_bytes == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    now[0] += 0.9
    assert meter.measure([pid]) is first
    now[0] += 0.2
    assert meter.measure([pid])[pid].cpu_percent is not None
    child = subprocess.Popen(SLEEP)
    assert set(meter.measure([pid, child.pid])) == {pid, child.pid}
    child.kill()
    child.wait()
    now[0] += 2
    assert set(meter.measure([pid, child.pid])) == {pid}


def test_memory_kills_are_read_from_our_control_group(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    assert system_memory_kills(proc, groups) == 0, "a system that does not tell"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("1:name=systemd:/x\n0::/user.slice/run\n")
    (proc / "vmstat").write_text("nr_free_pages 12\noom_kill 7\n")
    (groups / "user.slice" / "run").mkdir(parents=True)
    assert system_memory_kills(proc, groups) == 7, "without a group the whole machine counts"
    (groups / "user.slice" / "run" / "memory.events").write_text(
        "low 0\noom 3\noom_kill 2\noom_group_kill 0\n"
    )
    assert system_memory_kills(proc, groups) == 2
