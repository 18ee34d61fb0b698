"""Layouts written as the list of what stands in them."""

from PySide6.QtCore import QByteArray, QSize, Qt
from PySide6.QtGui import QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QHBoxLayout,
    QLayout,
    QSplitter,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from soulsgui.gui.theme import GAP_L, GAP_M, GAP_S
from soulsgui.gui.widgets.flow_layout import FlowLayout

Item = QWidget | QLayout
Part = Item | tuple[Item, int] | tuple[Item, Qt.AlignmentFlag] | None
"""A widget or layout, alone, with its stretch, or aligned; None takes the room that is left."""

Margins = tuple[int, int, int, int]
NO_MARGINS: Margins = (0, 0, 0, 0)
PAGE_MARGINS: Margins = (GAP_M, GAP_M, GAP_M, GAP_S)
TAB_MARGINS: Margins = (0, GAP_S, 0, 0)
DIALOG_MARGINS: Margins = (GAP_L, GAP_L, GAP_L, GAP_L)


def column(
    *parts: Part, on: QWidget | None = None, margins: Margins | None = None, gap_px: int = GAP_S
) -> QVBoxLayout:
    """Return parts below each other, as the layout of a widget or for another layout."""
    layout = QVBoxLayout() if on is None else QVBoxLayout(on)
    _fill(layout, parts, margins, gap_px)
    return layout


def row(
    *parts: Part, on: QWidget | None = None, margins: Margins | None = None, gap_px: int = GAP_S
) -> QHBoxLayout:
    """Return parts side by side, as the layout of a widget or for another layout."""
    layout = QHBoxLayout() if on is None else QHBoxLayout(on)
    _fill(layout, parts, margins, gap_px)
    return layout


def flow(*parts: QWidget, gap_px: int, on: QWidget | None = None, columns: bool = False) -> FlowLayout:
    """Return widgets side by side that go on in the next line where there is no room."""
    layout = FlowLayout(gap_px, columns, on)
    for part in parts:
        layout.addWidget(part)
    return layout


def stack(*parts: QWidget, on: QWidget | None = None) -> QStackedLayout:
    """Return widgets in one place, of which one is seen at a time: at first the first."""
    layout = QStackedLayout() if on is None else QStackedLayout(on)
    for part in parts:
        layout.addWidget(part)
    return layout


class SteadySplitter(QSplitter):
    """Its last part makes room for what comes and goes around it, such as a message; then the one before.

    When the window itself is made larger or smaller, all parts share the difference.
    """

    def __init__(self, way: Qt.Orientation, parent: QWidget | None = None) -> None:
        super().__init__(way, parent)
        self._window, self._was_seen = QSize(), False
        self._known: list[int] = []  # sizes that the user knows
        self._made: list[int] = []  # and what was made of them when something came
        self._restored = QByteArray()

    def restoreState(self, state: QByteArray | bytes | bytearray | memoryview) -> bool:
        """Share the room as it was kept."""
        self._restored = QByteArray(state)
        return super().restoreState(state)

    def showEvent(self, event: QShowEvent) -> None:
        """Share the room as it was kept: before it had its width, what wraps wanted too much height."""
        super().showEvent(event)
        if not self._was_seen:
            super().restoreState(self._restored)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Its sizes are those that the user knows from now on."""
        super().paintEvent(event)
        self._was_seen = True

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Use the new room."""
        before, window = self.sizes(), self.window().size()
        super().resizeEvent(event)
        if window == self._window and self._was_seen:
            if before != self._made:
                self._known = before
            self.setSizes(self._from_the_end(sum(self.sizes()) - sum(self._known)))
            self._made = self.sizes()
        self._window = window

    def _from_the_end(self, more: int) -> list[int]:
        """Return the known sizes with so much more, or less: the last part that can takes all of it."""
        along = QSize.width if self.orientation() is Qt.Orientation.Horizontal else QSize.height
        sizes = list(self._known)
        for place in reversed(range(self.count())):
            part, known = self.widget(place), sizes[place]
            if part is not None and known:  # else it is hidden
                least = along(part.minimumSizeHint().expandedTo(part.minimumSize()))
                sizes[place] = max(min(known + more, along(part.maximumSize())), least)
                more -= sizes[place] - known
        return sizes


def split(name: str, way: Qt.Orientation, parent: QWidget, *parts: QWidget) -> QSplitter:
    """Return widgets between which the user moves the borders; none can be pushed away."""
    splitter = SteadySplitter(way, parent)
    splitter.setObjectName(name)
    splitter.setChildrenCollapsible(False)
    if way is Qt.Orientation.Horizontal:
        splitter.setHandleWidth(GAP_S)  # a style sheet has one width for both ways
    for part in parts:
        splitter.addWidget(part)
    return splitter


def _fill(layout: QBoxLayout, parts: tuple[Part, ...], margins: Margins | None, gap_px: int) -> None:
    if margins is not None:
        layout.setContentsMargins(*margins)
    layout.setSpacing(gap_px)
    for part in parts:
        if part is None:
            layout.addStretch(1)
            continue
        item, place = part if isinstance(part, tuple) else (part, 0)
        stretch, alignment = (0, place) if isinstance(place, Qt.AlignmentFlag) else (place, _ANYWHERE)
        if isinstance(item, QWidget):
            layout.addWidget(item, stretch, alignment)
        else:
            layout.addLayout(item, stretch)


_ANYWHERE = Qt.AlignmentFlag(0)
