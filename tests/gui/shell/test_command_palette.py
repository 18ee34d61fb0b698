"""Ctrl+K finds what the window declares elsewhere: its buttons, menus, pages, settings, lists and manual."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTabWidget, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.clients.page import ClientsPage
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.gui.shell import Shell
from soulsgui.gui.shell.command_palette import CommandPalette, Entry, best
from soulsgui.gui.shell.manual import ManualDialog, manual_pages
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.widgets.boxes import column
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.wire.control import RunStatus, RunSummary, Status
from tests.gui.fake_feed import HELLO, NOTHING_YET, FakeFeed
from tests.gui.reading import part_of, words_of
from tests.gui.shell.conftest import Make
from tests.gui.shell.stub_pages import StubPage, stub_pages
from tests.states import client

HOSTILE = "<img src='file:///canary'>\x1b[2J"
RUN = RunSummary(id="2026-11-20_first", name="lunar night", env_id="LunarLander-v3", algorithm="ppo")
IDLE = Status(
    clients=[client("gamer-01", host="attic"), client(HOSTILE)],
    allowed={"run.stop": "No run is active."},
)

Find = Callable[[str], CommandPalette]


class TabbedPage(StubPage):
    """A page with a command on each of its tabs."""

    def __init__(self, feed: object, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(feed, shell, parent)
        self.done: list[str] = []
        self.tabs = QTabWidget(self)
        for words in ("Sort fishes", "Weigh fishes", "Lose fishes"):
            tab = QWidget(self.tabs)
            button = FittingButton(words, "check", tab)
            button.clicked.connect(partial(self.done.append, words))
            column(button, on=tab)
            self.tabs.addTab(tab, words)
        button.setEnabled(False)
        button.explain("Choose one first.")
        FittingButton("Hide fishes", "check", tab).hide()
        box = self.layout()
        assert box is not None
        box.addWidget(self.tabs)


@pytest.fixture
def window(make: Make, fake: FakeFeed, monkeypatch: pytest.MonkeyPatch) -> MainWindow:
    entries = stub_pages()
    entries["runs"] = replace(entries["runs"], code=f"{__name__}:TabbedPage")
    monkeypatch.setattr("soulsgui.gui.shell.window.page_entries", lambda: entries)
    fake.status, fake.hello = IDLE, HELLO
    fake.connection = Connection(ConnectionState.NO_RUN, "my-server")
    fake.answers = NOTHING_YET | {"runs.list": {"runs": [RUN.model_dump(mode="json")]}}
    made = make("overview")
    fake.take_snapshot(IDLE)
    return made


def find_in(qtbot: QtBot, window: MainWindow, words: str) -> CommandPalette:
    # Its keys are of the window in front, which it is again only some time after a dialog.
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
    palette = window.findChildren(CommandPalette)[-1]
    qtbot.waitUntil(palette.isVisible)
    qtbot.keyClicks(palette.words, words)
    return palette


@pytest.fixture
def find(qtbot: QtBot, window: MainWindow) -> Find:
    return partial(find_in, qtbot, window)


def rows(palette: CommandPalette) -> list[tuple[str, str, str]]:
    items = [palette.list.topLevelItem(row) for row in range(palette.list.topLevelItemCount())]
    return [(item.text(0), item.text(1), item.text(2)) for item in items if item is not None]


def enter(qtbot: QtBot, palette: CommandPalette) -> None:
    qtbot.keyClick(palette.words, Qt.Key.Key_Return)


def test_words_match_parts_in_any_order_and_the_nearest_comes_first() -> None:
    names = ("Unstop", "Stop run", "Run list", "Stopwatch", "Non-stop run")
    entries = [Entry("Command", name, "stop", lambda: None, about="of a RUN") for name in names]
    found = [one.title for one in best(entries, "RUN stop")]
    assert found == ["Stop run", "Non-stop run", "Stopwatch", "Unstop"]
    assert best(entries, "stop none") == []
    assert [one.title for one in best(entries, "")] == list(names)


def test_it_finds_each_kind_of_thing_and_leads_there(qtbot: QtBot, window: MainWindow, find: Find) -> None:
    def place(page: str) -> list[dict[str, object]]:
        made = window.pages.made(page)
        assert isinstance(made, StubPage)
        return made.places

    palette = find("lunar night")
    qtbot.waitUntil(lambda: [row[0] for row in rows(palette)][:1] == ["lunar night"])
    enter(qtbot, palette)
    assert (window.pages.shown, place("runs")) == ("runs", [{"run": RUN.id}])
    for words, page, where in (
        ("ppo learning_rate", "config", {"setting": "ppo.learning_rate"}),
        ("attic", "clients", {"client": IDLE.clients[0].id}),
    ):
        enter(qtbot, find(words))
        assert (window.pages.shown, place(page)) == (page, [where])
    enter(qtbot, find("page logs"))
    assert window.pages.shown == "logs"
    enter(qtbot, find("manual schedules"))
    assert part_of(window, ManualDialog).windowTitle() == "Manual: Schedules"
    part_of(window, ManualDialog).close()


def test_closed_before_all_pages_are_made_it_is_gone(qtbot: QtBot, window: MainWindow) -> None:
    palette = CommandPalette(window._feed, window)
    gone = weakref.ref(palette)
    palette.open()
    assert window.pages.made("logs") is None, "there is more to list"
    shiboken6.delete(palette)
    del palette
    qtbot.wait(10)
    gc.collect()
    assert gone() is None


def test_what_a_setting_does_is_told_without_the_marks_of_code(find: Find) -> None:
    told = rows(find("stop.judged_by"))[0][1]
    assert "stop.judged_by says which mean." in told


def test_every_command_is_there_with_its_key_and_one_that_is_off_with_the_reason(
    qtbot: QtBot, window: MainWindow, fake: FakeFeed, find: Find
) -> None:
    palette = find("")
    listed = {row[0]: row[1:] for row in rows(palette)}
    offered = [action.text() for action in window.menu.actions() if not action.isSeparator()]
    offered += [button.accessibleName() for button in (window.toolbar.stop, window.toolbar.events)]
    assert {words.replace("&", "") for words in offered} - listed.keys() == {"Find anything…"}
    assert listed["Settings…"][1] == "Ctrl+,"
    assert listed["Stop run"][0] == "No run is active."
    order = list(listed)
    assert order.index("Stop run") > order.index("Settings…"), "what is possible comes first"
    palette.words.setText("stop run")
    enter(qtbot, palette)
    assert palette.isVisible(), "what is off is not done, nor what stands below it"
    assert "Not now: No run is active." in words_of(palette)
    fake.take_snapshot(Status(run=RunStatus(id="r1", state="running")))
    palette.reject()
    enter(qtbot, find("stop run"))
    assert fake.sent_of("run.stop")


def test_commands_of_pages_that_were_never_shown_are_found_and_done_there(
    qtbot: QtBot, window: MainWindow, find: Find
) -> None:
    palette = find("fishes")
    qtbot.waitUntil(lambda: len(rows(palette)) == 3)
    assert {row[0] for row in rows(palette)} == {"Sort fishes", "Weigh fishes", "Lose fishes"}
    palette.words.setText("weigh")
    overview, runs = window.pages.made("overview"), window.pages.made("runs")
    assert isinstance(overview, StubPage)
    assert isinstance(runs, TabbedPage)
    overview.unsaved = True
    enter(qtbot, palette)
    assert (window.pages.shown, runs.done) == ("overview", [])
    overview.asked.pop()(True)
    assert (window.pages.shown, runs.done, runs.tabs.currentIndex()) == ("runs", ["Weigh fishes"], 1)
    enter(qtbot, find("sort fishes"))
    assert runs.done == ["Weigh fishes", "Sort fishes"]
    enter(qtbot, find("lose fishes"))
    said = "“Lose fishes” can't be done now.\nChoose one first."
    qtbot.waitUntil(lambda: said in words_of(window.messages))
    palette = find("sort fishes")
    shiboken6.delete(part_of(runs.tabs.widget(0), FittingButton))  # as menus that are made anew
    enter(qtbot, palette)
    qtbot.waitUntil(lambda: "The page has changed meanwhile." in words_of(window.messages))
    assert runs.done == ["Weigh fishes", "Sort fishes"]


def test_the_commands_of_all_pages_are_found_from_any_of_them(
    qtbot: QtBot, make: Make, fake: FakeFeed
) -> None:
    fake.status, fake.answers = IDLE, NOTHING_YET | {"runs.list": {"runs": [RUN.model_dump(mode="json")]}}
    window = make("logs")
    palette = find_in(qtbot, window, "")
    names = window.navigation.names
    qtbot.waitUntil(lambda: all(window.pages.made(name) for name in names))
    for words in (
        "Import…",
        "Export…",
        "Rename…",
        "Film…",
        "Values in view as CSV…",
        "Apply now",
        "Save as…",
    ):
        palette.words.setText(words)
        qtbot.waitUntil(lambda words=words: rows(palette)[:1] and rows(palette)[0][0] == words)
    palette.words.setText("invite…")
    assert not rows(palette), "the menu has it"
    palette.words.setText("invite")
    assert rows(palette)[0][0] == "Invite a computer…"
    page = window.pages.made("clients")
    assert isinstance(page, ClientsPage)
    offered = page.invite, page.empty.button, window.menu.invite, window.end_strip.invite
    assert {one.text().replace("&", "") for one in offered} == {"Invite a computer…"}
    palette.words.setText("film")
    enter(qtbot, palette)
    assert window.pages.shown == "runs"


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("dark", "Settings…"),
        ("theme light", "Settings…"),
        ("delete run", "Move run to the bin"),
        ("bin", "Move run to the bin"),
        ("compare", "Runs"),
    ],
)
def test_what_is_not_called_so_is_found_by_other_words_for_it(
    qtbot: QtBot, make: Make, fake: FakeFeed, words: str, title: str
) -> None:
    fake.status, fake.answers = IDLE, NOTHING_YET | {"runs.list": {"runs": [RUN.model_dump(mode="json")]}}
    palette = find_in(qtbot, make("logs"), words)
    qtbot.waitUntil(lambda: title in [row[0] for row in rows(palette)][:8])


def test_a_section_of_the_manual_opens_there(qtbot: QtBot, window: MainWindow, find: Find) -> None:
    enter(qtbot, find("manual tensorboard"))
    manual = part_of(window, ManualDialog)
    assert manual.windowTitle() == "Manual: Telemetry out"
    qtbot.waitUntil(lambda: manual.text.textCursor().block().text() == "TensorBoard")
    manual.close()


def test_the_keyboard_alone_moves_and_closes(qtbot: QtBot, window: MainWindow, find: Find) -> None:
    palette = find("")
    for _ in range(2):
        qtbot.keyClick(palette.words, Qt.Key.Key_Down)
    assert palette.list.indexOfTopLevelItem(palette.list.currentItem()) == 2
    qtbot.keyClick(palette.words, Qt.Key.Key_Escape)
    assert not palette.isVisible()
    assert window.pages.shown == "overview"


def test_what_others_named_is_text(window: MainWindow, find: Find) -> None:
    (found,) = rows(find("canary"))
    assert found[0].startswith("<img src=")
    assert "\x1b" not in found[0]


def test_every_page_of_the_manual_has_a_title() -> None:
    pages = list(manual_pages().values())
    assert all(pages)
    assert ["The window"] in [headings[:1] for headings in pages]
