import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from soulsgui.gui.models.runs import RunsModel, resume_question, why_not_resumed, with_status
from soulsgui.wire.control import RunStatus, RunSummary

OLD = RunSummary(id="2026-01-01_a", name="old", state="finished", created=1.0, resumable=True, env_steps=9)
NEW = RunSummary(id="2026-02-01_b", name="new", state="stopped", created=2.0, resumable=True)
ACTIVE = RunStatus(id=OLD.id, name="old", state="running", env_steps=500, seconds=60.0, checkpoint_age_s=125)


def test_the_newest_status_wins_over_the_listed_state() -> None:
    run = with_status(OLD, ACTIVE)
    assert (run.state, run.env_steps, run.seconds) == ("running", 500, 60.0)
    assert with_status(NEW, ACTIVE) == NEW


def test_the_active_run_stands_on_top_of_newer_ones(qapp: QApplication) -> None:
    model = RunsModel()
    model.sort(model.column_number("created"), Qt.SortOrder.DescendingOrder)
    model.take([NEW, OLD], RunStatus())
    assert model.row_of(NEW.id) == 0
    assert model.follow(ACTIVE)
    assert model.row_of(OLD.id) == 0


def test_the_best_mean_says_what_it_is(qapp: QApplication) -> None:
    model = RunsModel()
    model.take([OLD.model_copy(update={"best_mean_return": 494.9})], RunStatus())
    column = model.column_number("best")
    assert model.headerData(column, Qt.Orientation.Horizontal) == "Best mean"
    for words in (
        model.headerData(column, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole),
        model.data(model.index(0, column), Qt.ItemDataRole.ToolTipRole),
    ):
        assert "at its end may be lower" in words


def test_a_run_that_is_not_listed_yet_is_told_of(qapp: QApplication) -> None:
    model = RunsModel()
    model.take([NEW], RunStatus())
    assert not model.follow(ACTIVE)
    assert model.follow(RunStatus())


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (None, "Choose"),
        (OLD.model_copy(update={"state": "paused"}), "already"),
        (OLD.model_copy(update={"resumable": False}), "no checkpoint"),
        (OLD.model_copy(update={"reached": "mean_return"}), "reached its goal"),
        (OLD, ""),
    ],
)
def test_why_a_run_can_not_be_resumed(run: RunSummary | None, words: str) -> None:
    reason = why_not_resumed(run)
    assert words in reason
    assert bool(reason) == bool(words)


def test_resuming_asks_only_where_another_run_would_be_stopped() -> None:
    assert resume_question(NEW, RunStatus()) is None
    assert resume_question(NEW, ACTIVE.model_copy(update={"state": "finished"})) is None
    question = resume_question(NEW, ACTIVE)
    assert question is not None
    assert question.title == "Stop old and resume new?"
    assert "saves before it ends (last checkpoint 2 min ago)" in question.sentence
