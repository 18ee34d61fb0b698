"""Ctrl+K: whatever the window can do or show, in one list that typed words narrow."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QSize, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractButton,
    QHeaderView,
    QMenu,
    QPushButton,
    QToolBar,
    QToolButton,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Feed
from soulsgui.gui.icons import colours_of, icon, qcolor
from soulsgui.gui.models.rules import algorithm_title, run_title
from soulsgui.gui.settings.spec import specs
from soulsgui.gui.shell.manual import manual_pages
from soulsgui.gui.shell.pages import CLIENTS, CONFIG, RUNS
from soulsgui.gui.states import client_look, run_look
from soulsgui.gui.widgets.boxes import column
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.gui.widgets.labels import Label, muted

if TYPE_CHECKING:
    from soulsgui.gui.shell.window import MainWindow

_SHOWN = 60
_CHARACTERS, _TITLE_CHARACTERS = 136, 42
_LINES = 34
_ROW_ROOM_PX = 10
_MOVES = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


@dataclass(frozen=True)
class Entry:
    """Something to be found, and what is done with it."""

    kind: str
    title: str
    icon: str
    act: Callable[[], object]
    about: str = ""
    keys: str = ""
    why: str = ""  # it can't be done now; empty when it can

    @cached_property
    def _heaps(self) -> tuple[str, str]:
        return self.title.casefold(), f"{self.kind} {self.about}".casefold()

    @cached_property
    def _parts(self) -> tuple[list[str], list[str]]:
        title, about = (re.split(r"[\W_]+", heap) for heap in self._heaps)
        return title, about

    def distance(self, word: str) -> int | None:
        """Return how far it is from a typed word in small letters; None where that does not stand in it."""
        title, _ = self._heaps
        if title.startswith(word):
            return 0
        for far, (heap, parts) in enumerate(zip(self._heaps, self._parts, strict=True)):
            if word in heap:
                return 2 * far + (1 if any(part.startswith(word) for part in parts) else 2)
        return None


def best(entries: Iterable[Entry], typed: str) -> list[Entry]:
    """Return what has all of the typed words in it, in any order, the nearest first."""
    words = typed.casefold().split()
    found = []
    for entry in entries:
        far = [entry.distance(word) for word in words]
        if None not in far:
            found.append((sum(one or 0 for one in far), entry))
    return [entry for _, entry in sorted(found, key=lambda one: one[0])]


def commands_of(toolbar: QToolBar, page: QWidget | None = None) -> Iterator[Entry]:
    """Yield what the buttons of a toolbar do, and the entries of their menus; and those seen on a page."""
    on_page = page.findChildren(QPushButton) if page is not None else []
    seen = [button for button in on_page if button.isVisible() and not button.isCheckable()]
    for button in (*toolbar.findChildren(QAbstractButton), *seen):
        menu = button.menu() if isinstance(button, QPushButton | QToolButton) else None
        if menu is not None:
            yield from _entries_of(menu)
        elif button.accessibleName():
            told = button.accessibleDescription() or button.toolTip()
            keys = button.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            yield _command(button.accessibleName(), button, told, keys, button.click)


def _entries_of(menu: QMenu) -> Iterator[Entry]:
    # As before it is seen: it then says what is possible now.
    menu.aboutToShow.emit()
    for action in menu.actions():
        if not action.isSeparator():
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            yield _command(action.text().replace("&", ""), action, action.toolTip(), keys, action.trigger)


def _command(
    title: str, of: QAbstractButton | QAction, told: str, keys: str, act: Callable[[], object]
) -> Entry:
    about = "" if told in (title, title.rstrip("…")) else told
    mark = str(of.property("iconName") or "arrow-right")
    why = "" if of.isEnabled() else about or "Not now."
    return Entry("Command", title, mark, act, about, keys, why)


def _settings(shell: "MainWindow") -> Iterator[Entry]:
    for key, spec in specs().items():
        act = partial(shell.show_page, CONFIG, setting=key)
        yield Entry("Setting", spec.title, "configure", act, f"{key}: {spec.info.description}")


class CommandPalette(FittingDialog):
    """A field to type into and the best matches below it; the keyboard stays in the field."""

    section = "Keys"

    def __init__(self, feed: Feed, window: "MainWindow") -> None:
        super().__init__(window)
        self.setObjectName("commandPalette")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Find anything")
        self._window = window
        # Of a command that is offered in two places one is enough.
        commands: dict[str, Entry] = {}
        for entry in commands_of(window.toolbar, window.pages.currentWidget()):
            commands.setdefault(entry.title, entry)
        del commands[window.menu.find_anything.text().replace("&", "")]
        self._entries = [*commands.values(), *self._pages(), *self._clients(feed)]
        self._rest = [*_settings(window), *self._manual()]
        self._library = feed.library.runs
        self._runs = list(self._of_runs())
        self._found: list[Entry] = []
        self._more = 0  # that fit, too, and are not listed
        self.words = FilterEdit("Find a command, page, run, client, setting, or page of the manual", self)
        self.words.setPlaceholderText(self.words.accessibleName())
        self.words.textChanged.connect(lambda: self._show())
        self.words.returnPressed.connect(self._act)
        self.words.installEventFilter(self)
        self.list = self._make_list()
        self._note = muted(Label(parent=self))
        column(self.words, (self.list, 1), self._note, on=self, margins=(12, 12, 12, 8), gap_px=8)
        metrics = self.fontMetrics()
        self.resize(metrics.averageCharWidth() * _CHARACTERS, metrics.lineSpacing() * _LINES)
        self._library.changed.connect(self._runs_changed)
        self._library.want()
        self._show()

    def _make_list(self) -> QTreeWidget:
        made = QTreeWidget(self)
        made.setAccessibleName("What was found")
        made.setColumnCount(3)
        made.setHeaderHidden(True)
        made.setRootIsDecorated(False)
        made.setUniformRowHeights(True)
        made.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        made.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = made.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        metrics = self.fontMetrics()
        header.resizeSection(0, metrics.averageCharWidth() * _TITLE_CHARACTERS)
        header.resizeSection(2, metrics.horizontalAdvance("Ctrl+Shift+Backspace"))
        made.itemClicked.connect(self._act)
        made.currentItemChanged.connect(self._say)
        return made

    def _pages(self) -> Iterator[Entry]:
        for entry in self._window.navigation.entries:
            act = partial(self._window.show_page, entry.name)
            yield Entry("Page", entry.title, entry.icon, act, keys=self._window.navigation.keys[entry.name])

    def _clients(self, feed: Feed) -> Iterator[Entry]:
        for client in feed.status.clients:
            look = client_look(client.state)
            act = partial(self._window.show_page, CLIENTS, client=client.id)
            yield Entry("Client", client.name, look.icon, act, f"{look.word} · {client.host}")

    def _manual(self) -> Iterator[Entry]:
        for page, title in manual_pages().items():
            yield Entry("Manual", title, "help", partial(self._window.open_manual, page), page.stem)

    def _of_runs(self) -> Iterator[Entry]:
        for run in self._library.entries:
            look = run_look(run.state)
            act = partial(self._window.show_page, RUNS, run=run.id)
            facts = (look.word, run.env_id, algorithm_title(run), run.id, run.note)
            yield Entry("Run", run_title(run), look.icon, act, " · ".join(fact for fact in facts if fact))

    def _runs_changed(self) -> None:
        self._runs = list(self._of_runs())
        self._show(keep=True)

    def _show(self, keep: bool = False) -> None:
        """List the best of what fits, what can't be done now greyed, with the reason."""
        entries = [*self._entries, *self._runs, *self._rest]
        found = best(entries, self.words.text())
        kept = self._chosen
        self._found = found[:_SHOWN]
        self.list.clear()
        colours = colours_of(self)
        grey, quiet = qcolor(colours.disabled), qcolor(colours.muted)
        for entry in self._found:
            about = " ".join((entry.why or entry.about).split())
            made = QTreeWidgetItem(
                [text.plain(part) for part in (entry.title, about, entry.keys or entry.kind)]
            )
            made.setSizeHint(0, QSize(0, self.fontMetrics().height() + _ROW_ROOM_PX))
            made.setIcon(0, icon(entry.icon, colours, Tone.MUTED))
            made.setData(1, Qt.ItemDataRole.ToolTipRole, text.tip(about))
            made.setData(
                0, Qt.ItemDataRole.AccessibleTextRole, text.plain(f"{entry.title}, {entry.kind}. {about}")
            )
            for place in range(3):
                made.setForeground(place, grey if entry.why else quiet if place else self.palette().text())
            self.list.addTopLevelItem(made)
        chosen = self._found.index(kept) if keep and kept in self._found else 0
        if (item := self.list.topLevelItem(chosen)) is not None:
            self.list.setCurrentItem(item)
        self._more = len(found) - len(self._found)
        self._say()

    def _say(self) -> None:
        """Say what Enter does with the chosen one."""
        chosen = self._chosen
        more = f"  {self._more:,} more: type another word." if self._more > 0 else ""
        if chosen is None:
            self._note.setText("Nothing has all of these words in it.")
        else:
            self._note.setText(f"{f'Not now: {chosen.why}' if chosen.why else 'Enter opens it.'}{more}")

    @property
    def _chosen(self) -> Entry | None:
        current = self.list.currentItem()
        row = self.list.indexOfTopLevelItem(current) if current is not None else -1
        return self._found[row] if 0 <= row < len(self._found) else None

    def _act(self) -> None:
        entry = self._chosen
        if entry is not None and not entry.why:
            # First: it may open a dialog of its own.
            self.accept()
            entry.act()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Let the arrows move in the list while the keyboard is in the field."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress and event.key() in _MOVES:
            QCoreApplication.sendEvent(self.list, event)
            return True
        return False
