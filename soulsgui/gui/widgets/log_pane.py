"""Log lines as they come: bounded, quick, with level, filter, follow and copy."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QGuiApplication,
    QKeySequence,
    QResizeEvent,
    QShortcut,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QCheckBox,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)

from soulsgui.gui.colours import Tone
from soulsgui.gui.icons import colours_of, dress, qcolor
from soulsgui.gui.text import plain, plural
from soulsgui.gui.theme import GAP_S, fixed_font
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, flow
from soulsgui.gui.widgets.inputs import ChoiceBox, FilterEdit
from soulsgui.gui.widgets.labels import caption
from soulsgui.wire.control import LogLine

LEVELS = ("debug", "info", "warning", "error")
KEPT_LINES = 5000
_LONGEST_LINE = 10_000  # characters that are shown of one
_RANKS = {level: rank for rank, level in enumerate(LEVELS)} | {"warn": 2, "critical": 3, "fatal": 3}


def rank(level: str) -> int:
    """Return how important a level is, 0 to 3; a line without one counts as `info`."""
    return _RANKS.get(level.lower(), 1)


def tone(level: str) -> Tone:
    """Return the colour of a level's lines."""
    return (Tone.MUTED, Tone.TEXT, Tone.WARNING, Tone.BAD)[rank(level)]


@dataclass(frozen=True)
class LogFilter:
    """Which lines are wanted."""

    least: str = "debug"  # least important level
    words: str = ""  # text that the line must contain, whatever its case

    def passes(self, line: LogLine, level: str) -> bool:
        """Whether a line of a level is wanted."""
        if rank(level) < rank(self.least):
            return False
        return not self.words or self.words.casefold() in line.text.casefold()


def written(line: LogLine, with_service: bool = True) -> str:
    """Return a line as it stands in the pane: `14:02:09  trainer    INFO     text`."""
    parts = []
    if line.time is not None:
        parts.append(f"{datetime.fromtimestamp(line.time):%H:%M:%S}")
    if with_service:
        parts.append(f"{line.service:<10}")
    if line.level:
        parts.append(f"{line.level.upper():<7}")
    parts.append(line.text.rstrip())
    return plain("  ".join(parts), _LONGEST_LINE)


Leveled = tuple[LogLine, str]
"""A line with its level; a line without one (of a traceback) has that of the line before it."""


def _leveled(line: LogLine, last: dict[str, str]) -> Leveled:
    """Return the next line with its level, given the last one of each service."""
    if line.level:
        last[line.service] = line.level
    return line, last.get(line.service, "")


class LogBuffer:
    """The newest lines, and those of them that wait to be shown."""

    def __init__(self, limit: int = KEPT_LINES) -> None:
        self._lines: deque[Leveled] = deque(maxlen=limit)
        self._fresh: deque[Leveled] = deque(maxlen=limit)
        self._last: dict[str, int] = {}
        self._levels: dict[str, str] = {}
        self.filter = LogFilter()

    def add(self, lines: Iterable[LogLine]) -> None:
        """Take lines; those with a number already seen of their service are doubles and passed over."""
        for line in lines:
            if line.number > self._last.get(line.service, -1):
                self._last[line.service] = line.number
                self._lines.append(_leveled(line, self._levels))
                if self.filter.passes(*self._lines[-1]):
                    self._fresh.append(self._lines[-1])

    def prepend(self, lines: Sequence[LogLine]) -> bool:
        """Put older lines before those that are here."""
        levels: dict[str, str] = {}
        older = [_leveled(line, levels) for line in lines]
        before = len(self._lines)
        self._lines.extendleft(reversed(older))
        return len(self._lines) < before + len(older)

    def place_of(self, service: str, number: int) -> int | None:
        """Return the place among the wanted lines of one line, None when it is not among them."""
        for place, (line, _) in enumerate(self.wanted()):
            if line.service == service and line.number == number:
                return place
        return None

    def take_fresh(self) -> list[Leveled]:
        """Return the wanted lines that came since the last call."""
        fresh = list(self._fresh)
        self._fresh.clear()
        return fresh

    def wanted(self) -> list[Leveled]:
        """Return all wanted lines, of which none is fresh any more."""
        self._fresh.clear()
        return [each for each in self._lines if self.filter.passes(*each)]

    @property
    def lines(self) -> list[LogLine]:
        """All lines, wanted or not, oldest first."""
        return [line for line, _ in self._lines]

    def clear(self) -> None:
        """Forget everything but the filter."""
        self._lines.clear()
        self._fresh.clear()
        self._last.clear()
        self._levels.clear()

    def __len__(self) -> int:
        return len(self._lines)


_FLUSH_MS = 100


class LogPane(QWidget):
    """The newest lines of one or of all services.

    Signals:
        follow_changed: The end is kept in view from now on, or no longer.
        narrowed: The user wants other lines: see `least` and `words`.
        top_reached: The user scrolled to the first line.
    """

    follow_changed = Signal(bool)
    narrowed = Signal()
    top_reached = Signal()

    def __init__(self, parent: QWidget | None = None, with_controls: bool = True) -> None:
        super().__init__(parent)
        self.setObjectName("logPane")
        self._buffer = LogBuffer()
        self._with_service = True
        self._empty_text = ""
        self._stale = False
        self._build(with_controls)
        self._throttle = Throttle(self, self._flush, _FLUSH_MS)
        self._take_font()

    def _build(self, with_controls: bool) -> None:
        titles = ("Everything", "Information", "Warnings", "Errors")
        self._level = ChoiceBox("Least important level shown", self, zip(titles, LEVELS, strict=True))
        self._level.currentIndexChanged.connect(self._narrow)
        self._words = FilterEdit("Show only lines with this text", self)
        self._words.textChanged.connect(self._narrow)
        self._follow = QCheckBox("&Follow", self)
        self._follow.setChecked(True)
        self._follow.toggled.connect(self._follow_toggled)
        self._copy = QPushButton("&Copy", self)
        dress(self._copy, "copy")
        self._copy.setToolTip("Copy the selected lines, or all that are shown")
        self._copy.clicked.connect(self.copy)
        controls = QWidget(self)
        level = caption("&Level", self._level, controls)
        flow(level, self._level, self._words, self._follow, self._copy, gap_px=GAP_S, on=controls)
        controls.setVisible(with_controls)
        self._text = QPlainTextEdit(self)
        self._text.setReadOnly(True)
        self._text.setUndoRedoEnabled(False)
        self._text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._text.setMaximumBlockCount(KEPT_LINES)
        self._text.setAccessibleName("Log")
        self._text.verticalScrollBar().actionTriggered.connect(self._scrolled)
        self._landing = self._words if with_controls else self._text
        column(controls, (self._text, 1), on=self, margins=NO_MARGINS)
        if not with_controls:
            # For a glance: a scroll bar would cover a line.
            self._text.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
            self._text.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        else:
            find = QShortcut(QKeySequence.StandardKey.Find, self)
            find.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            find.activated.connect(self.focus_filter)

    def add(self, lines: Iterable[LogLine]) -> None:
        """Add lines as the feed brings them; they appear with the next batch."""
        self._buffer.add(lines)
        self._throttle.request()

    def replace(self, lines: Iterable[LogLine], with_service: bool = True) -> None:
        """Show these lines and no others."""
        self._with_service = with_service
        self._buffer.clear()
        self._buffer.add(lines)
        self._write_all()

    def prepend(self, lines: Sequence[LogLine]) -> bool:
        """Put older lines above the others; what is in view stays where it is."""
        bar = self._text.verticalScrollBar()
        first, place = next(iter(self.shown), None), bar.value()
        dropped = self._buffer.prepend(lines)
        self._follow.setChecked(False)
        self._write_all()
        if first is not None:
            bar.setValue(place + (self._buffer.place_of(first.service, first.number) or 0))
        return dropped

    def show_line(self, line: LogLine) -> None:
        """Bring a line into view and put the cursor on it."""
        place = self._buffer.place_of(line.service, line.number)
        if place is None:
            return
        self._follow.setChecked(False)
        block = self._text.document().findBlockByNumber(place)
        cursor = QTextCursor(block)
        cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
        self._text.setTextCursor(cursor)
        self._text.centerCursor()

    def show_empty_text(self, text: str) -> None:
        """Say what to expect while there is no line."""
        self._empty_text = text
        self._say_why_empty()

    def _say_why_empty(self) -> None:
        # Of lines that are not here nothing can be said.
        none_fits = plural(
            len(self._buffer), "The one line read does not match.", "None of the {n} lines read matches."
        )
        self._text.setPlaceholderText(none_fits if len(self._buffer) else self._empty_text)
        # Qt paints the place of the first line anew, and cuts the text that has more.
        self._text.viewport().update()

    @property
    def text(self) -> str:
        """What is shown."""
        return self._text.toPlainText()

    @property
    def lines(self) -> list[LogLine]:
        """All lines that are held, shown or not, oldest first."""
        return self._buffer.lines

    @property
    def shown(self) -> list[LogLine]:
        """The lines that are shown, oldest first."""
        return [line for line, _ in self._buffer.wanted()]

    @property
    def least(self) -> str:
        """The least level that is shown."""
        return self._buffer.filter.least

    @property
    def words(self) -> str:
        """The text that lines must contain."""
        return self._buffer.filter.words

    @property
    def narrow(self) -> bool:
        """Whether not every line is wanted."""
        return self._buffer.filter != LogFilter()

    def show_everything(self) -> None:
        """Take level and filter back: every line is shown."""
        self._level.setCurrentIndex(0)
        self._words.clear()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Hand the keyboard on; to a focus proxy Tab would jump over what stands before it."""
        super().focusInEvent(event)
        self._landing.setFocus(event.reason())

    def focus_filter(self) -> None:
        """Let the user type what lines must contain."""
        self._words.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._words.selectAll()

    def _narrow(self) -> None:
        self._buffer.filter = LogFilter(self._level.currentData(), self._words.text().strip())
        self._write_all()
        self.narrowed.emit()

    def _write_all(self) -> None:
        self._stale = False
        self._text.clear()
        self._write(self._buffer.wanted())
        self._say_why_empty()

    def _flush(self) -> None:
        if self._stale:
            bar = self._text.verticalScrollBar()
            place = bar.value()
            self._write_all()
            if not self._follow.isChecked():
                bar.setValue(place)
        else:
            self._write(self._buffer.take_fresh())

    def _write(self, lines: list[Leveled]) -> None:
        if not lines:
            return
        cursor = QTextCursor(self._text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        colours = colours_of(self)
        begun = not self._text.document().isEmpty()
        for colour, texts in _by_tone(lines, self._with_service):
            form = QTextCharFormat()
            form.setForeground(qcolor(colours.tones[colour]))
            if colour is Tone.BAD:
                form.setBackground(qcolor(colours.washes[colour]))
            cursor.insertText(("\n" if begun else "") + "\n".join(texts), form)
            begun = True
        cursor.endEditBlock()
        self._to_end()

    @property
    def follow(self) -> bool:
        """Whether the end is kept in view."""
        return bool(self._follow.isChecked())

    def set_follow(self, follow: bool) -> None:
        """Keep the end in view, or stay."""
        self._follow.setChecked(follow)

    def _follow_toggled(self, follow: bool) -> None:
        self._to_end()
        self.follow_changed.emit(follow)

    def _to_end(self) -> None:
        """Bring the end into view, with Follow."""
        if self._follow.isChecked():
            bar = self._text.verticalScrollBar()
            bar.setValue(bar.maximum())

    def _scrolled(self) -> None:
        # Whoever scrolls up wants to read; whoever scrolls to the end wants to go on.
        bar = self._text.verticalScrollBar()
        self._follow.setChecked(bar.sliderPosition() >= bar.maximum())
        if bar.sliderPosition() <= bar.minimum() < bar.maximum():
            self.top_reached.emit()

    def copy(self) -> None:
        """Put the selected lines, or all that are shown, on the clipboard."""
        selected = self._text.textCursor().selectedText().replace("\u2029", "\n")
        QGuiApplication.clipboard().setText(selected or self.text)

    def changeEvent(self, event: QEvent) -> None:
        """Write everything again in the colours and the font of the theme."""
        if hasattr(self, "_throttle"):
            if event.type() == QEvent.Type.PaletteChange:
                # Once for all of its events, and only when it is seen.
                self._stale = True
                self._throttle.request()
            if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
                # Later: a new style sheet first gives the text the font back that it had before.
                QTimer.singleShot(0, self, self._take_font)
        super().changeEvent(event)

    def _take_font(self) -> None:
        self._text.setFont(fixed_font())
        self._keep_end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the end in view."""
        super().resizeEvent(event)
        self._keep_end()

    def _keep_end(self) -> None:
        # Later: the text has its new height only then.
        QTimer.singleShot(0, self, self._to_end)


def _by_tone(lines: list[Leveled], with_service: bool) -> list[tuple[Tone, list[str]]]:
    """Return neighbouring lines of one colour together: one insertion for many lines."""
    groups: list[tuple[Tone, list[str]]] = []
    for line, level in lines:
        colour = tone(level)
        if not groups or groups[-1][0] is not colour:
            groups.append((colour, []))
        groups[-1][1].append(written(line, with_service))
    return groups
