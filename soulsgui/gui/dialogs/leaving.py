"""What becomes of the help for a server when the window is closed."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from soulsgui.gui.dialogs.fitting import FittingDialog
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import make_primary
from soulsgui.gui.preferences import AtLeaving
from soulsgui.gui.widgets.labels import Heading

_CHARACTERS = 62


class LeavingDialog(FittingDialog):
    """Stay in the tray and play on, quit after the episode, or keep the window.

    Signals:
        decided: With the `AtLeaving`.
        remembered: The same is wanted every time; with the `AtLeaving`.

    Args:
        ends_with_window: Whether the help ends when the window quits; else it was begun in a terminal.
        parent: The window.
    """

    decided = Signal(object)
    remembered = Signal(object)

    def __init__(self, ends_with_window: bool = True, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("leavingDialog")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Close SoulsGUI"))
        self.stay = QPushButton(tr("&Stay in the tray"), self)
        make_primary(self.stay)
        self.stay.setDefault(True)
        self.stay.clicked.connect(lambda: self._decide(AtLeaving.TRAY))
        self.quit = QPushButton(tr("&Quit"), self)
        self.quit.setAutoDefault(False)
        self.quit.clicked.connect(lambda: self._decide(AtLeaving.QUIT))
        self.cancel = QPushButton(tr("&Cancel"), self)
        self.cancel.setAutoDefault(False)
        self.cancel.clicked.connect(self.reject)
        self.remember = QCheckBox(tr("&Remember this; Settings (Ctrl+,) changes it"), self)
        self._build(ends_with_window)

    def _build(self, ends_with_window: bool) -> None:
        tray = tr(
            "In the tray it plays on. The icon there says how it is; a click on it brings the window back, "
            "and its menu pauses, stops and quits."
        )
        column = QVBoxLayout(self)
        column.setSpacing(12)
        column.addWidget(Heading(tr("This computer is helping to train"), 1, self))
        quitting = tr("If you quit, it ends its episode and helps no longer: nothing plays unseen.")
        if not ends_with_window:
            quitting = tr(
                "It was started in a terminal (soulsgui join): if you quit, it plays on there. "
                "There, or with `soulsgui join stop`, it ends."
            )
        for sentence in (tray, quitting):
            label = QLabel(sentence, self)
            label.setWordWrap(True)
            column.addWidget(label)
        foot = QHBoxLayout()
        foot.addWidget(self.quit)
        foot.addStretch(1)
        foot.addWidget(self.stay)
        foot.addWidget(self.cancel)
        column.addWidget(self.remember)
        column.addLayout(foot)
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * _CHARACTERS)
        self.stay.setFocus()

    def _decide(self, choice: AtLeaving) -> None:
        if self.remember.isChecked():
            self.remembered.emit(choice)
        self.decided.emit(choice)
        self.accept()
