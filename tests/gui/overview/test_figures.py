"""What the overview says of a run: its key figures, and its end."""

import pytest

from soulsgui.gui.colours import Tone
from soulsgui.gui.overview.end import end_words, next_preset
from soulsgui.gui.overview.figures import figures, round_words, run_words, state_words, window_words
from soulsgui.wire.beats import ClientState
from soulsgui.wire.control import (
    ClientStatus,
    Preset,
    RunStatus,
)
from soulsgui.wire.messages.node import STALENESS_BOUNDS, Staleness
from tests.gui.plotting.curves import RUN

RUNNING = RunStatus(id=RUN, name="lunar", state="running", env_id="LunarLander-v3", algorithm="ppo")


def client(name: str = "gamer-1", state: str = "online", **fields: object) -> ClientStatus:
    return ClientStatus.model_validate({"id": name, "name": name, "state": state} | fields)


def said(run: RunStatus) -> dict[str, str]:
    return {figure.name: figure.value for figure in figures(run)}


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
