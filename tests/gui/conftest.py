"""Every test of the window runs off screen and leaves nothing behind: no widget, timer, thread or warning."""

import gc
import logging
import os
import threading
from collections.abc import Iterator

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication

from soulsgui.gui.theme import Theme, ThemeChoice


@pytest.fixture(scope="session")
def theme(qapp: QApplication) -> Theme:
    return Theme(qapp, ThemeChoice.LIGHT)


@pytest.fixture
def both_themes(theme: Theme) -> Iterator[Theme]:
    """The theme, to be changed at will; light again afterwards."""
    yield theme
    theme.choose(ThemeChoice.LIGHT)
    theme.set_font_scale(100)


@pytest.fixture(autouse=True)
def _leaves_nothing(qapp: QApplication, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    threads = set(threading.enumerate())
    widgets = set(map(id, qapp.topLevelWidgets()))
    yield
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    gc.collect()
    new = [widget for widget in qapp.topLevelWidgets() if id(widget) not in widgets]
    visible = [widget for widget in new if widget.isVisible()]
    assert not visible, f"windows left open: {visible}"
    assert not set(threading.enumerate()) - threads, "threads left running"
    timers = [timer for root in new for timer in _running_timers(root)]
    assert not timers, f"timers left running: {timers}"
    warnings = [
        record.getMessage()
        for phase in ("setup", "call")
        for record in caplog.get_records(phase)
        if record.levelno >= logging.WARNING and not getattr(record, "expected", False)
    ]
    assert not warnings, f"unexpected log lines: {warnings}"


def _running_timers(root: QObject) -> list[QTimer]:
    return [timer for timer in root.findChildren(QTimer) if timer.isActive()]
