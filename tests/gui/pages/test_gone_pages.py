"""A page or dialog that is gone hears nothing more of the feed, which outlives it."""

from collections.abc import Callable

import pytest
import shiboken6
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.dialogs.config import ConfigDialog
from soulsgui.gui.dialogs.new_run import NewRunDialog
from soulsgui.gui.pages.config import ConfigPage
from soulsgui.gui.pages.logs import LogsPage
from soulsgui.gui.pages.overview import OverviewPage
from soulsgui.gui.pages.runs import RunsPage
from soulsgui.gui.pages.welcome import WelcomePage
from soulsgui.wire.control import Event, LogLine, RunStatus
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, FakeShell


def new_run(feed: FakeFeed, shell: FakeShell) -> NewRunDialog:
    return NewRunDialog(feed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make", [ConfigDialog, ConfigPage, LogsPage, OverviewPage, RunsPage, WelcomePage, new_run]
)
def test_what_is_gone_hears_nothing_of_the_feed(
    qtbot: QtBot, fake: FakeFeed, shell: FakeShell, make: Callable[[FakeFeed, FakeShell], QWidget]
) -> None:
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
