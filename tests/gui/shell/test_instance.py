import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalSocket
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.errors import UsageError
from soulsgui.gui.shell.instance import SingleInstance, socket_name
from tests.faults.waiting import LIMIT_S

SECOND = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from soulsgui.config.paths import Folders
from soulsgui.gui.shell.instance import SingleInstance

app = QCoreApplication([])
second = SingleInstance(Folders(Path("c"), Path(sys.argv[1])))
assert not second.claim()
second.first_raised.connect(lambda: app.exit(0))
second.claimed.connect(lambda: app.exit(2))
second.raise_first()
sys.exit(app.exec())
"""


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "c", tmp_path / "d")


@pytest.fixture
def first(qapp: QApplication, folders: Folders) -> Iterator[SingleInstance]:
    """The window there is."""
    made = SingleInstance(folders)
    assert made.claim()
    yield made
    made.release()


def start_second(folders: Folders) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", SECOND, str(folders.data)])


OPENING = SECOND.replace("raise_first()", "raise_first(sys.argv[2])")


def test_a_second_start_hands_its_invitation_over(
    qtbot: QtBot, first: SingleInstance, folders: Folders
) -> None:
    path = str(folders.data / "grüße mine.soulsgui")
    with qtbot.waitSignals([first.raise_wanted, first.open_wanted]):
        handed: list[str] = []
        first.open_wanted.connect(handed.append)
        second = subprocess.Popen([sys.executable, "-c", OPENING, str(folders.data), path])
    assert second.wait(LIMIT_S) == 0
    assert handed == [path]


def raised_once(qtbot: QtBot, folders: Folders) -> "weakref.ref[SingleInstance]":
    """The right to a folder, held through a second start and then given up."""
    first = SingleInstance(folders)
    assert first.claim()
    with qtbot.waitSignal(first.raise_wanted):
        second = start_second(folders)
    assert second.wait(LIMIT_S) == 0
    qtbot.waitUntil(lambda: not first.findChildren(QLocalSocket))
    first.release()
    return weakref.ref(first)


def test_a_second_start_raises_the_first_window_and_leaves_nothing_behind(
    qtbot: QtBot, folders: Folders
) -> None:
    held = raised_once(qtbot, folders)
    gc.collect()
    assert held() is None


# Says on the screen's behalf what stands there, and stops waiting when the test says so.
BUSY = """
import sys
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMessageBox
from soulsgui.config.paths import Folders
from soulsgui.errors import SoulsGuiError
from soulsgui.gui import app
from soulsgui.gui.shell.instance import SingleInstance

class Watched(SingleInstance):
    def raise_first(self, opened=""):
        self.timer = QTimer(self, interval=50)
        self.timer.timeout.connect(self.look)
        self.timer.start()
        super().raise_first(opened)

    def look(self):
        for box in QApplication.topLevelWidgets():
            if isinstance(box, QMessageBox) and box.isVisible():
                self.timer.stop()
                print(box.text(), flush=True)
                if sys.argv[2] == "stop":
                    box.buttons()[0].click()

app.SingleInstance = Watched
app._live = lambda *_: 7
app._PATIENCE_MS = 100
try:
    code = app.run_window(Folders(Path("c"), Path(sys.argv[1])))
except SoulsGuiError as error:
    print(error.message, flush=True)
    code = 1
sys.exit(code)
"""


def start_while_busy(folders: Folders, then: str) -> "subprocess.Popen[str]":
    """A second start, once it has said on the screen that the first window is busy."""
    words = [sys.executable, "-c", BUSY, str(folders.data), then]
    env = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    second = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)
    assert second.stdout is not None
    # Nothing turns the first one's event loop meanwhile.
    assert second.stdout.readline() == "SoulsGUI is open already, but busy at the moment.\n"
    return second


def test_a_second_start_says_on_the_screen_that_the_window_is_busy_and_can_be_given_up(
    first: SingleInstance, folders: Folders
) -> None:
    second = start_while_busy(folders, "stop")
    assert "does not answer" in second.communicate()[0]
    assert second.returncode == 1


def test_a_window_that_was_busy_is_raised_as_soon_as_it_answers(
    qtbot: QtBot, first: SingleInstance, folders: Folders
) -> None:
    second = start_while_busy(folders, "wait")
    qtbot.waitUntil(lambda: second.poll() is not None)
    assert second.communicate() == ("", None)
    assert second.returncode == 0


def test_who_waits_for_a_window_that_ends_becomes_the_window(
    qtbot: QtBot, first: SingleInstance, folders: Folders
) -> None:
    second = start_while_busy(folders, "wait")
    first.release()
    assert second.wait(LIMIT_S) == 7
    second.communicate()


def test_every_data_folder_has_a_window_of_its_own(qapp: QApplication, tmp_path: Path) -> None:
    first, second = (SingleInstance(Folders(tmp_path / "c", tmp_path / name)) for name in ("a", "b"))
    assert first.claim()
    assert second.claim()
    assert socket_name(first.folder) != socket_name(second.folder)
    first.release()
    second.release()


def test_a_crash_is_told_once_with_what_was_written_last(qapp: QApplication, folders: Folders) -> None:
    first = SingleInstance(folders)
    assert first.claim()
    assert not first.crashed
    (first.folder / "window.log").write_text("one\nthe last line\n")
    first.release()
    # A crash: the lock and the socket go with the process, the mark stays.
    (first.folder / "open").touch()

    second = SingleInstance(folders)
    assert second.claim()
    assert second.crashed
    assert "the last line" in second.crash_report
    second.release()

    third = SingleInstance(folders)
    assert third.claim()
    assert not third.crashed
    third.release()


def test_a_folder_that_can_not_be_written_is_named_with_the_remedy(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as told:
        SingleInstance(Folders(tmp_path / "c", tmp_path / "file" / "d"))
    assert str(tmp_path / "file" / "d" / "window") in told.value.message
    assert "--data-dir DIR" in told.value.remedy
