"""The banner of the connection above the pages, and messages below them that can be put away."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QEnterEvent
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QWidget

from soulsgui.gui.icons import dress, make_primary
from soulsgui.gui.models.connection import Connection, banner_words
from soulsgui.gui.states import level_look
from soulsgui.gui.theme import GAP_M, GAP_S, GAP_XS
from soulsgui.gui.widgets.boxes import column, row
from soulsgui.gui.widgets.labels import Heading, IconLabel, Label, keep_place, set_property


class Banner(QFrame):
    """Shown unless everything is well.

    Signals:
        acted: The main button was clicked; with the `ConnectionState`.
    """

    acted = Signal(object)

    def __init__(self, parent: QWidget | None = None, clock: Callable[[], float] = time.time) -> None:
        super().__init__(parent)
        self.setObjectName("banner")
        self.setProperty("part", "banner")
        self._clock = clock
        self._connection: Connection | None = None
        self._mark = IconLabel(0, self)
        self._title = Heading("", 0, self)
        self._detail = Label(parent=self)
        self._detail.setWordWrap(True)
        self.button = QPushButton(self)
        make_primary(self.button)
        self.button.clicked.connect(self._clicked)
        # As high without button and detail as with both.
        keep_place(self.button)
        self._detail.setMinimumHeight(self.fontMetrics().height())
        words = column(self._title, self._detail, gap_px=0)
        parts = self._mark, (words, 1), (self.button, Qt.AlignmentFlag.AlignVCenter)
        row(*parts, on=self, margins=(GAP_M, GAP_S, GAP_M, GAP_S), gap_px=GAP_S)
        self.hide()

    def show_connection(self, connection: Connection) -> None:
        """Say how things stand; nothing when all is well."""
        self._connection = connection
        words = banner_words(connection, self._clock())
        if words is not None:
            self._mark.show_icon(words.icon, words.tone)
            self._title.setText(words.title)
            self._detail.setText(words.detail)
            self.button.setText(words.action)
            self.button.setVisible(bool(words.action))
            set_property(self, "tone", words.tone)
            self.setAccessibleName(f"{words.title}. {words.detail}")
        self.setVisible(words is not None)

    def _clicked(self) -> None:
        if self._connection is not None:
            self.acted.emit(self._connection.state)


def close_button(parent: QWidget) -> QPushButton:
    """Return the button that puts a message away."""
    close = QPushButton(parent)
    close.setProperty("role", "flat")
    close.setAccessibleName("Close this message")
    close.setToolTip("Close")
    dress(close, "close")
    return close


_KEPT = 3
_BRIEF_MS, _WITH_BUTTON_MS = 8_000, 20_000


@dataclass(frozen=True)
class Notice:
    """One message."""

    level: str  # `info`, `success`, `warning` or `error`
    text: str  # what happened
    detail: str = ""  # why, and what to do
    action: str = ""  # words of the button that does it; empty for none
    act: Callable[[], None] | None = None  # what the button does
    # Of what is about the same only the newest stands, until it is settled; empty for nothing.
    about: str = ""


class NoticeRow(QFrame):
    """One message on screen; good news goes away by itself, but not from under the mouse.

    Signals:
        closed: It is to go away; with itself.
    """

    closed = Signal(object)

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
        self._text = Label(parent=self)
        self._text.setWordWrap(True)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        buttons = []
        if notice.action:
            self.action = QPushButton(notice.action, self)
            self.action.clicked.connect(self._act)
            buttons.append(self.action)
        close = close_button(self)
        close.clicked.connect(self.expire)
        middle = Qt.AlignmentFlag.AlignVCenter
        aside = [(button, middle) for button in (*buttons, close)]
        row((mark, middle), (self._text, 1), *aside, on=self, margins=(GAP_M, GAP_XS, GAP_S, GAP_XS))
        self._write()
        self.timer = QTimer(self, singleShot=True, interval=_WITH_BUTTON_MS if notice.action else _BRIEF_MS)
        self.timer.timeout.connect(self.expire)
        self._count_down()

    def _count_down(self) -> None:
        if self.notice.level in ("info", "success"):
            self.timer.start()

    def enterEvent(self, event: QEnterEvent) -> None:
        """Stay while somebody is about to use it."""
        super().enterEvent(event)
        self.timer.stop()

    def leaveEvent(self, event: QEvent) -> None:
        """Count anew."""
        super().leaveEvent(event)
        self._count_down()

    def expire(self) -> None:
        """Go away now."""
        self.timer.stop()
        self.closed.emit(self)

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
    """The newest message, and when that is closed the one before; none takes the keyboard or stops the work.

    It stands below a page: it covers nothing, and what is read from the top stays where it is.

    Signals:
        filled: The first message came, or the last one went; with whether there is one.
    """

    filled = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("messageBar")
        # Oldest first.
        self.rows: list[NoticeRow] = []
        self._column = column(on=self, margins=(GAP_M, 0, GAP_M, GAP_S), gap_px=GAP_XS)
        self.hide()

    def show_notice(self, notice: Notice) -> None:
        """Show a message; the same one again only counts up."""
        said = notice.level, notice.text, notice.detail
        for one in self.rows:
            if (one.notice.level, one.notice.text, one.notice.detail) == said:
                one.repeat()
                return
        if notice.about:
            self.settle(notice.about)
        one = NoticeRow(notice, self)
        one.closed.connect(self._close)
        self.rows.append(one)
        self._column.addWidget(one)
        if len(self.rows) > _KEPT:
            self._close(self.rows[0])
        self._show_newest()

    def _show_newest(self) -> None:
        for one in self.rows:
            one.setVisible(one is self.rows[-1])
        self.setVisible(bool(self.rows))
        self.filled.emit(bool(self.rows))

    def settle(self, about: str) -> None:
        """Close what was said about something: it holds no longer."""
        for one in list(self.rows):
            if one.notice.about == about:
                self._close(one)

    def _close(self, row: NoticeRow) -> None:
        if row in self.rows:
            self.rows.remove(row)
            row.timer.stop()
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self._show_newest()
