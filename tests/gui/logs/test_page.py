from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QComboBox, QFileDialog, QLineEdit, QPlainTextEdit
from pytestqt.qtbot import QtBot

from soulsgui.gui.logs.audit import outcome_look
from soulsgui.gui.logs.page import LogsPage
from soulsgui.gui.logs.reader import (
    LogPlace,
    as_file,
    first_since,
    reaches_back_to,
    run_words,
    service_words,
    services_offered,
)
from soulsgui.wire.control import AuditEntry, ErrorCode, LogLine, RunStatus, RunSummary, Status
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, FakeShell, Sent, refusal
from tests.gui.reading import choose, part_of, shown
from tests.states import service

START = 1_790_000_000.0


def line(number: int, service: str = "trainer", level: str = "info") -> LogLine:
    text = f"{service} line {number}"
    return LogLine(service=service, number=number, time=START + number, level=level, text=text)


class Logs:
    def __init__(self) -> None:
        self.lines = {"trainer": [line(n) for n in range(1, 2501)], "redis": [line(1, "redis")]}

    def answer(self, params: dict[str, Any]) -> Any:
        name = params.get("service", "")
        if name and name not in self.lines:
            return refusal(f"“{name}” has no log.", "There are: trainer", ErrorCode.NOT_FOUND)
        found = [
            one
            for service in ([name] if name else self.lines)
            for one in self.lines[service]
            if one.number < params.get("before", 10**9)
            and params.get("filter", "") in one.text
            and (params.get("level") != "error" or one.level == "error")
        ]
        return {"lines": [one.model_dump() for one in found[-params.get("n", 200) :]], "first": 1}


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def server(fake: FakeFeed, logs: Logs) -> FakeFeed:
    fake.status = Status(run=RunStatus(id="r2", name="cart", state="running"), services=[service("client-1")])
    runs = [RunSummary(id="r2", name="cart"), RunSummary(id="r1", name="early", created=START)]
    fake.answers |= {
        "history.logs": logs.answer,
        "runs.list": {"runs": [run.model_dump(mode="json") for run in runs]},
    }
    return fake


@pytest.fixture
def page(qtbot: QtBot, server: FakeFeed, shell: FakeShell) -> LogsPage:
    made = shown(qtbot, LogsPage(server, shell), 900, 500)  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: bool(made.pane.lines) and made.run.count() == 2)
    return made


def numbers(page: LogsPage) -> list[int]:
    return [one.number for one in page.pane.shown]


def asked(server: FakeFeed) -> dict[str, Any]:
    return server.sent_of("history.logs")[-1].params


def show(qtbot: QtBot, page: LogsPage, service: str) -> None:
    choose(page.service, service)
    qtbot.waitUntil(lambda: {one.service for one in page.pane.lines} == {service})


def text_of(page: LogsPage) -> QPlainTextEdit:
    return part_of(page.pane, QPlainTextEdit)


def words_of(page: LogsPage) -> QLineEdit:
    return part_of(page.pane, QLineEdit)


def asked_again(qtbot: QtBot, server: FakeFeed, act: Callable[[], object]) -> Sent:
    count = len(server.sent_of("history.logs"))
    act()
    qtbot.waitUntil(lambda: len(server.sent_of("history.logs")) > count)
    return server.sent_of("history.logs")[-1]


def test_all_services_are_shown_at_first_and_each_and_earlier_runs_can_be_chosen(
    qtbot: QtBot, page: LogsPage, server: FakeFeed
) -> None:
    assert asked(server) == {"n": 1000, "run": "r2"}
    assert {one.service for one in page.pane.lines} == {"trainer", "redis"}
    offered = [page.service.itemData(place) for place in range(page.service.count())]
    assert offered == ["", "runner", "redis", "trainer", "telemetry", "client-1"]
    assert page.run.itemText(1).startswith("early · ")
    server.change_run(RunStatus(id="r3", state="starting"))
    qtbot.waitUntil(lambda: asked(server)["run"] == "r3" and page.run.findData("r2") > 0)
    choose(page.run, "r1")
    show(qtbot, page, "trainer")
    assert asked(server) == {"service": "trainer", "run": "r1", "n": 1000}


def test_live_lines_join_without_doubles_and_only_those_that_are_wanted(
    qtbot: QtBot, page: LogsPage, server: FakeFeed, logs: Logs
) -> None:
    answer = server.answers.pop("history.logs")
    sent = asked_again(qtbot, server, lambda: choose(page.service, "trainer"))
    server.bring_log(line(2500), line(2501))
    sent.call.answer(logs.answer(sent.params))
    assert numbers(page)[-3:] == [2499, 2500, 2501], "those that came while the answer was under way"
    server.answers["history.logs"] = answer
    server.bring_log(line(2501), line(2502), line(2, "redis"))
    qtbot.waitUntil(lambda: "line 2502" in page.pane.text)
    assert numbers(page)[-2:] == [2501, 2502]
    choose(page.run, "r1")
    qtbot.waitUntil(lambda: numbers(page)[-1:] == [2500])
    server.bring_log(line(2503))
    qtbot.wait(120)
    assert numbers(page)[-1] == 2500


def test_level_and_words_are_looked_for_in_the_whole_log(
    qtbot: QtBot, page: LogsPage, server: FakeFeed, logs: Logs
) -> None:
    logs.lines["trainer"][4] = line(5, level="error")
    show(qtbot, page, "trainer")
    part_of(page.pane, QComboBox).setCurrentText("Errors")
    qtbot.waitUntil(lambda: numbers(page) == [5])
    part_of(page.pane, QComboBox).setCurrentIndex(0)
    qtbot.keyClicks(words_of(page), "line 77")
    qtbot.waitUntil(lambda: asked(server).get("filter") == "line 77" and 77 in numbers(page))


def test_earlier_lines_are_put_above_until_there_are_none_and_what_is_in_view_stays(
    qtbot: QtBot, page: LogsPage, server: FakeFeed
) -> None:
    first = page.pane.shown[0]
    page.earlier.click()
    qtbot.waitUntil(lambda: len(numbers(page)) == 2501)
    assert asked(server)["n"] == 5000, "all logs together come again with more lines"
    assert text_of(page).textCursor().selectedText().endswith(first.text)
    show(qtbot, page, "trainer")
    bar = text_of(page).verticalScrollBar()
    bar.setValue(10)
    top = text_of(page).firstVisibleBlock().text()
    page.earlier.click()
    qtbot.waitUntil(lambda: len(numbers(page)) == 2000)
    assert asked(server)["before"] == 1501
    assert numbers(page) == list(range(501, 2501))
    assert text_of(page).firstVisibleBlock().text() == top
    assert not page.pane.follow
    bar.triggerAction(bar.SliderAction.SliderToMinimum)
    qtbot.waitUntil(lambda: len(numbers(page)) == 2500)
    assert not page.earlier.isEnabled()
    assert page.earlier.toolTip() == "These are all there are."


def test_memory_stays_bounded_while_one_pages_back_follows_or_goes_to_a_moment(
    qtbot: QtBot, page: LogsPage, server: FakeFeed, logs: Logs
) -> None:
    logs.lines["trainer"] = [line(n) for n in range(1, 8001)]
    show(qtbot, page, "trainer")
    for _ in range(5):
        count, first = len(numbers(page)), numbers(page)[0]
        page.earlier.click()
        qtbot.waitUntil(lambda first=first: numbers(page)[0] < first)
        assert len(numbers(page)) == min(count + 1000, 5000)
    assert numbers(page)[-1] == 7000
    server.bring_log(line(8001))
    qtbot.wait(120)
    assert numbers(page)[-1] == 7000
    page.pane.set_follow(True)
    qtbot.waitUntil(lambda: numbers(page)[-1] == 8000)
    page.show_where(service="trainer", time=START + 1234)
    # Four questions, each with thousands of lines to draw: a busy machine takes its time.
    qtbot.waitUntil(lambda: "trainer line 1234" in text_of(page).textCursor().selectedText())
    assert not page.pane.follow
    assert numbers(page)[-1] == 6000


def test_a_place_takes_the_filter_back_and_its_run_may_be_one_that_is_not_listed(
    qtbot: QtBot, page: LogsPage, server: FakeFeed
) -> None:
    words_of(page).setText("nothing like it")
    page.show_where(service="redis")
    qtbot.waitUntil(lambda: numbers(page) == [1])
    assert page.place == LogPlace(service="redis")
    page.show_where(service="trainer", run="r0")
    qtbot.waitUntil(lambda: asked(server).get("run") == "r0")
    page.show_where(service="trainer", run="r2")
    assert page.place.run == ""


def test_only_of_what_was_searched_it_is_said_that_nothing_fits(
    qtbot: QtBot, page: LogsPage, server: FakeFeed, shell: FakeShell
) -> None:
    text = text_of(page)
    choose(page.service, "telemetry")
    qtbot.waitUntil(lambda: "“telemetry” has no log." in text.placeholderText())
    assert shell.told == [], "that is no trouble"
    show(qtbot, page, "trainer")
    held = len(page.pane.lines)
    del server.answers["history.logs"]

    def search() -> None:
        words_of(page).setText("no such text")
        assert text.placeholderText() == f"None of the {held:,} lines read matches."
        server.connect_as(LIVE)
        assert "No line" not in text.placeholderText()

    sent = asked_again(qtbot, server, search)
    assert "No line" not in text.placeholderText()
    sent.call.answer({"lines": [], "first": 1})
    assert text.placeholderText().startswith("No line contains “no such text”.")
    assert "Trainer, This run" in text.placeholderText()
    server.answers["history.logs"] = refusal("The disk is gone.", code=ErrorCode.FAILED)
    words_of(page).setText("nor this one")
    qtbot.waitUntil(lambda: [told.text for told in shell.told] == ["The disk is gone."])
    assert text.placeholderText() == "The disk is gone."


def test_the_lines_shown_are_saved_with_their_dates(
    qtbot: QtBot, page: LogsPage, shell: FakeShell, tmp_path: Path
) -> None:
    show(qtbot, page, "redis")
    page.save.click()
    dialog = part_of(page, QFileDialog)
    target = tmp_path / "redis.log"
    dialog.fileSelected.emit(str(target))
    dialog.close()
    saved = target.read_text(encoding="utf-8")
    assert saved == as_file([line(1, "redis")])
    assert saved.startswith("2026-")
    assert shell.told[-1].text == f"Saved as {target}"
    page.save_to(str(tmp_path / "missing" / "x.log"))
    assert shell.told[-1].level == "error"
    assert not (tmp_path / "missing").exists()


def test_without_connection_lines_stay_and_come_anew_afterwards(
    qtbot: QtBot, page: LogsPage, server: FakeFeed
) -> None:
    server.connect_as(LOST)
    count = len(server.sent)
    choose(page.service, "redis")
    qtbot.wait(200)
    assert len(server.sent) == count
    assert page.pane.lines
    assert page.earlier.toolTip() == "Not connected to my-server."
    server.connect_as(LIVE)
    qtbot.waitUntil(lambda: numbers(page) == [1])


def test_services_are_offered_in_order_and_runs_by_name_and_beginning() -> None:
    running = [service(f"client-{n}") for n in (10, 9)]
    others = services_offered(running, ["trainer", "evaluator"])[4:]
    assert others == ["client-9", "client-10", "evaluator"]
    words = [service_words(name) for name in ("", "runner", "client-9")]
    assert words == ["All services", "Runner", "Client 9"]
    assert run_words(RunSummary(id="r1"), START) == "r1"


def test_a_moment_is_found_among_lines() -> None:
    lines = [line(1), LogLine(service="trainer", number=2, text="Traceback"), line(3)]
    found = [first_since(lines, START + after) for after in (2, 9)]
    assert found == [lines[2], lines[2]]
    assert first_since([], START) is None
    assert reaches_back_to(lines, START + 2)
    assert not reaches_back_to(lines, START + 1)


def entry(number: int, **more: Any) -> AuditEntry:
    return AuditEntry(number=number, time=START + number, command="run.stop", **more)


def test_commands_that_changed_something_are_listed_with_their_outcome(
    qtbot: QtBot, page: LogsPage, server: FakeFeed
) -> None:
    known = [entry(1, outcome="done", origin="SoulsGUI window"), entry(2, outcome="not_now", error="No run.")]
    server.answers["history.audit"] = {"entries": [one.model_dump(mode="json") for one in known]}
    page.tabs.setCurrentIndex(1)
    outcomes = lambda: [one.words() for one in page.audit.model.records]  # noqa: E731
    qtbot.waitUntil(lambda: outcomes() == ["done", "No run."])
    server.bring_audit(entry(3))
    server.bring_audit(entry(3, outcome="done"))
    assert outcomes() == ["done", "No run.", "done"]
    assert [page.audit.model.at(row).number for row in range(3)] == [3, 2, 1]  # type: ignore[union-attr]
    looks = [outcome_look(one).word for one in (*known, entry(3), entry(4, outcome="failed"))]
    assert looks == ["Done", "Warning", "Information", "Error"]
    assert outcome_look(entry(5, outcome="cancelled")).word == "Information", "whoever did so wanted it"
    server.connect_as(LOST)
    assert not page.audit.table.isEnabled()
    page.show_where("trainer")
    assert page.tabs.currentIndex() == 0


def test_the_tab_in_front_comes_back_at_the_next_start(
    qtbot: QtBot, page: LogsPage, server: FakeFeed, shell: FakeShell
) -> None:
    page.tabs.setCurrentWidget(page.audit)
    page.hide()
    again = shown(qtbot, LogsPage(server, shell))  # type: ignore[arg-type]
    assert again.tabs.currentWidget() is again.audit
    assert again.landing is again.audit.table
    again.show_where(service="redis")
    assert again.tabs.currentIndex() == 0, "a log that is asked for is shown"
