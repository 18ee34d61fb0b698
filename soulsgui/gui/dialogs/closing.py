"""What becomes of the run when the window is closed."""

from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from soulsgui.gui import text
from soulsgui.gui.calls import Call
from soulsgui.gui.dialogs.fitting import FittingDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import make_primary
from soulsgui.gui.preferences import AtClosing
from soulsgui.gui.run_actions import run_title
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.labels import Heading
from soulsgui.wire.control import ApiError, RunStatus

_CHARACTERS = 62


def cost_of_closing(run: RunStatus) -> str:
    """Return what closing costs, in a sentence or two."""
    parts = [tr("“{run}” goes on in the background if you let it.").format(run=run_title(run))]
    if run.checkpoint_age_s is not None:
        age = text.about(run.checkpoint_age_s)
        parts.append(tr("Its last checkpoint is {age} old; stopping saves first.").format(age=age))
    else:
        parts.append(tr("Stopping saves first."))
    return " ".join(parts)


class ClosingDialog(FittingDialog):
    """Stop the run and quit, keep training, or stay.

    Signals:
        decided: The window may close: the run was stopped (`AtClosing.STOP`), or goes on (`AtClosing.KEEP`).
        remembered: The same is wanted every time; with the `AtClosing`.

    Args:
        feed: The runner.
        parent: The window.
    """

    decided = Signal(object)
    remembered = Signal(object)

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("closingDialog")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Close SoulsGUI"))
        self._feed = feed
        words = Words(tr("&Stop run and quit"), tr("Saving and ending the run …"), tr("Stopped"))
        self.stop = CommandButton(words, "stop", self._send, self)
        self.stop.finished.connect(self._stopped)
        self.stop.problem.connect(self._failed)
        self.stop.setAutoDefault(False)
        self.keep = QPushButton(tr("&Keep training"), self)
        make_primary(self.keep)
        self.keep.setDefault(True)
        self.keep.clicked.connect(self._keep)
        self.cancel = QPushButton(tr("&Cancel"), self)
        self.cancel.setAutoDefault(False)
        self.cancel.clicked.connect(self.reject)
        self.remember = QCheckBox(tr("&Remember this; Settings (Ctrl+,) changes it"), self)
        self.wrong = QLabel(self)
        self.wrong.setWordWrap(True)
        self.wrong.setProperty("tone", "bad")
        self.wrong.hide()
        self._build()

    def _build(self) -> None:
        cost = QLabel(cost_of_closing(self._feed.status.run), self)
        later = QLabel(tr("To come back, open SoulsGUI again."), self)
        later.setProperty("weight", "muted")
        for label in (cost, later):
            label.setWordWrap(True)
        foot = QHBoxLayout()
        foot.addWidget(self.stop)
        foot.addStretch(1)
        foot.addWidget(self.keep)
        foot.addWidget(self.cancel)
        column = QVBoxLayout(self)
        column.setSpacing(12)
        column.addWidget(Heading(tr("A run is going on"), 1, self))
        column.addWidget(cost)
        column.addWidget(later)
        column.addWidget(self.remember)
        column.addWidget(self.wrong)
        column.addLayout(foot)
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * _CHARACTERS)
        self.keep.setFocus()

    def stop_now(self) -> None:
        """Stop the run without asking, as it was remembered."""
        self.remember.hide()
        self.stop.send()

    def _send(self) -> Call:
        self.wrong.hide()
        self.keep.setEnabled(False)
        return self._feed.call("run.stop")

    def _stopped(self, _: dict[str, Any]) -> None:
        self._decide(AtClosing.STOP)

    def _keep(self) -> None:
        self._decide(AtClosing.KEEP)

    def _decide(self, choice: AtClosing) -> None:
        if self.remember.isChecked():
            self.remembered.emit(choice)
        self.decided.emit(choice)
        self.accept()

    def _failed(self, error: ApiError) -> None:
        self.keep.setEnabled(True)
        self.wrong.setText(f"{error.message}\n{error.remedy}".strip())
        self.wrong.show()
