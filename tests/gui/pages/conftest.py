"""Pages stand in a played window (`shell`), before a real runner (`feed`) or a played one (`fake`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from soulsgui.config.paths import Folders
from soulsgui.gui.feed import Feed
from soulsgui.gui.theme import Theme
from tests.end_to_end.server import RunningServer
from tests.gui.fake_feed import FakeFeed, FakeShell
from tests.gui.shell.driving import connected_feed, qt_asyncio


@pytest.fixture
def shell(qapp: QApplication, theme: Theme, tmp_path: Path) -> FakeShell:
    """The window around a page."""
    return FakeShell(tmp_path)


@pytest.fixture
def fake(qapp: QApplication) -> FakeFeed:
    """A feed that the test plays."""
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
