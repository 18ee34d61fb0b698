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
second.raise_first(sys.argv[2])
sys.exit(app.exec())
"""


def claimed(folders: Folders) -> SingleInstance:
    made = SingleInstance(folders)
    assert made.claim()
    return made


@pytest.fixture
def first(qapp: QApplication, folders: Folders) -> Iterator[SingleInstance]:
    made = claimed(folders)
    yield made
    made.release()


def raised_once(qtbot: QtBot, folders: Folders, opens: str) -> "weakref.ref[SingleInstance]":
    """The right to a folder, held through a second start that may open something, and then given up."""
    first = claimed(folders)
    opened: list[str] = []
    first.open_wanted.connect(opened.append)
    with qtbot.waitSignal(first.raise_wanted):
        second = subprocess.Popen([sys.executable, "-c", SECOND, str(folders.data), opens])
    assert second.wait(LIMIT_S) == 0
    assert opened == ([opens] if opens else [])
    qtbot.waitUntil(lambda: not first.findChildren(QLocalSocket))
    first.release()
    return weakref.ref(first)


@pytest.mark.parametrize("opens", ["", "grüße mine.soulsgui"])
def test_a_second_start_raises_the_window_and_hands_over(qtbot: QtBot, folders: Folders, opens: str) -> None:
    held = raised_once(qtbot, folders, opens)
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
app._SHOW_AFTER_MS = 100
try:
    code = app.run_window(Folders(Path("c"), Path(sys.argv[1])))
except SoulsGuiError as error:
    print(error.message, flush=True)
    code = 1
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("then", "code", "words"), [("stop", 1, "does not answer"), ("answers", 0, ""), ("ends", 7, "")]
)
def test_a_second_start_says_that_the_window_is_busy_and_is_given_up_answered_or_becomes_the_window(
    qtbot: QtBot, first: SingleInstance, folders: Folders, then: str, code: int, words: str
) -> None:
    second = subprocess.Popen(
        [sys.executable, "-c", BUSY, str(folders.data), then],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )
    assert second.stdout is not None
    # Nothing turns the first one's event loop meanwhile.
    assert second.stdout.readline() == "SoulsGUI is open already, but busy at the moment.\n"
    if then == "answers":
        qtbot.waitUntil(lambda: second.poll() is not None)
    elif then == "ends":
        first.release()
    said = second.communicate()[0]
    assert second.returncode == code
    assert words in said
    assert bool(words) == bool(said)


def test_every_data_folder_has_a_window_of_its_own(qapp: QApplication, tmp_path: Path) -> None:
    first, second = (claimed(Folders(tmp_path / "c", tmp_path / name)) for name in ("a", "b"))
    assert socket_name(first.folder) != socket_name(second.folder)
    first.release()
    second.release()


def test_a_crash_is_told_once_with_what_was_written_last(qapp: QApplication, folders: Folders) -> None:
    first = claimed(folders)
    assert not first.crashed
    (first.folder / "window.log").write_text("one\nthe last line\n")
    first.release()
    # A crash: the lock and the socket go with the process, the mark stays.
    (first.folder / "open").touch()
    for crashed in (True, False):
        later = claimed(folders)
        assert later.crashed is crashed
        assert ("the last line" in later.crash_report) is crashed
        later.release()


def test_a_folder_that_can_not_be_written_is_named_with_the_remedy(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as told:
        SingleInstance(Folders(tmp_path / "c", tmp_path / "file" / "d"))
    assert str(tmp_path / "file" / "d" / "window") in told.value.message
    assert "--data-dir DIR" in told.value.remedy
