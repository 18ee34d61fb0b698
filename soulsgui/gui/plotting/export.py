"""What is in view of curves as a table, and widgets as a picture."""

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMargins, QPoint, QRect, QSize
from PySide6.QtGui import QPaintDevice, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from soulsgui.gui.plotting.mean import Drawn, MeanSeries
from soulsgui.gui.plotting.rows import UNKNOWN
from soulsgui.gui.plotting.series import Series

_COLUMNS = (
    "run", "metric", "client", "attempt", "episode", "env_steps", "update", "time", "value", "smoothed", "x",
    "mean", "low", "high", "rows", "overwritten",
)  # fmt: skip
_MARGIN_PX = 12
_LEAST_RATIO = 2.0  # pixels of a picture for one of an ordinary screen
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(curves: Iterable[Drawn], left: float, right: float, delimiter: str = ",") -> str:
    """Return the rows of curves between two positions of x, as drawn: of long runs means of several.

    Of the mean of several runs: the mean, with the band from the lowest to the highest of them.
    """
    told = io.StringIO()
    table = csv.DictWriter(told, _COLUMNS, lineterminator="\n", delimiter=delimiter)
    table.writeheader()
    for series in curves:
        about = {name: _no_formula(getattr(series, name)) for name in ("metric", "client")}
        about["run"] = _no_formula(series.run_id)
        rows = series.table(left, right) if isinstance(series, MeanSeries) else _rows(series, left, right)
        table.writerows(about | row for row in rows)
    return told.getvalue()


def _rows(series: Series, left: float, right: float) -> Iterator[dict[str, object]]:
    for attempt, one, overwritten in series.readings(left, right):
        yield {
            "attempt": attempt,
            "episode": one.episode,
            "env_steps": one.env_steps,
            "update": "" if one.update == UNKNOWN else one.update,
            "time": datetime.fromtimestamp(one.time, UTC).isoformat(timespec="milliseconds"),
            "value": one.value,
            "smoothed": one.smooth,
            "x": one.x,
            "low": one.low,
            "high": one.high,
            "rows": one.count,
            "overwritten": int(overwritten),
        }


def _no_formula(name: str) -> str:
    """Return a name, which a stranger may have given, as a text that no spreadsheet executes."""
    return f"'{name}" if name.startswith(_FORMULA) else name


def as_pixmap(above: QWidget, below: QWidget) -> QPixmap:
    """Return two widgets below each other as a picture, sharp on paper, too."""
    ratio = max(_LEAST_RATIO, above.devicePixelRatioF())
    whole = QPixmap(_whole(above, below) * ratio)
    whole.setDevicePixelRatio(ratio)
    _paint(whole, above, below)
    return whole


def _paint(device: QPaintDevice, above: QWidget, below: QWidget) -> None:
    with QPainter(device) as painter:
        whole = QRect(QPoint(), _whole(above, below))
        painter.fillRect(whole, above.palette().color(QPalette.ColorRole.Window))
        above.render(painter, QPoint(_MARGIN_PX, _MARGIN_PX))
        below.render(painter, QPoint(_MARGIN_PX, _MARGIN_PX + above.height()))


def _whole(above: QWidget, below: QWidget) -> QSize:
    """Return the size of both, with what is free around them."""
    return QSize(above.width(), above.height() + below.height()).grownBy(QMargins(*4 * [_MARGIN_PX]))


def as_svg(title: str, above: QWidget, below: QWidget) -> bytes:
    """Return two widgets below each other as a drawing that can be enlarged."""
    size = _whole(above, below)
    drawing = QByteArray()
    target = QBuffer(drawing)
    target.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(target)
    generator.setSize(size)
    generator.setViewBox(QRect(QPoint(), size))
    # Else it takes a screen of 90 dots an inch for granted, and makes the letters too large.
    generator.setResolution(above.logicalDpiX())
    generator.setTitle(title)
    _paint(generator, above, below)
    return bytes(drawing.data())
