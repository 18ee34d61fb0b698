"""A row whose buttons give up their words where there is no room for them."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from soulsgui.gui.widgets.fitting_button import FittingButton, give_way, icons_width


class FittingRow(QWidget):
    """A row of widgets with buttons among them.

    Args:
        gap_px: Pixels between two.
        parent: The widget it stands in.

    Attributes:
        row: Its layout.
    """

    def __init__(self, gap_px: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._gap_px = gap_px
        self._fitting: Sequence[FittingButton] = ()
        self.row = QHBoxLayout(self)
        self.row.setContentsMargins(0, 0, 0, 0)
        self.row.setSpacing(gap_px)

    def let_give_way(self, buttons: Sequence[FittingButton]) -> None:
        """Say whose words give way: the last one's first."""
        self._fitting = buttons

    @property
    def taken_px(self) -> int:
        """What the row needs beside these buttons, with the gaps, in pixels."""
        return 0

    def minimumSizeHint(self) -> QSize:
        """Room for the icons: the words give way."""
        hint = super().minimumSizeHint()
        if not self._fitting:
            return hint
        return QSize(self.taken_px + icons_width(self._fitting, self._gap_px), hint.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave words out where there is no room for them."""
        super().resizeEvent(event)
        self._fit()

    def event(self, event: QEvent) -> bool:
        """Do the same when a button comes, goes, or says something else."""
        # Events come before the object is whole, too.
        if event.type() == QEvent.Type.LayoutRequest and hasattr(self, "_fitting"):
            self._fit()
        return super().event(event)

    def _fit(self) -> None:
        if self._fitting:
            give_way(self._fitting, self.width() - self.taken_px, self._gap_px)
