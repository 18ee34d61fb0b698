"""Events: numbered without gaps, remembered over restarts, bounded."""

from pathlib import Path

import pytest

from soulsgui.runner import events as module
from soulsgui.runner.events import EventLog, read_events
from soulsgui.wire.control import Event


def log(path: Path, told: list[Event] | None = None) -> EventLog:
    return EventLog(path, (told if told is not None else []).append, wall_clock=lambda: 100.0)


def test_numbers_go_on_over_restarts_without_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    first = log(path)
    first.add("info", "one")
    first.add("error", "two", "cause", "remedy", "trainer", "run")
    second = log(path)
    assert second.add("info", "three").number == 3
    assert [event.number for event in read_events(path)] == [1, 2, 3]
    told = read_events(path)[1]
    assert (told.cause, told.remedy, told.service, told.run_id, told.time) == (
        "cause",
        "remedy",
        "trainer",
        "run",
        100.0,
    )


def test_line_torn_by_a_crash_costs_that_line_alone(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    first = log(path)
    first.add("info", "one")
    first.add("info", "two")
    path.write_bytes(path.read_bytes()[:-10])
    second = log(path)
    assert second.add("info", "again").number == 2
    assert [event.what for event in read_events(path)] == ["one", "again"]


def test_new_events_are_told_at_once_and_found_by_number(tmp_path: Path) -> None:
    told: list[Event] = []
    events = log(tmp_path / "events.jsonl", told)
    for number in range(5):
        events.add("info", f"event {number}")
    assert [event.number for event in told] == [1, 2, 3, 4, 5]
    assert [event.number for event in events.since(3)] == [4, 5]
    assert [event.number for event in events.newest(2)] == [4, 5]
    event = events.add("error", "a\x1b[2J", "b\n1  forged", "c\x07")
    assert (event.what, event.cause, event.remedy) == ("a\ufffd[2J", "b 1  forged", "c\ufffd")


def test_file_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 10)
    path = tmp_path / "events.jsonl"
    events = log(path)
    for _ in range(95):
        events.add("info", "again")
    assert len(path.read_text().splitlines()) <= 20
    assert log(path).last_number == 95


@pytest.mark.allow_warnings
def test_event_that_cannot_be_written_is_still_told(tmp_path: Path) -> None:
    told: list[Event] = []
    events = log(tmp_path / "events.jsonl", told)
    (tmp_path / "events.jsonl").unlink()
    (tmp_path / "events.jsonl").mkdir()
    events.add("info", "kept")
    assert [event.what for event in told] == ["kept"]
    assert [event.what for event in events.newest(1)] == ["kept"]
