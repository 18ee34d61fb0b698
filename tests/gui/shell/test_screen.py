"""The window and its dialogs fit the screen they open on, whatever its scale."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QScreen
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QDialog,
    QFileDialog,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QWidget,
)
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.gui.client_mode.consent import agree_dialog
from soulsgui.gui.client_mode.saved_servers import ChangeAddressDialog
from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.clients.page import ClientLogDialog
from soulsgui.gui.config.mending import MendConfigDialog
from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.gui.config.page import ConfigDialog
from soulsgui.gui.overview.page import OverviewPage
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.runs.checkpoints import NoteDialog
from soulsgui.gui.runs.evaluate import EvaluateDialog
from soulsgui.gui.settings.form import SettingsForm
from soulsgui.gui.shell.end import EndStrip
from soulsgui.gui.shell.menu import SettingsDialog
from soulsgui.gui.shell.pages import PageArea, page_entries
from soulsgui.gui.shell.shutdown import ClosingDialog, LeavingDialog
from soulsgui.gui.shell.update import UpdateDialog, UpdateSteps
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.command_button import Words
from soulsgui.gui.widgets.dialog import NameDialog
from soulsgui.gui.widgets.geometry import room_for
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import Preset, RunStatus, RunSummary, SavedServer, Status
from soulsgui.wire.messages.server_config import Execution
from tests.gui.fake_feed import NOTHING_YET, FakeFeed, FakeShell
from tests.gui.plotting.curves import history
from tests.gui.reading import part_of, shown
from tests.gui.shell.conftest import Make
from tests.states import client, service

SCALES = (100, 125, 150, 200)
CLIENT = client("gamer-01")
SERVER = SavedServer(
    server_id="s", server_name="atelier", client="gamer-01", addresses=[("10.0.0.1", 1)], created=1.0
)
ASKED = Execution(
    env_id="my_game:MyGame-v0",
    env_kwargs={"level": "the-cathedral-of-the-deep", "wind": True},
    env_wrappers=["TimeLimit", {"my_game.wrappers:Scaled": {"by": 0.25}}],
    restart_hook="my_game.launch:start",
    network="my_game.networks:Own",
)


@pytest.fixture(params=SCALES)
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> QRect:
    """What a screen of 1280 x 800 pixels has room for, with a panel at its bottom."""
    scale = request.param / 100
    found = QRect(0, 0, round(1280 / scale), round(800 / scale) - 28)
    monkeypatch.setattr(QScreen, "availableGeometry", lambda _: found)
    return found


@dataclass
class World:
    feed: FakeFeed
    shell: FakeShell
    theme: Theme
    folders: Folders


def mending(world: World) -> QDialog:
    world.folders.config.mkdir()
    world.folders.overrides.write_text("ppo:\n  gama: 0.9\n")
    return MendConfigDialog(world.folders.overrides)


def new_sweep(world: World) -> QDialog:
    dialog = NewRunDialog(world.feed)
    dialog.as_sweep.click()
    for _ in range(6):
        dialog.sweep.add_setting()
    return dialog


SAVE = Words("&Save", "Saving …", "Saved")
STEPS = UpdateSteps(9 * "Bring it up to date. ", ("git pull", "python3 bootstrap.py"), "Start it again.")
DIALOGS: dict[str, Callable[[World], QDialog]] = {
    "new run": lambda world: NewRunDialog(world.feed),
    "new sweep": new_sweep,
    "config": lambda world: ConfigDialog(world.feed, world.shell),
    "invite": lambda world: InviteDialog(world.feed),
    "settings": lambda world: SettingsDialog(Preferences(world.folders), world.theme),
    "update": lambda world: UpdateDialog("The server is newer.", STEPS),
    "log": lambda world: ClientLogDialog(world.feed, CLIENT),
    "closing": lambda world: ClosingDialog(world.feed),
    "leaving": lambda world: LeavingDialog(),
    "mend": mending,
    "evaluate": lambda world: EvaluateDialog("Quicksave, update 40, 1,000 steps", film=False),
    "name": lambda world: NameDialog("Rename", "a", 9 * "Its id stays. ", SAVE, lambda _: None),
    "note": lambda world: NoteDialog("Note", "a", "b", lambda *_: world.feed.call("runs.edit", {"run": "r"})),
    "address": lambda world: ChangeAddressDialog(world.feed, SERVER),
    "agree": lambda world: agree_dialog(world.feed, SERVER, ASKED),
}


@pytest.fixture
def world(fake: FakeFeed, shell: FakeShell, both_themes: Theme, folders: Folders) -> World:
    return World(fake, shell, both_themes, folders)


@pytest.mark.parametrize("letters", [100, 150])
@pytest.mark.parametrize("name", DIALOGS)
def test_a_dialog_fits_its_screen(qtbot: QtBot, world: World, room: QRect, name: str, letters: int) -> None:
    world.theme.set_font_scale(letters)
    dialog = DIALOGS[name](world)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(dialog)
    dialog.move(room.right() - 50, room.bottom() - 50)
    dialog.show()
    qtbot.waitUntil(lambda: room.contains(dialog.geometry()))
    assert dialog.geometry().bottom() <= room.bottom() - 4
    assert dialog.minimumWidth() <= dialog.width() <= room.width()
    for button in dialog.findChildren(QPushButton):
        if button.isVisible() and not scrolled(button, dialog):
            corner = button.mapTo(dialog, button.rect().bottomRight())
            assert dialog.rect().contains(corner), button.text()


@pytest.mark.parametrize(("page", "words"), [("client", "Open invitation"), ("logs", "Save as")])
def test_a_dialog_for_a_file_fits_its_screen(
    qtbot: QtBot, make: Make, fake: FakeFeed, room: QRect, page: str, words: str
) -> None:
    window = make(page)
    buttons = window.pages.front.findChildren(QPushButton)
    opening = next(one for one in buttons if words in f"{one.text()} {one.accessibleName()}".replace("&", ""))
    opening.setEnabled(True)
    opening.click()
    dialog = part_of(window, QFileDialog)
    assert dialog.isVisible()
    assert room.contains(dialog.geometry())
    assert dialog.geometry().bottom() <= room.bottom() - 4
    dialog.reject()


def scrolled(widget: QWidget, within: QWidget) -> bool:
    parent = widget.parentWidget()
    return parent not in (None, within) and (
        isinstance(parent, QAbstractScrollArea) or scrolled(parent, within)
    )


@pytest.mark.parametrize("known", [False, True])
def test_a_window_fits_a_screen(qtbot: QtBot, make: Make, folders: Folders, room: QRect, known: bool) -> None:
    if known:
        larger = QWidget()
        qtbot.addWidget(larger)
        larger.setGeometry(300, 200, 2000, 1400)
        Preferences(folders).settings.setValue("window/geometry", larger.saveGeometry())
    window = make(show=False)
    assert room.width() >= window.width() >= window.minimumWidth()
    assert room.height() - 30 >= window.height() >= window.minimumHeight()
    if known:
        assert room.contains(window.geometry())


RUN: dict[str, Any] = {"id": "2026-11-23_14-19-04_A-run", "name": "A run with a longer name"}
RUN |= {"state": "finished", "env_id": "CartPole-v1", "algorithm": "ppo", "env_steps": 26_624}
SOLVED = RunStatus(reached="mean_return", goal_return=475.0, mean_return=500.0, seconds=1452.0, **RUN)
NAMES = ("redis", "trainer", "telemetry", "evaluator", "client-1", "client-2")
SERVICES = [service(name, pid=12345, port=6379) for name in NAMES]
STATUS = Status(run=SOLVED, services=SERVICES, clients=[CLIENT])


@pytest.mark.parametrize("name", page_entries())
def test_a_page_is_all_in_reach(qtbot: QtBot, make: Make, fake: FakeFeed, room: QRect, name: str) -> None:
    fake.answers = NOTHING_YET | {"runs.list": {"runs": [RunSummary(**RUN).model_dump(mode="json")]}}
    window = make(name)
    fake.take_snapshot(STATUS)
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
            assert area.widget().rect().contains(shown) or scrolled(button, area.widget()), button.text()


@pytest.mark.parametrize("state", ["running", "solved", "message"])
def test_the_curve_is_high_on_a_small_screen(
    qtbot: QtBot, make: Make, fake: FakeFeed, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(QScreen, "availableGeometry", lambda _: QRect(0, 0, 1280, 800))
    lunar = Preset(name="lunar", title="LunarLander", values={"env.id": "LunarLander-v3"})
    fake.answers = NOTHING_YET | {"config.presets": {"presets": [lunar.model_dump(mode="json")]}}
    fake.answers["history.query"] = history(range(1, 11))
    window = make("overview")
    window.resize(room_for(window).size())
    run = SOLVED.model_copy(update={"goal_judged_by": "both", "goal_window": 20, "env_steps": 1_234_567})
    if state != "solved":
        run = run.model_copy(update={"state": "running", "reached": "", "learner_waits": 0.6})
    fake.take_snapshot(STATUS.model_copy(update={"run": run}))
    if state == "message":
        window.notify("info", "Saved at 1,234,567 environment steps.")
    qtbot.waitUntil(lambda: window.end_strip.next.isVisible() is (state == "solved"))
    page = window.pages.front
    assert isinstance(page, OverviewPage)
    qtbot.waitUntil(lambda: page.plot.host.plot is not None and page.plot.host.plot.height() >= 350)
    assert page.clients.table.height() >= page.clients.table.minimumSizeHint().height()
    assert page.bottleneck.bar.isVisible() is (state != "solved")
    if state == "solved":
        for label in window.end_strip.findChildren(QLabel):
            assert label.height() < 2 * label.fontMetrics().height(), "two lines are enough"


def test_the_form_of_the_settings_is_never_scrolled_sideways(qtbot: QtBot, theme: Theme) -> None:
    form = shown(qtbot, SettingsForm())
    area = part_of(form, QScrollArea)
    for width in (1100, 860, 690, 480):
        form.resize(width, 400)
        qtbot.waitUntil(lambda: area.horizontalScrollBar().maximum() == 0)


@pytest.mark.parametrize("width", [480, 1400])
def test_the_words_about_a_solved_run_are_never_cut(qtbot: QtBot, world: World, width: int) -> None:
    lunar = Preset(name="lunar", title="LunarLander", values={"env.id": "LunarLander-v3"})
    world.feed.answers = NOTHING_YET | {"config.presets": {"presets": [lunar.model_dump(mode="json")]}}
    strip = EndStrip(world.feed, world.shell)
    qtbot.addWidget(strip)
    strip.resize(width, 40)
    strip.page_chosen("overview")
    world.feed.change_run(SOLVED)
    qtbot.waitUntil(strip.next.isVisible)
    buttons = (strip.watch, strip.next, strip.invite, strip.go_on)
    qtbot.waitUntil(lambda: all(button.width() >= button.sizeHint().width() for button in buttons))
    for label in strip.findChildren(QLabel):
        assert label.isHidden() or label.height() >= label.heightForWidth(label.width())
    in_one_line = len({button.geometry().center().y() for button in buttons}) == 1
    assert in_one_line is (width == 1400)
