"""The manual: the pages of `docs/` as they are shipped, read in a dialog of the window."""

import re
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, Qt, QTimer, QUrl
from PySide6.QtGui import (
    QColor,
    QDesktopServices,
    QImage,
    QKeySequence,
    QPalette,
    QShortcut,
    QTextCursor,
    QTextDocument,
)
from PySide6.QtWidgets import QPushButton, QTextBrowser, QWidget

from soulsgui.config.errors import shortened
from soulsgui.config.paths import shipped
from soulsgui.gui.icons import colours_of
from soulsgui.gui.widgets.boxes import row
from soulsgui.gui.widgets.command_button import allow
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.inputs import ChoiceBox, FilterEdit

START = "window.md"
_CHARACTERS = 96
_LINES = 34
_PICTURE_CHARACTERS = 80
_TITLE_CHARACTERS = 28
_HEADING = re.compile(r"(?:\A#|^##) (.+)", re.MULTILINE)
_DIALECT = QTextDocument.MarkdownFeature.MarkdownDialectGitHub | QTextDocument.MarkdownFeature.MarkdownNoHTML


def _read_page(page: Path) -> str:
    """Return the text of a page, whatever became of it in this installation."""
    try:
        return page.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return f"# {page.stem}\n\nThis page can't be read: {error}. Install SoulsGUI again."


def manual_pages() -> dict[Path, list[str]]:
    """Return the pages, each with its title and the headings of its sections."""
    pages = sorted({shipped("docs") / START, *shipped("docs").rglob("*.md")})
    return {page: _HEADING.findall(_read_page(page).replace("`", "")) or [page.stem] for page in pages}


def anchor(heading: str) -> str:
    """Return how links name a heading, as on GitHub: `#the-queue` for `The queue`."""
    return re.sub(r"[^\w\- ]", "", heading.casefold()).replace(" ", "-")


class _Pages(QTextBrowser):
    """Shows text, and the pictures of the window in the colours that it has: nothing else is loaded."""

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Return a picture of the manual as wide as the text; None for whatever else a page names."""
        url = QUrl(name)
        shade = "dark" if colours_of(self).dark else "light"
        file = shipped("docs") / "images" / Path(url.path()).name.replace("light", shade)
        image = QImage(str(file)) if url.isRelative() else QImage()
        if image.isNull():
            return None
        ratio = self.devicePixelRatio()
        width = self.fontMetrics().averageCharWidth() * _PICTURE_CHARACTERS * ratio
        image = image.scaledToWidth(
            min(round(width), image.width()), Qt.TransformationMode.SmoothTransformation
        )
        image.setDevicePixelRatio(ratio)
        return image


class ManualDialog(FittingDialog):
    """One page of the manual at a time; the window can be used meanwhile."""

    section = None

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("manualDialog", "Manual", parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)  # opened again it is as large as it was
        self._titles = {page: title for page, (title, *_) in manual_pages().items()}
        self._past: list[tuple[Path, int]] = []
        self._page = Path()
        choices = sorted((title, str(page)) for page, title in self._titles.items())
        self.pages = ChoiceBox("Page of the manual", self, choices, _TITLE_CHARACTERS)
        self.pages.activated.connect(lambda: self._turn_to(Path(self.pages.currentData())))
        self.words = FilterEdit("Search the manual; Enter goes to the next place", self)
        self.words.setPlaceholderText("Search")
        self.words.textChanged.connect(lambda: self.say_wrong(""))
        self.words.returnPressed.connect(self._find_next)
        QShortcut(QKeySequence.StandardKey.Find, self).activated.connect(self.words.setFocus)
        self.text = _Pages(self)
        self.text.setOpenLinks(False)
        self.text.setAccessibleName("Manual")
        self.text.anchorClicked.connect(self._follow)
        self.back = QPushButton("&Back", self)
        self.back.clicked.connect(self._go_back)
        self.arrange(row(self.pages, (self.words, 1)), (self.text, 1), foot=self.foot(self.back))
        self.leave.setDefault(False)  # Enter searches
        metrics = self.fontMetrics()
        self.resize(metrics.averageCharWidth() * _CHARACTERS, metrics.lineSpacing() * _LINES)

    def open_at(self, heading: str, page: Path | None = None) -> None:
        """Come to the front, with a page, or with what the manual says of a page of the window."""
        self._past.clear()
        self._read(page or shipped("docs") / START)
        self.show()
        self.raise_()
        self.activateWindow()
        self.text.setFocus()
        self._go_to(heading)

    def _read(self, page: Path) -> None:
        self._page = page
        # What is found stands out among the text, as a chosen entry of a list does.
        colours, palette = colours_of(self), QPalette()
        palette.setColor(QPalette.ColorRole.Highlight, QColor(colours.accent))
        palette.setColor(QPalette.ColorRole.HighlightedText, QColor(colours.on_accent))
        self.text.setPalette(palette)
        self.text.document().setMarkdown(_read_page(page), _DIALECT)
        self.setWindowTitle(f"Manual: {self.text.document().firstBlock().text()}")
        self.pages.setCurrentIndex(self.pages.findData(str(page)))
        allow(self.back, "" if self._past else "Nothing was read before this.", "To what was read before")

    def _turn_to(self, page: Path) -> None:
        """Read a page, from which *Back* leads to the place that was read."""
        self._past.append((self._page, self.text.verticalScrollBar().value()))
        self._read(page)

    def _go_to(self, heading: str) -> None:
        """Show a heading, which may be named as links do; later: the text has its width only then."""
        QTimer.singleShot(0, self, lambda: self._show_heading(anchor(heading)))

    def _show_heading(self, wanted: str) -> None:
        block = self.text.document().begin()
        while block.isValid():
            if block.blockFormat().headingLevel() and anchor(block.text()) == wanted:
                self.text.setTextCursor(QTextCursor(block))
                top = self.text.document().documentLayout().blockBoundingRect(block).top()
                self.text.verticalScrollBar().setValue(round(top))
                return
            block = block.next()

    def _follow(self, link: QUrl) -> None:
        if not link.isRelative():
            QDesktopServices.openUrl(link)
            return
        there = (self._page.parent / link.path()).resolve() if link.path() else self._page.resolve()
        page = next((one for one in self._titles if one.resolve() == there), None)
        if page is not None:
            self._turn_to(page)
            self._go_to(link.fragment())

    def _find_next(self) -> None:
        """Go to the next place that has the words, on the pages that follow where this one has no more."""
        words, pages = self.words.text().strip(), list(self._titles)
        if not words or self.text.find(words):
            return
        here = pages.index(self._page)
        for page in (*pages[here + 1 :], *pages[: here + 1]):
            searched = QTextDocument()
            searched.setMarkdown(_read_page(page), _DIALECT)
            if not searched.find(words).isNull():
                if page != self._page:
                    self._turn_to(page)
                self.text.moveCursor(QTextCursor.MoveOperation.Start)
                self.text.find(words)
                return
        self.say_wrong(f"Nothing in the manual has “{shortened(words)}” in it.", "muted")

    def _go_back(self) -> None:
        self._show(*self._past.pop())

    def _show(self, page: Path, place: int) -> None:
        self._read(page)
        self.text.verticalScrollBar().setValue(place)

    def changeEvent(self, event: QEvent) -> None:
        """Show pictures and links in the colours of the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self.isVisible():
            # Later: the text has its new colours only then.
            QTimer.singleShot(0, self, lambda: self._show(self._page, self.text.verticalScrollBar().value()))
