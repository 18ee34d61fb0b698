"""The logs before a real runner: lines of its files, as they are written."""

from collections.abc import Iterator

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


def test_lines_of_the_files_are_paged_back_appear_when_written_and_are_found_by_level(
    qtbot: QtBot, page: LogsPage, server: RunningServer
) -> None:
    page.show_where(service="runner")
    qtbot.waitUntil(lambda: "control API" in page.pane.text)
    path = server.data / "server" / "logs" / "redis.log"

    def write(*lines: str) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(f"2026-11-20 10:00:00.000 {line}\n" for line in lines)

    write(*(f"INFO line {number}" for number in range(2300)))
    page.show_where(service="redis")
    qtbot.waitUntil(lambda: len(page.pane.lines) == 1000)
    while page.earlier.isEnabled():
        known = len(page.pane.lines)
        page.earlier.click()
        qtbot.waitUntil(lambda known=known: len(page.pane.lines) > known)
    numbers = [line.number for line in page.pane.lines]
    assert numbers == list(range(1, len(path.read_text("utf-8").splitlines()) + 1))

    write("ERROR no space left\nTraceback of it")
    qtbot.waitUntil(lambda: "no space left" in page.pane.text)
    write(*(f"INFO later {number}" for number in range(1200)))
    qtbot.waitUntil(lambda: "later 1199" in page.pane.text)
    page.show_where(service="redis")
    qtbot.waitUntil(lambda: "no space left" not in page.pane.text)
    page.pane.findChildren(QComboBox)[0].setCurrentText("Errors")
    wanted = ["no space left", "Traceback of it"]
    qtbot.waitUntil(lambda: [line.text for line in page.pane.shown] == wanted)
    write("INFO fine again", "ERROR worse")
    qtbot.waitUntil(lambda: [line.text for line in page.pane.shown] == [*wanted, "worse"])
