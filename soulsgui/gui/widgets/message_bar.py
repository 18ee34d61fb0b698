"""Messages without a dialog: what happened, why, what to do, and a button for it."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from soulsgui.gui.icons import dress
from soulsgui.gui.states import level_look
from soulsgui.gui.widgets.labels import IconLabel

_SHOWN = 3
_BRIEF_MS = 8000


@dataclass(frozen=True)
class Notice:
    """One message.

    Attributes:
        level: `info`, `success`, `warning` or `error`; the first two go away by themselves.
        text: What happened.
        detail: Why, and what to do.
        action: Words of the button that does it; empty for none.
        act: What the button does.
        about: Of what is about the same only the newest stands, until it is settled; empty for nothing.
    """

    level: str
    text: str
    detail: str = ""
    action: str = ""
    act: Callable[[], None] | None = None
    about: str = ""


class NoticeRow(QFrame):
    """One message on screen.

    Signals:
        closed: It is to go away.
    """

    closed = Signal()

    def __init__(self, notice: Notice, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.notice = notice
        self._times = 1
        look = level_look(notice.level)
        self.setProperty("part", "bar")
        self.setProperty("tone", look.tone)
        self.setAccessibleName(f"{look.word}: {notice.text} {notice.detail}")
        mark = IconLabel(0, self)
        mark.show_icon(look.icon, look.tone)
        self._text = QLabel(self)
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setWordWrap(True)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 5, 6, 5)
        row.addWidget(mark, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._text, 1)
        if notice.action:
            self.action = QPushButton(notice.action, self)
            self.action.clicked.connect(self._act)
            row.addWidget(self.action, 0, Qt.AlignmentFlag.AlignVCenter)
        close = QPushButton(self)
        close.setProperty("role", "flat")
        close.setAccessibleName(self.tr("Close this message"))
        close.setToolTip(self.tr("Close"))
        dress(close, "close")
        close.clicked.connect(self.expire)
        row.addWidget(close, 0, Qt.AlignmentFlag.AlignVCenter)
        self._write()
        self._timer = QTimer(self, singleShot=True, interval=_BRIEF_MS)
        self._timer.timeout.connect(self.expire)
        if self.brief:
            self._timer.start()

    @property
    def brief(self) -> bool:
        """Whether it goes away by itself."""
        return self.notice.level in ("info", "success")

    @property
    def words(self) -> str:
        """What it says."""
        return self._text.text()

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._timer.stop()

    def expire(self) -> None:
        """Go away now."""
        self.stop()
        self.closed.emit()

    def repeat(self) -> None:
        """The same happened again."""
        self._times += 1
        self._write()

    def _write(self) -> None:
        times = f" (× {self._times})" if self._times > 1 else ""
        detail = f"\n{self.notice.detail}" if self.notice.detail else ""
        self._text.setText(f"{self.notice.text}{times}{detail}")

    def _act(self) -> None:
        self.expire()
        if self.notice.act is not None:
            self.notice.act()


class MessageBar(QWidget):
    """The newest messages, one under the other; none takes the keyboard or stops the work.

    Laid over a page, it covers its upper edge and moves nothing.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("messageBar")
        self._rows: list[NoticeRow] = []
        self._over: QWidget | None = None
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(8, 4, 8, 4)
        self._column.setSpacing(4)
        self.hide()

    def lay_over(self, page: QWidget) -> None:
        """Lie over the upper edge of a widget from now on."""
        self.setParent(page)
        self._over = page
        page.installEventFilter(self)

    def eventFilter(self, watched: object, event: QEvent) -> bool:
        """Stay as wide as what it lies over."""
        if watched is self._over and event.type() == QEvent.Type.Resize:
            self._place()
        return False

    def event(self, event: QEvent) -> bool:
        """Stay as high as the messages."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._place()
        return super().event(event)

    def _place(self) -> None:
        if self._over is not None:
            width = self._over.width()
            self.setGeometry(0, 0, width, self._column.totalHeightForWidth(width))
            self.raise_()

    def show_notice(self, notice: Notice) -> None:
        """Show a message; the same one again only counts up."""
        for row in self._rows:
            if (row.notice.level, row.notice.text, row.notice.detail) == (
                notice.level,
                notice.text,
                notice.detail,
            ):
                row.repeat()
                return
        if notice.about:
            self.settle(notice.about)
        row = NoticeRow(notice, self)
        row.closed.connect(self._row_closed)
        self._rows.append(row)
        self._column.addWidget(row)
        if len(self._rows) > _SHOWN:
            self._close(self._rows[0])
        self.show()
        self._place()

    @property
    def notices(self) -> list[Notice]:
        """What is shown, oldest first."""
        return [row.notice for row in self._rows]

    def rows(self) -> list[NoticeRow]:
        """The messages' widgets, oldest first."""
        return list(self._rows)

    def settle(self, about: str) -> None:
        """Close what was said about something: it holds no longer."""
        for row in list(self._rows):
            if row.notice.about == about:
                self._close(row)

    def clear(self) -> None:
        """Close all messages."""
        for row in list(self._rows):
            self._close(row)

    def _row_closed(self) -> None:
        row = self.sender()
        assert isinstance(row, NoticeRow)
        self._close(row)

    def _close(self, row: NoticeRow) -> None:
        if row in self._rows:
            self._rows.remove(row)
            row.stop()
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self.setVisible(bool(self._rows))
