"""Splitters and columns as the user left them, under their object names in the window's settings."""

from PySide6.QtCore import QByteArray, QSettings
from PySide6.QtWidgets import QSplitter

from soulsgui.gui.widgets.table import Table


class Memory:
    """Keeps the arrangement of a page.

    Args:
        settings: The window's own preferences.
        page: Name of the page.
    """

    def __init__(self, settings: QSettings, page: str) -> None:
        self._settings = settings
        self._page = page

    def restore(self, *parts: QSplitter | Table) -> None:
        """Arrange these parts as they were kept; what was never kept stays as it is."""
        for part in parts:
            state = self._settings.value(self._key(part))
            if not isinstance(state, QByteArray):
                continue
            if isinstance(part, QSplitter):
                part.restoreState(state)
            else:
                line = str(self._settings.value(f"{self._key(part)}Line"))
                part.restore_columns(state, int(line) if line.isdecimal() else 0)

    def keep(self, *parts: QSplitter | Table) -> None:
        """Keep the arrangement of these parts."""
        for part in parts:
            state = part.saveState() if isinstance(part, QSplitter) else part.save_columns()
            self._settings.setValue(self._key(part), state)
            if isinstance(part, Table):
                self._settings.setValue(f"{self._key(part)}Line", part.line_px)

    def _key(self, part: QSplitter | Table) -> str:
        return f"{self._page}/{part.objectName()}"
