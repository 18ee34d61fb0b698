"""Every widget of every page and dialog can be named, reached by Tab, and read, in light and dark."""

from collections.abc import Callable, Iterator
from itertools import chain

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
    QStackedLayout,
    QStyle,
    QStyleOptionButton,
    QTabBar,
    QTableView,
    QTabWidget,
    QTextBrowser,
    QTextEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from soulsgui.gui.clients.look import LookDialog
from soulsgui.gui.colours import blend
from soulsgui.gui.plotting.host import PlotHost
from soulsgui.gui.plotting.plot import Plot
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.shell.about import AboutDialog
from soulsgui.gui.shell.manual import ManualDialog
from soulsgui.gui.shell.pages import page_entries
from soulsgui.gui.shell.server_selector import AddServerDialog
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.gui.watching.player import Player
from soulsgui.wire.control import RunSummary
from tests.gui.fake_feed import NOTHING_YET, Answer, FakeFeed
from tests.gui.plotting.curves import history
from tests.gui.reading import shown
from tests.gui.shell.conftest import Make
from tests.gui.shell.test_screen import CLIENT, DIALOGS, RUN, SOLVED, STATUS, World
from tests.gui.shell.test_screen import world as world
from tests.gui.test_theme import contrast
from tests.states import checkpoint

FIELDS = (QLineEdit, QComboBox, QAbstractSpinBox, QAbstractSlider, QPlainTextEdit, QTextEdit)
CONTROLS = (*FIELDS, QAbstractButton, QAbstractItemView, QTabBar, Plot)
LEAST = 4.5
MOST_ROWS = 20


@pytest.fixture(scope="module", params=[ThemeChoice.LIGHT, ThemeChoice.DARK])
def both_themes(theme: Theme, request: pytest.FixtureRequest) -> Iterator[Theme]:
    """One theme for all tests, then the other one: to style a window anew takes longer than to make it."""
    theme.choose(request.param)
    yield theme
    theme.choose(ThemeChoice.LIGHT)


def seen_in(part: QWidget) -> Iterator[QWidget]:
    for one in (part, *part.findChildren(QWidget)):
        if one.isVisible() and one.window() is part.window():
            yield one


def controls_of(part: QWidget) -> Iterator[QWidget]:
    """What a user works with; not the parts that Qt makes such a widget of."""
    for one in seen_in(part):
        if one.isWindow() or isinstance(one, QScrollBar | QHeaderView):
            continue
        around, beyond = one.parentWidget(), one.parentWidget().parentWidget()
        inner = isinstance(around, CONTROLS) or isinstance(beyond, QComboBox | QAbstractItemView)
        works = isinstance(one, CONTROLS) or bool(one.focusPolicy() & Qt.FocusPolicy.TabFocus)
        if works and not inner and one.focusProxy() is None:
            yield one


def told(widget: QWidget) -> str:
    around = type(widget.parent()).__name__
    return f"{type(widget).__name__} {widget.objectName()!r} {name_of(widget)!r} in {around}"


def name_of(widget: QWidget) -> str:
    if isinstance(widget, QTabBar):
        return widget.tabText(widget.currentIndex())
    if isinstance(widget, FIELDS) and not widget.accessibleName():
        # Qt calls a box what is chosen in it.
        labels = [one.text() for one in widget.window().findChildren(QLabel) if one.buddy() is widget]
        return " ".join(labels) or widget.toolTip()
    return QAccessible.queryAccessibleInterface(widget).text(QAccessible.Text.Name) or widget.toolTip()


def without_name(part: QWidget) -> list[str]:
    return [f"{told(one)} has no name" for one in controls_of(part) if not name_of(one).strip()]


def without_reason(part: QWidget) -> list[str]:
    """Tell which buttons are off and do not say why."""
    off = (one for one in seen_in(part) if isinstance(one, QAbstractButton) and not one.isEnabled())
    return [f"{told(one)} is off without a reason" for one in off if not one.toolTip()]


def out_of_reach(part: QWidget) -> list[str]:
    """Tell what can be worked with and is not on the way of Tab; on its first way it may enable more."""
    return round_by_tab(part) and round_by_tab(part)


def round_by_tab(part: QWidget) -> list[str]:
    """Press Tab until it comes round, and tell what was not on the way."""
    reached: dict[tuple[QWidget, int], None] = {}
    while (at := (widget := QApplication.focusWidget() or part.window(), link_of(widget))) not in reached:
        reached[at] = None
        QTest.keyClick(widget, Qt.Key.Key_Tab)
    on_the_way = {widget for widget, _ in reached}
    wanted = [one for one in controls_of(part) if one.isEnabled()]
    return [f"{told(one)} is not reached by Tab" for one in wanted if one not in on_the_way]


def link_of(widget: QWidget) -> int:
    """Where among the links of a text the keyboard is: Tab goes through them."""
    if isinstance(widget, QLabel):
        return widget.selectionStart()
    return widget.textCursor().position() if isinstance(widget, QTextBrowser) else 0


def words_on(widget: QWidget) -> Iterator[tuple[QRect, QColor]]:
    """Where a widget writes, and in which colour."""
    role = QPalette.ColorRole
    colour = widget.palette().color
    if isinstance(widget, QAbstractItemView):
        model = widget.model()
        rows = min(model.rowCount(widget.rootIndex()), MOST_ROWS) if model is not None else 0
        for row in range(rows):
            # A list's model hides how many columns it has.
            for column in range(model.columnCount() if isinstance(widget, QTableView) else 1):
                index = model.index(row, column, widget.rootIndex())
                own = index.data(Qt.ItemDataRole.ForegroundRole)
                if index.data() and index.flags() & Qt.ItemFlag.ItemIsEnabled:
                    place = widget.visualRect(index) & widget.viewport().rect()
                    place.moveTopLeft(widget.viewport().mapTo(widget, place.topLeft()))
                    yield place, QBrush(own).color() if own is not None else colour(role.Text)
    elif isinstance(widget, QCheckBox):
        option = QStyleOptionButton()
        widget.initStyleOption(option)
        beside_the_box = QStyle.SubElement.SE_CheckBoxContents
        yield widget.style().subElementRect(beside_the_box, option, widget), colour(role.WindowText)
    elif isinstance(widget, QLabel | QPushButton | QToolButton):
        if widget.text():
            label = isinstance(widget, QLabel)
            yield widget.rect(), colour(role.WindowText if label else role.ButtonText)
    elif isinstance(widget, QLineEdit | QPlainTextEdit | QTextEdit):
        written = widget.text() if isinstance(widget, QLineEdit) else widget.toPlainText()
        if written or widget.placeholderText():
            yield widget.rect(), colour(role.Text if written else role.PlaceholderText)
    elif isinstance(widget, QComboBox):
        yield widget.rect(), colour(role.Text)


def ground(picture: QImage, place: QRect) -> str:
    """The colour that most of a place has."""
    part = picture.copy(place).convertToFormat(QImage.Format.Format_RGB32)
    shades, counts = np.unique(np.frombuffer(part.constBits(), np.uint32), return_counts=True)
    return f"#{shades[counts.argmax()] & 0xFFFFFF:06x}"


def hard_to_read(part: QWidget) -> list[str]:
    """Tell whose words stand out too little, each in its own colour from what was drawn around them."""
    found = []
    scrolled = [area.widget() for area in seen_in(part) if isinstance(area, QScrollArea)]
    for root in (part, *scrolled):
        picture = root.grab().toImage()
        for one in seen_in(root):
            for place, colour in words_on(one) if one.isEnabled() else ():
                place = place.translated(one.mapTo(root, QPoint())) & picture.rect()
                if place.isEmpty():
                    continue
                behind = ground(picture, place)
                seen = blend(colour.name(), behind, colour.alphaF())
                if contrast(seen, behind) < LEAST:
                    found.append(f"{told(one)}: {seen} on {behind}")
    return found


def faults(qtbot: QtBot, fake: FakeFeed, surface: QWidget, inside: QWidget) -> list[str]:
    """Walk over all that a window shows, one after the other what lies behind one another inside."""
    surface.activateWindow()
    qtbot.waitUntil(surface.isActiveWindow)
    found: dict[str, None] = {}
    for part in chain([surface], turned_over(inside)):
        qtbot.waitUntil(lambda part=part: settled(fake, part))
        found |= dict.fromkeys(
            (*without_name(part), *without_reason(part), *out_of_reach(part), *hard_to_read(part))
        )
    return list(found)


def settled(fake: FakeFeed, part: QWidget) -> bool:
    """Whether everything asked is answered, and the plots are made."""
    hosts = [one for one in part.findChildren(PlotHost) if not one.visibleRegion().isEmpty()]
    asked = [one.call for one in fake.sent if one.command in fake.answers]
    return all(one.over for one in asked) and all(one.plot is not None for one in hosts)


def turned_over(part: QWidget) -> Iterator[QWidget]:
    """Bring to the front in turn what lies behind one another: tabs, panels, what stands for nothing."""
    found = (*part.findChildren(QTabWidget), *part.findChildren(QStackedLayout))
    stacks = {one if isinstance(one, QTabWidget) else one.parentWidget(): one for one in found}
    shown = [one for one in stacks if one.isVisible() and not isinstance(one.parent(), QTabWidget)]
    outer = [one for one in shown if not any(other.isAncestorOf(one.parentWidget()) for other in shown)]
    for holder in outer:
        for place in range(stacks[holder].count()):
            stacks[holder].setCurrentIndex(place)
            QApplication.processEvents()
            yield stacks[holder].widget(place)
            yield from turned_over(stacks[holder].widget(place))


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
def test_what_is_on_a_page(qtbot: QtBot, make: Make, fake: FakeFeed, name: str) -> None:
    fake.answers = stored_run()
    fake.status = STATUS
    window = make(name)
    window.resize(1280, 800)
    fake.take_snapshot(STATUS)
    if name in ("overview", "plots"):
        qtbot.waitUntil(lambda: window.findChild(Plot) is not None)
    found = faults(qtbot, fake, window, window.pages.front)
    assert not found, "\n".join(found)


def manual(_: World) -> QDialog:
    dialog = ManualDialog()
    dialog.open_at("")
    return dialog


WALKED: dict[str, Callable[[World], QDialog]] = DIALOGS | {
    "about": lambda world: AboutDialog(world.feed, Preferences(world.folders), "", None),
    "add server": lambda world: AddServerDialog(),
    "look": lambda world: LookDialog(world.feed, CLIENT),
    "manual": manual,
    "player": lambda world: Player(world.feed, world.shell, SOLVED),
}
del WALKED["config"]  # what is in it stands on its page


@pytest.mark.parametrize("name", WALKED)
def test_what_is_in_a_dialog(qtbot: QtBot, world: World, fake: FakeFeed, name: str) -> None:
    fake.answers = stored_run()
    dialog = WALKED[name](world)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    shown(qtbot, dialog)
    found = faults(qtbot, fake, dialog, dialog)
    assert not found, "\n".join(found)


def test_the_walk_finds_what_is_wrong(qtbot: QtBot, both_themes: Theme) -> None:
    surface = QWidget()
    column = QVBoxLayout(surface)
    nameless, unreached, trap, faint = QToolButton(), QPushButton("Go"), QPlainTextEdit(), QLabel("Words")
    nameless.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    unreached.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
    trap.setAccessibleName("Notes")
    faint.setStyleSheet("color: #808080")
    for one in (nameless, unreached, faint):
        column.addWidget(one)
    shown(qtbot, surface).activateWindow()
    qtbot.waitUntil(surface.isActiveWindow)
    assert [len(find(surface)) for find in (without_name, out_of_reach, hard_to_read)] == [1, 1, 1]
    column.addWidget(trap)
    trap.show()
    trap.setFocus()
    assert len(out_of_reach(surface)) == 2  # what keeps Tab for itself keeps it from the others
