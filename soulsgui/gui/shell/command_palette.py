"""Ctrl+K: whatever the window can do or show, in one list that typed words narrow."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QObject, QSize, Qt, QTimer
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractButton,
    QHeaderView,
    QPushButton,
    QTabWidget,
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
from soulsgui.gui.shell.pages import CLIENTS, CONFIG, RUNS, page_entries
from soulsgui.gui.states import client_look, run_look
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.widgets.boxes import DIALOG_MARGINS, column
from soulsgui.gui.widgets.command_button import ALSO, IN_MENU
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.gui.widgets.labels import Label, muted

if TYPE_CHECKING:
    from soulsgui.gui.shell.window import MainWindow

_SHOWN = 60
_CHARACTERS, _TITLE_CHARACTERS = 136, 42
_LINES = 34
_ROW_ROOM_PX = 10
_LOOK_EVERY_MS, _OFF_FOR_MS, _HIDDEN_FOR_MS = 100, 1_000, 3_000
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
    also: str = ""  # words that find it, too, and are not shown

    @cached_property
    def _heaps(self) -> tuple[str, str]:
        return self.title.casefold(), f"{self.kind} {self.about} {self.also}".casefold()

    @cached_property
    def _parts(self) -> tuple[list[str], list[str]]:
        title, about = (re.split(r"[\W_]+", heap) for heap in self._heaps)
        return title, about

    def distance(self, word: str) -> int | None:
        """Return how far it is from a typed word in small letters; None where that does not stand in it."""
        title, _ = self._heaps
        if title.startswith(word) or word in self._parts[0]:
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


class _Control(NamedTuple):
    """A button, or an entry of the menu that a button opens."""

    button: QAbstractButton
    entry: QAction | None = None

    @property
    def _pressed(self) -> QAbstractButton | QAction:
        return self.button if self.entry is None else self.entry

    @property
    def lives(self) -> bool:
        """Whether it is still there: menus are made anew now and then."""
        return shiboken6.isValid(self.button) and shiboken6.isValid(self._pressed)

    @property
    def _says(self) -> str:
        if isinstance(self._pressed, FittingButton):
            return self._pressed.title.replace("&", "")
        said = self.button.accessibleName() if self.entry is None else ""
        return said or self._pressed.text().replace("&", "")

    @property
    def title(self) -> str:
        """What it does; on a card, to what."""
        around = self.button.parentWidget()
        while around is not None and around.property("part") != "card":
            around = around.parentWidget()
        card = around.accessibleName().partition(":")[0] if around is not None else ""
        return f"{self._says} ({card})" if card and self._says else self._says

    @property
    def told(self) -> str:
        """What it tells beside that, also of why it is off."""
        told = self.button.accessibleDescription() if self.entry is None else ""
        told = told or self._pressed.toolTip()
        return "" if told in (self._says, self._says.rstrip("…")) else told

    @property
    def why_not(self) -> str:
        """Why it is off; empty while it is on."""
        on = self.button.isEnabled() and self._pressed.isEnabled()
        return "" if on else self.told or "Not now."

    def bring_to_front(self) -> None:
        """Turn to the tab that it stands on."""
        inside: QWidget | None = self.button
        while inside is not None:
            around = inside.parentWidget()
            if around is not None and isinstance(tabs := around.parentWidget(), QTabWidget):
                tabs.setCurrentWidget(inside)
            inside = around

    def press(self) -> None:
        """Do it."""
        if self.entry is None:
            self.button.click()
        else:
            self.entry.trigger()

    def listed(self, act: Callable[[], object], why: str, place_icon: str) -> Entry:
        """Return how it is listed: by its icon, or that of its place where it has none but an arrow."""
        keys = self._pressed.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        own = str(self._pressed.property("iconName") or "arrow")
        mark = place_icon if own.startswith("arrow") else own
        also = str(self._pressed.property(ALSO) or "")
        return Entry("Command", self.title, mark, act, self.told, keys, why, also)


def _controls(area: QWidget) -> Iterator[_Control]:
    """Yield the buttons of the toolbar or of a page, and for one with a menu what stands in that."""
    for button in area.findChildren(QAbstractButton):
        menu = button.menu() if isinstance(button, QPushButton | QToolButton) else None
        if menu is None:
            yield _Control(button)
            continue
        # As before it is seen: it then says what is possible now.
        menu.aboutToShow.emit()
        for entry in menu.actions():
            if entry.isVisible() and not entry.isSeparator() and entry.menu() is None:
                yield _Control(button, entry)


def commands_of(toolbar: QToolBar) -> Iterator[Entry]:
    """Yield what the buttons of the toolbar do, and the entries of their menus."""
    for control in _controls(toolbar):
        if control.title:
            yield control.listed(control.press, control.why_not, "server")


def commands_on(page: QWidget, name: str, window: "MainWindow") -> Iterator[Entry]:
    """Yield what the buttons of a page do once it is in front; one that is hidden does nothing now."""
    alike: dict[str, list[_Control]] = {}
    for control in _controls(page):
        button = control.button
        # What an empty part of a page offers there is offered elsewhere, too.
        around = EmptyState if not button.isVisible() else ()
        hidden = button.isHidden() or button.window() is not window or isinstance(button.parent(), around)
        if not hidden and not button.property(IN_MENU) and isinstance(button, QPushButton) and control.title:
            alike.setdefault(control.title, []).append(control)
    for controls in alike.values():
        controls.sort(key=lambda one: not one.button.isVisible())
        first = controls[0]
        why = first.why_not if first.button.isVisible() else ""
        act = partial(window.go_to, name, partial(_press, controls, name, window))
        yield first.listed(act, why, page_entries()[name].icon)


def _press(controls: list[_Control], name: str, window: "MainWindow", waited_ms: int = 0) -> None:
    """Press the first of them that can be pressed on the page in front, or say why none can.

    A page that has just come to the front may still ask for what it shows.
    """
    if window.pages.shown != name:
        return  # somebody has turned to another one meanwhile
    controls = [one for one in controls if one.lives]
    if not controls:
        window.notify("info", "The page has changed meanwhile.", "Look for it once more.")
        return
    for control in controls:
        control.bring_to_front()
        if control.button.isVisible() and not control.why_not:
            control.press()
            return
    seen = [control for control in controls if control.button.isVisible()]
    if waited_ms < (_OFF_FOR_MS if seen else _HIDDEN_FOR_MS):
        later = partial(_press, controls, name, window, waited_ms + _LOOK_EVERY_MS)
        QTimer.singleShot(_LOOK_EVERY_MS, controls[0].button, later)
        return
    asked = (seen or controls)[0]
    window.notify("info", f"“{asked.title}” can't be done now.", asked.told)


def _settings(shell: "MainWindow") -> Iterator[Entry]:
    for key, spec in specs().items():
        act = partial(shell.show_page, CONFIG, setting=key)
        about = spec.info.description.replace("`", "")
        yield Entry("Setting", spec.title, "configure", act, f"{key}: {about}")


class CommandPalette(FittingDialog):
    """A field to type into and the best matches below it; the keyboard stays in the field."""

    section = "Keys"

    def __init__(self, feed: Feed, window: "MainWindow") -> None:
        super().__init__("commandPalette", "Find anything", window)
        self._window = window
        self._to_make = [] if window.pages.covered else list(window.navigation.names)
        # A timer of its own: what `QTimer.singleShot(0, …)` is to call is kept for good by PySide where its
        # context is deleted first, and this is closed at any moment.
        self._next = QTimer(self, singleShot=True, interval=0)
        self._next.timeout.connect(self._make_page)
        self._commands: list[Entry] = []
        self._places = [*self._pages(), *self._clients(feed)]
        self._rest = [*_settings(window), *self._manual()]
        self._listed = feed.lists.runs
        self._runs = list(self._of_runs())
        self._found: list[Entry] = []
        self._more = 0  # that fit, too, and are not listed
        self.words = FilterEdit("Find a command, page, run, client, setting, or page of the manual", self)
        self.words.setPlaceholderText(self.words.accessibleName())
        self._moved = False  # to another row than the first, since something was typed
        self.words.textChanged.connect(self._typed)
        self.words.returnPressed.connect(self._act)
        self.words.installEventFilter(self)
        self.list = self._make_list()
        self._note = muted(Label(parent=self))
        column(
            self.words,
            (self.list, 1),
            self._note,
            on=self,
            margins=DIALOG_MARGINS,
            gap_px=GAP_S,
        )
        metrics = self.fontMetrics()
        self.resize(metrics.averageCharWidth() * _CHARACTERS, metrics.lineSpacing() * _LINES)
        self._listed.changed.connect(self._runs_changed)
        self._listed.want()
        self._list_commands()

    def _list_commands(self) -> None:
        """List what the toolbar and the pages offer; meanwhile those pages are made that were never shown."""
        pages = self._window.pages
        titles = {pages.shown: "this page"} | {one.name: one.title for one in self._window.navigation.entries}
        commands: dict[str, Entry] = {}
        for entry in commands_of(self._window.toolbar):
            commands.setdefault(entry.title, entry)
        for name in titles:
            page = pages.front if name == pages.shown else None if pages.covered else pages.made(name)
            for entry in commands_on(page, name, self._window) if page is not None else ():
                # A client is paused as a run is.
                title = entry.title if entry.title not in commands else f"{entry.title} ({titles[name]})"
                commands[title] = replace(entry, title=title)
        del commands[self._window.menu.find_anything.text().replace("&", "")]
        self._commands = sorted(commands.values(), key=lambda one: bool(one.why))
        self._show()
        if self._to_make:
            self._next.start()

    def _make_page(self) -> None:
        self._window.pages.make(self._to_make.pop(0))
        self._list_commands()

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
            keys = self._window.navigation.keys[entry.name]
            yield Entry("Page", entry.title, entry.icon, act, keys=keys, also=entry.also)

    def _clients(self, feed: Feed) -> Iterator[Entry]:
        for client in feed.status.clients:
            look = client_look(client.state)
            act = partial(self._window.show_page, CLIENTS, client=client.id)
            yield Entry("Client", client.name, look.icon, act, f"{look.word} · {client.host}")

    def _manual(self) -> Iterator[Entry]:
        for page, (title, *headings) in manual_pages().items():
            yield Entry("Manual", title, "help", partial(self._window.open_manual, page), page.stem)
            for heading in headings:
                act = partial(self._window.open_manual, page, heading)
                yield Entry("Manual", heading, "help", act, title)

    def _of_runs(self) -> Iterator[Entry]:
        for run in self._listed.entries:
            look = run_look(run.state)
            act = partial(self._window.show_page, RUNS, run=run.id)
            facts = (look.word, run.env_id, algorithm_title(run), run.id, run.note)
            yield Entry("Run", run_title(run), look.icon, act, " · ".join(fact for fact in facts if fact))

    def _runs_changed(self) -> None:
        self._runs = list(self._of_runs())
        self._show()

    def _typed(self) -> None:
        self._moved = False
        self._show()

    def _show(self) -> None:
        """List the best of what fits; commands that can't be done now greyed, last, with the reason."""
        entries = [*self._commands, *self._places, *self._runs, *self._rest]
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
        chosen = self._found.index(kept) if self._moved and kept in self._found else 0
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
            self._moved = True
            return True
        return False
