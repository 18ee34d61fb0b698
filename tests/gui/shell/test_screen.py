"""The window and its dialogs fit the screen they open on, whatever its scale."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QScreen
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QDialog,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QWidget,
)
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.gui.client_mode.servers import ChangeAddressDialog
from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.clients.page import ClientLogDialog, RenameDialog
from soulsgui.gui.config.mending import MendConfigDialog
from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.gui.config.page import ConfigDialog
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.runs.checkpoints import NoteDialog
from soulsgui.gui.settings.form import SettingsForm
from soulsgui.gui.shell.menu import SettingsDialog
from soulsgui.gui.shell.next_step import Offer, OfferBar
from soulsgui.gui.shell.pages import PageArea, PageStack, page_entries
from soulsgui.gui.shell.shutdown import ClosingDialog, LeavingDialog
from soulsgui.gui.shell.update import UpdateDialog, UpdateSteps
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import (
    ClientStatus,
    ConfigValues,
    RunStatus,
    RunSummary,
    SavedServer,
    ServiceStatus,
    Status,
)
from tests.gui.fake_feed import FakeFeed, FakeShell
from tests.gui.reading import part_of
from tests.gui.shell.driving import close_messages

SCALES = (100, 125, 150, 200)
CLIENT = ClientStatus(id="gamer-01", name="gamer-01")
SERVER = SavedServer(
    server_id="s", server_name="atelier", client="gamer-01", addresses=[("10.0.0.1", 1)], created=1.0
)


@pytest.fixture(params=SCALES)
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> QRect:
    """What a screen of 1280 x 800 pixels has room for, with a panel at its bottom."""
    scale = request.param / 100
    found = QRect(0, 0, round(1280 / scale), round(800 / scale) - 28)
    monkeypatch.setattr(QScreen, "availableGeometry", lambda _: found)
    return found


Made = Callable[[], QDialog]


@pytest.fixture
def dialogs(theme: Theme, tmp_path: Path) -> dict[str, Made]:
    """Every dialog there is."""
    shell, feed = FakeShell(tmp_path), FakeFeed()
    preferences = Preferences(Folders(tmp_path / "c", tmp_path / "d"))
    broken = tmp_path / "config.yaml"
    broken.write_text("ppo:\n  gama: 0.9\n")
    steps = UpdateSteps(9 * "Bring it up to date. ", ("git pull", "python3 bootstrap.py"), "Start it again.")
    return {
        "new run": lambda: NewRunDialog(feed),
        "config": lambda: ConfigDialog(feed, shell),
        "invite": lambda: InviteDialog(feed, shell),
        "settings": lambda: SettingsDialog(preferences, theme),
        "update": lambda: UpdateDialog("The server is newer.", steps),
        "log": lambda: ClientLogDialog(feed, CLIENT),
        "closing": lambda: ClosingDialog(feed),
        "leaving": LeavingDialog,
        "mend": lambda: MendConfigDialog(broken),
        "rename": lambda: RenameDialog(feed, CLIENT),
        "note": lambda: NoteDialog("Note", "a", "b", lambda *_: feed.call("runs.edit", {"run": "r"})),
        "address": lambda: ChangeAddressDialog(feed, SERVER),
    }


NAMES = ("new run", "config", "invite", "settings", "update", "log", "closing", "leaving", "mend", "rename")


@pytest.mark.parametrize("letters", [100, 150])
@pytest.mark.parametrize("name", [*NAMES, "note", "address"])
def test_a_dialog_fits_its_screen_with_every_button_in_sight(
    qtbot: QtBot, both_themes: Theme, dialogs: dict[str, Made], room: QRect, name: str, letters: int
) -> None:
    both_themes.set_font_scale(letters)
    dialog = dialogs[name]()
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(dialog)
    dialog.move(room.right() - 50, room.bottom() - 50)
    dialog.show()
    qtbot.waitUntil(lambda: room.contains(dialog.geometry()))
    assert dialog.geometry().bottom() <= room.bottom() - 4
    assert dialog.minimumWidth() <= dialog.width() <= room.width()
    for button in dialog.findChildren(QPushButton):
        if button.isVisible() and not scrolled(button):
            corner = button.mapTo(dialog, button.rect().bottomRight())
            assert dialog.rect().contains(corner), button.text()


def scrolled(widget: QWidget) -> bool:
    """Whether it stands in something that scrolls."""
    parent = widget.parentWidget()
    return parent is not None and (isinstance(parent, QScrollArea) or scrolled(parent))


@pytest.mark.parametrize("known", [False, True])
def test_a_window_fits_a_screen(qtbot: QtBot, theme: Theme, tmp_path: Path, room: QRect, known: bool) -> None:
    preferences = Preferences(Folders(tmp_path / "c", tmp_path / "d"))
    if known:
        larger = QWidget()
        qtbot.addWidget(larger)
        larger.setGeometry(300, 200, 2000, 1400)
        preferences.settings.setValue("window/geometry", larger.saveGeometry())
    window = MainWindow(FakeFeed(), theme, preferences)
    qtbot.addWidget(window)
    assert room.width() >= window.width() >= window.minimumWidth()
    assert room.height() - 30 >= window.height() >= window.minimumHeight()
    if known:
        assert room.contains(window.geometry())


STATUS = Status(
    run=RunStatus(
        id="2026-11-23_14-19-04_A-run",
        name="A run with a longer name",
        state="finished",
        env_id="CartPole-v1",
        algorithm="ppo",
        reached="mean_return",
        goal_return=475.0,
        mean_return=500.0,
        env_steps=26_624,
        seconds=23.0,
    ),
    services=[
        ServiceStatus(name=name, kind=name.partition("-")[0], state="running", pid=12345, port=6379)
        for name in ("redis", "trainer", "telemetry", "evaluator", "client-1", "client-2")
    ],
    clients=[CLIENT],
)


@pytest.mark.parametrize("name", page_entries())
def test_a_page_is_all_in_reach(qtbot: QtBot, theme: Theme, tmp_path: Path, room: QRect, name: str) -> None:
    feed = FakeFeed()
    run = RunSummary(id=STATUS.run.id, name=STATUS.run.name, dir="r", state="finished")
    feed.answers = {
        "runs.list": {"runs": [run.model_dump(mode="json")]},
        "config.presets": {"presets": []},
        "config.get": ConfigValues(defaults={}, saved={}, running={}, text="", hash="h", path="/config.yaml"),
        "config.check": {"problems": []},
        "history.logs": {"lines": []},
        "checkpoint.list": {"checkpoints": []},
    }
    window = MainWindow(feed, theme, Preferences(Folders(tmp_path / "c", tmp_path / "d")))
    qtbot.addWidget(window)
    window.show()
    qtbot.waitUntil(lambda: window.pages.page is not None)
    window.show_page(name)
    feed.take_snapshot(STATUS)
    area = window.pages.currentWidget()
    assert isinstance(area, PageArea)
    least = window.pages.front.minimumSizeHint
    qtbot.waitUntil(lambda: area.horizontalScrollBar().maximum() == 0)
    qtbot.waitUntil(lambda: area.widget().height() >= least().height())
    for part in window.pages.front.findChildren(QAbstractScrollArea):
        if part.isVisible() and isinstance(part, Table | QPlainTextEdit):
            assert part.height() >= 60, part.objectName()
    for button in window.pages.front.findChildren(QAbstractButton):
        if button.isVisible() and button.parentWidget() is not None:
            shown = button.mapTo(area.widget(), button.rect().bottomRight())
            assert area.widget().rect().contains(shown) or scrolled_within(button, area), button.text()
    close_messages(window.messages)
    window.hide()


def scrolled_within(widget: QWidget, area: QScrollArea) -> bool:
    """Whether it stands in something that scrolls inside of an area."""
    parent = widget.parentWidget()
    while parent is not None and parent is not area.widget():
        if isinstance(parent, QAbstractScrollArea):
            return True
        parent = parent.parentWidget()
    return False


def test_the_form_of_the_settings_is_never_scrolled_sideways(qtbot: QtBot, theme: Theme) -> None:
    form = SettingsForm()
    qtbot.addWidget(form)
    form.show()
    area = part_of(form, QScrollArea)
    for width in (1100, 860, 690, 480):
        form.resize(width, 400)
        qtbot.waitUntil(lambda: area.horizontalScrollBar().maximum() == 0)


@pytest.mark.parametrize("width", [480, 1280])
def test_the_words_of_an_offer_are_never_cut(qtbot: QtBot, theme: Theme, tmp_path: Path, width: int) -> None:
    feed: Any = FakeFeed()
    pages = PageStack({}, feed, FakeShell(tmp_path))
    qtbot.addWidget(pages)
    bar = OfferBar(feed, pages)
    qtbot.addWidget(bar)
    bar.resize(width, 40)
    bar.make(Offer("run", "401,408 environment steps are done after 47 s.", "lunarlander_ppo"))
    buttons = (bar.train_next, bar.go_on, bar.open_run)
    qtbot.waitUntil(lambda: all(button.width() >= button.sizeHint().width() for button in buttons))
    assert bar.words.height() >= bar.words.heightForWidth(bar.words.width())
    in_one_line = len({button.geometry().center().y() for button in (*buttons, bar.words)}) == 1
    assert in_one_line is (width == 1280)
