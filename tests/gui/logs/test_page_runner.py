"""The logs before a real runner: lines of its files, as they are written."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QComboBox
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Feed
from soulsgui.gui.logs.page import LogsPage
from tests.end_to_end.server import RunningServer
from tests.gui.fake_feed import FakeShell


@pytest.fixture
def page(qtbot: QtBot, feed: Feed, shell: FakeShell) -> Iterator[LogsPage]:
    made = LogsPage(feed, shell)
    qtbot.addWidget(made)
    made.resize(900, 500)
    made.show()
    qtbot.waitUntil(lambda: bool(made.pane.lines))
    yield made
    made.hide()


def redis_log(server: RunningServer) -> Path:
    return server.data / "server" / "logs" / "redis.log"


def write(server: RunningServer, *lines: str) -> None:
    with redis_log(server).open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_the_log_of_a_service_is_paged_back_to_its_first_line(
    qtbot: QtBot, page: LogsPage, server: RunningServer
) -> None:
    write(server, *(f"2026-11-20 10:00:00.000 INFO line {number}" for number in range(2300)))
    page.show_where(service="redis")
    qtbot.waitUntil(lambda: len(page.pane.lines) == 1000)
    while page.earlier.isEnabled():
        known = len(page.pane.lines)
        page.earlier.click()
        qtbot.waitUntil(lambda known=known: len(page.pane.lines) > known)
    numbers = [line.number for line in page.pane.lines]
    assert numbers == list(range(1, len(redis_log(server).read_text("utf-8").splitlines()) + 1))


def test_a_line_appears_when_it_is_written_and_errors_are_found_in_the_whole_file(
    qtbot: QtBot, page: LogsPage, server: RunningServer
) -> None:
    page.show_where(service="redis")
    write(server, "2026-11-20 10:00:01.000 ERROR no space left", "Traceback of it")
    qtbot.waitUntil(lambda: "no space left" in page.pane.text)
    write(server, *(f"2026-11-20 10:00:02.000 INFO later {number}" for number in range(1200)))
    qtbot.waitUntil(lambda: "later 1199" in page.pane.text)
    page.show_where(service="redis")
    qtbot.waitUntil(lambda: "no space left" not in page.pane.text)
    level = page.pane.findChild(QComboBox)
    assert level is not None
    level.setCurrentText("Errors")
    qtbot.waitUntil(
        lambda: [line.text for line in page.pane.shown] == ["no space left", "Traceback of it"],
        timeout=10_000,
    )
    write(server, "2026-11-20 10:00:03.000 INFO fine again", "2026-11-20 10:00:03.000 ERROR worse")
    qtbot.waitUntil(lambda: page.pane.shown[-1].text == "worse")
    assert len(page.pane.shown) == 3


def test_the_runners_own_log_is_there(qtbot: QtBot, page: LogsPage) -> None:
    page.show_where(service="runner")
    qtbot.waitUntil(lambda: "control API" in page.pane.text)
