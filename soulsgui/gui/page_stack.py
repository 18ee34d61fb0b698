"""The pages behind each other, each made when it is first shown."""

import logging
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from soulsgui.gui.connection_state import Connection
from soulsgui.gui.cover import Cover, covers
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.pages.table import PageEntry
from soulsgui.gui.shell import Shell
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.filter_edit import FilterEdit
from soulsgui.gui.widgets.page_area import PageArea

logger = logging.getLogger(__name__)


class PageStack(QStackedWidget):
    """Shows one page at a time, and a cover over those that live from a server while there is none.

    Signals:
        start_wanted: The server is to be started.
        mend_wanted: The file of settings is to be mended first.

    Args:
        entries: All pages by name.
        feed: The runner.
        shell: The window.
        parent: Where it stands.
    """

    start_wanted = Signal()
    mend_wanted = Signal()

    def __init__(
        self, entries: dict[str, PageEntry], feed: Feed, shell: Shell, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._entries = entries
        self._feed = feed
        self._shell = shell
        self._pages: dict[str, QWidget] = {}
        self._shown = ""
        self._covered = False
        self.cover = Cover(self)
        self.cover.start_wanted.connect(self.start_wanted)
        self.cover.mend_wanted.connect(self.mend_wanted)
        self._areas: dict[QWidget, PageArea] = {self.cover: PageArea(self.cover, self)}
        self.addWidget(self._areas[self.cover])
        self._front: QWidget = self.cover
        feed.connection_changed.connect(self._connection_changed)
        self._connection_changed(feed.connection)

    @property
    def shown(self) -> str:
        """Name of the page that is shown; empty before the first."""
        return self._shown

    @property
    def page(self) -> QWidget | None:
        """The page that is shown."""
        return self._pages.get(self._shown)

    @property
    def front(self) -> QWidget:
        """What is in sight: the page, or the cover over it."""
        return self._front

    @property
    def covered(self) -> bool:
        """Whether there is no server, so that pages that live from one are covered."""
        return self._covered

    def made(self, name: str) -> QWidget | None:
        """Return a page if it was made already."""
        return self._pages.get(name)

    def show_page(self, name: str, **where: Any) -> QWidget:
        """Bring a page to the front, made now if it was never shown.

        Raises:
            KeyError: There is no such page.
        """
        if name not in self._pages:
            made = self._pages[name] = self._make(self._entries[name])
            self._areas[made] = PageArea(made, self)
            self.addWidget(self._areas[made])
        page = self._pages[name]
        self._shown = name
        self._bring_to_front()
        self.focus_page()
        if where and (show_where := getattr(page, "show_where", None)) is not None:
            show_where(**where)
        return page

    def _connection_changed(self, connection: Connection) -> None:
        never = connection.config is not None and self._feed.last_data is None
        self._covered = never or covers(connection.state, self._covered)
        self.cover.show_connection(connection)
        self._bring_to_front()

    def _bring_to_front(self) -> None:
        page = self.page
        if page is None:
            return
        stays = self._entries[self._shown].alone or getattr(page, "unsaved", False)
        self._front = self.cover if self._covered and not stays else page
        holder = self.window().focusWidget()
        held = holder is not None and self.isAncestorOf(holder)
        if self._areas[self._front] is not self.currentWidget():
            self.setCurrentWidget(self._areas[self._front])
            if held:
                self.focus_page()

    def focus_page(self) -> None:
        """Give the keyboard to what the shown page is for; to the page itself until that can take it.

        Never to a button, which a key meant for something else would press.
        """
        front = self._front
        landing: QWidget = getattr(front, "landing", front)
        if landing.isVisibleTo(self) and landing.isEnabled():
            landing.setFocus()
        else:
            front.setFocus()
            landing.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Hand the keyboard on from the page when its table or plot appears."""
        if event.type() in (QEvent.Type.Show, QEvent.Type.EnabledChange):
            watched.removeEventFilter(self)
            if self.window().focusWidget() is self._front:
                self.focus_page()
        return False

    def leave(self, then: Callable[[bool], None]) -> None:
        """Ask the shown page whether it may be left, and go on with its answer."""
        ask = getattr(self.page, "may_leave", None)
        if ask is None:
            then(True)
        else:
            ask(then)

    def before_run(self, then: Callable[[bool], None]) -> None:
        """Ask the shown page whether a run may be begun, and go on with its answer."""
        ask = getattr(self.page, "before_run", None)
        if ask is None:
            then(True)
        else:
            ask(then)

    def focus_filter(self) -> None:
        """Let the user type what to search for on the shown page."""
        seen = [edit for edit in self.findChildren(FilterEdit) if edit.isVisible()]
        if seen:
            seen[0].setFocus(Qt.FocusReason.ShortcutFocusReason)
            seen[0].selectAll()

    def refresh(self) -> None:
        """Let the shown page ask for its lists again."""
        refresh = getattr(self.page, "refresh", None)
        if refresh is not None:
            refresh()

    def _make(self, entry: PageEntry) -> QWidget:
        try:
            page: QWidget = entry.load()(self._feed, self._shell, self)
        except Exception as error:
            # One damaged page must not take the window along.
            logger.exception("the page %s could not be made", entry.name)
            title = tr("The page {title} can't be shown").format(title=entry.title)
            return EmptyState("state-bad", title, f"{type(error).__name__}: {error}", parent=self)
        return page
