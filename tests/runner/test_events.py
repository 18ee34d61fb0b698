import os
from pathlib import Path

import pytest

from soulsgui.runner import journal as module
from soulsgui.runner.events import EventLog
from soulsgui.runner.journal import read_journal
from soulsgui.wire.control import Event


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@pytest.fixture
def events(path: Path, told: list[Event]) -> EventLog:
    return EventLog(path, told.append, wall_clock=lambda: 100.0)


UNREADABLE_FILE = "events_unreadable.jsonl"


def read_events(path: Path) -> list[Event]:
    return read_journal(path, Event)


def reopened(path: Path) -> EventLog:
    return EventLog(path, lambda _: None)


def test_numbers_go_on_over_restarts_and_a_torn_line_costs_itself_alone(path: Path, events: EventLog) -> None:
    events.add("info", "one")
    events.add("error", "two", "cause", "remedy", "trainer", "run")
    assert reopened(path).add("info", "three").number == 3
    assert [event.number for event in read_events(path)] == [1, 2, 3]
    two = read_events(path)[1]
    assert (two.cause, two.remedy, two.service, two.run_id) == ("cause", "remedy", "trainer", "run")
    assert two.time == 100.0
    path.write_bytes(path.read_bytes()[:-10])
    assert reopened(path).add("info", "again").number == 3
    assert [event.what for event in read_events(path)] == ["one", "two", "again"]


def test_lines_that_can_not_be_read_are_kept_aside_and_told_of(path: Path, events: EventLog) -> None:
    events.add("info", "one")
    path.write_bytes(b"nonsense\n" + path.read_bytes() + b"\xff\xfe\n{}\ntorn")
    (warning,) = reopened(path).since(1)
    assert (warning.level, warning.number) == ("warning", 2)
    assert warning.what == f"3 lines of events.jsonl can't be read; kept in {UNREADABLE_FILE}."
    assert path.with_name(UNREADABLE_FILE).read_bytes() == b"nonsense\n\xff\xfe\n{}\n"
    assert [event.what for event in read_events(path)] == ["one", warning.what]
    path.write_bytes(path.read_bytes() + b"once more\n" + 2**20 * b"x" + b"\n")
    assert reopened(path).since(2)[0].what.startswith("2 lines of events.jsonl")
    kept = path.with_name(UNREADABLE_FILE).read_bytes()
    assert (len(kept), kept[-3:]) == (2**20, b"xx\n"), "the newest of all"


def test_numbers_and_times_that_nobody_can_show_are_no_events(path: Path) -> None:
    good = '{"number": %s, "time": %s, "level": "info", "what": "x"}\n'
    told = ((1, "1e9"), (2, "1e300"), (-3, "1e9"), (4, "NaN"), (5, "1e9"))
    path.write_text("".join(good % one for one in told))
    assert [event.number for event in read_events(path)] == [1, 5]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes of that kind")
def test_what_is_no_file_of_events_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    assert reopened(path).add("info", "one").number == 1
    assert [event.what for event in read_events(path)] == ["one"]


def test_new_events_are_told_at_once_and_found_by_number(told: list[Event], events: EventLog) -> None:
    for number in range(5):
        events.add("info", f"event {number}")
    assert [event.number for event in told] == [1, 2, 3, 4, 5]
    assert [event.number for event in events.since(3)] == [4, 5]
    assert [event.number for event in events.newest(2)] == [4, 5]
    event = events.add("error", "a\x1b[2J", "b\n1  forged", "c\x07")
    assert (event.what, event.cause, event.remedy) == ("a\ufffd[2J", "b 1  forged", "c\ufffd")


def test_file_stays_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 10)
    events = reopened(path)
    for _ in range(95):
        events.add("info", "again")
    assert len(path.read_text().splitlines()) <= 20
    assert reopened(path).last_number == 95


@pytest.mark.allow_warnings
def test_a_line_that_a_full_disk_tore_is_there_again_with_the_next_one(path: Path, events: EventLog) -> None:
    resource = pytest.importorskip("resource")
    events.add("info", "one")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
    try:
        events.add("error", "two")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes().count(b"\n") == 1, "torn"
    events.add("info", "three")
    events.add("info", "four")
    assert [event.what for event in read_events(path)] == ["one", "two", "three", "four"]


@pytest.mark.allow_warnings
def test_event_that_cannot_be_written_is_still_told(path: Path, told: list[Event], events: EventLog) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
    events.add("info", "kept")
    assert [event.what for event in told] == [event.what for event in events.newest(1)] == ["kept"]
