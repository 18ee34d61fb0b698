"""What every page must do: say what it waits for, and hear nothing more once it is gone."""

from collections.abc import Callable

import pytest
import shiboken6
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.clients.page import ClientsPage
from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.gui.config.page import ConfigDialog, ConfigPage
from soulsgui.gui.logs.page import LogsPage
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.gui.overview.page import OverviewPage
from soulsgui.gui.plots.page import PlotsPage
from soulsgui.gui.runs.details import EventsTab
from soulsgui.gui.runs.page import RunsPage
from soulsgui.gui.welcome.page import WelcomePage
from soulsgui.wire.control import AuditEntry, Event, LogLine, RunStatus, RunSummary
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, FakeShell
from tests.gui.reading import shown

Make = Callable[[FakeFeed, FakeShell], QWidget]


def events_tab(feed: FakeFeed, shell: FakeShell) -> EventsTab:
    tab = EventsTab(feed, shell)
    tab.show_run(RunSummary(id="run-1"))
    return tab


def words_on(page: QWidget) -> str:
    labels = [label.text() for label in page.findChildren(QLabel) if label.isVisible()]
    panes = [pane.placeholderText() for pane in page.findChildren(QPlainTextEdit) if pane.isVisible()]
    return "\n".join([*labels, *panes])


@pytest.mark.parametrize("make", [ClientsPage, LogsPage, OverviewPage, PlotsPage, RunsPage])
def test_while_connecting_a_page_says_so(qtbot: QtBot, fake: FakeFeed, shell: FakeShell, make: Make) -> None:
    fake.connection = Connection(ConnectionState.CONNECTING, "my-server")
    page = shown(qtbot, make(fake, shell))
    qtbot.waitUntil(lambda: "Connecting to my-server …" in words_on(page))
    assert "No " not in words_on(page)
    assert "Nobody" not in words_on(page)


LOGS, LINES = "history.logs", {"lines": [], "first": 1}
READS: dict[Make, tuple[str, dict[str, object] | None, str, str]] = {
    PlotsPage: ("runs.list", {"runs": []}, "Reading the list of runs …", "No run yet"),
    RunsPage: ("runs.list", {"runs": []}, "Reading the list of runs …", "No run yet"),
    ConfigPage: ("config.get", None, "Reading the configuration …", ""),
    LogsPage: (LOGS, LINES, "Reading …", "Nothing has been written yet."),
    events_tab: ("history.events", {"events": []}, "Reading the events …", "Nothing happened yet"),
    OverviewPage: (LOGS, LINES, "Reading the last lines …", "What the services write appears here."),
}


@pytest.mark.parametrize("make", READS)
def test_a_page_says_what_it_waits_for(qtbot: QtBot, fake: FakeFeed, shell: FakeShell, make: Make) -> None:
    command, answer, reading, empty = READS[make]
    page = shown(qtbot, make(fake, shell))
    qtbot.waitUntil(lambda: bool(fake.sent_of(command)))
    qtbot.waitUntil(lambda: reading in words_on(page))
    if answer is not None:
        assert empty not in words_on(page)
        fake.sent_of(command)[-1].call.answer(answer)
        qtbot.waitUntil(lambda: empty in words_on(page))
        assert reading not in words_on(page)


@pytest.mark.parametrize("make", [ConfigPage, LogsPage, PlotsPage, RunsPage])
def test_a_hidden_page_asks_nothing(qtbot: QtBot, fake: FakeFeed, shell: FakeShell, make: Make) -> None:
    qtbot.addWidget(make(fake, shell))
    fake.change_run(RunStatus(id="r2", state="running"))
    fake.take_snapshot(fake.status)
    qtbot.wait(20)
    assert fake.sent == []


def new_run(feed: FakeFeed, shell: FakeShell) -> NewRunDialog:
    return NewRunDialog(feed)


@pytest.mark.parametrize(
    "make", [ConfigDialog, ConfigPage, LogsPage, OverviewPage, PlotsPage, RunsPage, WelcomePage, new_run]
)
def test_what_is_gone_hears_nothing_of_the_feed(fake: FakeFeed, shell: FakeShell, make: Make) -> None:
    page = make(fake, shell)
    shiboken6.delete(page)
    # pytest-qt fails the test when a slot raises.
    fake.connect_as(LOST)
    fake.connect_as(LIVE)
    fake.take_snapshot(fake.status)
    fake.change_run(RunStatus(id="r", state="running"))
    fake.change_services([])
    fake.change_server(fake.status.server)
    fake.change_clients([])
    fake.bring_rows()
    fake.bring_log(LogLine(service="trainer", number=1, text="x"))
    fake.bring_event(Event(number=1, time=0.0, level="info", what="x"))
    fake.bring_audit(AuditEntry(number=1, time=0.0, command="run.stop"))
