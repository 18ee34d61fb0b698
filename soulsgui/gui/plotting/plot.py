"""Draws curves with pyqtgraph: live, at any zoom, no more than needed.

Importing this module imports pyqtgraph; `host.PlotHost` does so after the window was first shown.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from soulsgui.gui.icons import colours_of
from soulsgui.gui.plotting.drawing import (
    Crosshair,
    Cursors,
    DrawnCurve,
    DurationAxis,
    GoalLine,
    Legend,
    MarkLines,
    NumberAxis,
    Readout,
    StaleOverlay,
    View,
    pen,
    with_goal,
)
from soulsgui.gui.plotting.mean import Drawn
from soulsgui.gui.plotting.rows import Axis, Mark, axis_title
from soulsgui.gui.plotting.scale import Scale, ScaleKind
from soulsgui.gui.theme import GAP_S, GAP_XS
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.boxes import column
from soulsgui.gui.widgets.labels import Label

REPAINT_MS = 70
# New rows may wait longer than the hand that moves the view: a picture costs several milliseconds.
LIVE_MS = 250
_MARK_REACH_PX = 5
_LEAST_LINES = 8
_TICK_DENSITY = 1.7
_LARGEST = 1e300  # pyqtgraph computes with multiples of what it draws
_FLAT = 1e-4  # a curve that changes by less of its size is drawn as the line it is
_EMPTY = (0.0, 1.0)


class Plot(QFrame):
    """Curves with crosshair, zoom, pan and Follow.

    With Follow the whole curve is in view and grows; moving x by hand switches it off.
    y fits what is seen until it is moved by hand. Space switches Follow, Home shows everything, arrows and
    + - move and zoom, comma and point move the crosshair, Ctrl+C copies the values under it, Enter is a click
    there. With Shift the arrows move cursor A, with Ctrl cursor B.

    Signals:
        clicked: The plot was clicked; with the position of x, and the run of the curve that is nearest.
        follow_changed: Follow was switched, by the user or by the program.
        drawn: A picture was made; with the ends of x in it.
        moved: The user looks at another part of x; with its ends.
        pointed: The user points at a position of x; None when the mouse is gone.
        measured: What lies between the two cursors, in words; empty without them.
        dragged: The user moved a cursor; with the places of both.
    """

    clicked = Signal(float, str)
    follow_changed = Signal(bool)
    drawn = Signal(float, float)
    moved = Signal(float, float)
    pointed = Signal(object)
    measured = Signal(str)
    dragged = Signal(float, float)

    def __init__(self, parent: QWidget | None = None, x_title: bool = True) -> None:
        super().__init__(parent)
        self._with_x_title = x_title
        self.setProperty("part", "plot")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Plot")
        self._curves: list[DrawnCurve] = []
        self._axis = Axis.EPISODE
        self._follow = True
        self._framed = False  # whether a curve was in view when it was last drawn
        self._fit_y = True
        self._drawing = False
        self._scale = Scale()
        self.reading = ""  # the values under the crosshair, in words
        self.hides_all = False  # whether a logarithm draws nothing, because nothing is above 0
        self.last = 0.0  # how much of x is followed; 0 for all of it
        self._ranges: Callable[[], Sequence[tuple[float, float]]] = self.ranges
        self._build()
        self._throttle = Throttle(self, self._draw, REPAINT_MS)
        self._live = Throttle(self, self._throttle.request, LIVE_MS)
        self._recolour()

    def _build(self) -> None:
        self._legend = Legend(self)
        self.setAccessibleDescription(self._legend.toolTip())
        self._view = View()
        self._view.moved.connect(self._moved_by_hand)
        self._view.reset.connect(self.fit)
        self._view.setDefaultPadding(0)
        self._canvas = pg.PlotWidget(self, viewBox=self._view, axisItems=self._axis_items(Axis.EPISODE))
        self._canvas.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._canvas.hideButtons()
        # A view wants to be as high as its scene, which is as high as the view: it would never shrink again.
        self._canvas.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        # Nobody opens it, and pyqtgraph lets it outlive the plot.
        menu = self._canvas.getPlotItem().getMenu()
        menu.setParent(self._canvas, menu.windowFlags())
        # It fills all of itself: what lies behind need not be painted first.
        self._canvas.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self._view.sigRangeChanged.connect(self._range_changed)
        self._view.sigResized.connect(lambda *_: self._throttle.request())
        scene = self._canvas.scene()
        scene.sigMouseMoved.connect(self._mouse_moved)
        scene.sigMouseClicked.connect(self._mouse_clicked)
        self._marks = MarkLines()
        self._crosshair = Crosshair()
        self._goal = GoalLine()
        for item in (self._marks, self._crosshair, self._goal):
            self._canvas.addItem(item, ignoreBounds=True)
        self._cursors = Cursors(self._canvas, self._cursor_dragged)
        self._readout = Readout(self._canvas)
        self._empty = Label(parent=self._canvas)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setWordWrap(True)
        self._empty.setProperty("weight", "muted")
        self._empty.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        column(
            self._legend, (self._canvas, 1), on=self, margins=(GAP_S, GAP_XS, GAP_S, GAP_XS), gap_px=GAP_XS
        )
        self._stale = StaleOverlay(self)

    @staticmethod
    def _axis_items(axis: Axis) -> dict[str, pg.AxisItem]:
        kind = {Axis.TIME: pg.DateAxisItem, Axis.TRAINING: DurationAxis}.get(axis, NumberAxis)
        return {"bottom": kind("bottom"), "left": NumberAxis("left")}

    def show_series(self, series: Sequence[tuple[Drawn, str, int]]) -> None:
        """Show these curves instead of the present ones."""
        for curve in self._curves:
            curve.remove()
        self._curves = [DrawnCurve(self._canvas, one, name, colour) for one, name, colour in series]
        self._legend.show_curves(self._curves)
        if self._curves:
            self._show_axis(self._curves[0].series.axis)
        self._view.enableAutoRange(enable=False)
        self._throttle.request()

    def show_marks(self, marks: Sequence[Mark], words: str = "checkpoint or resume") -> None:
        """Show these moments as upright lines, which the legend calls so."""
        self._marks.marks = tuple(marks)
        self._legend.name_marks(words)
        self._draw_crosshair()
        self._throttle.request()

    def show_goal(self, value: float | None, words: str = "") -> None:
        """Show the value that is to be reached as a level line."""
        self._goal.show_goal(value, words)
        self._throttle.request()

    @property
    def goal(self) -> float | None:
        """The value that is to be reached; None without one."""
        return self._goal.goal

    def show_along(self, axis: Axis) -> None:
        """Give x another meaning, for all curves."""
        for curve in self._curves:
            curve.series.show_along(axis)
        self._show_axis(axis)
        self._crosshair.place = None
        self.set_follow(True)

    def _show_axis(self, axis: Axis) -> None:
        if axis is not self._axis:
            self._axis = axis
            self._canvas.setAxisItems(self._axis_items(axis))
            self._recolour()
        self._canvas.setLabel("bottom", axis_title(axis))
        self._show_rulers()

    def show_scale(self, kind: ScaleKind) -> None:
        """Draw y as itself, or as a logarithm."""
        if kind is not self._scale.kind:
            self._scale = Scale(kind)
            self._fit_y = True
            self._throttle.request()

    def show_last(self, width: float) -> None:
        """Follow the last part of x, so wide; 0 for the whole curve."""
        self.last = width
        self.set_follow(True)

    def share_x(self, ranges: Callable[[], Sequence[tuple[float, float]]]) -> None:
        """Show the ends of x that all of these have, as plots do that stand side by side."""
        self._ranges = ranges

    def show_cursors(self, places: tuple[float, float] | None) -> None:
        """Let the user measure between two lines; None takes them away."""
        self._cursors.show(places)
        self._cursors.take_look(colours_of(self), self.font())
        self._measure()

    @property
    def cursors(self) -> list[float]:
        """Where the two cursors stand; nothing without them."""
        return self._cursors.places

    def _cursor_dragged(self) -> None:
        self._measure()
        self.dragged.emit(*self._cursors.places)

    def _measure(self) -> None:
        self.measured.emit(self._cursors.words(self._curves, self._axis, self._reach))

    @property
    def _reach(self) -> float:
        """How far along x something is still at a place."""
        return float(_MARK_REACH_PX * self._view.viewPixelSize()[0])

    def dim(self, dimmed: bool) -> None:
        """Fade while what is drawn is not the present."""
        self._stale.lay_over(dimmed)

    @property
    def is_dimmed(self) -> bool:
        """Whether it is faded."""
        return not self._stale.isHidden()

    def show_empty_text(self, text: str) -> None:
        """Say in the middle what to do, for as long as there is no row."""
        self._empty.setText(text)
        self._place_empty()

    @property
    def curves(self) -> list[DrawnCurve]:
        """The curves, with the items that the present picture is made of."""
        return self._curves

    @property
    def drawing_waits(self) -> bool:
        """Whether something is to be drawn that is not drawn yet."""
        return self._throttle.waiting or self._live.waiting

    @property
    def is_empty(self) -> bool:
        """Whether there is no row to draw."""
        return not any(len(curve.series) for curve in self._curves)

    def changed(self) -> None:
        """Tell that series have new rows; they are drawn soon."""
        self._live.request()

    @property
    def follow(self) -> bool:
        """Whether x goes on with the curve."""
        return self._follow

    def set_follow(self, follow: bool) -> None:
        """Let x go on with the curve, or stand still."""
        self._fit_y |= follow
        if follow != self._follow:
            self._follow = follow
            self.follow_changed.emit(follow)
        self._throttle.request()

    def fit(self) -> None:
        """Show everything, and follow."""
        self._fit_y = True
        self.set_follow(True)

    def x_view(self) -> tuple[float, float]:
        """Return the ends of x in view."""
        left, right = self._view.viewRange()[0]
        return float(left), float(right)

    def y_view(self) -> tuple[float, float]:
        """Return the ends of y in view."""
        low, high = self._view.viewRange()[1]
        return float(low), float(high)

    def show_x(self, left: float, right: float) -> None:
        """Show a part of x, and stop following."""
        self.set_follow(False)
        self._view.setXRange(left, right, padding=0)

    def _moved_by_hand(self, axis: int) -> None:
        if axis == 1:
            self._fit_y = False
        else:
            self.set_follow(False)
            self.moved.emit(*self.x_view())

    def ranges(self) -> list[tuple[float, float]]:
        """Return the ends of x of its curves."""
        return [found for curve in self._curves if (found := curve.series.x_range())]

    def _whole(self) -> tuple[float, float]:
        ranges = self._ranges()
        if not ranges:
            return _EMPTY
        first, last = min(low for low, _ in ranges), max(high for _, high in ranges)
        if self.last:
            first = max(first, last - self.last)
        # A single point needs some room; the newest one some air.
        room = max((last - first) * 0.02, 0.5)
        # The first value is marked, too, when there are few.
        return first - (room if last == first else room / 2), last + room

    def _range_changed(self, *_: object) -> None:
        # A range that drawing itself sets is drawn already.
        if not self._drawing:
            self._throttle.request()

    def _draw(self) -> None:
        self._drawing = True
        try:
            left, right = self._draw_all()
        finally:
            self._drawing = False
        self.drawn.emit(left, right)

    def _draw_all(self) -> tuple[float, float]:
        """Draw everything; return the range of x that is drawn."""
        # Where nothing was in view, there is nothing to stand still at.
        if self._follow or not self._framed:
            self._view.setXRange(*self._whole(), padding=0)
        self._framed = not self.is_empty
        left, right = self.x_view()
        width = max(int(self._view.width()), 16)
        low, high = np.inf, -np.inf
        scale = self._scale
        if scale.kind is ScaleKind.SYMLOG:
            largest = max((curve.series.largest for curve in self._curves), default=0.0)
            scale = self._scale = Scale.for_values(scale.kind, largest)
        self._canvas.getAxis("left").take_scale(scale)
        for curve in self._curves:
            least, most = curve.draw(left, right, width, colours_of(self), scale)
            low, high = min(low, least), max(high, most)
        goal = self._goal.draw(scale)
        if self.is_empty and goal is not None:
            # Above the words that stand in the middle.
            low, high = goal - 1.0, goal
        if self._fit_y and low <= high:
            low, high = with_goal(low, high, goal)
            # Smoothing leaves traces of rounding: so drawn they would look like learning.
            largest = max(abs(low), abs(high))
            flat = high - low <= _FLAT * largest
            room = max(largest * 0.05, 0.5) if flat else (high - low) * 0.05
            bottom, top = np.clip([low - room, high + room], -_LARGEST, _LARGEST)
            self._view.setYRange(bottom, top, padding=0)
        self.hides_all = scale.kind is ScaleKind.LOG and not low <= high and not self.is_empty
        self._marks.draw(self._axis, *self._view.viewRange()[1])
        self._draw_crosshair()
        if self._empty.isVisible() is not self.is_empty:
            self._show_rulers()
        self._measure()
        # Left to the painting, moving the items asks for a second picture after this one.
        self._canvas.scene().prepareForPaint()
        return left, right

    def move_crosshair(self, x: float | None) -> None:
        """Read the values at a position of x; None takes the crosshair away."""
        self._crosshair.place = x
        self._draw_crosshair()

    def _point_at(self, x: float | None) -> None:
        self.move_crosshair(x)
        self.pointed.emit(x)

    def _point_by_key(self, by: float) -> None:
        """Move the crosshair along x in view, from the newest row where there is none."""
        place = self._crosshair.place
        if place is None:
            place = max((newest for _, newest in self.ranges()), default=0.0)
        left, right = self.x_view()
        self._point_at(min(max(place + by, left), right))

    def _mouse_moved(self, place: QPointF) -> None:
        inside = self._view.sceneBoundingRect().contains(place)
        self._point_at(float(self._view.mapSceneToView(place).x()) if inside else None)

    def _mouse_clicked(self, event: MouseClickEvent) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        place, once = event.scenePos(), event.button() is Qt.MouseButton.LeftButton and not event.double()
        if once and not self.is_empty and self._view.sceneBoundingRect().contains(place):
            point = self._view.mapSceneToView(place)
            self.clicked.emit(float(point.x()), self._nearest_run(point))

    def _nearest_run(self, point: QPointF) -> str:
        width, height = self._view.viewPixelSize()
        found: list[tuple[float, str]] = []
        for series in (curve.series for curve in self._curves):
            if (read := series.nearest(point.x())) is not None:
                y = float(self._scale.place(np.asarray([read.smooth]))[0])
                away = math.hypot((read.x - point.x()) / width, (y - point.y()) / height)
                found.append((math.inf if math.isnan(away) else away, series.run_id))
        return min(found, default=(0.0, ""))[1]

    def _draw_crosshair(self) -> None:
        words = self._crosshair.read(self._curves, self._axis, self._marks.marks, self._reach)
        self.reading = words
        # Values that stand beside the crosshair need not stand in the legend, too.
        if self._legend.has_room(words, len(self._crosshair.readings)):
            self._readout.hide()
        else:
            x_px = round(self._view.mapViewToScene(QPointF(self._crosshair.value(), 0.0)).x())
            self._readout.show_readings(self._crosshair.readings, self._axis, x_px, self._reach)
            words = ""
        self._legend.show_reading(words, bool(self._marks.marks))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Follow, fit, move, zoom, point, click and copy from the keyboard."""
        left, right = self.x_view()
        span = right - left
        moves = {
            Qt.Key.Key_Left: (left - span / 10, right - span / 10),
            Qt.Key.Key_Right: (left + span / 10, right + span / 10),
            Qt.Key.Key_Plus: (left + span / 6, right - span / 6),
            Qt.Key.Key_Minus: (left - span / 4, right + span / 4),
        }
        key = Qt.Key(event.key())
        pushed = {Qt.KeyboardModifier.ShiftModifier: 0, Qt.KeyboardModifier.ControlModifier: 1}
        cursor = pushed.get(event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier)
        way = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(key, 0)
        points = {Qt.Key.Key_Comma: -1, Qt.Key.Key_Period: 1, Qt.Key.Key_Return: 0, Qt.Key.Key_Enter: 0}
        if self._cursors.lines and cursor is not None and way:
            self._cursors.push(cursor, way * span / 100)
        elif event.matches(QKeySequence.StandardKey.Copy) and self.reading:
            QGuiApplication.clipboard().setText(self.reading)
        elif key in points and not self.is_empty:
            self._point_by_key(points[key] * span / 100)
            if not points[key] and self._crosshair.readings:
                curve, reading = self._crosshair.readings[0]
                self.clicked.emit(reading.x, curve.series.run_id)
        elif key is Qt.Key.Key_Space:
            self.set_follow(True)
        elif key is Qt.Key.Key_Home:
            self.fit()
        elif key in moves:
            self.show_x(*moves[key])
            self.moved.emit(*moves[key])
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        """Take the crosshair away with the mouse."""
        self._point_at(None)
        super().leaveEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the words of an empty plot in its middle."""
        super().resizeEvent(event)
        self._place_empty()
        self._stale.lay_over(self.is_dimmed)

    def changeEvent(self, event: QEvent) -> None:
        """Take on the colours and the font of the theme."""
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and hasattr(self, "_throttle"):
            self._recolour()
        super().changeEvent(event)

    def _place_empty(self) -> None:
        area = self._canvas.rect()
        self._empty.setGeometry(area.adjusted(area.width() // 8, 0, -area.width() // 8, 0))

    def _recolour(self) -> None:
        colours = colours_of(self)
        self._canvas.setMinimumHeight(_LEAST_LINES * self.fontMetrics().height())
        self._canvas.setBackground(colours.base)
        for name in ("bottom", "left"):
            axis = self._canvas.getAxis(name)
            axis.setPen(pen(colours.grid, 1))
            axis.setTextPen(pen(colours.muted, 1))
            # The lines between the numbered ones cost more to paint than the curves.
            axis.setStyle(
                tickFont=self.font(), tickLength=0, maxTickLevel=1 if self._axis is Axis.TIME else 0
            )
            axis.setTickDensity(_TICK_DENSITY)
            axis.label.setFont(self.font())
            # Below the curves, which are children of the view at 0.
            axis.setZValue(-1)
        lines = 2.3 if self._with_x_title else 1.3
        self._canvas.getAxis("bottom").setHeight(lines * self.fontMetrics().height() + 4)
        self._marks.take_look(colours)
        self._crosshair.take_look(colours)
        self._goal.take_look(colours, self.font())
        self._cursors.take_look(colours, self.font())
        self._show_rulers()
        self._throttle.request()

    def _show_rulers(self) -> None:
        """Show numbers and grid only where there is something to measure."""
        empty = self.is_empty
        for name in ("bottom", "left"):
            axis = self._canvas.getAxis(name)
            axis.setTicks([] if empty else None)  # of ticks without numbers specks would be left
            axis.setGrid(False if empty else 255)
            axis.showLabel(name == "bottom" and not empty and self._with_x_title)
        self._empty.setVisible(empty)
