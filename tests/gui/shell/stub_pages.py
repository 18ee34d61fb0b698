"""Pages with nothing on them, for tests of the window around them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from PySide6.QtWidgets import QVBoxLayout, QWidget

from soulsgui.gui.shell import Shell
from soulsgui.gui.shell.pages import PageEntry, page_entries
from soulsgui.gui.widgets.inputs import FilterEdit


class StubPage(QWidget):
    def __init__(self, feed: object, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.feed = feed
        self.shell = shell
        self.places: list[dict[str, Any]] = []
        self.refreshed = 0
        self.asked: list[Callable[[bool], None]] = []
        self.unsaved = False
        self.filter = FilterEdit("Filter the stub", self)
        QVBoxLayout(self).addWidget(self.filter)

    def show_where(self, **where: Any) -> None:
        self.places.append(where)

    def refresh(self) -> None:
        self.refreshed += 1

    def may_leave(self, then: Callable[[bool], None]) -> None:
        """Ask the test where something is unsaved."""
        if self.unsaved:
            self.asked.append(then)
        else:
            then(True)

    before_run = may_leave


def stub_pages() -> dict[str, PageEntry]:
    """Return the window's pages, all but the first replaced by stubs."""
    code = f"{__name__}:StubPage"
    return {
        name: entry if name == "welcome" else replace(entry, code=code)
        for name, entry in page_entries().items()
    }
