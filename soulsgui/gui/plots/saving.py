"""What the page of plots shows, saved as a file or copied."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from soulsgui.gui.plotting.export import as_svg
from soulsgui.gui.shell import Shell, write_file
from soulsgui.gui.widgets.dialog import ask_where_to_save

_SUFFIXES = {"csv": "Tables (*.csv)", "png": "Pictures (*.png)", "svg": "Drawings (*.svg)"}


class Saving:
    """Saves and copies a widget with plots, and the values in view."""

    def __init__(self, shell: Shell, drawn: QWidget, values: Callable[[], str]) -> None:
        self._shell, self._drawn, self._values = shell, drawn, values

    def save(self, what: str) -> None:
        """Save or copy what has this name in the menu."""
        if what == "copy_values":
            QGuiApplication.clipboard().setText(self._values())
        elif what == "copy_picture":
            QGuiApplication.clipboard().setPixmap(self._drawn.grab())
        else:
            ask_where_to_save("Save", f"plots.{what}", _SUFFIXES[what], self.save_to, self._drawn)

    def save_to(self, path: str) -> None:
        """Write what is in view into a file, as its suffix says: `.csv`, `.png` or `.svg`."""
        write_file(self._shell, path, self._write)

    def _write(self, path: Path) -> None:
        if path.suffix == ".csv":
            path.write_text(self._values(), encoding="utf-8")
        elif path.suffix == ".svg":
            path.write_bytes(as_svg(self._drawn, "SoulsGUI"))
        elif not self._drawn.grab().save(str(path)):
            raise OSError(f"it can't be written as a picture: choose {', '.join(_SUFFIXES)}")
