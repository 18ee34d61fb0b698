"""The first minutes of somebody new: from Welcome through every page to an agent that is watched.

The window has a process and a screen (Xvfb) of its own, mouse and keys are Qt's; what a newcomer must see is
looked at from inside. Pictures for README and manual are taken where a folder is named, in both themes:

    SOULSGUI_PICTURES=docs/images .venv/bin/python -m pytest tests/end_to_end/test_first_minutes.py
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from soulsgui.gui import app
from soulsgui.gui.clients.page import ClientsPage
from soulsgui.gui.config.page import ConfigPage
from soulsgui.gui.feed import Feed
from soulsgui.gui.logs.page import LogsPage
from soulsgui.gui.overview.page import OverviewPage
from soulsgui.gui.plots.page import PlotsPage
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.runs.page import RunsPage
from soulsgui.gui.shell.manual import ManualDialog
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.theme import ThemeChoice
from soulsgui.gui.watching.player import Player
from soulsgui.gui.welcome.page import WelcomePage
from tests.end_to_end.screen import MISSING, Screen
from tests.end_to_end.server import let_play, processes_below, soulsgui
from tests.faults.waiting import LIMIT_S
from tests.gui.plotting.curves import points_drawn
from tests.gui.reading import words_of
from tests.gui.shell.conftest import folders_below

PICTURES = os.environ.get("SOULSGUI_PICTURES", "")
ROOT = Path(__file__).parents[2]
_SETTLE_S = 1.5  # before a picture: until tooltips, fades and marks stand still
_UPDATES = 10  # until a curve has a shape
_SOLVED_LATER = "stop: {window: 100}"  # on pictures the run goes on
Part = TypeVar("Part", bound=QWidget)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The newcomer's folder; on pictures its path reads as a user's, not as a test's."""
    if not PICTURES:
        yield tmp_path
        return
    home = Path(tempfile.gettempdir(), "anna")
    home.symlink_to(tmp_path)
    try:
        yield home
    finally:
        home.unlink()


@pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)} on this machine")
@pytest.mark.parametrize("theme", ["light", "dark"] if PICTURES else ["light"])
def test_from_welcome_to_an_agent_that_is_watched(tmp_path: Path, home: Path, theme: str) -> None:
    folders = folders_below(home)
    folders.config.mkdir()
    if PICTURES:
        folders.overrides.write_text(_SOLVED_LATER, encoding="utf-8")
    preferences = Preferences(folders)
    preferences.theme = ThemeChoice(theme)
    preferences.settings.sync()
    screen = Screen(tmp_path)
    try:
        walk = subprocess.run(
            [sys.executable, "-m", __name__, str(home)],
            env=screen.env, cwd=ROOT, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False,
        )  # fmt: skip
    finally:
        soulsgui("shutdown", folder=home)  # of a run that is solved it has ended with the window
        screen.close()
    assert walk.returncode == 0, walk.stderr
    assert not processes_below(folders.data)


class Newcomer:
    """Somebody who sees the window for the first time."""

    def __init__(self, window: MainWindow, feed: Feed, theme: str) -> None:
        self._window, self._feed, self._theme = window, feed, theme

    async def sees(self, look: Callable[[], Any], what: str) -> Any:
        """Wait for something to be seen, and return it."""
        deadline = time.monotonic() + LIMIT_S
        while not (seen := look()):
            assert time.monotonic() < deadline, f"never seen: {what}"
            await asyncio.sleep(0.05)
        return seen

    async def page(self, kind: type[Part]) -> Part:
        """Wait until a page is in front."""
        pages = self._window.pages
        found: Part = await self.sees(lambda: isinstance(pages.front, kind) and pages.front, kind.__name__)
        return found

    def click(self, widget: QWidget) -> None:
        """Click on it with the mouse, which nothing that lies above it may take."""
        middle = widget.rect().center()
        hit = QApplication.widgetAt(widget.mapToGlobal(middle))
        assert hit is widget, f"{hit} is where {widget} should be"
        assert widget.isEnabled(), widget
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton, pos=middle)

    async def press(self, keys: str, dialog: QWidget | None = None) -> None:
        """Press keys in the window, or in a dialog, which gets the keyboard as from a window manager."""
        front = dialog or self._window
        front.activateWindow()
        await self.sees(front.isActiveWindow, f"the keyboard is at {front}")
        QTest.keySequence(front.focusWidget() or front, QKeySequence(keys))

    async def picture(self, name: str, of: QWidget | None = None) -> None:
        if PICTURES:
            await asyncio.sleep(_SETTLE_S)
            path = ROOT / PICTURES / f"{name}_{self._theme}.png"
            assert "pytest" not in words_of(of or self._window), "a path of this test is in the picture"
            assert (of or self._window).grab().save(str(path)), f"{path} can't be written"

    async def begin(self) -> OverviewPage:
        """Find out on Welcome what this is, and try it."""
        welcome = await self.page(WelcomePage)
        await self.sees(welcome.try_it.isEnabled, "it can be tried")
        said = words_of(welcome)
        for words in ("Welcome to SoulsGUI", "Try it (CartPole)", "Help a server", "Connect to my server"):
            assert words in said
        assert self._window.banner.isHidden(), "nothing is wrong"
        await self.picture("welcome")
        self.click(welcome.try_it)
        return await self.page(OverviewPage)

    async def follow(self, overview: OverviewPage) -> None:
        """See that it learns: services, players, figures, the curve and the log."""
        await self.sees(lambda: "2 of 2 connected" in words_of(overview), "two players")
        plot = await self.sees(lambda: overview.plot.host.plot, "the plot")
        await self.sees(lambda: points_drawn(plot) > 5, "the curve moves")
        said = words_of(overview)
        for words in ("Trainer", "Mean return", "Steps/s"):
            assert words in said, said
        assert overview.log.newest.text()
        updates = _UPDATES if PICTURES else 1
        await self.sees(lambda: self._feed.status.run.updates >= updates, "updates")
        await self.picture("overview")

    async def watch(self, overview: OverviewPage) -> None:
        """Watch it play, which is offered of a run that goes on and of one that is solved; rest, and step."""
        self.click(next(one for one in (overview.watch, self._window.end_strip.watch) if one.isVisible()))
        player: Player = await self.sees(lambda: self._window.findChild(Player), "the player")
        (pane,) = player.panes

        def plays() -> bool:
            if pane.empty.button.isVisible():  # its run was solved just then: tried again, as it offers
                self.click(pane.empty.button)
            assert self._feed.hello is not None
            return let_play(self._feed.hello.pid) and pane.recording.place > 20

        await self.sees(plays, "it plays")
        assert not pane.picture.image.isNull()
        assert pane.heading.text() == "Probabilities"
        assert float(pane.facts["Return so far"].text()) > 0
        await self.picture("watching", player)
        self.click(player.play)
        assert player.play.text() == "Play"
        await self.sees(player.forward.isEnabled, "the next picture has come")
        rests = pane.recording.place
        self.click(player.forward)
        assert pane.recording.place == rests + 1
        await self.press("Esc", player)
        await self.sees(lambda: self._window.findChild(Player) is None, "the player is closed")

    async def look_around(self) -> None:
        """Go to every page by its key, and back to the first; each tells of the run."""
        run = self._feed.status.run.id
        for number, kind in enumerate(PAGES, start=2):
            await self.press(f"Ctrl+{number}")
            page: Any = await self.page(kind)
            await self.sees(
                lambda kind=kind, page=page: PAGES[kind](page, run), f"{kind.__name__} tells of it"
            )
            await self.picture(page.objectName().removesuffix("Page"))
        await self.press("F1")
        manual = await self.sees(lambda: self._window.findChild(ManualDialog), "the manual")
        assert manual.windowTitle() == "Manual: The window"
        await self.press("Esc", manual)
        await self.press("Ctrl+1")
        await self.page(OverviewPage)

    async def leave(self) -> None:
        """Quit: of a run that goes on it is asked, and it may go on."""
        await self.press("Ctrl+Q")
        if (dialog := self._window.closer.dialog) is not None:
            assert "A run is active" in words_of(dialog)
            self.click(dialog.keep)


# After the overview, in the order of their keys.
PAGES: dict[type[Any], Callable[[Any, str], object]] = {
    ClientsPage: lambda page, _: page.roster.model.rowCount() == 2,
    PlotsPage: lambda page, _: page.grid.cells and all(cell.curves for cell in page.grid.cells.values()),
    RunsPage: lambda page, run: page.chosen is not None and page.chosen.id == run,
    ConfigPage: lambda page, _: page.views.filled,
    LogsPage: lambda page, _: "trainer" in page.pane.text,
}


async def live(newcomer: Newcomer) -> None:
    """Do all of it; an error ends the program, whatever is open."""
    try:
        overview = await newcomer.begin()
        await newcomer.follow(overview)
        await newcomer.look_around()
        await newcomer.watch(overview)
        await newcomer.leave()
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main(folder: Path) -> int:
    folders = folders_below(folder)

    class Visited(MainWindow):
        def __init__(self, feed: Feed, *more: Any) -> None:
            super().__init__(feed, *more)
            newcomer = Newcomer(self, feed, Preferences(folders).theme)
            self.first_shown.connect(lambda: asyncio.ensure_future(live(newcomer)))

    app.MainWindow = Visited  # type: ignore[misc]
    return app.run_window(folders)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
