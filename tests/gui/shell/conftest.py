"""asyncio and folders for the tests of the window."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from soulsgui.config.paths import Folders
from soulsgui.gui.theme import Theme
from tests.gui.shell.driving import qt_asyncio


def folders_below(folder: Path) -> Folders:
    """The folders that `RunningServer` uses below a folder."""
    return Folders(folder / "config", folder / "data")


@pytest.fixture
def qt_loop(qapp: QApplication, theme: Theme) -> Iterator[asyncio.AbstractEventLoop]:
    """asyncio runs while qtbot waits."""
    with qt_asyncio(qapp) as loop:
        yield loop
