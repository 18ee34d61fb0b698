"""A field to search with."""

from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QLineEdit, QWidget

from soulsgui.gui.icons import dress


class FilterEdit(QLineEdit):
    """A line with a magnifying glass and a cross to empty it.

    Args:
        purpose: What is searched, for screen readers and as tooltip.
        parent: The widget it stands in.
    """

    def __init__(self, purpose: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setPlaceholderText(self.tr("Filter"))
        self.setClearButtonEnabled(True)
        self.setAccessibleName(purpose)
        self.setToolTip(purpose)
        glass = self.addAction(QIcon(), QLineEdit.ActionPosition.LeadingPosition)
        dress(glass, "search")
