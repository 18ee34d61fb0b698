"""A layout that goes on in the next line where there is no room for all side by side."""

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QSizePolicy, QWidget

# As a line to type in, and a label that elides itself.
_GROWING = (QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)


class FlowLayout(QLayout):
    """Places widgets in lines; what is left of a line goes to those that expand.

    Args:
        gap_px: Pixels between two, side by side or one below the other.
        columns: Whether all are as wide as each other, in as many columns as have room, and as high as their
            line.
        parent: The widget it lays out.
    """

    def __init__(self, gap_px: int, columns: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(gap_px)
        self._columns = columns
        self._items: list[QLayoutItem] = []
        self._width = 0

    def addItem(self, item: QLayoutItem) -> None:
        """Place another one behind the others."""
        self._items.append(item)

    def insert_widget(self, place: int, widget: QWidget) -> None:
        """Place a widget before the one that has this place now."""
        self.addWidget(widget)
        self._items.insert(place, self._items.pop())
        self.invalidate()

    def count(self) -> int:
        """How many there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """Return one of them, None when there are not so many."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """Take one out and return it, None when there are not so many."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        """Take no more than it needs."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        """The narrower, the higher."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Return the height of all lines."""
        return self._place(QRect(0, 0, width, 0), move=False)

    def sizeHint(self) -> QSize:
        """All side by side."""
        shown = self._shown()
        width = sum(item.sizeHint().width() for item in shown) + self.spacing() * max(len(shown) - 1, 0)
        return self._with_margins(QSize(width, max((item.sizeHint().height() for item in shown), default=0)))

    def minimumSize(self) -> QSize:
        """The widest alone in its line; as high as the lines are at present.

        A splitter, for one, asks for this height alone.
        """
        sizes = [item.minimumSize() for item in self._shown()]
        least = self._with_margins(QSize(max((size.width() for size in sizes), default=0), 0))
        return QSize(least.width(), self.heightForWidth(max(self._width, least.width())))

    def setGeometry(self, rect: QRect) -> None:
        """Place them."""
        super().setGeometry(rect)
        if rect.width() != self._width:
            self._width = rect.width()
            self.update()
        self._place(rect, move=True)

    def _with_margins(self, size: QSize) -> QSize:
        return size.grownBy(self.contentsMargins())

    def _shown(self) -> list[QLayoutItem]:
        return [item for item in self._items if not item.isEmpty()]

    def _place(self, rect: QRect, move: bool) -> int:
        room = rect.marginsRemoved(self.contentsMargins())
        top = room.top()
        for line in self._lines(room.width()):
            heights = [_height(item, width) for item, width in line]
            left, height = room.left(), max(heights)
            for (item, width), own in zip(line, heights, strict=True):
                if move:
                    down = 0 if self._columns else (height - own) // 2
                    item.setGeometry(QRect(left, top + down, width, height if self._columns else own))
                left += width + self.spacing()
            top += height + self.spacing()
        return max(top - self.spacing(), room.top()) - rect.top() + self.contentsMargins().bottom()

    def _lines(self, room: int) -> list[list[tuple[QLayoutItem, int]]]:
        shown, gap = self._shown(), self.spacing()
        if not shown:
            return []
        if self._columns:
            least = max(item.minimumSize().width() for item in shown)
            fitting = min(max((room + gap) // (least + gap), 1), len(shown))
            # As many in every line, as far as that goes.
            across = -(-len(shown) // -(-len(shown) // fitting))
            width = (room + gap) // across - gap
            return [
                [(item, width) for item in shown[first : first + across]]
                for first in range(0, len(shown), across)
            ]
        lines: list[list[tuple[QLayoutItem, int]]] = []
        left = 0
        for item in shown:
            width = min(_width(item), room)
            if not lines or width + gap > left:
                lines.append([])
                left = room + gap
            lines[-1].append((item, width))
            left -= width + gap
        return [_stretched(line, room - gap * (len(line) - 1)) for line in lines]


def _widget(item: QLayoutItem) -> QWidget:
    widget = item.widget()
    assert widget is not None
    return widget


def _grows(item: QLayoutItem) -> bool:
    return _widget(item).sizePolicy().horizontalPolicy() in _GROWING


def _width(item: QLayoutItem) -> int:
    """Return what an item needs beside others: one that grows can do with little."""
    widget = _widget(item)
    least = max(widget.minimumSizeHint().width(), widget.minimumWidth())
    return least if _grows(item) else item.sizeHint().width()


def _height(item: QLayoutItem, width: int) -> int:
    return item.heightForWidth(width) if item.hasHeightForWidth() else item.sizeHint().height()


def _stretched(line: list[tuple[QLayoutItem, int]], room: int) -> list[tuple[QLayoutItem, int]]:
    """Give what is left of a line to the items in it that expand."""
    left = room - sum(width for _, width in line)
    growing = [item for item, _ in line if _grows(item)]
    if not growing or left <= 0:
        return line
    share = left // len(growing)
    return [(item, width + share * (item in growing)) for item, width in line]
