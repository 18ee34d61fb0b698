"""The pages: the list of them, the one that is shown, and what lies over it while there is no server."""

import logging
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QListWidget,
    QListWidgetItem,
    QScrollArea,
    QSizePolicy,
    QStackedWidget,
    QWidget,
)

from soulsgui.gui.feed import Feed
from soulsgui.gui.icons import colours_of, dress, icon
from soulsgui.gui.models.connection import Connection, ConnectionState, banner_words
from soulsgui.gui.preferences import Mode
from soulsgui.gui.shell.protocol import Shell
from soulsgui.gui.text import tip
from soulsgui.gui.widgets.boxes import NO_MARGINS, column
from soulsgui.gui.widgets.empty_state import EmptyState

logger = logging.getLogger(__name__)

_ROOM_PX = 30
_ROW_ROOM_PX = 16

WELCOME, OVERVIEW, CLIENTS, PLOTS, RUNS = "welcome", "overview", "clients", "plots", "runs"
_OF_RUNS = "compare checkpoints queue bin delete experiments sweeps"
CONFIG, LOGS, CLIENT = "config", "logs", "client"


@dataclass(frozen=True)
class PageEntry:
    """One page: its code is `module:class`, imported when first shown; `alone` is of use without a server.

    `also` are words that Ctrl+K finds it by, beside its title.
    """

    name: str
    title: str
    icon: str
    code: str
    mode: Mode | None = Mode.SERVER
    listed: bool = True
    alone: bool = False
    also: str = ""

    def load(self) -> type[Any]:
        """Import the page's class: a widget made with `(feed, shell, parent)`.

        It may have `landing`, what gets the keyboard when the page opens (its table or plot, where it has
        neither its search, never a button), `show_where(**where)` to show a certain place, `may_leave(then)`
        to ask before it is left, `before_run(then)` to ask before a run is begun, `unsaved`, which keeps it
        in sight when the server is gone, and `refresh()` to ask for its lists again.
        """
        page: type[QWidget] = pkgutil.resolve_name(self.code)
        return page


def page_entries() -> dict[str, PageEntry]:
    """Return all pages by name, in the order of the navigation."""
    gui = "soulsgui.gui"
    entries = (
        PageEntry(WELCOME, "Welcome", "star", f"{gui}.welcome.page:WelcomePage", None, False, alone=True),
        PageEntry(OVERVIEW, "Overview", "page-overview", f"{gui}.overview.page:OverviewPage"),
        PageEntry(CLIENTS, "Clients", "page-clients", f"{gui}.clients.page:ClientsPage"),
        PageEntry(PLOTS, "Plots", "page-plots", f"{gui}.plots.page:PlotsPage", also="compare curves"),
        PageEntry(RUNS, "Runs", "page-runs", f"{gui}.runs.page:RunsPage", also=_OF_RUNS),
        PageEntry(CONFIG, "Config", "page-config", f"{gui}.config.page:ConfigPage"),
        PageEntry(LOGS, "Logs", "page-logs", f"{gui}.logs.page:LogsPage", alone=True),
        PageEntry(
            CLIENT, "Client", "service-client", f"{gui}.client_mode.page:ClientPage", Mode.CLIENT, False, True
        ),
    )
    return {entry.name: entry for entry in entries}


class _Least(QWidget):
    """Asks for the least height that a widget can do with, not for the one it would like."""

    def __init__(self, page: QWidget) -> None:
        super().__init__()
        column(page, on=self, margins=NO_MARGINS)
        self._page = page

    def heightForWidth(self, width: int) -> int:
        """Return the least height of the widget when it is so wide."""
        inside = self._page.layout()
        if inside is None or not inside.hasHeightForWidth():
            return self._page.minimumSizeHint().height()
        return inside.totalMinimumHeightForWidth(width)


class PageArea(QScrollArea):
    """Scrolls one page."""

    def __init__(self, page: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        # Its bars take no keyboard from what is in it.
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.page = page
        self.setWidget(_Least(page))


class NoServerOverlay(QWidget):
    """Says that there is no server, and starts it, or has mended first what keeps it from starting.

    Signals:
        start_wanted: The server is to be started.
        mend_wanted: The file of settings is to be mended first.
    """

    start_wanted = Signal()
    mend_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.empty = EmptyState("power", "", "", "Start the server", "play", self)
        self._mend = False
        self.empty.acted.connect(self._acted)
        column(self.empty, on=self)

    def show_connection(self, connection: Connection) -> None:
        """Say how the server stands."""
        words = banner_words(connection, 0.0)
        self._mend = connection.config is not None
        action = words.action if words is not None and self._mend else "Start the server"
        self.empty.button.setText(action)
        dress(self.empty.button, "edit" if self._mend else "play")
        if words is None:
            self.empty.say("No server runs", "Start it to train here and to see your runs.")
        else:
            self.empty.say(words.title, words.detail)
        self.empty.button.setVisible(words is None or bool(words.action))

    def _acted(self) -> None:
        (self.mend_wanted if self._mend else self.start_wanted).emit()


class PageStack(QStackedWidget):
    """Shows one page at a time, and an overlay over those that live from a server while there is none."""

    def __init__(
        self, entries: dict[str, PageEntry], feed: Feed, shell: Shell, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._entries = entries
        self._feed = feed
        self._shell = shell
        self._pages: dict[str, QWidget] = {}
        self.shown = ""
        self.covered = False
        self.no_server = NoServerOverlay(self)
        self._areas: dict[QWidget, PageArea] = {self.no_server: PageArea(self.no_server, self)}
        self.addWidget(self._areas[self.no_server])
        self.front: QWidget = self.no_server
        feed.connection_changed.connect(self._connection_changed)
        self._connection_changed(feed.connection)

    @property
    def page(self) -> QWidget | None:
        """The page that is shown."""
        return self._pages.get(self.shown)

    def made(self, name: str) -> QWidget | None:
        """Return a page if it was made already."""
        return self._pages.get(name)

    def make(self, name: str) -> QWidget:
        """Return a page, made now if it was not before."""
        if name not in self._pages:
            made = self._pages[name] = self._load(self._entries[name])
            self._areas[made] = PageArea(made, self)
            self.addWidget(self._areas[made])
        return self._pages[name]

    def show_page(self, name: str, **where: Any) -> QWidget:
        """Bring a page to the front, made now if it was never shown."""
        page = self.make(name)
        self.shown = name
        self._bring_to_front()
        self.focus_page()
        if where and (show_where := getattr(page, "show_where", None)) is not None:
            show_where(**where)
        return page

    def make_anew(self) -> None:
        """Throw the pages of the server away: those that follow tell of another one."""
        for name in [name for name in self._pages if self._entries[name].mode is not Mode.CLIENT]:
            area = self._areas.pop(self._pages.pop(name))
            self.removeWidget(area)
            area.deleteLater()
        if self.shown:
            self.show_page(self.shown)

    def _connection_changed(self, connection: Connection) -> None:
        never = connection.config is not None and self._feed.last_data is None
        comes = connection.coming or connection.state is ConnectionState.START_FAILED
        self.covered = never or connection.off or (self.covered and comes)
        self.no_server.show_connection(connection)
        self._bring_to_front()

    def _bring_to_front(self) -> None:
        if self.page is None:
            return
        stays = self._entries[self.shown].alone or getattr(self.page, "unsaved", False)
        self.front = self.no_server if self.covered and not stays else self.page
        holder = self.window().focusWidget()
        held = holder is not None and self.isAncestorOf(holder)
        if self._areas[self.front] is not self.currentWidget():
            self.setCurrentWidget(self._areas[self.front])
            if held:
                self.focus_page()

    def focus_page(self) -> None:
        """Give the keyboard to what the shown page is for; to the page itself until that can take it.

        Never to a button, which a key meant for something else would press.
        """
        front = self.front
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
            if self.window().focusWidget() is self.front:
                self.focus_page()
        return False

    def ask(self, question: Literal["may_leave", "before_run"], then: Callable[[bool], None]) -> None:
        """Ask the shown page whether it may be left, or a run may be begun; go on with its answer."""
        ask = getattr(self.page, question, None)
        if ask is None:
            then(True)
        else:
            ask(then)

    def _load(self, entry: PageEntry) -> QWidget:
        try:
            page: QWidget = entry.load()(self._feed, self._shell, self)
        except Exception as error:
            # One damaged page must not take the window along.
            logger.exception("the page %s could not be made", entry.name)
            title = f"The page {entry.title} can't be shown"
            return EmptyState("state-bad", title, f"{type(error).__name__}: {error}", parent=self)
        return page


class Navigation(QListWidget):
    """Lists pages; the chosen one is shown.

    Signals:
        chosen: The user wants this page; with its name.
    """

    chosen = Signal(str)

    def __init__(self, entries: list[PageEntry], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("navigation")
        self.setProperty("part", "navigation")
        self.setAccessibleName("Pages")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.entries = entries
        self.names = [entry.name for entry in entries]
        self.keys = {name: f"Ctrl+{number}" for number, name in enumerate(self.names, start=1)}
        for entry in entries:
            item = QListWidgetItem(entry.title)
            item.setData(Qt.ItemDataRole.UserRole, entry.name)
            item.setToolTip(tip(f"{entry.title} ({self.keys[entry.name]})"))
            self.addItem(item)
        self.recolour()
        self.currentRowChanged.connect(self._row_changed)

    def show_page(self, name: str) -> None:
        """Mark a page as the one that is shown; none where it is not listed."""
        blocked = self.blockSignals(True)
        if name in self.names:
            self.setCurrentRow(self.names.index(name))
        else:
            self.setCurrentRow(-1)
            self.clearSelection()
        self.blockSignals(blocked)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Take the focus without choosing the first page, as a list does by itself."""
        shown = self.currentRow()
        blocked = self.blockSignals(True)
        super().focusInEvent(event)
        self.setCurrentRow(shown)
        self.blockSignals(blocked)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Keep the keyboard here while it chooses: the next arrow chooses the next page."""
        super().keyPressEvent(event)
        self.setFocus()

    def recolour(self) -> None:
        """Take icons and width from the theme."""
        widest = 0
        height = self.fontMetrics().height()
        self.setIconSize(QSize(height, height))
        for row, entry in enumerate(self.entries):
            self.item(row).setIcon(icon(entry.icon, colours_of(self)))
            self.item(row).setSizeHint(QSize(0, height + _ROW_ROOM_PX))
            widest = max(widest, self.fontMetrics().horizontalAdvance(entry.title))
        self.setFixedWidth(widest + 2 * height + _ROOM_PX)

    def _row_changed(self, row: int) -> None:
        if row >= 0:
            self.chosen.emit(self.names[row])
