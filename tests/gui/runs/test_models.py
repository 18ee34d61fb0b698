"""Runs and checkpoints as their tables show them."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from soulsgui.gui.models.rules import why_not_loaded
from soulsgui.gui.runs.models import (
    CHECKPOINT_COLUMNS,
    RunsModel,
    condition_look,
    described,
    kind_look,
    with_status,
)
from soulsgui.wire.control import CheckpointInfo, RunStatus, RunSummary
from tests.states import checkpoint

GOOD = checkpoint()
DAMAGED = GOOD.model_copy(update={"valid": False, "resumable": False, "error": "manifest.json is missing"})
WEIGHTS = GOOD.model_copy(update={"kind": "best", "resumable": False})


@pytest.mark.parametrize(
    ("checkpoint", "condition", "reason"),
    [
        (GOOD, "Complete", ""),
        (WEIGHTS, "Weights only", "weights alone"),
        (DAMAGED, "Damaged", "manifest.json is missing."),
    ],
)
def test_its_condition_and_why_it_can_not_be_loaded(
    checkpoint: CheckpointInfo, condition: str, reason: str
) -> None:
    assert condition_look(checkpoint).word == condition
    assert reason in why_not_loaded(checkpoint)
    assert bool(why_not_loaded(checkpoint)) == bool(reason)


@pytest.mark.parametrize(
    ("scored_by", "training", "evaluation"),
    [("training", "12.5", "—"), ("evaluation", "—", "12.5"), ("", "12.5", "—")],
)
def test_training_and_evaluation_have_a_column_each(scored_by: str, training: str, evaluation: str) -> None:
    info = GOOD.model_copy(update={"score": 12.5, "scored_by": scored_by})
    shown = {column.name: column.shown(info) for column in CHECKPOINT_COLUMNS}
    assert (shown["score"], shown["evaluation"]) == (training, evaluation)


def test_it_is_described_in_one_line() -> None:
    assert described(GOOD) == "Quicksave, update 40, 1,000 steps"
    assert described(GOOD.model_copy(update={"memory": True})).endswith(", with its replay memory")
    assert "only if training stops right there" in described(GOOD.model_copy(update={"memory_in_file": True}))
    assert kind_look("hologram").word == "Hologram"


# --- runs ---

OLD = RunSummary(id="2026-01-01_a", name="old", state="finished", created=1.0, resumable=True, env_steps=9)
NEW = RunSummary(id="2026-02-01_b", name="new", state="stopped", created=2.0, resumable=True)
ACTIVE = RunStatus(id=OLD.id, name="old", state="running", env_steps=500, seconds=60.0, checkpoint_age_s=125)


def test_the_newest_status_wins_over_the_listed_state_and_the_active_run_stands_on_top(
    qapp: QApplication,
) -> None:
    run = with_status(OLD, ACTIVE)
    assert (run.state, run.env_steps, run.seconds) == ("running", 500, 60.0)
    assert with_status(NEW, ACTIVE) == NEW
    model = RunsModel()
    model.sort(model.column_number("created"), Qt.SortOrder.DescendingOrder)
    model.take([NEW], RunStatus())
    assert not model.follow(ACTIVE), "one that is not listed yet is told of"
    assert model.follow(RunStatus())
    model.take([NEW, OLD], RunStatus())
    assert model.row_of(NEW.id) == 0
    assert model.follow(ACTIVE)
    assert model.row_of(OLD.id) == 0


def test_the_best_mean_says_what_it_is(qapp: QApplication) -> None:
    model = RunsModel()
    model.take([OLD.model_copy(update={"best_mean_return": 494.9})], RunStatus())
    column, tip = model.column_number("best"), Qt.ItemDataRole.ToolTipRole
    assert model.headerData(column, Qt.Orientation.Horizontal) == "Best mean"
    assert "at its end may be lower" in model.headerData(column, Qt.Orientation.Horizontal, tip)
    assert "at its end may be lower" in model.data(model.index(0, column), tip)
