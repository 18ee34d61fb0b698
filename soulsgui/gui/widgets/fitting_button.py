"""Buttons that give up their words where there is no room for them, and rows of them."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QKeySequence, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QStyle, QStyleOptionButton, QWidget

from soulsgui.gui.colours import Tone
from soulsgui.gui.icons import dress

_ICON_GAP_PX = 4
_ICON_ROOM_PX = 32


class FittingButton(QPushButton):
    """A button with an icon, whose words move to its tooltip when it has to be narrow."""

    def __init__(self, words: str = "", icon: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._says = ""
        self._tip = ""
        self._icon_only = False
        if icon:
            self.say(words, icon)

    def say(self, words: str, icon: str, tone: Tone = Tone.TEXT) -> None:
        """Say something else."""
        self._says = words
        dress(self, icon, tone)
        self._write()

    def explain(self, tip: str) -> None:
        """Tell more in the tooltip and to screen readers."""
        if tip != self._tip:
            self._tip = tip
            self._write()

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
        needed = words + QSize(self.iconSize().width() + _ICON_GAP_PX, 0)
        kind = QStyle.ContentsType.CT_PushButton
        return self.style().sizeFromContents(kind, option, needed, self).width()

    def _write(self) -> None:
        name = self._says.replace("&", "")
        self.setText("" if self._icon_only else self._says)
        # With its words its key would go, too.
        self.setShortcut(QKeySequence.mnemonic(self._says))
        self.setAccessibleName(name)
        self.setAccessibleDescription(self._tip)
        self.setToolTip(self._tip or (name if self._icon_only else ""))


def fit(buttons: Sequence[FittingButton], room_px: int, gap_px: int) -> None:
    """Show the words of buttons in a row if there is room for all, else none of them."""
    needed = sum(button.full_width for button in buttons) + gap_px * (len(buttons) - 1)
    for button in buttons:
        button.show_icon_only(needed > room_px)


def icons_width(buttons: Sequence[FittingButton], gap_px: int) -> int:
    """Return how wide a row of buttons is without any words, in pixels."""
    shown = [button for button in buttons if not button.isHidden()]
    icons = sum(button.iconSize().width() + _ICON_ROOM_PX for button in shown)
    return icons + gap_px * (len(shown) - 1)


def give_way(buttons: Sequence[FittingButton], room_px: int, gap_px: int) -> None:
    """Let buttons in a row give up their words, the last one first, until the others have room for theirs."""
    shown = [button for button in buttons if not button.isHidden()]
    needed = sum(button.full_width for button in shown) + gap_px * (len(shown) - 1)
    for button in reversed(shown):
        narrow = needed > room_px
        button.show_icon_only(narrow)
        if narrow:
            needed -= button.full_width - button.iconSize().width() - _ICON_ROOM_PX


class FittingRow(QWidget):
    """A row of widgets with buttons among them."""

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
