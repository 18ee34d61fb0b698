"""What a page shows while it has nothing to show: what it is for, and what to do next."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from soulsgui.gui.colours import Tone
from soulsgui.gui.icons import dress, make_primary
from soulsgui.gui.theme import GAP_M
from soulsgui.gui.widgets.boxes import column
from soulsgui.gui.widgets.labels import Heading, IconLabel, Label, muted

_ICON_PX = 48


class EmptyState(QWidget):
    """An icon, a sentence, what to do, and a button that does it.

    Signals:
        acted: The button was clicked.
    """

    acted = Signal()

    def __init__(
        self,
        icon: str,
        title: str,
        hint: str,
        action: str = "",
        action_icon: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        mark = IconLabel(_ICON_PX, self)
        mark.show_icon(icon, Tone.MUTED)
        self._title = Heading(title, 1, self)
        self._title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._hint = muted(Label(hint, self))
        self._hint.setWordWrap(True)
        self._hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.button = QPushButton(action, self)
        make_primary(self.button)
        if action_icon:
            dress(self.button, action_icon)
        self.button.setVisible(bool(action))
        self.button.clicked.connect(self.acted)
        middle = Qt.AlignmentFlag.AlignHCenter
        parts = (mark, middle), self._title, self._hint, (self.button, middle)
        column(None, *parts, None, on=self, gap_px=GAP_M)

    def say(self, title: str, hint: str) -> None:
        """Say something else."""
        self._title.setText(title)
        self._hint.setText(hint)
