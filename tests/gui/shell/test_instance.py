import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalSocket
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.errors import UsageError
from soulsgui.gui.instance import Instance, socket_name

SECOND = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from soulsgui.config.paths import Folders
from soulsgui.gui.instance import Instance

app = QCoreApplication([])
second = Instance(Folders(Path("c"), Path(sys.argv[1])))
assert not second.claim()
sys.exit(0 if second.raise_first() else 1)
"""


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "c", tmp_path / "d")


def start_second(folders: Folders) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", SECOND, str(folders.data)])


def test_a_second_start_raises_the_first_window_and_ends(qtbot: QtBot, folders: Folders) -> None:
    first = Instance(folders)
    assert first.claim()
    with qtbot.waitSignal(first.raise_wanted, timeout=10_000):
        second = start_second(folders)
    assert second.wait(10) == 0
    first.release()


OPENING = SECOND.replace("raise_first()", "raise_first(sys.argv[2])")


def test_a_second_start_hands_its_invitation_over(qtbot: QtBot, folders: Folders) -> None:
    first = Instance(folders)
    assert first.claim()
    path = str(folders.data / "grüße mine.soulsgui")
    with qtbot.waitSignals([first.raise_wanted, first.open_wanted], timeout=10_000):
        handed: list[str] = []
        first.open_wanted.connect(handed.append)
        second = subprocess.Popen([sys.executable, "-c", OPENING, str(folders.data), path])
    assert second.wait(10) == 0
    assert handed == [path]
    first.release()


def raised_once(qtbot: QtBot, folders: Folders) -> "weakref.ref[Instance]":
    """The right to a folder, held through a second start and then given up."""
    first = Instance(folders)
    assert first.claim()
    with qtbot.waitSignal(first.raise_wanted, timeout=10_000):
        second = start_second(folders)
    assert second.wait(10) == 0
    qtbot.waitUntil(lambda: not first.findChildren(QLocalSocket))
    first.release()
    return weakref.ref(first)


def test_a_second_start_leaves_nothing_behind(qtbot: QtBot, folders: Folders) -> None:
    held = raised_once(qtbot, folders)
    gc.collect()
    assert held() is None


def test_a_window_that_does_not_answer_is_told_apart(qapp: QApplication, folders: Folders) -> None:
    first = Instance(folders)
    assert first.claim()
    # Nothing turns its event loop.
    assert start_second(folders).wait(15) == 1
    first.release()


def test_every_data_folder_has_a_window_of_its_own(qapp: QApplication, tmp_path: Path) -> None:
    first, second = (Instance(Folders(tmp_path / "c", tmp_path / name)) for name in ("a", "b"))
    assert first.claim()
    assert second.claim()
    assert socket_name(first.folder) != socket_name(second.folder)
    first.release()
    second.release()


def test_a_crash_is_told_once_with_what_was_written_last(qapp: QApplication, folders: Folders) -> None:
    first = Instance(folders)
    assert first.claim()
    assert not first.crashed
    (first.folder / "window.log").write_text("one\nthe last line\n")
    # A crash: the lock and the socket go with the process, the mark stays.
    first._lock.release()
    first._server.close()

    second = Instance(folders)
    assert second.claim()
    assert second.crashed
    assert "the last line" in second.crash_report
    second.release()

    third = Instance(folders)
    assert third.claim()
    assert not third.crashed
    third.release()


def test_a_folder_that_can_not_be_written_is_named_with_the_remedy(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as told:
        Instance(Folders(tmp_path / "c", tmp_path / "file" / "d"))
    assert str(tmp_path / "file" / "d" / "window") in told.value.message
    assert "--data-dir DIR" in told.value.remedy
