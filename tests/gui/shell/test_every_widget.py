"""Every widget of every page and dialog can be named, reached by Tab, and read, in light and dark."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QAccessible, QBrush, QColor, QImage, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QCheckBox,
    QComboBox,
    QDialog,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QScrollBar,
    QTabBar,
    QTableView,
    QTabWidget,
    QTextEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from soulsgui.gui.colours import blend
from soulsgui.gui.plotting.plot import Plot
from soulsgui.gui.shell.manual import ManualDialog
from soulsgui.gui.shell.pages import page_entries
from soulsgui.gui.shell.servers import AddServerDialog
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.gui.watching.player import Player
from soulsgui.wire.control import RunSummary
from tests.gui.fake_feed import NOTHING_YET, Answer, FakeFeed
from tests.gui.plotting.curves import history
from tests.gui.reading import shown
from tests.gui.shell.conftest import Make
from tests.gui.shell.test_screen import DIALOGS, RUN, SOLVED, STATUS, World
from tests.gui.shell.test_screen import world as world
from tests.gui.test_theme import contrast
from tests.states import checkpoint

FIELDS = (QLineEdit, QComboBox, QAbstractSpinBox, QAbstractSlider, QPlainTextEdit, QTextEdit)
CONTROLS = (*FIELDS, QAbstractButton, QAbstractItemView, QTabBar, Plot)
LEAST = 4.5
MOST_ROWS = 20


def controls_of(surface: QWidget) -> Iterator[QWidget]:
    """What a user works with; not the parts that Qt makes such a widget of."""
    for one in surface.findChildren(QWidget):
        around = one.parentWidget()
        inner = isinstance(around, CONTROLS) or isinstance(one, QScrollBar | QHeaderView)
        inner = inner or isinstance(around.parentWidget(), QComboBox | QAbstractItemView)
        works = isinstance(one, CONTROLS) or bool(one.focusPolicy() & Qt.FocusPolicy.TabFocus)
        stands_for_itself = not inner and one.focusProxy() is None
        if works and stands_for_itself and one.isVisible() and one.window() is surface.window():
            yield one


def told(widget: QWidget) -> str:
    around = type(widget.parent()).__name__
    return f"{type(widget).__name__} {widget.objectName()!r} {name_of(widget)!r} in {around}"


def name_of(widget: QWidget) -> str:
    if isinstance(widget, QTabBar):
        return widget.tabText(widget.currentIndex())
    return QAccessible.queryAccessibleInterface(widget).text(QAccessible.Text.Name) or widget.toolTip()


def without_name(surface: QWidget) -> list[str]:
    return [told(one) for one in controls_of(surface) if not name_of(one).strip()]


def out_of_reach(surface: QWidget) -> list[str]:
    """Press Tab until it comes round, and tell what can be worked with and was not on the way."""
    wanted = [one for one in controls_of(surface) if one.isEnabled()]
    reached: list[QWidget] = []
    while (at := QApplication.focusWidget() or surface) not in reached:
        reached.append(at)
        QTest.keyClick(at, Qt.Key.Key_Tab)
    if at is reached[-1] and wanted not in ([], [at]):
        return [f"{told(at)} keeps Tab for itself"]
    return [told(one) for one in wanted if one not in reached]


def words_on(widget: QWidget) -> Iterator[tuple[QRect, QColor]]:
    """Where a widget writes, and in which colour."""
    role = QPalette.ColorRole
    colour = widget.palette().color
    if isinstance(widget, QAbstractItemView):
        model = widget.model()
        for row in range(min(model.rowCount(widget.rootIndex()), MOST_ROWS)):
            # A list's model hides how many columns it has.
            for column in range(model.columnCount() if isinstance(widget, QTableView) else 1):
                index = model.index(row, column, widget.rootIndex())
                own = index.data(Qt.ItemDataRole.ForegroundRole)
                if index.data() and index.flags() & Qt.ItemFlag.ItemIsEnabled:
                    place = widget.visualRect(index) & widget.viewport().rect()
                    place.moveTopLeft(widget.viewport().mapTo(widget, place.topLeft()))
                    yield place, QBrush(own).color() if own is not None else colour(role.Text)
    elif isinstance(widget, QLabel):
        if widget.text():
            yield widget.rect(), colour(role.WindowText)
    elif isinstance(widget, QLineEdit):
        if widget.text() or widget.placeholderText():
            yield widget.rect(), colour(role.Text if widget.text() else role.PlaceholderText)
    elif isinstance(widget, QCheckBox):
        yield widget.rect(), colour(role.WindowText)
    elif isinstance(widget, QPushButton | QToolButton):
        if widget.text():
            yield widget.rect(), colour(role.ButtonText)
    elif isinstance(widget, QPlainTextEdit | QTextEdit):
        empty = widget.document().isEmpty()
        yield widget.rect(), colour(role.PlaceholderText if empty else role.Text)
    elif isinstance(widget, QComboBox):
        yield widget.rect(), colour(role.Text)


def ground(picture: QImage, place: QRect) -> str:
    """The colour that most of a place has."""
    part = picture.copy(place).convertToFormat(QImage.Format.Format_RGB32)
    shades, counts = np.unique(np.frombuffer(part.constBits(), np.uint32), return_counts=True)
    return f"#{shades[counts.argmax()] & 0xFFFFFF:06x}"


def hard_to_read(surface: QWidget) -> list[str]:
    """Tell whose words stand out too little, each in its own colour from what was drawn around them."""
    found = []
    scrolled = [area.widget() for area in surface.findChildren(QScrollArea) if area.isVisible()]
    for root in (surface, *scrolled):
        picture = root.grab().toImage()
        for one in root.findChildren(QWidget):
            if not (one.isVisible() and one.isEnabled()) or one.window() is not surface.window():
                continue
            for place, colour in words_on(one):
                place = place.translated(one.mapTo(root, QPoint())) & picture.rect()
                if place.isEmpty():
                    continue
                behind = ground(picture, place)
                seen = blend(colour.name(), behind, colour.alphaF())
                if contrast(seen, behind) < LEAST:
                    found.append(f"{told(one)}: {seen} on {behind}")
    return found


def faults(qtbot: QtBot, surface: QWidget, theme: Theme) -> list[str]:
    """Walk over all that a window shows, tab for tab."""
    surface.activateWindow()
    qtbot.waitUntil(surface.isActiveWindow)
    found = []
    for choice in (ThemeChoice.LIGHT, ThemeChoice.DARK):
        theme.choose(choice)
        for state in states_of(surface):
            worked = () if choice is ThemeChoice.DARK else (*without_name(surface), *out_of_reach(surface))
            found += [f"{choice} {state}: {fault}" for fault in (*worked, *hard_to_read(surface))]
    return found


def states_of(surface: QWidget) -> Iterator[str]:
    tabs = [one for one in surface.findChildren(QTabWidget) if one.isVisible()]
    if not tabs:
        yield "all"
    for one in tabs:
        for place in range(one.count()):
            if one.isTabEnabled(place):
                one.setCurrentIndex(place)
                QApplication.processEvents()
                yield one.tabText(place)


def stored_run() -> dict[str, Answer]:
    """What a server answers that has one run with a checkpoint."""
    kept = checkpoint(id="best_model", kind="best")
    return NOTHING_YET | {
        "runs.list": {"runs": [RunSummary(**RUN).model_dump(mode="json")]},
        "checkpoint.list": {"checkpoints": [kept.model_dump(mode="json")]},
        "history.events": {"events": []},
        "history.query": history(range(1, 11)).model_copy(update={"metrics": ["return", "loss"]}),
    }


@pytest.mark.parametrize("name", page_entries())
def test_what_is_on_a_page(qtbot: QtBot, make: Make, fake: FakeFeed, both_themes: Theme, name: str) -> None:
    fake.answers = stored_run()
    fake.status = STATUS
    window = make(name)
    window.resize(1280, 800)
    fake.take_snapshot(STATUS)
    if name in ("overview", "plots"):
        qtbot.waitUntil(lambda: window.findChild(Plot) is not None)
    qtbot.wait(50)
    found = faults(qtbot, window, both_themes)
    assert not found, "\n".join(dict.fromkeys(found))


MORE: dict[str, Callable[[World], QDialog]] = {
    "add server": lambda world: AddServerDialog(),
    "manual": lambda world: ManualDialog(),
    "player": lambda world: Player(world.feed, world.shell, SOLVED),
}


@pytest.mark.parametrize("name", [*DIALOGS, *MORE])
def test_what_is_in_a_dialog(qtbot: QtBot, world: World, fake: FakeFeed, name: str) -> None:
    fake.answers = stored_run()
    dialog = (DIALOGS | MORE)[name](world)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    shown(qtbot, dialog)
    qtbot.wait(50)
    found = faults(qtbot, dialog, world.theme)
    assert not found, "\n".join(dict.fromkeys(found))


def test_the_walk_finds_what_is_wrong(qtbot: QtBot, both_themes: Theme) -> None:
    surface = QWidget()
    column = QVBoxLayout(surface)
    nameless, unreached, trap, faint = QToolButton(), QPushButton("Go"), QPlainTextEdit(), QLabel("Words")
    unreached.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
    trap.setAccessibleName("Notes")
    faint.setStyleSheet("color: #bbbbbb")
    nameless.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    for one in (nameless, unreached, faint):
        column.addWidget(one)
    shown(qtbot, surface).activateWindow()
    qtbot.waitUntil(surface.isActiveWindow)
    assert [len(find(surface)) for find in (without_name, out_of_reach, hard_to_read)] == [1, 1, 1]
    column.addWidget(trap)
    trap.setFocus()
    assert "keeps Tab" in out_of_reach(surface)[0]
