"""The window as a process: what starts it, what ends it, and what becomes of its runner."""

import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.cli.main import run
from soulsgui.cli.parser import parse
from soulsgui.cli.roles import without_screen
from soulsgui.gui.app import UncaughtErrors, WindowLog, status_command
from soulsgui.wire.api_client import CONTROL_FILE
from tests.end_to_end.server import RunningServer, command_line, processes_below, soulsgui, wait_for
from tests.faults.waiting import LIMIT_S
from tests.gui.shell.conftest import folders_below

ON_POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows ends a window by closing it")
OFFSCREEN = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
Window = subprocess.Popen[bytes]


@pytest.fixture
def windows(tmp_path: Path) -> Iterator[list[Window]]:
    """Windows that are killed at the end, with the runner they started."""
    opened: list[Window] = []
    yield opened
    for window in opened:
        window.kill()
        window.wait(LIMIT_S)
    if (folders_below(tmp_path).server / CONTROL_FILE).exists():
        soulsgui("shutdown", folder=tmp_path)


def open_window(folder: Path, *words: str) -> Window:
    with (folder / "window.out").open("ab") as output:
        return subprocess.Popen(
            command_line(*words, folder=folder), env=OFFSCREEN, stdout=output, stderr=subprocess.STDOUT
        )


def wait_connected(folder: Path) -> None:
    log = folder / "data" / "window" / "window.log"
    wait_for(
        lambda: log.exists() and "connected to the runner" in log.read_text(), "it is connected", LIMIT_S
    )


@ON_POSIX
@pytest.mark.parametrize("mode", ["server", "client"])
def test_a_window_ends_the_idle_runner_it_started(tmp_path: Path, windows: list[Window], mode: str) -> None:
    (tmp_path / "data" / "server").mkdir(parents=True)  # this computer was a server once
    windows.append(open_window(tmp_path, "--mode", mode))
    wait_connected(tmp_path)
    serving = [line for line in processes_below(tmp_path / "data") if " serve " in line]
    assert bool(serving) is (mode == "server")
    windows[0].send_signal(signal.SIGTERM)
    assert windows[0].wait(LIMIT_S) == 0
    wait_for(lambda: not processes_below(tmp_path / "data"), "nothing is left", LIMIT_S)
    assert not (tmp_path / "data" / "window" / "open").exists()
    assert "Traceback" not in (tmp_path / "window.out").read_text()


@ON_POSIX
def test_a_runner_of_somebody_else_survives_window_and_crash(tmp_path: Path, windows: list[Window]) -> None:
    server = RunningServer(tmp_path)
    try:
        windows.append(open_window(tmp_path))
        wait_connected(tmp_path)
        windows[0].kill()
        windows[0].wait(LIMIT_S)
        (tmp_path / "data" / "window" / "window.log").unlink()
        windows.append(open_window(tmp_path))
        wait_connected(tmp_path)
        windows[1].send_signal(signal.SIGINT)
        assert windows[1].wait(LIMIT_S) == 0
        assert server.process.poll() is None
        assert server.status().run.state == "none"
    finally:
        server.close()


# Processes of their own: what they are about belongs to the whole process.
AFTER_AN_ERROR = """
import faulthandler, sys
from contextlib import suppress
from pathlib import Path
from PySide6.QtWidgets import QApplication
from soulsgui.config.paths import Folders
from soulsgui.gui.app import _recorded
from soulsgui.gui.shell.instance import SingleInstance

app = QApplication([])
with suppress(RuntimeError), _recorded(SingleInstance(Folders(Path("c"), Path(sys.argv[1])))):
    assert faulthandler.is_enabled()
    raise RuntimeError
assert not faulthandler.is_enabled()
"""
AFTER_THE_LOOP = """
import sys
from pathlib import Path
from PySide6.QtWidgets import QApplication
from soulsgui.config.paths import Folders
from soulsgui.gui import app
from soulsgui.gui.shell.instance import SingleInstance

qapp = QApplication([])
folders = Folders(Path(sys.argv[1]) / "c", Path(sys.argv[1]) / "d")
app.loop.run = lambda *_: 7
assert app._live(qapp, folders, SingleInstance(folders), None) == 7
assert not [one for one in qapp.topLevelWidgets() if one.objectName() == "mainWindow"]
"""


BEFORE_A_WINDOW = """
import sys
from pathlib import Path
from PySide6.QtWidgets import QApplication
from soulsgui.config.paths import Folders
from soulsgui.gui import app

def look(name):
    assert QApplication.instance() is None
    sys.exit(name)

app.name_on_task_bar = look
app.run_window(Folders(Path("c"), Path(sys.argv[1])))
"""


def test_the_task_bar_is_told_a_name_before_there_is_a_window(tmp_path: Path) -> None:
    words = [sys.executable, "-c", BEFORE_A_WINDOW, str(tmp_path)]
    done = subprocess.run(words, env=OFFSCREEN, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.stderr == "SoulsGUI\n"


@pytest.mark.parametrize("script", [AFTER_AN_ERROR, AFTER_THE_LOOP], ids=["faults", "window"])
def test_nothing_of_the_window_outlives_it(tmp_path: Path, script: str) -> None:
    words = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(words, env=OFFSCREEN, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr


def test_an_error_of_any_thread_reaches_the_window(qapp: QApplication, qtbot: QtBot) -> None:
    errors = UncaughtErrors()
    told: list[tuple[str, threading.Thread]] = []
    errors.happened.connect(lambda words: told.append((words, threading.current_thread())))
    thread = threading.Thread(target=lambda: errors("it broke", ValueError("x")))
    thread.start()
    thread.join()
    qtbot.waitUntil(lambda: bool(told))
    assert told == [("it broke", threading.main_thread())]


def test_the_farewell_names_a_command_that_asks_this_server(tmp_path: Path) -> None:
    folders = folders_below(tmp_path)
    words = shlex.split(status_command(folders))
    assert words[-3:] == ["status", "--data-dir", str(folders.data)]
    words += ["--config-dir", str(folders.config)]
    env = os.environ | {"PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 3
    assert str(folders.data) in done.stderr


def test_a_full_disk_does_not_fill_the_terminal_with_the_windows_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = WindowLog(tmp_path / "window.log", encoding="utf-8")

    def full(_text: str) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(handler.stream, "write", full)
    handler.handle(logging.makeLogRecord({"msg": "one more"}))
    assert capsys.readouterr().err == ""
    monkeypatch.undo()
    handler.close()


def test_the_window_is_what_starts_when_no_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["gui"], ["--data-dir", "d"], ["gui", "--mode", "server"]):
        assert parse(words).handler == "soulsgui.cli.roles:gui"
    arguments = parse(["--config-dir", "c", "--mode", "client"])
    assert (arguments.mode, arguments.config_dir) == ("client", Path("c"))
    for words in (["--mode", "boss"], ["gui", "--idle"], ["nonsense"]):
        with pytest.raises(SystemExit) as ended:
            parse(words)
        assert ended.value.code == 2
        assert words[-1] in capsys.readouterr().err
    assert run(["gui", "--set", "seed=1"]) == 2
    assert "soulsgui config set" in capsys.readouterr().err


def test_without_a_screen_the_reason_is_named() -> None:
    assert "DISPLAY" in without_screen({}, "linux")
    for environment in ({"QT_QPA_PLATFORM": "offscreen"}, {"WAYLAND_DISPLAY": "wayland-0"}):
        assert not without_screen(environment, "linux")
    assert not without_screen({}, "win32")


@pytest.mark.skipif(not Path("/proc").exists(), reason="X11 is looked for on Linux only")
@pytest.mark.parametrize("display", [":987", "localhost:987.0", "nonsense"])
def test_a_screen_that_is_gone_is_noticed_before_qt_crashes(display: str) -> None:
    assert display in without_screen({"DISPLAY": display}, "linux")
