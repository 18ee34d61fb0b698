"""The trials of a sweep in parallel coordinates. Importing this module imports pyqtgraph."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QWidget

from soulsgui.gui.colours import blend
from soulsgui.gui.icons import colours_of
from soulsgui.gui.models.rules import SCORE_TITLES
from soulsgui.gui.plotting.drawing import pen
from soulsgui.gui.runs.experiments import value_words
from soulsgui.gui.theme import GAP_XS
from soulsgui.gui.widgets.boxes import column
from soulsgui.wire.control import SweepStatus, SweepTrial

_SHADES = 8
_FAINTEST = 0.3
_REACH = 0.05  # of the height, within which a line is meant


@dataclass(frozen=True)
class ParallelAxis:
    """One upright axis: of a setting that is searched, or of the score."""

    name: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[str, ...] = ()  # in words, in place of a range

    def place(self, value: Any) -> float:
        """Return where a value stands, from 0 to 1; NaN where it stands nowhere."""
        if self.choices:
            return self._share(value_words(value))
        value = _number(value)
        if math.isnan(value) or (self.log and value <= 0):
            return math.nan
        low, high, at = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        return (at - low) / (high - low) if high > low else 0.5

    def _share(self, words: str) -> float:
        return (
            self.choices.index(words) / max(len(self.choices) - 1, 1) if words in self.choices else math.nan
        )

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Where something is written beside it, and what."""
        if self.choices:
            return [
                (place / max(len(self.choices) - 1, 1), words) for place, words in enumerate(self.choices)
            ]
        middle = math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2
        told = dict.fromkeys((self.low, middle, self.high))
        return [(self.place(one), f"{one:.4g}") for one in told if math.isfinite(one)]


def axes_of(sweep: SweepStatus) -> list[ParallelAxis]:
    """Return an axis for each setting that is searched, and the one of the score."""
    scores = [trial.score for trial in sweep.trials if trial.score is not None]
    title = SCORE_TITLES.get(sweep.score, sweep.score)
    score = ParallelAxis(title, min(scores, default=math.nan), max(scores, default=math.nan))
    return [*(_axis(key, asked, sweep.trials) for key, asked in sweep.space.items()), score]


def _number(told: Any) -> float:
    """Return a bound, NaN for what is none: a server may tell anything."""
    return float(told) if isinstance(told, int | float) and abs(told) <= sys.float_info.max else math.nan


def _axis(key: str, asked: Any, trials: Iterable[SweepTrial]) -> ParallelAxis:
    if isinstance(asked, Mapping):
        low, high = (_number(asked.get(end)) for end in ("low", "high"))
        return ParallelAxis(key, low, high, bool(asked.get("log")) and low > 0 and high > 0)
    choices = asked if isinstance(asked, list) else [one.values[key] for one in trials if key in one.values]
    return ParallelAxis(key, choices=tuple(dict.fromkeys(map(value_words, choices))))


class ParallelPlot(QFrame):
    """One axis for each setting and for the score, one line for each trial: the stronger, the better.

    Trials that are not complete are dotted and faint.

    Signals:
        chosen: A line was clicked; with the number of its trial.
    """

    chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "plot")
        self.setAccessibleName("Trials in parallel coordinates")
        self.axes: list[ParallelAxis] = []
        self._trials: Sequence[SweepTrial] = ()
        self._places: dict[int, list[float]] = {}
        self.marked = -1
        self._view = pg.ViewBox(enableMenu=False, enableMouse=False, defaultPadding=0)
        self._canvas = pg.GraphicsView(self)
        self._canvas.setCentralItem(self._view)
        self._canvas.scene().sigMouseClicked.connect(self._clicked)
        column((self._canvas, 1), on=self, margins=(GAP_XS, GAP_XS, GAP_XS, GAP_XS))
        self._rulers = pg.PlotCurveItem(connect="pairs")
        self.quiet = pg.PlotCurveItem(connect="finite")
        self.shades = [pg.PlotCurveItem(connect="finite") for _ in range(_SHADES)]
        self.mark_line = pg.PlotCurveItem(connect="finite")
        for depth, item in enumerate((self.quiet, *self.shades, self._rulers, self.mark_line)):
            item.setZValue(depth)
            self._view.addItem(item, ignoreBounds=True)
        self._words: list[pg.TextItem] = []

    def show_sweep(self, sweep: SweepStatus) -> None:
        """Draw the trials of a sweep."""
        self.axes, self._trials = axes_of(sweep), sweep.trials
        *settings, score = self.axes
        self._places = {
            trial.number: [
                *(axis.place(trial.values.get(axis.name)) for axis in settings),
                score.place(trial.score),
            ]
            for trial in sweep.trials
        }
        self._draw()

    def mark(self, number: int) -> None:
        """Draw one trial above the others; -1 for none."""
        self.marked = number
        self._put(self.mark_line, [number] if number in self._places else [])

    def _draw(self) -> None:
        colours = colours_of(self)
        self._canvas.setBackground(colours.base)
        shaded: list[list[int]] = [[] for _ in self.shades]
        for trial in self._trials:
            place = self._places[trial.number][-1]
            if trial.state == "complete" and math.isfinite(place):
                shaded[min(int(place * _SHADES), _SHADES - 1)].append(trial.number)
        complete = {number for numbers in shaded for number in numbers}
        for shade, (item, numbers) in enumerate(zip(self.shades, shaded, strict=True)):
            strength = _FAINTEST + (1 - _FAINTEST) * shade / (_SHADES - 1)
            item.setPen(pen(blend(colours.accent, colours.base, strength), 2))
            self._put(item, numbers)
        self.quiet.setPen(pen(blend(colours.edge, colours.base, 0.5), 1, Qt.PenStyle.DotLine))
        self._put(self.quiet, [number for number in self._places if number not in complete])
        self.mark_line.setPen(pen(colours.text, 3))
        self.mark(self.marked)
        self._rulers.setPen(pen(colours.edge, 1))
        places = np.arange(len(self.axes), dtype=float)
        self._rulers.setData(np.repeat(places, 2), np.tile([0.0, 1.0], len(places)))
        self._write()

    def _put(self, item: pg.PlotCurveItem, numbers: Sequence[int]) -> None:
        """Draw these trials, a line each, by one item."""
        xs = [*range(len(self.axes)), math.nan] * len(numbers)
        ys = [y for number in numbers for y in (*self._places[number], math.nan)]
        item.setData(np.asarray(xs, float), np.asarray(ys, float))

    def _write(self) -> None:
        """Write the names below the axes and the values beside them."""
        for words in self._words:
            self._view.removeItem(words)
        self._words = []
        if not self.axes:
            return
        last, height = len(self.axes) - 1, self.fontMetrics().height()
        # The axes get what three lines of words leave of the height.
        line = height / max(self._canvas.height() - 3 * height, height)
        self._view.setRange(xRange=(-0.45, last + 0.55), yRange=(-2.2 * line, 1 + 0.8 * line), padding=0)
        room = round(self._canvas.width() / len(self.axes)) - 8
        for x, axis in enumerate(self.axes):
            name = self.fontMetrics().elidedText(axis.name, Qt.TextElideMode.ElideLeft, room)
            self._add(name, x, -0.7 * line, (0.5, 0.0), x == last)
            for y, words in axis.ticks:
                told = self.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, room - 16)
                self._add(told, x, y, (-0.1, 0.5), False)

    def _add(self, words: str, x: float, y: float, anchor: tuple[float, float], strong: bool) -> None:
        colours = colours_of(self)
        made = pg.TextItem(words, colours.text if strong else colours.muted, anchor=anchor)
        made.fill = pg.mkBrush(colours.base)
        made.setFont(self.font())
        made.setZValue(len(self.shades) + 4)
        made.setPos(x, y)
        self._view.addItem(made, ignoreBounds=True)
        self._words.append(made)

    def _clicked(self, event: MouseClickEvent) -> None:
        place = self._view.mapSceneToView(event.scenePos())
        axes = range(len(self.axes))
        far = {
            number: abs(float(np.interp(place.x(), axes, ys)) - place.y())
            for number, ys in self._places.items()
        }
        near = min((number for number in far if far[number] <= _REACH), key=far.__getitem__, default=None)
        if near is not None:
            self.chosen.emit(near)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Write as much as there is room for."""
        super().resizeEvent(event)
        self._write()

    def changeEvent(self, event: QEvent) -> None:
        """Take on the colours and the font of the theme."""
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and hasattr(self, "_words"):
            self._draw()
        super().changeEvent(event)
