"""Log lines as they come: bounded, quick, with level, filter, follow and copy."""

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import (
    QFontDatabase,
    QGuiApplication,
    QKeySequence,
    QResizeEvent,
    QShortcut,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import plural
from soulsgui.gui.icons import colours_of, dress, qcolor
from soulsgui.gui.models.log import KEPT_LINES, LEVELS, Levels, LogBuffer, LogFilter, tone, written
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.filter_edit import FilterEdit
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.wire.control import LogLine

_FLUSH_MS = 100


class LogPane(QWidget):
    """The newest lines of one or of all services.

    Signals:
        follow_changed: The end is kept in view from now on, or no longer.
        narrowed: The user wants other lines: the least level, and the text they must contain.
        top_reached: The user scrolled to the first line.
    """

    follow_changed = Signal(bool)
    narrowed = Signal(str, str)
    top_reached = Signal()

    def __init__(self, parent: QWidget | None = None, with_controls: bool = True) -> None:
        super().__init__(parent)
        self.setObjectName("logPane")
        self._buffer = LogBuffer()
        self._with_service = True
        self._empty_text = ""
        self._stale = False
        self._levels = Levels()
        self._build(with_controls)
        self._throttle = Throttle(self, self._flush, _FLUSH_MS)
        self._take_font()

    def _build(self, with_controls: bool) -> None:
        self._text = QPlainTextEdit(self)
        self._text.setReadOnly(True)
        self._text.setUndoRedoEnabled(False)
        self._text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._text.setMaximumBlockCount(KEPT_LINES)
        self._text.setAccessibleName(self.tr("Log"))
        self._text.verticalScrollBar().actionTriggered.connect(self._scrolled)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        self._level = QComboBox(self)
        for level, title in zip(LEVELS, self._level_titles(), strict=True):
            self._level.addItem(title, level)
        self._level.setAccessibleName(self.tr("Least important level shown"))
        self._level.currentIndexChanged.connect(self._narrow)
        self._words = FilterEdit(self.tr("Show only lines with this text"), self)
        self._words.textChanged.connect(self._narrow)
        self._follow = QCheckBox(self.tr("&Follow"), self)
        self._follow.setChecked(True)
        self._follow.toggled.connect(self._follow_toggled)
        self._copy = QPushButton(self.tr("&Copy"), self)
        dress(self._copy, "copy")
        self._copy.setToolTip(self.tr("Copy the selected lines, or all that are shown"))
        self._copy.clicked.connect(self.copy)
        self._controls = self._controls_row()
        self._controls.setVisible(with_controls)
        self.setFocusProxy(self._words if with_controls else self._text)
        column.addWidget(self._controls)
        column.addWidget(self._text, 1)
        if not with_controls:
            # For a glance: a scroll bar would cover a line.
            self._text.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
            self._text.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        else:
            find = QShortcut(QKeySequence.StandardKey.Find, self)
            find.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            find.activated.connect(self.focus_filter)

    def _controls_row(self) -> QWidget:
        holder = QWidget(self)
        row = FlowLayout(8, parent=holder)
        caption = QLabel(self.tr("&Level"), holder)
        caption.setBuddy(self._level)
        for widget in (caption, self._level, self._words, self._follow, self._copy):
            row.addWidget(widget)
        return holder

    def _level_titles(self) -> tuple[str, ...]:
        return self.tr("Everything"), self.tr("Information"), self.tr("Warnings"), self.tr("Errors")

    # --- lines ---

    def add(self, lines: Iterable[LogLine]) -> None:
        """Add lines as the feed brings them; they appear with the next batch."""
        self._buffer.add(lines)
        self._throttle.request()

    def replace(self, lines: Iterable[LogLine], with_service: bool = True) -> None:
        """Show these lines and no others.

        Args:
            lines: The lines, oldest first.
            with_service: Whether each line begins with the name of its service.
        """
        self._with_service = with_service
        self._buffer.clear()
        self._buffer.add(lines)
        self._write_all()

    def prepend(self, lines: Sequence[LogLine]) -> bool:
        """Put older lines above the others; what is in view stays where it is.

        Args:
            lines: The lines, oldest first.

        Returns:
            Whether the newest ones had to make room: live lines no longer join.
        """
        bar = self._text.verticalScrollBar()
        first, place = next(iter(self._buffer.wanted()), None), bar.value()
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
            len(self._buffer), "The one line read does not fit.", "None of the {n} lines read fits."
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
        return self._buffer.wanted()

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

    def focus_filter(self) -> None:
        """Let the user type what lines must contain."""
        self._words.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._words.selectAll()

    def _narrow(self) -> None:
        self._buffer.filter = LogFilter(self._level.currentData(), self._words.text().strip())
        self._write_all()
        self.narrowed.emit(self.least, self.words)

    def _write_all(self) -> None:
        self._stale = False
        self._text.clear()
        self._levels = Levels()
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

    def _write(self, lines: list[LogLine]) -> None:
        if not lines:
            return
        cursor = QTextCursor(self._text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        colours = colours_of(self)
        begun = not self._text.document().isEmpty()
        for colour, texts in _by_tone(lines, self._levels, self._with_service):
            form = QTextCharFormat()
            form.setForeground(qcolor(colours.tones[colour]))
            if colour is Tone.BAD:
                form.setBackground(qcolor(colours.washes[colour]))
            cursor.insertText(("\n" if begun else "") + "\n".join(texts), form)
            begun = True
        cursor.endEditBlock()
        if self._follow.isChecked():
            self._to_end()

    # --- follow and copy ---

    @property
    def follow(self) -> bool:
        """Whether the end is kept in view."""
        return bool(self._follow.isChecked())

    def set_follow(self, follow: bool) -> None:
        """Keep the end in view, or stay."""
        self._follow.setChecked(follow)

    def _follow_toggled(self, follow: bool) -> None:
        if follow:
            self._to_end()
        self.follow_changed.emit(follow)

    def _to_end(self) -> None:
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

    # --- look ---

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
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPointSizeF(self.font().pointSizeF())
        self._text.setFont(font)
        self._keep_end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the end in view."""
        super().resizeEvent(event)
        self._keep_end()

    def _keep_end(self) -> None:
        if self._follow.isChecked():
            # Later: the text has its new height only then.
            QTimer.singleShot(0, self, self._to_end)


def _by_tone(lines: list[LogLine], levels: Levels, with_service: bool) -> list[tuple[Tone, list[str]]]:
    """Return neighbouring lines of one colour together: one insertion for many lines."""
    groups: list[tuple[Tone, list[str]]] = []
    for line in lines:
        colour = tone(levels.of(line))
        if not groups or groups[-1][0] is not colour:
            groups.append((colour, []))
        groups[-1][1].append(written(line, with_service))
    return groups
