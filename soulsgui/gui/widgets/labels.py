"""Labels: one that shortens itself, one with a state's icon, a badge, and a heading."""

import html
from typing import TypeVar

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QAction, QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QStyle, QStyleOption, QWidget

from soulsgui.errors import printable
from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.icons import colours_of, pixmap
from soulsgui.gui.states import Look
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.widgets.boxes import NO_MARGINS, row
from soulsgui.wire.messages.base import LONGEST_DETAILS


def set_property(widget: QWidget, name: str, value: str) -> None:
    """Set a property that the style sheet asks for, and let the widget be styled again."""
    if widget.property(name) != value:
        widget.setProperty(name, value)
        widget.style().unpolish(widget)
        widget.style().polish(widget)


def set_tip(widget: QWidget | QAction, tip: str) -> None:
    """Set a tooltip; Qt tells the whole window even when it is the one that is there."""
    shown = text.tip(tip)
    if widget.toolTip() != shown:
        widget.setToolTip(shown)


def keep_place(widget: QWidget, keep: bool = True) -> None:
    """Keep the place of a widget while it is hidden, so that nothing around it moves."""
    policy = widget.sizePolicy()
    policy.setRetainSizeWhenHidden(keep)
    widget.setSizePolicy(policy)


class Label(QLabel):
    """Text as it is: nothing in it is markup, whoever wrote it.

    It is cut where it is longer than anybody reads, unless it is to be agreed to: then it is shown `whole`,
    and its bound is that of what is asked for.
    """

    _lines = True  # whether it may have several

    def __init__(self, words: str = "", parent: QWidget | None = None, whole: bool = False) -> None:
        self._most = None if whole else LONGEST_DETAILS
        super().__init__(self._plain(words), parent)
        self.setTextFormat(Qt.TextFormat.PlainText)

    def setText(self, words: str) -> None:
        """Say something else."""
        super().setText(self._plain(words))

    def _plain(self, words: str) -> str:
        return printable(words, self._most, lines=self._lines)


def caption(words: str, field: QWidget, parent: QWidget) -> Label:
    """Return the label of a field, whose letter leads the keyboard there."""
    label = Label(words, parent)
    label.setBuddy(field)
    return label


L = TypeVar("L", bound=QLabel)


def muted(label: L) -> L:
    """Return a label whose words are of less weight."""
    label.setProperty("weight", "muted")
    return label


def wrapped(
    words: str, parent: QWidget, tone: str = "", selectable: bool = False, whole: bool = False
) -> QLabel:
    """Return a label of several lines."""
    label = Label(words, parent, whole)
    label.setWordWrap(True)
    if tone:
        label.setProperty("tone", tone)
    if selectable:
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


class ElidedLabel(Label):
    """A line that ends in … when there is no room; its tooltip tells the whole."""

    _lines = False  # as high as any other, whatever is called so

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def setText(self, text: str) -> None:
        """Say something else."""
        before = self.text()
        super().setText(text)
        if self.text() != before:
            self._tell_whole()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Tell in the tooltip what no longer fits."""
        super().resizeEvent(event)
        self._tell_whole()

    def changeEvent(self, event: QEvent) -> None:
        """Do the same when font or margins are others."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._tell_whole()

    def _shown(self) -> str:
        metrics = QFontMetrics(self.font())
        return metrics.elidedText(self.text(), Qt.TextElideMode.ElideRight, self.contentsRect().width())

    def _tell_whole(self) -> None:
        set_tip(self, self.text() if self._shown() != self.text() else "")

    def minimumSizeHint(self) -> QSize:
        """Let it shrink to a few characters."""
        few = QFontMetrics(self.font()).averageCharWidth() * 4
        return QSize(min(few, self.sizeHint().width()), super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw what fits."""
        with QPainter(self) as painter:
            option = QStyleOption()
            option.initFrom(self)
            self.style().drawPrimitive(QStyle.PrimitiveElement.PE_Widget, option, painter, self)
            self.style().drawItemText(
                painter,
                self.contentsRect(),
                int(self.alignment()),
                self.palette(),
                self.isEnabled(),
                self._shown(),
                self.foregroundRole(),
            )


def elided(words: str, parent: QWidget) -> ElidedLabel:
    """Return a line that is as wide as its words where there is room, and no wider."""
    label = ElidedLabel(words, parent)
    label.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
    return label


class WrappedLabel(Label):
    """Text in several lines, measured once for each width: layouts ask dozens of times, and Qt wraps anew."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._heights: dict[int, int] = {}
        self.setWordWrap(True)

    def setText(self, text: str) -> None:
        """Say something else."""
        self._heights = {}
        super().setText(text)

    def changeEvent(self, event: QEvent) -> None:
        """Measure anew when font or margins are others."""
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._heights = {}
        super().changeEvent(event)

    def heightForWidth(self, width: int) -> int:
        """Return the height of all lines."""
        if width not in self._heights:
            self._heights[width] = super().heightForWidth(width)
        return self._heights[width]


class Prose(QLabel):
    """Sentences with room between their lines; nothing in them is markup, whoever wrote them.

    They are cut, or shown `whole`, as a `Label` is.
    """

    def __init__(self, words: str = "", parent: QWidget | None = None, whole: bool = False) -> None:
        super().__init__(parent)
        self._most = None if whole else LONGEST_DETAILS
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setWordWrap(True)
        self.setText(words)

    def setText(self, words: str) -> None:
        """Say something else."""
        self._words = text.plain(words, self._most)
        super().setText(text.spaced(html.escape(self._words).replace("\n", "<br>")))

    def text(self) -> str:
        """Return what it says."""
        return self._words


class Remark(WrappedLabel):
    """What is wrong, or was done, in several lines; hidden while it says nothing."""

    def __init__(self, parent: QWidget, tone: str = "bad", selectable: bool = False) -> None:
        super().__init__("", parent)
        self.setProperty("tone", tone)
        if selectable:
            self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.hide()

    def setText(self, text: str) -> None:
        """Say something else."""
        super().setText(text)
        self.setVisible(bool(text))


class IconLabel(QWidget):
    """One icon in the colour of a tone; as high as a line of text unless said."""

    def __init__(self, size: int = 0, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._size = size
        self._name = ""
        self._tone = Tone.TEXT
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_icon(self, name: str, tone: Tone = Tone.TEXT) -> None:
        """Show another icon; empty for none."""
        if (name, tone) != (self._name, self._tone):
            self._name, self._tone = name, tone
            self.update()

    def sizeHint(self) -> QSize:
        """As high as a line of text, or as said."""
        edge = self._size or QFontMetrics(self.font()).height() + 1
        return QSize(edge, edge)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font's size."""
        if event.type() == QEvent.Type.FontChange:
            self.updateGeometry()
        super().changeEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the icon."""
        if self._name:
            colours = colours_of(self)
            colour = colours.tones[self._tone] if self.isEnabled() else colours.disabled
            edge = min(self.width(), self.height())
            with QPainter(self) as painter:
                painter.drawPixmap(0, 0, pixmap(self._name, colour, edge, self.devicePixelRatioF()))


class StateLabel(QWidget):
    """A state: icon, word and colour; one that wraps has a sentence, which can be selected."""

    def __init__(self, parent: QWidget | None = None, wraps: bool = False) -> None:
        super().__init__(parent)
        self._icon = IconLabel(0, self)
        self._word = wrapped("", self, selectable=True) if wraps else ElidedLabel("", self)
        if not wraps:
            self._word.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        place = Qt.AlignmentFlag.AlignTop if wraps else Qt.AlignmentFlag.AlignVCenter
        row((self._icon, place), (self._word, 1), on=self, margins=NO_MARGINS, gap_px=GAP_S)

    def show_look(self, look: Look, word: str = "") -> None:
        """Show a state."""
        self._icon.show_icon(look.icon, look.tone)
        self._word.setText(word or look.word)
        set_property(self._word, "tone", look.tone)
        self.setAccessibleName(self._word.text())

    @property
    def word(self) -> str:
        """What it says."""
        return self._word.text()


class Badge(Label):
    """A word on a faint ground."""

    def __init__(self, text: str = "", tone: Tone = Tone.IDLE, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setProperty("part", "badge")
        self.setProperty("tone", tone)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Maximum)


class Heading(Label):
    """A bold line; the style sheet gives it its size, which follows the application's font."""

    def __init__(self, text: str = "", level: int = 0, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setProperty("heading", str(level))
