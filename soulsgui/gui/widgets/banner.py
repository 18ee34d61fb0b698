"""The banner over the pages: how the window stands with its server, and one button."""

import time
from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget

from soulsgui.gui.connection_state import Connection, banner_words
from soulsgui.gui.icons import make_primary
from soulsgui.gui.widgets.labels import Heading, IconLabel, keep_place, set_property


class Banner(QFrame):
    """Shown unless everything is well.

    Signals:
        acted: The main button was clicked; with the `ConnectionState`.

    Args:
        parent: The widget it stands in.
        clock: Seconds since the epoch.
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
        self._detail = QLabel(self)
        self._detail.setWordWrap(True)
        self._button = QPushButton(self)
        make_primary(self._button)
        self._button.clicked.connect(self._clicked)
        # As high without button and with one line as with both.
        keep_place(self._button)
        self._detail.setMinimumHeight(2 * self.fontMetrics().height())
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 12, 6)
        row.setSpacing(8)
        row.addWidget(self._mark)
        row.addWidget(self._title)
        row.addWidget(self._detail, 1)
        row.addWidget(self._button, 0, Qt.AlignmentFlag.AlignVCenter)
        self.hide()

    def show_connection(self, connection: Connection) -> None:
        """Say how things stand; nothing when all is well."""
        self._connection = connection
        words = banner_words(connection, self._clock())
        if words is not None:
            self._mark.show_icon(words.icon, words.tone)
            self._title.setText(words.title)
            self._detail.setText(words.detail)
            self._button.setText(words.action)
            self._button.setVisible(bool(words.action))
            set_property(self, "tone", words.tone)
            self.setAccessibleName(f"{words.title}. {words.detail}")
        self.setVisible(words is not None)

    @property
    def button(self) -> QPushButton:
        """The main button."""
        return self._button

    @property
    def words(self) -> str:
        """What it says."""
        return f"{self._title.text()}\n{self._detail.text()}".strip()

    def _clicked(self) -> None:
        if self._connection is not None:
            self.acted.emit(self._connection.state)
