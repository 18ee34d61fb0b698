"""What the page of plots shows, saved as a file or copied."""

from functools import partial
from pathlib import Path

from PySide6.QtCore import QBuffer, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from soulsgui.gui.plots.grid import PlotGrid
from soulsgui.gui.plotting.export import as_pixmap, as_svg
from soulsgui.gui.plotting.rows import axis_title
from soulsgui.gui.plotting.swatch import Swatch
from soulsgui.gui.shell import Shell, write_file
from soulsgui.gui.theme import GAP_L, GAP_S
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, flow, row
from soulsgui.gui.widgets.dialog import ask_where_to_save
from soulsgui.gui.widgets.labels import Label, elided

_SUFFIXES = {"csv": "Tables (*.csv)", "png": "Pictures (*.png)", "svg": "Drawings (*.svg)"}


class Saving:
    """Saves and copies the plots, and the values in view.

    A picture says below the plots what x is and which curve is whose, which the page says beside them.
    """

    def __init__(self, shell: Shell, grid: PlotGrid) -> None:
        self._shell, self._grid = shell, grid

    def save(self, what: str) -> None:
        """Save or copy what has this name in the menu."""
        if what == "copy_values":
            # Spreadsheets put what is between tabs into cells of their own.
            QGuiApplication.clipboard().setText(self._grid.values_in_view("\t"))
            self._shell.notify("info", "Values in view copied")
        elif what == "copy_picture":
            QGuiApplication.clipboard().setPixmap(as_pixmap(self._grid.drawn, self._below()))
            self._shell.notify("info", "Picture copied")
        else:
            ask_where_to_save("Save", f"plots.{what}", _SUFFIXES[what], self.save_to, self._grid)

    def save_to(self, path: str) -> None:
        """Write what is in view into a file, as its suffix says: `.csv`, `.png` or `.svg`."""
        write_file(self._shell, path, partial(self._content, Path(path).suffix.lower()))

    def _content(self, suffix: str) -> bytes:
        if suffix == ".csv":
            return self._grid.values_in_view().encode()
        if suffix == ".svg":
            return as_svg("SoulsGUI", self._grid.drawn, self._below())
        written = QBuffer()
        picture = as_pixmap(self._grid.drawn, self._below())
        if not picture.save(written, suffix.removeprefix(".")):
            raise OSError(f"it can't be written as a picture: choose {', '.join(_SUFFIXES)}")
        return bytes(written.data().data())

    def _below(self) -> QWidget:
        """Return what stands below the plots of a picture, as wide as they are."""
        below = QWidget(self._grid)
        x_title = Label(axis_title(self._grid.axis), below)
        x_title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        names = []
        for name, colour in self._grid.named:
            one = QWidget(below)
            row(Swatch(colour, one), elided(name, one), on=one, margins=NO_MARGINS, gap_px=GAP_S)
            names.append(one)
        column(x_title, flow(*names, gap_px=GAP_L), on=below, margins=(GAP_S, GAP_S, GAP_S, GAP_S))
        width = self._grid.drawn.width()
        below.resize(width, below.heightForWidth(width))
        # It is painted at once, and never shown.
        below.deleteLater()
        return below
