"""What is told of a run's checkpoints: while it goes on, and at its end."""

import pytest

from soulsgui.runner.run import RunRecord
from soulsgui.runner.saved import SaveNews, loss_words
from soulsgui.wire.control import CheckpointInfo
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.node import NodePhase, NodeState

RECORD = RunRecord(id="r", updates=100, env_steps=6400)


def held(attempt: int, updates: int, resumable: bool = True) -> CheckpointInfo:
    return CheckpointInfo(
        id="c", kind="current", path="/c", model_id=1, attempt=attempt, env_steps=updates * 64,
        updates=updates, created=1.0, size_bytes=1, valid=True, resumable=resumable,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("checkpoints", "words"),
    [
        ([held(1, 100)], ""),
        ([held(1, 90), held(1, 100)], ""),
        ([held(1, 99)], "the last 1 update (64 steps) are lost: full"),
        ([held(1, 100, resumable=False), held(1, 90)], "the last 10 updates (640 steps) are lost: full"),
        ([held(1, 100), held(2, 80)], "the last 20 updates (1,280 steps) are lost: full"),
        ([], "the last 100 updates (6,400 steps) are lost: full"),
    ],
)
def test_what_no_checkpoint_holds_is_said(checkpoints: list[CheckpointInfo], words: str) -> None:
    assert loss_words(RECORD, checkpoints, "full") == words


def test_a_run_that_was_never_updated_has_nothing_to_lose() -> None:
    assert loss_words(RunRecord(id="r", env_steps=50), [], "full") == ""


def state(unsaved: str, phase: NodePhase = "collecting") -> NodeState:
    return NodeState(name="trainer", instance=Instance(), tick=1, phase=phase, unsaved=unsaved)


def test_news_of_saving_come_once() -> None:
    news = SaveNews()
    assert news.of(None) is None
    assert news.of(state("")) is None
    full = state("not saved yet: no space left", "paused")
    assert news.of(full) == (
        "is not saved yet: no space left",
        "Free some space; training goes on by itself.",
    )
    assert news.of(full) is None
    assert news.of(None) is None
    assert news.of(state("")) == ("is saved again", "")
    said = news.of(state("not saved yet: no right"))
    assert said == ("is not saved yet: no right", "Mend the cause; it is tried again by itself.")
