from pathlib import Path

import pytest

from soulsgui.runner.events import EventLog
from soulsgui.runner.run.record import (
    Reached,
    RunNews,
    RunRecord,
    RunView,
    ended,
    goal_reached,
    loss_words,
    new_attempt_words,
    run_state,
    with_progress,
)
from soulsgui.wire.control import CheckpointInfo, Event, RunState, ServiceStatus
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.metrics import AttemptRow, evaluation_values
from soulsgui.wire.messages.node import NodePhase, NodeState, Verdict
from tests.states import checkpoint, service
from tests.telemetry.helpers import update_row


def node(name: str = "trainer", **fields: object) -> NodeState:
    return NodeState.model_validate(
        {"name": name, "instance": Instance(), "tick": 1, "run_id": "r", "phase": "collecting", **fields}
    )


def trainer(state: str, outcome: str = "") -> ServiceStatus:
    return service("trainer", state, outcome=outcome)


PHASES: dict[NodePhase, RunState] = {
    "loading": "starting",
    "waiting": "waiting",
    **dict.fromkeys(("collecting", "updating", "compiling", "saving"), "running"),  # type: ignore[dict-item]
    "paused": "paused",
    "frozen": "frozen",
    "stopping": "saving",
}


@pytest.mark.parametrize(
    ("view", "state", "said"),
    [
        *((RunView(trainer("running"), node(phase=one)), state, "") for one, state in PHASES.items()),
        (RunView(None, None), "starting", "checking the environment"),
        (RunView(trainer("starting"), None), "starting", "loading"),
        (RunView(trainer("running"), None), "starting", "loading"),
        (RunView(trainer("running"), node(phase="waiting", detail="1 of 2")), "waiting", "1 of 2"),
        (RunView(trainer("backoff", "exit 3"), node()), "starting", "exit 3"),
        (RunView(trainer("failed", "exit 3"), node()), "failed", "exit 3"),
        (RunView(trainer("stopped"), node()), "waiting", "trainer is stopped"),
        (RunView(trainer("running"), node(), server_up=False), "waiting", "Redis"),
        (RunView(trainer("running"), node(), disk_full=True), "waiting", "disk full"),
        (RunView(trainer("running"), node(), confirming=True), "running", "confirming the goal"),
        (RunView(trainer("running"), node(), stopping=True, evaluating=True), "saving", "evaluating"),
        (RunView(trainer("running"), node(), stopping=True), "saving", "ending"),
        (RunView(trainer("failed"), node(), stopping=True, server_up=False), "saving", "ending"),
    ],
)
def test_state_and_its_words(view: RunView, state: RunState, said: str) -> None:
    found, detail = run_state(view)
    assert found == state
    assert said in detail


def test_a_goal_is_reached_when_a_node_says_so() -> None:
    reached = node("telemetry", attempt=2, verdict=Verdict(reached=True))
    for of_trainer, of_telemetry, said in (
        (None, None, ""),
        (node(), node("telemetry"), ""),
        (node(stop_reached=True), None, "env_steps"),
        (node(), node("telemetry", verdict=Verdict(best_score=1.0)), ""),
        (node(attempt=2), reached, "mean_return"),
        (node(attempt=2, stop_reached=True), reached, "mean_return"),
        # The attempt before reached it, and the run was resumed.
        (None, reached, ""),
        (node(attempt=3), reached, ""),
    ):
        assert goal_reached(of_trainer, of_telemetry) == said


def test_progress_takes_steps_from_the_trainer_and_returns_from_telemetry() -> None:
    record = with_progress(
        RunRecord(id="r"),
        node(attempt=2, env_steps=500, updates=4, model_id=6, checkpoint_time=90.0, rejected={"late": 3}),
        node("telemetry", episodes=17, mean_return=20.5, best_mean_return=30.0, evaluation_return=25.0),
        wall_time=100.0,
    )
    assert (record.attempt, record.env_steps, record.updates, record.model_id) == (2, 500, 4, 6)
    assert (record.episodes, record.mean_return, record.best_mean_return) == (17, 20.5, 30.0)
    assert record.evaluation_return == 25.0
    # Training goes on from before the first evaluation.
    assert with_progress(record, None, node("telemetry"), 100.0).evaluation_return is None
    assert record.checkpoint_age_s == 10.0
    assert record.rejected == {"late": 3}


REACHED = Verdict(reached=True, reached_with=130.5)


def test_what_reached_the_goal_is_the_mean_of_the_run_by_whoever_judges() -> None:
    told = node("telemetry", mean_return=126.0, best_mean_return=131.0, verdict=REACHED)
    assert with_progress(RunRecord(id="r"), node(), told, 0.0).mean_return == 130.5
    told = node("telemetry", mean_return=35.0, evaluation_return=99.0, verdict=REACHED)
    record = with_progress(RunRecord(id="r", goal_judged_by="evaluation"), node(), told, 0.0)
    # While it is being saved; a newer evaluation may be worse.
    assert (record.mean_return, record.evaluation_return) == (35.0, 130.5)
    assert ended(record, "mean_return").mean_return == 130.5
    assert ended(record, "stopped").mean_return == 35.0
    record = RunRecord(id="r", goal_judged_by="evaluation")
    told = node("telemetry", mean_return=126.0, judged_by="training", verdict=REACHED)
    record = with_progress(record, node(), told, 0.0)
    assert (record.goal_judged_by, record.mean_return) == ("training", 130.5)
    assert ended(record, "mean_return").mean_return == 130.5
    assert with_progress(record, node(), None, 0.0).goal_judged_by == "training", "what was told last"
    told = node("telemetry", judged_by="evaluation")
    assert with_progress(record, node(), told, 0.0).goal_judged_by == "evaluation", "a client came that can"


def test_nodes_of_another_run_are_ignored_and_a_silent_trainer_keeps_its_numbers_but_not_its_rate() -> None:
    record = RunRecord(id="r", env_steps=5)
    assert with_progress(record, node(run_id="other", env_steps=9), None, 0.0) == record
    record = with_progress(RunRecord(id="r", env_steps=5, env_steps_per_s=100.0), None, None, 0.0)
    assert (record.env_steps, record.env_steps_per_s) == (5, 0.0)


@pytest.mark.parametrize(
    ("reached", "state"),
    [("mean_return", "finished"), ("env_steps", "finished"), ("stopped", "stopped"), ("failed", "failed")],
)
def test_ended_run_says_why(reached: Reached, state: RunState) -> None:
    record = ended(RunRecord(id="r", state="saving", detail="saving", env_steps_per_s=9.0), reached, "why")
    assert (record.state, record.reached, record.detail, record.error) == (state, reached, "", "why")
    assert record.env_steps_per_s == 0.0


def test_a_new_attempt_says_what_is_lost() -> None:
    lost = "10,240 steps after the last checkpoint are lost"
    for begins_at, words in (
        (24_576, f"The trainer continues at 24,576 steps (attempt 2): {lost}"),
        (34_816, "The trainer continues at 34,816 steps (attempt 2): nothing is lost"),
        (0, "The trainer begins again (attempt 2): 34,816 steps are lost, none was saved"),
    ):
        place = dict.fromkeys(("update", "episodes", "model_id", "time"), 1)
        row = AttemptRow(run_id="r", attempt=2, env_steps=begins_at, **place)
        assert new_attempt_words(34_816, row) == words


RECORD = RunRecord(id="r", updates=100, env_steps=6400)


def held(attempt: int, updates: int, resumable: bool = True) -> CheckpointInfo:
    return checkpoint(attempt=attempt, env_steps=updates * 64, updates=updates, resumable=resumable)


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
    assert loss_words(RunRecord(id="r", env_steps=50), [], "full") == "", "never updated, nothing to lose"


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def news(tmp_path: Path, events: list[Event]) -> RunNews:
    return RunNews(EventLog(tmp_path / "events.jsonl", events.append), "run", None)


def test_an_attempt_that_begins_from_an_older_checkpoint_is_told_as_an_error(
    news: RunNews, events: list[Event]
) -> None:
    place = dict.fromkeys(("update", "episodes", "model_id", "time", "env_steps"), 1)
    why = "/r/checkpoint can't be used: agent.safetensors is damaged."
    news.take_attempt(AttemptRow(run_id="r", attempt=2, **place, passed_over=why), None)
    (event,) = events
    assert event.level == "error"
    assert event.what == f"The run continues from another checkpoint, of update 1: {why}"


def test_what_rows_suggest_to_change_is_told_once(news: RunNews, events: list[Event]) -> None:
    def take(update: int, values: dict[str, float]) -> None:
        news.take_row(update_row(update, **values))

    take(1, evaluation_values([1.0, 2.0], [3, 9], 0.5, cut=0))
    take(1, {"beyond_support": 0.01})
    assert events == []
    for update in (1, 2):
        take(update, {"beyond_support": 0.25})
        take(update, evaluation_values([1.0, 2.0], [3, 9], 0.5, cut=update))
    support, cut = events
    assert (support.level, support.service, support.run_id) == ("warning", "trainer", "run")
    assert support.what.startswith("25% of the learned returns")
    assert "qr_dqn" in support.remedy
    assert (cut.level, cut.service, cut.run_id) == ("warning", "evaluator", "run")
    assert "were cut" in cut.what
    assert "evaluation.max_steps" in cut.remedy


def test_a_goal_that_is_reached_by_chance_again_and_again_is_told_of_more_and_more_rarely(
    tmp_path: Path, events: list[Event]
) -> None:
    news = RunNews(EventLog(tmp_path / "events.jsonl", events.append), "run", 10.0)
    for number in range(1, 21):
        news.take_row(
            update_row(number, **evaluation_values([1.0], [3], 0.5)).model_copy(update={"confirms": number})
        )
    told = [event.what for event in events]
    assert [words.split()[4] for words in told] == ["1", "2", "4", "8", "16"]
    assert "of 10. The run" in told[0]
    assert "of 10 (16 times so far). The run" in told[-1]


def test_that_a_run_is_not_saved_is_told_once_and_its_end_too(news: RunNews, events: list[Event]) -> None:
    full, still = "not saved yet: no space left", "not saved yet: 3 MB are missing"
    no_right = "not saved yet: no right"
    for unsaved in ("", full, full, still, "", no_right):
        news.look(node(unsaved=unsaved, phase="paused" if unsaved in (full, still) else "collecting"))
    assert [(event.level, event.what, event.remedy) for event in events] == [
        ("error", f"The run is {full}", "Free some space; training continues by itself."),
        ("info", "The run is saved again", ""),
        ("error", f"The run is {no_right}", "Fix the cause; it is tried again by itself."),
    ]
