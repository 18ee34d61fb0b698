"""A layout that goes on in the next line where there is no room for all side by side."""

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QSizePolicy, QWidget

# As a line to type in, and a label that elides itself.
_GROWING = (QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)


class _Measured:
    """What an item of the layout needs."""

    def __init__(self, item: QLayoutItem) -> None:
        widget = item.widget()
        assert widget is not None
        self.item = item
        self.hint = item.sizeHint()
        self.least = item.minimumSize()
        self.wanted = max(self.hint.width(), self.least.width())
        self.grows = widget.sizePolicy().horizontalPolicy() in _GROWING
        # One that grows can do with little beside others.
        little = max(widget.minimumSizeHint().width(), widget.minimumWidth())
        self.width = little if self.grows else self.hint.width()
        self._wraps = item.hasHeightForWidth()

    def height(self, width: int) -> int:
        """Return its height at a width."""
        return self.item.heightForWidth(width) if self._wraps else self.hint.height()


class FlowLayout(QLayout):
    """Places widgets in lines; what is left of a line goes to those that expand."""

    def __init__(self, gap_px: int, columns: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._columns = columns
        self._items: list[QLayoutItem] = []
        self._measured: list[_Measured] | None = None
        self._heights: dict[int, int] = {}
        self._width = 0
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(gap_px)

    def addItem(self, item: QLayoutItem) -> None:
        """Place another one behind the others."""
        self._items.append(item)
        self.invalidate()

    def insert_widget(self, place: int, widget: QWidget) -> None:
        """Place a widget before the one that has this place now."""
        self.addWidget(widget)
        self._items.insert(place, self._items.pop())

    def count(self) -> int:
        """How many there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """Return one of them, None when there are not so many."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """Take one out and return it, None when there are not so many."""
        self._measured = None  # Qt invalidates before it takes out
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        """Take no more than it needs."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        """The narrower, the higher."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Return the height of all lines."""
        if width not in self._heights:
            self._heights[width] = self._place(QRect(0, 0, width, 0), move=False)
        return self._heights[width]

    def sizeHint(self) -> QSize:
        """All side by side."""
        shown = self._shown()
        width = sum(part.hint.width() for part in shown) + self.spacing() * max(len(shown) - 1, 0)
        return self._with_margins(QSize(width, max((part.hint.height() for part in shown), default=0)))

    def minimumSize(self) -> QSize:
        """The widest alone in its line; as high as the lines are at present.

        A splitter, for one, asks for this height alone.
        """
        widest = max((part.least.width() for part in self._shown()), default=0)
        least = self._with_margins(QSize(widest, 0))
        return QSize(least.width(), self.heightForWidth(max(self._width, least.width())))

    def setGeometry(self, rect: QRect) -> None:
        """Place them."""
        super().setGeometry(rect)
        if rect.width() != self._width:
            self._width = rect.width()
            self.update()
        self._place(rect, move=True)

    def invalidate(self) -> None:
        """Measure anew: Qt calls this when anything in here, or around it, is another."""
        self._measured = None
        self._heights.clear()
        super().invalidate()

    def _with_margins(self, size: QSize) -> QSize:
        return size.grownBy(self.contentsMargins())

    def _shown(self) -> list[_Measured]:
        """Return what is not hidden, measured once until something changes: Qt asks dozens of times."""
        if self._measured is None:
            self._measured = [_Measured(item) for item in self._items if not item.isEmpty()]
        return self._measured

    def _place(self, rect: QRect, move: bool) -> int:
        room = rect.marginsRemoved(self.contentsMargins())
        top = room.top()
        for line in self._lines(room.width()):
            heights = [part.height(width) for part, width in line]
            left, height = room.left(), max(heights)
            for (part, width), own in zip(line, heights, strict=True):
                if move:
                    down = 0 if self._columns else (height - own) // 2
                    part.item.setGeometry(QRect(left, top + down, width, height if self._columns else own))
                left += width + self.spacing()
            top += height + self.spacing()
        return max(top - self.spacing(), room.top()) - rect.top() + self.contentsMargins().bottom()

    def _lines(self, room: int) -> list[list[tuple[_Measured, int]]]:
        shown, gap = self._shown(), self.spacing()
        if not shown:
            return []
        if self._columns:
            for widths in ([part.wanted for part in shown], [part.least.width() for part in shown]):
                left = room - gap * (len(shown) - 1) - sum(widths)
                if left >= 0:
                    widths = [width + left // len(shown) for width in widths]
                    widths[-1] += left % len(shown)
                    return [list(zip(shown, widths, strict=True))]
            least = max(part.least.width() for part in shown)
            fitting = min(max((room + gap) // (least + gap), 1), len(shown))
            # As many in every line, as far as that goes.
            across = -(-len(shown) // -(-len(shown) // fitting))
            width = (room + gap) // across - gap
            return [
                [(part, width) for part in shown[first : first + across]]
                for first in range(0, len(shown), across)
            ]
        lines: list[list[tuple[_Measured, int]]] = []
        left = 0
        for part in shown:
            width = min(part.width, room)
            if not lines or width + gap > left:
                lines.append([])
                left = room + gap
            lines[-1].append((part, width))
            left -= width + gap
        return [_stretched(line, room - gap * (len(line) - 1)) for line in lines]


def _stretched(line: list[tuple[_Measured, int]], room: int) -> list[tuple[_Measured, int]]:
    """Give what is left of a line to the items in it that expand."""
    left = room - sum(width for _, width in line)
    growing = sum(part.grows for part, _ in line)
    if not growing or left <= 0:
        return line
    return [(part, width + left // growing * part.grows) for part, width in line]
