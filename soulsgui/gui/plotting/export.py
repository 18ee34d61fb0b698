"""What is in view of curves as a table, and a widget as a picture."""

import csv
import io
from collections.abc import Iterable
from datetime import UTC, datetime

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPoint
from PySide6.QtGui import QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from soulsgui.gui.plotting.rows import UNKNOWN
from soulsgui.gui.plotting.series import Series

_COLUMNS = (
    "run",
    "metric",
    "client",
    "attempt",
    "episode",
    "env_steps",
    "update",
    "time",
    "value",
    "smoothed",
    "low",
    "high",
    "rows",
    "overwritten",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(curves: Iterable[Series], left: float, right: float) -> str:
    """Return the rows of curves between two positions of x, as drawn: of long runs means of several."""
    told = io.StringIO()
    table = csv.writer(told, lineterminator="\n")
    table.writerow(_COLUMNS)
    for series in curves:
        names = [_no_formula(name) for name in (series.run_id, series.metric, series.client)]
        for attempt, one, overwritten in series.readings(left, right):
            moment = datetime.fromtimestamp(one.time, UTC).isoformat(timespec="milliseconds")
            update = "" if one.update == UNKNOWN else one.update
            place = attempt, one.episode, one.env_steps, update, moment
            values = one.value, one.smooth, one.low, one.high, one.count, int(overwritten)
            table.writerow([*names, *place, *values])
    return told.getvalue()


def _no_formula(name: str) -> str:
    """Return a name, which a stranger may have given, as a text that no spreadsheet executes."""
    return f"'{name}" if name.startswith(_FORMULA) else name


def as_svg(widget: QWidget, title: str) -> bytes:
    """Return a widget as a drawing that can be enlarged."""
    drawing = QByteArray()
    target = QBuffer(drawing)
    target.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(target)
    generator.setSize(widget.size())
    generator.setViewBox(widget.rect())
    # Else it takes a screen of 90 dots an inch for granted, and makes the letters too large.
    generator.setResolution(widget.logicalDpiX())
    generator.setTitle(title)
    painter = QPainter(generator)
    widget.render(painter, QPoint())
    painter.end()
    return bytes(drawing.data())
