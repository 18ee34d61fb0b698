"""What becomes an event of a run that goes on."""

from pathlib import Path
from typing import Any

import pytest

from soulsgui.runner.events import EventLog
from soulsgui.runner.run.news import RunNews
from soulsgui.wire.control import Event
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.metrics import UpdateRow, evaluation_values
from soulsgui.wire.messages.node import NodePhase, NodeState


def evaluation(update: int, cut: int) -> UpdateRow:
    place: dict[str, Any] = {"env_steps": update, "episodes": 1, "model_id": update, "time": 1.0}
    values = evaluation_values([1.0, 2.0], [3, 9], 0.5, cut)
    return UpdateRow(
        kind="evaluation", run_id="run", attempt=1, update=update, previous=0, values=values, **place
    )


def state(unsaved: str, phase: NodePhase = "collecting") -> NodeState:
    return NodeState(name="trainer", instance=Instance(), tick=1, phase=phase, unsaved=unsaved)


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def news(tmp_path: Path, events: list[Event]) -> RunNews:
    return RunNews(EventLog(tmp_path / "events.jsonl", events.append), "run", None)


def test_that_returns_leave_the_support_is_told_once(news: RunNews, events: list[Event]) -> None:
    row = evaluation(1, cut=0)
    news.take_row(row.model_copy(update={"values": {"beyond_support": 0.01}}))
    assert events == []
    for _ in range(2):
        news.take_row(row.model_copy(update={"values": {"beyond_support": 0.25}}))
    assert [(event.level, event.service, event.run_id) for event in events] == [("warning", "trainer", "run")]
    assert events[0].what.startswith("25% of the returns")
    assert "qr_dqn" in events[0].remedy


def test_that_episodes_of_evaluations_are_cut_is_told_once(news: RunNews, events: list[Event]) -> None:
    news.take_row(evaluation(1, cut=0))
    assert events == []
    news.take_row(evaluation(2, cut=1))
    news.take_row(evaluation(3, cut=2))
    assert [(event.level, event.service, event.run_id) for event in events] == [
        ("warning", "evaluator", "run")
    ]
    assert "were cut" in events[0].what
    assert "evaluation.max_steps" in events[0].remedy


def test_that_a_run_is_not_saved_is_told_once_and_that_it_is_again(
    news: RunNews, events: list[Event]
) -> None:
    full, no_right = state("not saved yet: no space left", "paused"), state("not saved yet: no right")
    for trainer in (state(""), full, full, state(""), no_right):
        news.look(trainer)
    assert [(event.level, event.what, event.remedy) for event in events] == [
        ("error", f"The run is {full.unsaved}", "Free some space; training goes on by itself."),
        ("info", "The run is saved again", ""),
        ("error", f"The run is {no_right.unsaved}", "Mend the cause; it is tried again by itself."),
    ]
