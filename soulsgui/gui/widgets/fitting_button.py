"""A button that gives up its words where there is no room for them."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QPushButton, QStyle, QStyleOptionButton, QWidget

from soulsgui.gui.colours import Tone
from soulsgui.gui.icons import BESIDE, dress
from soulsgui.gui.text import tip

_ICON_GAP_PX = 4


class FittingButton(QPushButton):
    """A button with an icon, whose words move to its tooltip when it has to be narrow."""

    def __init__(self, words: str = "", icon: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._says = ""
        self._mark = ("", Tone.TEXT)
        self._tip = ""
        self._icon_only = False
        if icon:
            self.say(words, icon)

    def say(self, words: str, icon: str, tone: Tone = Tone.TEXT) -> None:
        """Say something else."""
        self._says, self._mark = words, (icon, tone)
        self._write()

    @property
    def title(self) -> str:
        """What it does, in words."""
        return self._says

    def explain(self, tip: str) -> None:
        """Tell more in the tooltip and to screen readers."""
        if tip != self._tip:
            self._tip = tip
            self._write()

    def allow(self, refusal: str, hint: str = "") -> None:
        """Allow it, and say in its tooltip what it does; or say there why it would be refused."""
        self.setEnabled(not refusal)
        self.explain(refusal or hint)

    def show_icon_only(self, icon_only: bool) -> None:
        """Leave the words to the tooltip, or show them."""
        if icon_only is not self._icon_only:
            self._icon_only = icon_only
            self._write()

    @property
    def full_width(self) -> int:
        """How wide it is with its words, in pixels."""
        option = QStyleOptionButton()
        self.initStyleOption(option)
        option.text = self._says
        words = self.fontMetrics().size(Qt.TextFlag.TextShowMnemonic, self._says)
        needed = words + QSize(round(self.iconSize().height() * BESIDE) + _ICON_GAP_PX, 0)
        kind = QStyle.ContentsType.CT_PushButton
        return self.style().sizeFromContents(kind, option, needed, self).width()

    def _write(self) -> None:
        name = self._says.replace("&", "")
        self.setText("" if self._icon_only else self._says)
        if self._mark[0]:
            dress(self, *self._mark)
        # With its words its key would go, too.
        self.setShortcut(QKeySequence.mnemonic(self._says))
        self.setAccessibleName(name)
        self.setAccessibleDescription(self._tip)
        self.setToolTip(tip(self._tip) or (name if self._icon_only else ""))
