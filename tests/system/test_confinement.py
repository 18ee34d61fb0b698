import ctypes
import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from soulsgui.system import confine, why_not_confined

CREATE, ADD_RULE, RESTRICT = 444, 445, 446
NEEDS_LANDLOCK = pytest.mark.skipif(why_not_confined() != "", reason=why_not_confined())


class Kernel:
    """A C library whose kernel knows a version of Landlock; 0: none. Remembers what it was told."""

    def __init__(self, version: int, restrict_fails: int = 0) -> None:
        self.version, self.restrict_fails = version, restrict_fails
        self.called: list[int] = []
        self.handled = 0
        self.privileges: list[int] = []

    def prctl(self, option: int, *words: Any) -> int:
        self.privileges += [option, words[0].value]
        return 0

    def syscall(self, number: Any, first: Any, *_: Any) -> int:
        self.called.append(number.value)
        if not self.version:
            ctypes.set_errno(errno.ENOSYS)
            return -1
        if number.value == CREATE:
            if first is None:
                return self.version
            self.handled = first._obj.value
            return os.open(os.devnull, os.O_RDONLY)
        if number.value == RESTRICT and self.restrict_fails:
            ctypes.set_errno(self.restrict_fails)
            return -1
        return 0


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where temporary files go is as before at the end."""
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    monkeypatch.setenv("TMPDIR", tempfile.gettempdir())


@pytest.mark.parametrize(
    ("platform", "version", "why"),
    [
        ("win32", 0, "Only Linux can keep it to a folder."),
        ("darwin", 0, "Only Linux can keep it to a folder."),
        ("linux", 0, "its kernel has no Landlock"),
        ("linux", 2, "its kernel is older than Linux 6.2"),
        ("linux", 3, ""),
        ("linux", 7, ""),
    ],
)
def test_where_a_process_can_t_be_confined_is_told(platform: str, version: int, why: str) -> None:
    told = why_not_confined(platform, Kernel(version))
    assert (why in told, told == "") == (True, why == "")


@pytest.mark.parametrize(
    ("version", "rights"),
    [(1, 0b0001_1111_1111_0010), (2, 0b0011_1111_1111_0010), (9, 0b0111_1111_1111_0010)],
)
def test_of_what_the_kernel_knows_all_that_writes_is_restricted(
    tmp_path: Path, version: int, rights: int
) -> None:
    kernel = Kernel(version)
    confine(tmp_path / "own", "linux", kernel)
    assert kernel.handled == rights
    assert kernel.called == [CREATE, CREATE, *[ADD_RULE] * 3, RESTRICT]
    assert kernel.privileges == [38, 1]
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(tmp_path / "own" / "tmp")


def test_without_landlock_what_else_there_is_holds_and_elsewhere_nothing_is_done(tmp_path: Path) -> None:
    kernel = Kernel(0)
    confine(tmp_path / "own", "linux", kernel)
    assert (kernel.privileges, kernel.called) == ([38, 1], [CREATE])
    confine(tmp_path / "other", "win32", None)
    assert not (tmp_path / "other").exists()


def test_who_is_confined_again_and_again_stays_so_and_what_the_kernel_refuses_is_raised(
    tmp_path: Path,
) -> None:
    confine(tmp_path, "linux", Kernel(7, errno.E2BIG))
    with pytest.raises(OSError, match="not permitted"):
        confine(tmp_path, "linux", Kernel(7, errno.EPERM))


def try_to_write(own: Path, other: Path) -> dict[str, str]:
    """Return what came of each way to write, in a process that is confined to `own`."""
    (own / "folder").mkdir()
    (own / "mine").write_text("mine")
    shared = Path("/dev/shm") / f"souls-test-{os.getpid()}"
    ways: dict[str, Callable[[], Any]] = {
        "own file": lambda: (own / "file").write_text("x"),
        "moved within": lambda: (own / "mine").rename(own / "folder" / "mine"),
        "temporary file": lambda: Path(tempfile.mkstemp()[1]).relative_to(own),
        "shared memory": lambda: (shared.write_text("x"), shared.unlink()),
        "device": lambda: Path(os.devnull).write_text("x"),
        "read": lambda: (other / "there").read_text(),
        "new file": lambda: (other / "new").write_text("x"),
        "written over": lambda: (other / "there").write_text("x"),
        "emptied": lambda: os.truncate(other / "there", 0),
        "removed": lambda: (other / "there").unlink(),
        "new folder": lambda: (other / "folder").mkdir(),
        "link": lambda: (other / "link").symlink_to(own),
        "moved out": lambda: (own / "file").rename(other / "file"),
        "through a link": lambda: ((own / "out").symlink_to(other), (own / "out" / "new").write_text("x")),
        "by a child": lambda: subprocess.run(["touch", str(other / "new")], check=True, stderr=-3),
    }
    found = {}
    for name, way in ways.items():
        try:
            way()
            found[name] = "done"
        except (OSError, subprocess.CalledProcessError) as error:
            found[name] = type(error).__name__
    return found


@NEEDS_LANDLOCK
def test_a_confined_process_reads_all_and_writes_its_own_folder_and_devices_alone(tmp_path: Path) -> None:
    other, own = tmp_path / "other", tmp_path / "own"
    other.mkdir()
    (other / "there").write_text("precious")
    program = (
        "import json, sys; from pathlib import Path; from soulsgui.system import confine;"
        "from tests.system.test_confinement import try_to_write; own, other = map(Path, sys.argv[1:]);"
        "confine(own); print(json.dumps(try_to_write(own, other)))"
    )
    words = [sys.executable, "-c", program, str(own), str(other)]
    found = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    allowed = {"own file", "moved within", "temporary file", "shared memory", "device", "read"}
    assert {name for name, what in found.items() if what == "done"} == allowed
    assert set(found.values()) <= {"done", "PermissionError", "CalledProcessError"}
    assert [(path.name, path.read_text()) for path in other.iterdir()] == [("there", "precious")]
