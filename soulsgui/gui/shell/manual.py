"""The manual: the pages of `docs/` as they are shipped, read in a dialog of the window."""

import re
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QImage, QTextCursor, QTextDocument
from PySide6.QtWidgets import QPushButton, QTextBrowser, QWidget

from soulsgui.config.paths import shipped
from soulsgui.gui.icons import colours_of
from soulsgui.gui.widgets.dialog import FittingDialog

START = "window.md"
_CHARACTERS = 96
_LINES = 34
_PICTURE_CHARACTERS = 80
_HEADING = re.compile(r"(?:\A#|^##) (.+)", re.MULTILINE)
_DIALECT = QTextDocument.MarkdownFeature.MarkdownDialectGitHub | QTextDocument.MarkdownFeature.MarkdownNoHTML


def manual_pages() -> dict[Path, list[str]]:
    """Return the pages, each with its title and the headings of its sections."""
    pages = sorted(shipped("docs").rglob("*.md"))
    return {page: _HEADING.findall(page.read_text(encoding="utf-8").replace("`", "")) for page in pages}


class _Pages(QTextBrowser):
    """Shows text, and the pictures of the window in the colours that it has: nothing else is loaded."""

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Return a picture of the manual as wide as the text; None for whatever else a page names."""
        url = QUrl(name)
        shade = "dark" if colours_of(self).dark else "light"
        file = shipped("docs") / "images" / Path(url.path()).name.replace("light", shade)
        if not url.isRelative() or not file.is_file():
            return None
        ratio = self.devicePixelRatio()
        width = self.fontMetrics().averageCharWidth() * _PICTURE_CHARACTERS * ratio
        image = QImage(str(file))
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
        self._folder = shipped("docs")
        self._past: list[tuple[Path, int]] = []
        self._page = Path()
        self.text = _Pages(self)
        self.text.setOpenLinks(False)
        self.text.setAccessibleName("Manual")
        self.text.anchorClicked.connect(self._follow)
        self.back = QPushButton("&Back", self)
        self.back.clicked.connect(self._go_back)
        self.arrange((self.text, 1), foot=self.foot(self.back))
        metrics = self.fontMetrics()
        self.resize(metrics.averageCharWidth() * _CHARACTERS, metrics.lineSpacing() * _LINES)

    def open_at(self, heading: str, page: Path | None = None) -> None:
        """Come to the front, with a page, or with what the manual says of a page of the window."""
        self._past.clear()
        self._read(page or self._folder / START)
        self.show()
        self.raise_()
        self.activateWindow()
        # Later: the text has its width only then.
        QTimer.singleShot(0, self, lambda: self._go_to(heading))

    def _read(self, page: Path) -> None:
        self._page = page
        self.text.document().setMarkdown(page.read_text(encoding="utf-8"), _DIALECT)
        self.setWindowTitle(f"Manual: {self.text.document().firstBlock().text()}")
        self.back.setEnabled(bool(self._past))

    def _go_to(self, heading: str) -> None:
        block = self.text.document().begin()
        while block.isValid():
            if block.blockFormat().headingLevel() and block.text() == heading:
                self.text.setTextCursor(QTextCursor(block))
                top = self.text.document().documentLayout().blockBoundingRect(block).top()
                self.text.verticalScrollBar().setValue(round(top))
                return
            block = block.next()

    def _follow(self, link: QUrl) -> None:
        if not link.isRelative():
            QDesktopServices.openUrl(link)
            return
        page = (self._page.parent / link.path()).resolve()
        if page.is_relative_to(self._folder.resolve()) and page.is_file():
            self._past.append((self._page, self.text.verticalScrollBar().value()))
            self._read(page)

    def _go_back(self) -> None:
        page, place = self._past.pop()
        self._read(page)
        self.text.verticalScrollBar().setValue(place)
