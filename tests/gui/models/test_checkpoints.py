import pytest

from soulsgui.gui.models.checkpoints import (
    columns,
    condition_look,
    described,
    kind_look,
    load_question,
    why_not_loaded,
)
from soulsgui.wire.control import CheckpointInfo, RunStatus, RunSummary

GOOD = CheckpointInfo(
    id="manual_save/1",
    kind="manual",
    path="/runs/a/manual_save/1",
    model_id=4,
    env_steps=1000,
    updates=40,
    created=1.0,
    size_bytes=5,
    valid=True,
)
DAMAGED = GOOD.model_copy(update={"valid": False, "resumable": False, "error": "manifest.json is missing"})
WEIGHTS = GOOD.model_copy(update={"kind": "best", "resumable": False})
RUN = RunSummary(id="a", name="lunar", env_steps=3500)


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
    shown = {column.name: column.shown(info) for column in columns()}
    assert (shown["score"], shown["evaluation"]) == (training, evaluation)


def test_nothing_is_loaded_without_a_choice() -> None:
    assert why_not_loaded(None)


def test_it_is_described_in_one_line() -> None:
    assert described(GOOD) == "Quicksave, update 40, 1,000 steps"
    assert described(GOOD.model_copy(update={"memory": True})).endswith(", with its replay memory")
    assert "only if training stops right there" in described(GOOD.model_copy(update={"memory_in_file": True}))
    assert kind_look("hologram").word == "Hologram"


def test_loading_tells_what_is_overwritten() -> None:
    question = load_question(GOOD, RUN, RunStatus())
    assert question.title == "Load this checkpoint of lunar?"
    assert "from update 40 as a new attempt" in question.sentence
    assert "The 2,500 steps after it stay on the curves" in question.sentence
    assert "stopped" not in question.sentence


def test_loading_into_the_active_run_counts_its_newest_steps() -> None:
    active = RunStatus(id="a", name="lunar", state="running", env_steps=9000, checkpoint_age_s=3.0)
    sentence = load_question(GOOD, RUN, active).sentence
    assert "lunar is stopped first; it saves before it ends (last checkpoint 3 s ago)." in sentence
    assert "8,000 steps" in sentence


def test_loading_the_newest_state_overwrites_nothing() -> None:
    assert (
        "overwritten"
        not in load_question(GOOD, RUN.model_copy(update={"env_steps": 1000}), RunStatus()).sentence
    )
