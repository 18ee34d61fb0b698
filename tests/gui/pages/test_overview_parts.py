"""What the overview says and allows, without a window."""

import gc
import weakref
from collections.abc import Sequence

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from soulsgui.gui.calls import Call
from soulsgui.gui.colours import Tone
from soulsgui.gui.pages.overview_client_rules import (
    client_actions,
    possible,
    round_words,
    why_not_possible,
)
from soulsgui.gui.pages.overview_end import end_words, next_preset
from soulsgui.gui.pages.overview_figures import figures, in_lines, run_words, state_words, window_words
from soulsgui.gui.pages.overview_marks import RunMarks
from soulsgui.gui.pages.overview_metrics import (
    metric_order,
    metric_title,
    smoothing_weight,
    smoothing_words,
)
from soulsgui.gui.pages.overview_service_rules import forbidden, group_words, stop_question
from soulsgui.gui.pages.overview_together import together
from soulsgui.wire.control import (
    AttemptStart,
    CheckpointInfo,
    ClientStatus,
    Preset,
    RunStatus,
    ServiceStatus,
    Status,
)
from soulsgui.wire.fleet import ClientState
from soulsgui.wire.messages.metrics import CheckpointRow
from soulsgui.wire.messages.node import STALENESS_BOUNDS, Staleness
from tests.gui.fake_feed import refusal
from tests.gui.plotting.curves import RUN, attempt_row

RUNNING = RunStatus(id=RUN, name="lunar", state="running", env_id="LunarLander-v3", algorithm="ppo")

ACTIVE = Status(run=RUNNING)


def service(name: str, state: str = "running", **fields: object) -> ServiceStatus:
    kind = "client" if name.startswith("client") else name
    return ServiceStatus.model_validate({"name": name, "kind": kind, "state": state} | fields)


def client(name: str = "gamer-1", state: str = "online", **fields: object) -> ClientStatus:
    return ClientStatus.model_validate({"id": name, "name": name, "state": state} | fields)


def said(run: RunStatus) -> dict[str, str]:
    return {figure.name: figure.value for figure in figures(run)}


# --- key figures ---


def test_key_figures_are_said_as_people_read_them() -> None:
    run = RUNNING.model_copy(
        update={
            "mean_return": 312.44,
            "goal_return": 475.0,
            "env_steps": 123_456,
            "goal_env_steps": 500_000,
            "env_steps_per_s": 1180.4,
            "updates": 4100,
            "policy_lag": 0.75,
            "seconds": 185.0,
            "checkpoint_age_s": 130.0,
        }
    )
    assert said(run) == {
        "return": "312.4 of 475",
        "steps": "123 k of 500 k",
        "rate": "1,180",
        "updates": "4,100",
        "lag": "0.750",
        "time": "3 min 5 s",
        "checkpoint": "2 min ago",
    }


def test_a_best_mean_above_the_mean_is_explained() -> None:
    run = RUNNING.model_copy(update={"mean_return": 476.2, "best_mean_return": 494.9})
    tip = next(figure.tip for figure in figures(run) if figure.name == "return")
    assert "The highest mean during the run, that of its best model: 494.9" in tip
    ended = end_words(run.model_copy(update={"state": "finished", "reached": "env_steps"}))
    assert ended is not None
    assert ended.detail == (
        "Mean return at its end 476.2; the highest during the run, that of its best model: 494.9."
    )


def test_the_lag_tells_how_old_most_samples_are() -> None:
    def tip(run: RunStatus) -> str:
        return next(figure.tip for figure in figures(run) if figure.name == "lag")

    accepted = [10, 0, 0, 0, 0, 0, 1, *[0] * (len(STALENESS_BOUNDS) - 6)]
    aged = RUNNING.model_copy(update={"staleness": Staleness(accepted=accepted)})
    assert tip(aged) == f"{tip(RUNNING)}:\nhalf of the samples 0 updates old, 95 % at most 12"


def test_what_was_lost_is_shown_only_when_something_was() -> None:
    run = RUNNING.model_copy(update={"rejected": {"late": 3, "shape": 9}, "lost_chunks": 2})
    found = {figure.name: figure for figure in figures(run)}
    assert found["rejected"].value == "12"
    assert found["rejected"].tip == "9 shape, 3 late"
    assert found["rejected"].tone is Tone.WARNING
    on_their_way = RUNNING.model_copy(update={"rejected": {"not_admitted": 2}})
    assert [one.tone for one in figures(on_their_way) if one.name == "rejected"] == [Tone.TEXT]
    assert found["lost"].value == "2"
    assert "rejected" not in said(RUNNING)


def test_a_run_is_named_with_what_it_trains_and_waits_for() -> None:
    again = RUNNING.model_copy(update={"attempt": 2, "state": "waiting", "detail": "1 of 2 clients"})
    assert run_words(again) == "lunar · LunarLander-v3 · PPO · attempt 2"
    family = RUNNING.model_copy(update={"algorithm": "dqn", "agent": "qr_dqn"})
    assert run_words(family) == "lunar · LunarLander-v3 · QR-DQN"
    on_gpus = family.model_copy(update={"learns_on": "4 GPUs"})
    assert run_words(on_gpus) == "lunar · LunarLander-v3 · QR-DQN on 4 GPUs"
    assert state_words(again) == "Waiting: 1 of 2 clients"
    saving = RUNNING.model_copy(update={"state": "saving", "detail": "saving and ending its services"})
    assert state_words(saving) == "Saving and ending its services"


# --- the end ---


def test_a_solved_run_says_what_it_reached_and_how_long_it_took() -> None:
    solved = RUNNING.model_copy(
        update={"state": "finished", "reached": "mean_return", "goal_return": 475.0, "seconds": 31.0}
    )
    words = end_words(solved)
    assert words is not None
    assert words.title == "Solved: reached 475 after 31 s"


@pytest.mark.parametrize(
    ("state", "reached", "title"),
    [
        ("finished", "env_steps", "Finished: made 0 steps in 0.0 s"),
        ("failed", "failed", "The run failed"),
        ("running", "", ""),
        ("stopped", "stopped", ""),
    ],
)
def test_only_an_end_by_itself_is_told(state: str, reached: str, title: str) -> None:
    run = RunStatus.model_validate({"id": RUN, "state": state, "reached": reached, "error": "no memory"})
    words = end_words(run)
    assert (words.title if words else "") == title


def test_the_next_environment_is_another_one() -> None:
    presets = [
        Preset(name="a", title="", values={"env.id": "CartPole-v1"}),
        Preset(name="b", title="", values={"env.id": "LunarLander-v3"}),
    ]
    chosen = next_preset(presets, "CartPole-v1")
    assert chosen is not None
    assert chosen.name == "b"
    assert next_preset(presets[:1], "CartPole-v1") is None


# --- services ---


def test_the_local_clients_are_told_of_as_the_one_that_needs_attention() -> None:
    clients = [
        service("client-1", cpu_percent=20.0, memory_bytes=50_000_000),
        service("client-2", "backoff", restart_in_s=8.0, failures=3, outcome="exit 1", restarts=2),
    ]
    words = group_words(clients, 3.0)
    assert words.title == "Local clients 1/2"
    assert words.state == "Restarting in 5 s (3/5)"
    assert words.sentence == "Client 2: exit 1"
    assert words.usage == "CPU 20 % · 50.0 MB · 2 restarts"
    assert words.speaker == "client-2"


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (["running", "running"], "Running"),
        (["running", "starting", "starting"], "2 of 3 starting"),
        (["stopped", "running"], "1 of 2 stopped"),
    ],
)
def test_local_clients_that_differ_are_counted(states: list[str], state: str) -> None:
    clients = [service(f"client-{number}", one) for number, one in enumerate(states, 1)]
    assert group_words(clients, 0.0).state == state


def test_no_local_client_is_not_an_error() -> None:
    words = group_words([], 0.0)
    assert words.title == "Local clients 0/0"
    assert words.speaker == ""


def test_redis_is_not_stopped_under_a_run_and_services_not_started_without_one() -> None:
    stopped = RunStatus(id=RUN, state="stopped")
    assert set(forbidden(service("redis"), RUNNING)) == {"stop"}
    assert forbidden(service("redis"), stopped) == {}
    assert forbidden(service("trainer"), RUNNING) == {}
    assert set(forbidden(service("trainer", "stopped"), stopped)) == {"start", "stop", "restart"}


def test_only_stopping_the_trainer_of_a_run_is_asked_about() -> None:
    asked = stop_question(service("trainer"), RUNNING.model_copy(update={"checkpoint_age_s": 120.0}))
    assert asked is not None
    assert "Clients will wait" in asked.sentence
    assert "2 min ago" in asked.sentence
    assert stop_question(service("telemetry"), RUNNING) is None


# --- clients ---


@pytest.mark.parametrize(
    ("action", "status", "able"),
    [
        ("pause", client(), True),
        ("pause", client(wish="pause"), False),
        ("pause", client(state="lost"), True),
        ("pause", client(state="left"), False),
        ("resume", client(), False),
        ("resume", client(state="paused", wish="pause"), True),
        ("resume", client(state="lost", wish="pause"), True),
        ("resume", client(state="paused"), False),
        ("resume", client(state="left", local=True), True),
        ("resume", client(state="left"), False),
        ("drain", client(), True),
        ("drain", client(wish="finish"), False),
        ("stop", client(wish="finish"), True),
        ("stop", client(state="left"), False),
        ("forget", client(), False),
        ("forget", client(state="lost"), True),
        ("forget", client(state="left"), True),
    ],
)
def test_an_action_is_possible_or_says_why_not(action: str, status: ClientStatus, able: bool) -> None:
    reason = why_not_possible(action, status, ACTIVE)
    assert (reason == "") is able
    assert able or status.name in reason


def test_a_stopped_local_client_is_not_started_without_a_run() -> None:
    left = client(state="left", local=True)
    assert "No run" in why_not_possible("resume", left, Status())


def test_a_local_client_is_started_again_once_its_process_has_ended() -> None:
    left = client("client-1", "left", local=True, wish="finish")
    ending = Status(run=RUNNING, services=[service("client-1", "running")])
    assert why_not_possible("resume", left, ending) == "client-1 is about to end."
    ended = Status(run=RUNNING, services=[service("client-1", "stopped")])
    assert why_not_possible("resume", left, ended) == ""


def test_an_action_takes_those_of_the_chosen_it_is_possible_with() -> None:
    first, second = client("a", "left"), client("b")
    able, reason = possible("pause", [first, second], ACTIVE)
    assert able == [second]
    assert reason == ""
    assert possible("pause", [first], ACTIVE)[1].startswith("a is left")
    assert possible("stop", [], ACTIVE) == ([], "Choose a client first.")


@pytest.mark.parametrize("action", [action.name for action in client_actions()])
def test_every_action_is_possible_with_some_clients_and_not_with_others(action: str) -> None:
    wishes = ("run", "pause", "finish", "stop")
    clients = [client(state=state, wish=wish) for state in ClientState for wish in wishes]
    able, _ = possible(action, clients, ACTIVE)
    assert 0 < len(able) < len(clients)


def test_an_action_without_a_rule_is_not_taken_for_a_possible_one() -> None:
    with pytest.raises(KeyError):
        why_not_possible("dance", client(), ACTIVE)


# --- calls together ---


def calls(count: int) -> tuple[list[Call], Call, list[object]]:
    parts = [Call("clients.pause", "my-server") for _ in range(count)]
    whole = together(parts)
    told: list[object] = []
    whole.done.connect(lambda _: told.append("done"))
    whole.failed.connect(told.append)
    return parts, whole, told


def test_calls_together_are_done_when_the_last_one_is(qapp: QApplication) -> None:
    parts, whole, told = calls(3)
    parts[0].answer({})
    parts[2].answer({})
    assert told == []
    parts[1].answer({})
    assert told == ["done"]
    assert whole.over


def test_calls_together_fail_with_the_first_reason_after_all_are_over(qapp: QApplication) -> None:
    parts, _, told = calls(3)
    first = refusal("b is gone.")
    parts[1].refuse(first)
    parts[0].refuse(refusal("a is gone."))
    assert told == []
    parts[2].answer({})
    assert told == [first]


def test_calls_together_are_freed_when_they_are_over(qapp: QApplication) -> None:
    parts, whole, _ = calls(2)
    held = [weakref.ref(call) for call in (*parts, whole)]
    while parts:
        parts.pop().answer({})
    del whole
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    gc.collect()
    assert [ref() for ref in held] == [None, None, None]


def test_a_single_call_stands_for_itself(qapp: QApplication) -> None:
    parts, whole, _ = calls(1)
    assert whole is parts[0]
    whole.answer({})


# --- marks ---


def saved(kind: str, path: str, update: int, time: float) -> CheckpointRow:
    return CheckpointRow(
        run_id=RUN,
        attempt=1,
        update=update,
        env_steps=100 * update,
        episodes=10 * update,
        model_id=update,
        time=time,
        saved=kind,
        path=path,
    )


def mark_words(marks: RunMarks) -> Sequence[str]:
    return [mark.text for mark in marks.marks]


def test_a_newer_current_checkpoint_takes_the_place_of_the_older_and_quicksaves_stay() -> None:
    marks = RunMarks()
    assert marks.take_rows(
        [
            saved("manual", "manual_save/1", 3, 3.0),
            saved("current", "checkpoint", 5, 5.0),
            saved("manual", "manual_save/2", 6, 6.0),
            saved("current", "checkpoint", 10, 10.0),
        ],
        RUN,
    )
    assert mark_words(marks) == [
        "Quicksave, update 3",
        "Quicksave, update 6",
        "Current checkpoint, update 10",
    ]


def test_a_list_of_checkpoints_and_a_live_one_are_the_same_mark() -> None:
    marks = RunMarks()
    info = CheckpointInfo(
        id="manual_save/1",
        kind="manual",
        path="/runs/x/manual_save/1",
        model_id=3,
        env_steps=300,
        updates=3,
        episodes=30,
        created=3.0,
        size_bytes=1,
        valid=True,
    )
    marks.take_list([info])
    marks.take_rows([saved("manual", "manual_save/1", 3, 3.0)], RUN)
    assert [(mark.episode, mark.env_steps) for mark in marks.marks] == [(30, 300)]


def test_later_attempts_are_marked_and_the_first_is_not() -> None:
    marks = RunMarks()
    marks.take_attempts([AttemptStart(attempt=1, update=0, env_steps=0, episodes=0, time=1.0)])
    marks.take_rows([attempt_row(2, 60)], RUN)
    assert mark_words(marks) == ["Attempt 2 from update 0"]
    assert not marks.take_rows([attempt_row(3, 90)], "another run")


# --- metrics ---


def test_metrics_have_names_that_can_be_read() -> None:
    assert [metric_title(name) for name in ("return", "approx_kl", "policy_loss", "update_s")] == [
        "Return",
        "Approx KL",
        "Policy loss",
        "Update (s)",
    ]


def test_metrics_of_evaluations_and_episodes_are_offered_first() -> None:
    assert metric_order(["value_loss", "return", "entropy", "evaluation_return"]) == [
        "evaluation_return",
        "return",
        "length",
        "mean_return",
        "entropy",
        "value_loss",
    ]


def test_the_smoothing_slider_goes_from_none_to_a_thousand_values() -> None:
    assert smoothing_weight(0) == 0.0
    assert smoothing_weight(100) == pytest.approx(0.999)
    words = [smoothing_words(position) for position in (0, 33, 100)]
    assert words == ["off", "up to 10 values", "up to 1,000 values"]


@pytest.mark.parametrize(
    ("changes", "states", "words"),
    [
        ({}, ("online", "late", "paused"), "rounds of 2 of 3 clients (c paused)"),
        ({}, ("online", "paused", "paused", "paused"), "rounds of 1 of 4 clients (b, c and 1 more paused)"),
        ({}, ("online", "lost", "draining"), ""),
        ({}, ("paused", "paused"), ""),
        ({"state": "paused"}, ("online", "paused"), ""),
        ({"algorithm": "dqn"}, ("online", "paused"), ""),
    ],
)
def test_rounds_without_those_who_are_paused(
    changes: dict[str, str], states: tuple[ClientState, ...], words: str
) -> None:
    clients = [client(name, state) for name, state in zip("abcd", states, strict=False)]
    assert round_words(RUNNING.model_copy(update=changes), clients) == words


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (20, "Mean of the last 20 episodes"),
        (1, "Return of the last episode"),
        (0, "Mean of the last episodes (stop.window)"),
    ],
)
def test_the_mean_return_says_what_it_is_over(window: int, words: str) -> None:
    assert window_words(RUNNING.model_copy(update={"goal_window": window})) == words


def test_where_evaluations_decide_that_is_said() -> None:
    known = {"goal_judged_by": "evaluation", "goal_return": 495.0, "mean_return": 35.0}
    run = RUNNING.model_copy(update=known)
    judged, training, *_ = figures(run)
    assert (judged.caption, judged.value) == ("Evaluation", "— of 495")
    assert "No evaluation yet" in judged.tip
    assert (training.caption, training.value) == ("Mean return", "35.0")
    assert "Evaluations decide" in training.tip
    evaluated = run.model_copy(update={"evaluation_return": 355.96})
    judged, training, *_ = figures(evaluated)
    assert (judged.value, training.value) == ("356.0 of 495", "35.0")
    assert "newest evaluation" in judged.tip
    # What reached the goal is told as the mean return before the run is said to have ended.
    judged, after, *_ = figures(
        run.model_copy(update={"state": "saving", "mean_return": 497.0, "evaluation_return": 497.0})
    )
    assert (judged.value, judged.tone, after.name) == ("497.0 of 495", Tone.GOOD, "steps")
    reached = {"state": "finished", "reached": "mean_return", "mean_return": 497.0}
    solved = evaluated.model_copy(update=reached)
    assert said(solved)["evaluation"] == "497.0 of 495"
    assert "return" not in said(solved), "what training made is not known any more"
    ended = end_words(solved)
    assert ended is not None
    assert ended.detail.startswith("Mean of an evaluation: ")


def test_boxes_are_put_side_by_side_while_there_is_room() -> None:
    assert in_lines([40, 40, 40], 140, 10) == [[0, 1, 2]]
    assert in_lines([40, 40, 40], 139, 10) == [[0, 1], [2]]
    assert in_lines([200, 40], 100, 10) == [[0], [1]]
    assert in_lines([], 100, 10) == []
