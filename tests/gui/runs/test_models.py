from datetime import datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from soulsgui.gui.runs.models import (
    CHECKPOINT_COLUMNS,
    GroupRow,
    RunsModel,
    condition_look,
    described,
    evaluated_words,
    group_of,
    row_look,
    with_status,
)
from soulsgui.gui.states import kind_look
from soulsgui.wire.control import KeptEvaluation, QueuedRun, RunStatus, RunSummary
from tests.states import checkpoint


def test_its_condition() -> None:
    whole, best = checkpoint(), checkpoint(kind="best", resumable=False)
    damaged = checkpoint(valid=False, error="manifest.json is missing")
    words = [condition_look(info).word for info in (whole, best, damaged)]
    assert words == ["Complete", "Weights only", "Damaged"]


@pytest.mark.parametrize(
    ("scored_by", "training", "evaluation"),
    [("training", "12.5", "—"), ("evaluation", "—", "12.5"), ("", "12.5", "—")],
)
def test_training_and_evaluation_have_a_column_each(scored_by: str, training: str, evaluation: str) -> None:
    info = checkpoint(score=12.5, scored_by=scored_by)
    shown = {column.name: column.shown(info) for column in CHECKPOINT_COLUMNS}
    assert (shown["score"], shown["evaluation"]) == (training, evaluation)


def test_one_episode_has_no_deviation() -> None:
    kept = KeptEvaluation(
        model_id=1,
        time=1.0,
        env_steps=1,
        episodes=1,
        seed=0,
        greedy=True,
        mean_return=500.0,
        std_return=0.0,
        min_return=500.0,
        max_return=500.0,
    )
    assert evaluated_words(kept) == "500.0"
    assert evaluated_words(kept.model_copy(update={"episodes": 2, "std_return": 1.5})) == "500.0 ± 1.50"


def test_it_is_described_in_one_line() -> None:
    assert described(checkpoint()) == "Quicksave, update 40, 1,000 steps"
    assert described(checkpoint(memory=True)).endswith(", with its replay memory")
    assert "only if training stops right there" in described(checkpoint(memory_in_file=True))
    assert kind_look("hologram").word == "Hologram"


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


def test_an_experiment_stays_unfolded_when_its_last_run_ends(qapp: QApplication) -> None:
    model = RunsModel()
    seed = OLD.model_copy(update={"experiment": "2026-01-01_wide"})
    model.take([seed], RunStatus())
    assert model.row_of(seed.id) is None, "of yesterday"
    for state in ("running", "finished"):
        model.take([seed], ACTIVE.model_copy(update={"state": state}))
        assert model.row_of(seed.id) == 1


def test_an_experiment_counts_its_runs_in_the_queue(qapp: QApplication) -> None:
    model = RunsModel()
    seed = OLD.model_copy(update={"experiment": "2026-01-01_wide"})
    waiting = [QueuedRun(number=n, name=f"seed {n}", experiment=seed.experiment) for n in (2, 3)]

    def said() -> list[str]:
        return [row_look(row).word for row in model.records if isinstance(row, GroupRow)]

    model.take([seed], ACTIVE, waiting)
    assert said() == ["0 of 3 ended"]
    model.take([seed], RunStatus(), waiting)
    assert said() == ["1 of 3 ended"]
    model.show_queue(waiting[1:])
    assert said() == ["1 of 2 ended"]
    model.show_queue([])
    assert said() == ["1 run"]


def test_runs_without_a_name_are_told_apart_by_their_start_and_the_best_mean_says_what_it_is(
    qapp: QApplication,
) -> None:
    model = RunsModel()
    begun = datetime(2026, 11, 24, 13, 16, 32).timestamp()
    unnamed = RunSummary(id="2026-11-24_13-16-32_cartpole", state="finished", created=begun)
    model.take([OLD, unnamed, RunSummary(id="odd", state="finished")], RunStatus())
    name, best = model.column_number("name"), model.column_number("best")
    assert {model.index(row, name).data() for row in range(3)} == {"old", "2026-11-24 13:16:32", "odd"}
    told = model.headerData(best, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole)
    assert "at its end may be lower" in told


def test_the_sums_of_a_group_may_be_larger_than_what_one_run_can_tell(qapp: QApplication) -> None:
    model = RunsModel()
    runs = [RunSummary(id=f"r{number}", experiment="e", size_bytes=2**63 - 1) for number in range(3)]
    model.take(runs, RunStatus())
    assert [row.size_bytes for row in model.records if isinstance(row, GroupRow)] == [3 * (2**63 - 1)]
    assert model.rowCount() == 1


def test_each_run_is_looked_at_once_however_many_groups_there_are(
    qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def counted(run: RunSummary) -> str:
        seen.append(run.id)
        return group_of(run)

    model = RunsModel()
    runs = [RunSummary(id=f"r{number}", experiment=f"e{number}") for number in range(100)]
    monkeypatch.setattr("soulsgui.gui.runs.models.group_of", counted)
    model.take(runs, RunStatus())
    assert model.rowCount() == 100
    assert len(seen) < 10 * len(runs)
