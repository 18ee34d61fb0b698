"""Where the time of a run goes: a sentence with a bar."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from soulsgui.gui import text
from soulsgui.gui.icons import colours_of, qcolor
from soulsgui.gui.overview.pace import bottleneck_words, shares_of_time
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.widgets.boxes import NO_MARGINS, row
from soulsgui.gui.widgets.labels import ElidedLabel, set_tip
from soulsgui.wire.control import ClientStatus, RunStatus

_BAR_CHARACTERS = 20
_INSET_PX = 2


class Bottleneck(QWidget):
    """Says who waits for whom, and what one more client would give; the bar is hidden without a sentence."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.words = ElidedLabel("", self)
        self.words.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.bar = SharesBar("Where the time goes", self)
        self.bar.hide()
        row(self.words, self.bar, on=self, margins=NO_MARGINS, gap_px=GAP_S)

    def show_run(self, run: RunStatus, clients: Sequence[ClientStatus]) -> None:
        """Show where its time goes now."""
        self.words.setText(bottleneck_words(run, clients))
        self.bar.show_shares(shares_of_time(run))
        self.bar.setVisible(bool(self.words.text()))


class SharesBar(QWidget):
    """Parts of a whole in a line of text, in the colours of curves; its tooltip says them in words."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._parts: list[float] = []

    def show_shares(self, shares: dict[str, float]) -> None:
        """Show these parts, from left to right; together they are 1."""
        self._parts = list(shares.values())
        words = "\n".join(f"{name}: {text.percent(100 * part)}" for name, part in shares.items())
        self.setAccessibleDescription(words)
        set_tip(self, f"{self.accessibleName()}, from left to right:\n{words}")
        self.update()

    def sizeHint(self) -> QSize:
        """As high as a line of text."""
        metrics = self.fontMetrics()
        return QSize(_BAR_CHARACTERS * metrics.averageCharWidth(), metrics.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the parts beside each other."""
        colours, left = colours_of(self), 0.0
        with QPainter(self) as painter:
            for number, part in enumerate(self._parts):
                width = part * self.width()
                place = QRectF(left, _INSET_PX, max(width - 1, 0), self.height() - 2 * _INSET_PX)
                painter.fillRect(place, qcolor(colours.curve(number)))
                left += width
