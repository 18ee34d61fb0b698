"""The lock between processes, with real ones; Windows' way with a stand-in for its module."""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from soulsgui.system import FileLock
from tests.faults.waiting import LIMIT_S

HOLD = """
import sys
from pathlib import Path
from soulsgui.system import FileLock
lock = FileLock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
sys.stdin.read()
"""


class FakeMsvcrt(types.ModuleType):
    """Locks bytes of files as Windows does: by file and place, refusing what is taken."""

    LK_NBLCK = 2
    LK_UNLCK = 0

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.taken: set[tuple[int, int]] = set()

    def locking(self, descriptor: int, mode: int, count: int) -> None:
        place = (os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR))
        if mode == self.LK_UNLCK:
            self.taken.remove(place)
        elif place in self.taken:
            raise OSError(13, "Permission denied")
        else:
            self.taken.add(place)


@pytest.fixture(params=["linux", "win32"])
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "win32":
        monkeypatch.setitem(sys.modules, "msvcrt", FakeMsvcrt())
    return str(request.param)


def test_one_holds_it_at_a_time_and_doing_so_twice_is_harmless(tmp_path: Path, platform: str) -> None:
    first, second = FileLock(tmp_path / "lock", platform), FileLock(tmp_path / "lock", platform)
    for _ in range(2):
        assert first.acquire()
        assert not second.acquire()
    assert os.fstat(first.fileno()).st_ino == first.path.stat().st_ino
    for _ in range(2):
        first.release()
    with pytest.raises(ValueError, match="not locked"):
        first.fileno()
    assert second.acquire()
    assert not first.acquire()
    second.release()


def test_the_holder_is_named_and_who_comes_second_is_told(tmp_path: Path, platform: str) -> None:
    path = tmp_path / "lock"
    assert FileLock(path, platform).holder() is None
    path.write_bytes(b"999999999999")  # a longer pid leaves nothing behind
    message = f"locked by process {os.getpid()}"
    with FileLock(path, platform):
        assert FileLock(path, platform).holder() == os.getpid()
        with pytest.raises(BlockingIOError, match=message):
            FileLock(path, platform).__enter__()


def test_the_system_frees_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "True"
        lock = FileLock(tmp_path / "lock")
        assert not lock.acquire()
        assert lock.holder() == holder.pid
        holder.kill()
        holder.wait(LIMIT_S)
        assert lock.acquire()
        lock.release()


def test_a_child_that_shares_the_descriptor_holds_on_after_its_parent(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire()
    descriptor = lock.fileno()
    wait = [sys.executable, "-c", "input()"]
    with subprocess.Popen(wait, stdin=subprocess.PIPE, pass_fds=(descriptor,)) as child:
        # What the death of the parent does: the descriptor is closed, not unlocked.
        assert lock._file is not None
        lock._file.close()
        assert not FileLock(tmp_path / "lock").acquire()
        child.communicate(b"\n")
    freed = FileLock(tmp_path / "lock")
    assert freed.acquire()
    freed.release()
