"""The checkpoints of a run as their table shows them, and what loading one costs. Pure but for the model."""

import time

from PySide6.QtCore import QObject

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.records import Column, RecordsModel, low
from soulsgui.gui.models.runs import stopping_words
from soulsgui.gui.question import Question
from soulsgui.gui.run_actions import run_title
from soulsgui.gui.states import Look, run_is_active
from soulsgui.wire.control import CheckpointInfo, RunStatus, RunSummary, ScoredBy


def kind_look(kind: str) -> Look:
    """Return how a kind of checkpoint looks."""
    looks = {
        "current": Look("save", Tone.TEXT, tr("Current"), 0),
        "best": Look("star", Tone.TEXT, tr("Best"), 1),
        "manual": Look("pin", Tone.TEXT, tr("Quicksave"), 2),
    }
    return looks.get(kind) or Look("help", Tone.IDLE, kind.capitalize(), 3)


def kind_tip(kind: str) -> str:
    """Return what a kind of checkpoint is."""
    tips = {
        "current": tr("Saved every few rounds by itself, and at the end of the run"),
        "best": tr("The model with the best mean return so far"),
        "manual": tr("Saved by hand"),
    }
    return tips.get(kind, kind)


def condition_look(checkpoint: CheckpointInfo) -> Look:
    """Return how the condition of a checkpoint looks."""
    if not checkpoint.valid:
        return Look("state-bad", Tone.BAD, tr("Damaged"), 2)
    if not checkpoint.resumable:
        return Look("state-info", Tone.IDLE, tr("Weights only"), 1)
    return Look("state-good", Tone.GOOD, tr("Complete"), 0)


def why_not_loaded(checkpoint: CheckpointInfo | None) -> str:
    """Return why training can't go on from a checkpoint, empty when it can."""
    if checkpoint is None:
        return tr("Choose a checkpoint first.")
    if not checkpoint.valid:
        reason = checkpoint.error or tr("its files are not those that were saved")
        return tr("It is damaged: {reason}.").format(reason=reason.rstrip("."))
    if not checkpoint.resumable:
        return tr("It holds the weights alone, without what training needs to go on.")
    return ""


def described(checkpoint: CheckpointInfo) -> str:
    """Return a checkpoint in one line: `Quicksave, update 410, 12,288 steps`."""
    words = tr("{kind}, update {updates}, {steps} steps").format(
        kind=kind_look(checkpoint.kind).word,
        updates=text.count(checkpoint.updates),
        steps=text.count(checkpoint.env_steps),
    )
    if checkpoint.memory_in_file:
        memory = tr(
            "{words}; the observations of its replay memory lie in the run's folder, of use only if training "
            "stops right there, with checkpoint.with_buffer"
        )
        return memory.format(words=words)
    return tr("{words}, with its replay memory").format(words=words) if checkpoint.memory else words


def load_question(checkpoint: CheckpointInfo, run: RunSummary, active: RunStatus) -> Question:
    """Return what to ask before training goes on from a checkpoint.

    Args:
        checkpoint: The checkpoint.
        run: Its run.
        active: The run that goes on, if one does.
    """
    same = run_is_active(active.state) and active.id == run.id
    steps = max((active.env_steps if same else run.env_steps) - checkpoint.env_steps, 0)
    sentences = [stopping_words(active)] if run_is_active(active.state) else []
    sentences.append(
        tr("Training goes on from update {update} as a new attempt.").format(
            update=text.count(checkpoint.updates)
        )
    )
    if steps:
        sentences.append(
            tr("The {steps} steps after it stay on the curves, marked as overwritten.").format(
                steps=text.count(steps)
            )
        )
    heading = tr("Load this checkpoint of {run}?").format(run=run_title(run))
    return Question(heading, " ".join(sentences), tr("Load"))


def columns() -> tuple[Column[CheckpointInfo], ...]:
    """Return every column, from left to right."""
    return (
        Column(
            "kind",
            tr("Kind"),
            lambda info: kind_look(info.kind).word,
            lambda info: kind_look(info.kind).rank,
            tip=lambda info: kind_tip(info.kind),
            look=lambda info: kind_look(info.kind),
            width=15,
        ),
        Column(
            "time",
            tr("Saved"),
            lambda info: text.clock(info.created, time.time()),
            lambda info: info.created,
            number=True,
            tip=lambda info: text.ago(max(time.time() - info.created, 0.0)),
            width=19,
        ),
        Column(
            "steps",
            tr("Steps"),
            lambda info: text.count(info.env_steps),
            lambda info: info.env_steps,
            number=True,
        ),
        Column(
            "updates",
            tr("Updates"),
            lambda info: text.count(info.updates),
            lambda info: info.updates,
            number=True,
        ),
        Column(
            "episodes",
            tr("Episodes"),
            lambda info: text.count(info.episodes),
            lambda info: info.episodes,
            number=True,
        ),
        Column(
            "score",
            tr("Training return"),
            lambda info: text.value(_scored(info, "training")),
            lambda info: low(_scored(info, "training")),
            number=True,
            width=13,
            about=tr("Mean return of the last training episodes when it was saved"),
        ),
        Column(
            "evaluation",
            tr("Evaluation"),
            lambda info: text.value(_scored(info, "evaluation")),
            lambda info: low(_scored(info, "evaluation")),
            number=True,
            width=11,
            about=tr("Mean return of the evaluation that made it the best model"),
        ),
        Column(
            "size",
            tr("Size"),
            lambda info: text.size(info.size_bytes),
            lambda info: info.size_bytes,
            number=True,
        ),
        Column(
            "condition",
            tr("Condition"),
            lambda info: condition_look(info).word,
            lambda info: condition_look(info).rank,
            tip=lambda info: why_not_loaded(info) or tr("Every file is as it was saved."),
            look=condition_look,
            width=17,
        ),
        Column(
            "note", tr("Note"), lambda info: " ".join(info.note.split()), tip=lambda info: info.note, width=28
        ),
    )


def _scored(info: CheckpointInfo, by: ScoredBy) -> float | None:
    """Return its score if it is the mean of that; one of which nobody knows counts as training's."""
    return info.score if (info.scored_by or "training") == by else None


class CheckpointsModel(RecordsModel[CheckpointInfo]):
    """The checkpoints of one run."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(columns(), lambda info: info.id, parent=parent)
