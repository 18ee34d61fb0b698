"""What becomes an event of a run that goes on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from soulsgui.config.paths import RunFolder
from soulsgui.runner.active import Active
from soulsgui.runner.events import EventLog
from soulsgui.runner.news import News
from soulsgui.wire.control import Event
from soulsgui.wire.messages.metrics import UpdateRow, evaluation_values


def evaluation(update: int, cut: int) -> UpdateRow:
    place: dict[str, Any] = {"env_steps": update, "episodes": 1, "model_id": update, "time": 1.0}
    values = evaluation_values([1.0, 2.0], [3, 9], 0.5, cut)
    return UpdateRow(
        kind="evaluation", run_id="run", attempt=1, update=update, previous=0, values=values, **place
    )


def test_that_returns_leave_the_support_is_told_once(tmp_path: Path) -> None:
    events: list[Event] = []
    news = News(EventLog(tmp_path / "events.jsonl", events.append))
    active = cast("Active", SimpleNamespace(run=RunFolder(tmp_path / "run"), told=set()))
    row = evaluation(1, cut=0)
    news.take_rows(active, [row.model_copy(update={"values": {"beyond_support": 0.01}})])
    assert events == []
    news.take_rows(active, [row.model_copy(update={"values": {"beyond_support": 0.25}})] * 2)
    assert [(event.level, event.service, event.run_id) for event in events] == [("warning", "trainer", "run")]
    assert events[0].what.startswith("25% of the returns")
    assert "qr_dqn" in events[0].remedy


def test_that_episodes_of_evaluations_are_cut_is_told_once(tmp_path: Path) -> None:
    events: list[Event] = []
    news = News(EventLog(tmp_path / "events.jsonl", events.append))
    active = cast("Active", SimpleNamespace(run=RunFolder(tmp_path / "run"), told=set()))
    news.take_rows(active, [evaluation(1, cut=0)])
    assert events == []
    news.take_rows(active, [evaluation(2, cut=1), evaluation(3, cut=2)])
    assert [(event.level, event.service, event.run_id) for event in events] == [
        ("warning", "evaluator", "run")
    ]
    assert "were cut" in events[0].what
    assert "evaluation.max_steps" in events[0].remedy
