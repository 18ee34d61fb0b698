"""The window as a user meets it: a real screen, mouse and keys, a real server, real crashes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from soulsgui.gui.colours import LIGHT
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.theme import ThemeChoice
from soulsgui.wire.api_client import CONTROL_FILE, ApiClient
from soulsgui.wire.control import ControlFile, Status
from tests.end_to_end.screen import MISSING, Screen
from tests.end_to_end.server import command_line, processes_below, soulsgui, wait_for
from tests.faults.waiting import LIMIT_S
from tests.gui.shell.conftest import folders_below


class User:
    """Somebody at a computer with SoulsGUI."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folders = folders_below(folder)
        self.screen = Screen(folder)
        self.window: subprocess.Popen[bytes] | None = None
        self.folders.config.mkdir(parents=True)
        preferences = Preferences(self.folders)
        preferences.theme = ThemeChoice.LIGHT
        preferences.settings.sync()

    def open(self) -> None:
        words = command_line("gui", folder=self.folder)
        with (self.folder / "window.out").open("ab") as output:
            self.window = subprocess.Popen(words, env=self.screen.env, stdout=output, stderr=output)
        self.meet("SoulsGUI")

    def meet(self, title: str) -> None:
        wait_for(lambda: self.screen.windows(title), f"the window {title}")
        self.screen.focus(title)

    def kill_window(self) -> None:
        assert self.window is not None
        self.window.kill()
        self.window.wait(LIMIT_S)

    def answer_close(self, key: str) -> None:
        self.screen.press("ctrl+q")
        self.meet("Close SoulsGUI")
        self.screen.press(key)
        assert self.window is not None
        assert self.window.wait(LIMIT_S) == 0

    @property
    def said(self) -> str:
        return (self.folder / "window.out").read_text()

    def status(self) -> Status:
        return Status.model_validate(ApiClient(ControlFile.load(self.folders.server / CONTROL_FILE)).status())

    def wait_updates(self, more: int) -> None:
        start = self.status().run.updates
        wait_for(lambda: self.status().run.updates >= start + more, f"{more} updates")

    def close(self) -> None:
        if self.window is not None and self.window.poll() is None:
            self.kill_window()
        if (self.folders.server / CONTROL_FILE).exists():
            soulsgui("shutdown", folder=self.folder)
        self.screen.close()


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    made = User(tmp_path)
    yield made
    made.close()


@pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)} on this machine")
def test_a_walk_with_mouse_and_keys(user: User) -> None:
    screen = user.screen
    user.open()

    # One click on the first tile; what is seen then stands in test_first_minutes.py.
    wait_for(lambda: (user.folders.server / CONTROL_FILE).exists(), "the runner")
    screen.click(*screen.settled_button(LIGHT.accent, LIMIT_S))

    # Meanwhile a second start raises the first and ends.
    again = subprocess.run(
        command_line("gui", folder=user.folder), env=screen.env, timeout=LIMIT_S, check=False
    )
    assert again.returncode == 0
    assert len(screen.windows("SoulsGUI")) == 1

    wait_for(lambda: user.status().run.name == "Try it", "the run begins")

    # Another run by keys alone; the dialog stops the first one.
    screen.press("alt+n")
    user.meet("New run")
    # Behind the dialog a run that is solved meanwhile offers what comes next, in the same colour.
    screen.settled_button(LIGHT.accent, LIMIT_S, "New run")
    screen.write("walk")
    screen.press("Return")
    wait_for(lambda: user.status().run.name == "walk", "the second run begins")
    user.wait_updates(2)

    # Quicksave by keys.
    wait_for(lambda: not screen.windows("New run"), "the dialog is closed")
    wait_for(lambda: screen.windows("walk, running"), "the window knows")
    screen.focus("SoulsGUI")
    screen.press("ctrl+shift+s")
    run = Path(user.status().run.dir)
    wait_for(lambda: list((run / "manual_save").glob("*/manifest.json")), "the checkpoint")

    # The window crashes; training does not care; the next window shows the same run.
    user.kill_window()
    user.wait_updates(2)
    user.open()
    wait_for(lambda: screen.windows("walk, running"), "the same run is shown")
    assert "Traceback" not in user.said

    # Closing asks; Enter keeps training.
    user.answer_close("Return")
    assert "Training continues" in user.said
    user.wait_updates(1)

    # Opened again, closing with Stop ends the run, and the runner that a window started.
    user.open()
    wait_for(lambda: screen.windows("walk, running"), "the run is shown again")
    user.answer_close("alt+s")
    wait_for(lambda: not processes_below(user.folder / "data"), "nothing is left")
    assert not (user.folders.server / CONTROL_FILE).exists()
    assert '"state": "stopped"' in (run / "run.json").read_text().replace('":"', '": "')


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a screen")
def test_without_a_screen_it_says_so_and_offers_the_server(tmp_path: Path) -> None:
    env = {
        name: value
        for name, value in psutil.Process().environ().items()
        if name not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    }
    done = subprocess.run(
        command_line(folder=tmp_path), env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 1
    assert "no screen" in done.stderr
    assert "soulsgui serve" in done.stderr
    assert not (tmp_path / "data").exists()
