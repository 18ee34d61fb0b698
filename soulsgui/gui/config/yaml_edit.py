"""The raw text of config.yaml with line numbers; lines with mistakes are marked."""

import re
from collections.abc import Mapping

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)
from PySide6.QtWidgets import QPlainTextEdit, QTextEdit, QToolTip, QWidget

from soulsgui.gui.colours import Colours, Tone
from soulsgui.gui.icons import colours_of
from soulsgui.gui.text import tip
from soulsgui.gui.theme import fixed_font

_KEY = re.compile(r"^\s*(- )?([A-Za-z_][\w.-]*)(?=\s*:(\s|$))")
_COMMENT = re.compile(r"(^|\s)#.*$")
_QUOTED = re.compile("\"[^\"]*\"|'[^']*'")
_PAD = 8
_MARK = "✖"


class _Highlighter(QSyntaxHighlighter):
    """Keys and comments in their colours."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._key, self._comment = QTextCharFormat(), QTextCharFormat()

    def dress(self, colours: Colours) -> None:
        """Take other colours."""
        self._key.setForeground(QColor(colours.accent))
        self._comment.setForeground(QColor(colours.muted))
        self._comment.setFontItalic(True)
        self.rehighlight()

    def highlightBlock(self, line: str) -> None:
        """Colour one line."""
        key = _KEY.match(line)
        if key:
            self.setFormat(key.start(2), len(key.group(2)), self._key)
        # What is quoted can't begin a comment; its place stays.
        bare = _QUOTED.sub(lambda quoted: "x" * len(quoted.group()), line)
        comment = _COMMENT.search(bare)
        if comment:
            self.setFormat(comment.start(), len(line) - comment.start(), self._comment)


class _Gutter(QWidget):
    """The strip with the numbers, drawn by its editor."""

    def __init__(self, editor: "YamlEdit") -> None:
        super().__init__(editor)
        self._editor = editor

    def sizeHint(self) -> QSize:
        """Room for the largest number."""
        return QSize(self._editor.gutter_width(), 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the numbers of the lines in view."""
        self._editor.draw_gutter(event)

    def event(self, event: QEvent) -> bool:
        """Tell what is wrong in the line under the mouse."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            line = self._editor.line_at(event.pos().y())
            QToolTip.showText(event.globalPos(), tip(self._editor.problems.get(line, "")), self)
            return True
        return super().event(event)


class YamlEdit(QPlainTextEdit):
    """A text editor for YAML: numbers, marks, the same indentation in the next line."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("yamlEdit")
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        # YAML knows no tabs, and the keyboard must find its way out.
        self.setTabChangesFocus(True)
        self.problems: dict[int, str] = {}
        self._gutter = _Gutter(self)
        self._highlighter = _Highlighter(self.document())
        self.blockCountChanged.connect(self._make_room)
        self.updateRequest.connect(self._scrolled)
        self.cursorPositionChanged.connect(self._mark)
        self.take_font()
        self._dress()

    def show_problems(self, problems: Mapping[int, str]) -> None:
        """Mark lines, by number from 1, with what is wrong in them."""
        self.problems = dict(problems)
        self._mark()
        self._gutter.update()

    def go_to(self, line: int) -> None:
        """Put the cursor into a line, counted from 1."""
        block = self.document().findBlockByNumber(max(0, min(line, self.blockCount()) - 1))
        cursor = QTextCursor(block)
        cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock)
        self.setTextCursor(cursor)
        self.centerCursor()
        self.setFocus()

    def take_text(self, text: str) -> None:
        """Show another text; it can be undone, and the cursor stays in its line."""
        if text == self.toPlainText():
            return
        line = self.textCursor().blockNumber()
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
        block = self.document().findBlockByNumber(min(line, self.blockCount() - 1))
        self.setTextCursor(QTextCursor(block))

    def _mark(self) -> None:
        colours = colours_of(self)
        marks = [self._line_mark(self.textCursor(), colours.alternate)]
        for line in self.problems:
            block = self.document().findBlockByNumber(line - 1)
            if block.isValid():
                marks.append(self._line_mark(QTextCursor(block), colours.washes[Tone.BAD]))
        self.setExtraSelections(marks)

    def _line_mark(self, cursor: QTextCursor, colour: str) -> QTextEdit.ExtraSelection:
        mark = QTextEdit.ExtraSelection()
        cursor.clearSelection()
        mark.cursor = cursor
        mark.format.setBackground(QColor(colour))
        mark.format.setProperty(QTextFormat.Property.FullWidthSelection, True)
        return mark

    def gutter_width(self) -> int:
        """Return the width of the strip with the numbers."""
        digits = max(2, len(str(self.blockCount())))
        return self.fontMetrics().horizontalAdvance(_MARK + "9" * digits) + 2 * _PAD

    def line_at(self, y: int) -> int:
        """Return the line at a height in the view, from 1."""
        return self.cursorForPosition(QPoint(0, y)).blockNumber() + 1

    def draw_gutter(self, event: QPaintEvent) -> None:
        """Draw the numbers of the lines in view."""
        colours = colours_of(self)
        with QPainter(self._gutter) as painter:
            painter.setFont(self.font())
            painter.fillRect(event.rect(), QColor(colours.base))
            height, width = self.fontMetrics().height(), self._gutter.width()
            block = self.firstVisibleBlock()
            top = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
            current = self.textCursor().blockNumber()
            while block.isValid() and top <= event.rect().bottom():
                number = block.blockNumber()
                wrong = number + 1 in self.problems
                tone = (
                    colours.tones[Tone.BAD] if wrong else colours.text if number == current else colours.muted
                )
                painter.setPen(QColor(tone))
                spot = QRect(0, round(top), width - _PAD, height)
                painter.drawText(spot, Qt.AlignmentFlag.AlignRight, str(number + 1))
                if wrong:
                    painter.drawText(spot.adjusted(_PAD // 2, 0, 0, 0), Qt.AlignmentFlag.AlignLeft, _MARK)
                top += self.blockBoundingRect(block).height()
                block = block.next()

    def _make_room(self, *_: object) -> None:
        self.setViewportMargins(self.gutter_width(), 0, 0, 0)
        self._place_gutter()

    def _place_gutter(self) -> None:
        inside = self.contentsRect()
        self._gutter.setGeometry(QRect(inside.left(), inside.top(), self.gutter_width(), inside.height()))

    def _scrolled(self, rect: QRect, dy: int) -> None:
        if dy:
            self._gutter.scroll(0, dy)
        else:
            self._gutter.update(0, rect.y(), self._gutter.width(), rect.height())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Keep the indentation in the next line; below a section one step more."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.modifiers():
            cursor = self.textCursor()
            before = cursor.block().text()[: cursor.positionInBlock()]
            indent = len(before) - len(before.lstrip(" "))
            deeper = 2 if before.rstrip().endswith(":") else 0
            cursor.insertText("\n" + " " * (indent + deeper))
            self.setTextCursor(cursor)
            self.ensureCursorVisible()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the numbers beside the text."""
        super().resizeEvent(event)
        self._place_gutter()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the colours."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "_highlighter"):
            self._dress()

    def take_font(self) -> None:
        """Follow the size of the application's font; the owner calls it when that changes."""
        self.setFont(fixed_font())
        self._make_room()

    def _dress(self) -> None:
        self._highlighter.dress(colours_of(self))
        self._mark()
        self._gutter.update()
