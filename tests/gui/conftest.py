"""Every test of the window runs off screen and leaves no window and no timer behind."""

import gc
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication, QComboBox, QWidget

from soulsgui.config.paths import Folders
from soulsgui.gui.feed import Feed
from soulsgui.gui.theme import Theme, ThemeChoice
from tests.end_to_end.server import RunningServer
from tests.faults.waiting import LIMIT_S
from tests.gui.fake_feed import FakeFeed, FakeShell
from tests.gui.shell.driving import connected_feed, qt_asyncio


@pytest.fixture(scope="session")
def theme(qapp: QApplication) -> Theme:
    return Theme(qapp, ThemeChoice.LIGHT)


@pytest.fixture
def qtbot(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> QtBot:
    """It waits as long as all tests do, where a test does not say otherwise."""
    for name in ("waitUntil", "waitSignal", "waitSignals", "waitExposed", "waitActive"):
        monkeypatch.setattr(qtbot, name, partial(getattr(qtbot, name), timeout=round(1000 * LIMIT_S)))
    return qtbot


@pytest.fixture
def both_themes(theme: Theme) -> Iterator[Theme]:
    """The theme, to be changed at will; light again afterwards."""
    yield theme
    theme.choose(ThemeChoice.LIGHT)
    theme.set_font_scale(100)


@pytest.fixture(autouse=True, scope="module")
def _garbage_of_this_thread() -> Iterator[None]:
    """As in the window (`soulsgui.gui.loop`): Qt objects die in this thread, not in another one."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()  # what is left stays: the next module looks at its own alone
    gc.enable()


@pytest.fixture(autouse=True)
def _leaves_no_widgets(request: pytest.FixtureRequest) -> Iterator[None]:
    if "qapp" not in request.fixturenames:
        yield
        return
    app: QApplication = request.getfixturevalue("qapp")
    # The widgets themselves: the number of one that is gone is soon another one's.
    before = set(app.topLevelWidgets())
    yield
    app.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    if found := _left(app, before):
        # Python may not have noticed yet that nobody holds them; looking takes long in a large process.
        gc.collect()
        found = _left(app, before)
    if found:
        pytest.fail("the test left behind:\n" + "\n".join(found), pytrace=False)


def _left(app: QApplication, before: set[QWidget]) -> list[str]:
    # The list of a box, which Qt makes late, goes with the box.
    ours = [widget for widget in app.topLevelWidgets() if not isinstance(widget.parent(), QComboBox)]
    new = [widget for widget in ours if widget not in before]
    found = [f"{'open' if widget.isVisible() else 'hidden'} window {widget}" for widget in new]
    return found + [f"running timer of {timer.parent()}" for root in new for timer in _running_timers(root)]


def _running_timers(root: QObject) -> list[QTimer]:
    return [timer for timer in root.findChildren(QTimer) if timer.isActive()]


@pytest.fixture
def shell(qapp: QApplication, theme: Theme, tmp_path: Path) -> FakeShell:
    """The window around a page."""
    return FakeShell(tmp_path)


@pytest.fixture
def fake(qapp: QApplication) -> FakeFeed:
    return FakeFeed()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A runner without a run, for all tests of a file."""
    running = RunningServer(tmp_path_factory.mktemp("server"))
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def feed(qapp: QApplication, theme: Theme, server: RunningServer) -> Iterator[Feed]:
    """A feed that is connected to the runner; it lives while the test lets Qt's event loop run."""
    folders = Folders(server.folder / "config", server.folder / "data")
    with qt_asyncio(qapp), connected_feed(qapp, folders) as connected:
        yield connected
