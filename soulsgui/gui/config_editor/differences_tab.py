"""The table of differences: shipped, next run, running."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QStackedLayout, QVBoxLayout, QWidget

from soulsgui.gui.config_editor.differences import Difference, DifferencesModel
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.table import Table


class DifferencesTab(QWidget):
    """Every setting that is not the same everywhere.

    Signals:
        opened: A setting was double-clicked; with its key.
    """

    opened = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = DifferencesModel(self)
        self.table = Table("differencesTable", self.tr("Differences"), self)
        self.table.setModel(self.model)
        self.table.setSelectionMode(Table.SelectionMode.SingleSelection)
        self.table.row_opened.connect(self._open)
        about = QLabel(self.tr("A double click on a row leads to the setting in the form."), self)
        about.setProperty("weight", "muted")
        self._empty = EmptyState(
            "compare",
            self.tr("Everything is as shipped"),
            self.tr("What you change appears here, and so does what the present run uses instead."),
            parent=self,
        )
        page = QWidget(self)
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 8, 0, 0)
        column.addWidget(about)
        column.addWidget(self.table, 1)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(page)
        self._stack.addWidget(self._empty)

    def show_differences(self, found: Sequence[Difference]) -> None:
        """Show these and no others."""
        self.model.replace(found)
        self._stack.setCurrentIndex(0 if found else 1)
        self.setFocusProxy(self.table if found else self._empty)

    def _open(self, *_: object) -> None:
        one = self.model.at(self.table.currentIndex().row())
        if one is not None:
            self.opened.emit(one.spec.key)
