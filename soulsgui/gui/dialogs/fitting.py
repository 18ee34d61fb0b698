"""A dialog that fits: what it says into it, and itself onto its screen."""

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from soulsgui.gui.i18n import tr
from soulsgui.gui.screen import bring_onto_screen, room_for


class FittingDialog(QDialog):
    """Never cuts its sentences, and is never larger than its screen: its parts are scrolled rather.

    Wrapped labels ask for more height than Qt gives them by itself.
    """

    def event(self, event: QEvent) -> bool:
        """Fit anew when it appears, and when sentences or titles come that need more room."""
        handled = super().event(event)
        if event.type() in (QEvent.Type.Show, QEvent.Type.LayoutRequest):
            self._fit()
        return handled

    def foot(self, *aside: QPushButton) -> QHBoxLayout:
        """Return the last row of a dialog that asks nothing: Enter closes it.

        Args:
            *aside: Buttons at the left.
        """
        close = QPushButton(tr("&Close"), self)
        close.setDefault(True)
        close.clicked.connect(self.reject)
        row = QHBoxLayout()
        for button in aside:
            button.setAutoDefault(False)
            row.addWidget(button)
        row.addStretch(1)
        row.addWidget(close)
        return row

    def _fit(self) -> None:
        column = self.layout()
        if column is None or not self.isVisible():
            return
        room = room_for(self).size()
        least = column.totalMinimumSize()
        width = min(max(self.width(), least.width()), room.width())
        height = max(least.height(), column.totalMinimumHeightForWidth(width))
        if height > room.height():
            self._let_scroll(column)
        self.resize(width, min(max(self.height(), height), room.height()))
        bring_onto_screen(self)

    def _let_scroll(self, column: QLayout) -> None:
        """Let everything be scrolled but the last row, which has the buttons."""
        last = column.takeAt(column.count() - 1)
        parts = QWidget()
        parts.setLayout(column)
        area = QScrollArea(self)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(parts)
        around = QVBoxLayout(self)
        around.addWidget(area, 1)
        assert last is not None
        around.addItem(last)
