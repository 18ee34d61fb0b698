from typing import Any

from soulsgui.gui.colours import Tone
from soulsgui.gui.models.rules import window_words
from soulsgui.gui.overview.figures import Figure, figures, round_words, run_words, state_words
from soulsgui.wire.control import RunStatus
from soulsgui.wire.messages.node import STALENESS_BOUNDS, Staleness
from tests.states import RUN, client

RUNNING = RunStatus(id=RUN, name="lunar", state="running", env_id="LunarLander-v3", algorithm="ppo")


def run(**changes: Any) -> RunStatus:
    return RUNNING.model_copy(update=changes)


def said(shown: RunStatus) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures(shown)}


def test_key_figures_are_said_as_people_read_them() -> None:
    known: dict[str, Any] = {"mean_return": 312.44, "goal_return": 475.0, "best_mean_return": 494.9}
    known |= {"env_steps": 123_456, "goal_env_steps": 500_000, "env_steps_per_s": 1180.4, "updates": 4100}
    known |= {"policy_lag": 0.75, "seconds": 185.0, "checkpoint_age_s": 130.0}
    found = said(run(**known))
    assert {name: figure.value for name, figure in found.items()} == {
        "return": "312.4 of 475",
        "steps": "123 k of 500 k",
        "rate": "1,180",
        "updates": "4,100",
        "lag": "0.750",
        "time": "3 min 5 s",
        "checkpoint": "2 min ago",
    }
    branch = said(run(**known | {"begun_env_steps": 100_000}))["steps"]
    assert branch.value == "100 k + 23.5 k of 500 k"
    assert branch.tip == "Steps of the checkpoint that it began from, and its own, which its time is of"
    assert "The highest mean during the run, that of its best model: 494.9" in found["return"].tip
    accepted = [10, 0, 0, 0, 0, 0, 1, *[0] * (len(STALENESS_BOUNDS) - 6)]
    aged = said(run(staleness=Staleness(accepted=accepted)))["lag"].tip
    assert aged == f"{found['lag'].tip}:\nhalf of the samples 0 updates old, 95 % at most 12"


def test_what_was_lost_is_shown_only_when_something_was() -> None:
    found = said(run(rejected={"late": 3, "shape": 9}, lost_chunks=2))
    rejected = found["rejected"]
    assert (rejected.value, rejected.tip, rejected.tone) == ("12", "9 shape, 3 late", Tone.WARNING)
    assert found["lost"].value == "2"
    assert said(run(rejected={"not_admitted": 2}))["rejected"].tone is Tone.TEXT, "on their way"
    assert not {"rejected", "lost"} & said(RUNNING).keys()
    assert window_words(run(goal_window=1)) == "Return of the last episode"
    assert window_words(run(goal_window=0)) == "Mean of the last episodes (stop.window)"


def test_a_run_is_named_with_what_it_trains_and_waits_for() -> None:
    again = run(attempt=2, state="waiting", detail="1 of 2 clients are ready")
    assert run_words(again) == "lunar · LunarLander-v3 · PPO · attempt 2"
    family = run(algorithm="dqn", agent="qr_dqn", learns_on="4 GPUs")
    assert run_words(family) == "lunar · LunarLander-v3 · QR-DQN on 4 GPUs"
    assert state_words(again) == "Waiting: 1 of 2 clients are ready"
    saving = run(state="saving", detail="saving and ending its services")
    assert state_words(saving) == "Saving and ending its services"


ROUNDS: tuple[tuple[dict[str, str], str, str], ...] = (
    ({}, "online late paused", "rounds of 2 of 3 clients (c paused)"),
    ({}, "online paused paused paused", "rounds of 1 of 4 clients (3 paused)"),
    ({}, "online lost draining", ""),
    ({}, "paused paused", ""),
    ({"state": "paused"}, "online paused", ""),
    ({"algorithm": "dqn"}, "online paused", ""),
)


def test_rounds_without_who_are_paused() -> None:
    for changes, states, words in ROUNDS:
        clients = [client(name, state) for name, state in zip("abcd", states.split(), strict=False)]
        assert round_words(run(**changes), [*clients, client("inference-1")]) == words


def test_where_evaluations_decide_that_is_said() -> None:
    judging = run(goal_judged_by="evaluation", goal_return=495.0, mean_return=35.0)
    judged, training, *_ = figures(judging)
    assert (judged.caption, judged.value) == ("Evaluation", "— of 495")
    assert "No evaluation yet" in judged.tip
    assert (training.caption, training.value) == ("Mean return", "35.0")
    assert "Evaluations decide" in training.tip
    evaluated = judging.model_copy(update={"evaluation_return": 355.96})
    judged, training, *_ = figures(evaluated)
    assert (judged.value, training.value) == ("356.0 of 495", "35.0")
    assert "newest evaluation" in judged.tip
    # What reached the goal is told as the mean return before the run is said to have ended.
    reached = {"state": "saving", "mean_return": 497.0, "evaluation_return": 497.0}
    judged, after, *_ = figures(judging.model_copy(update=reached))
    assert (judged.value, judged.tone, after.name) == ("497.0 of 495", Tone.GOOD, "steps")
    reached = {"state": "finished", "reached": "mean_return", "mean_return": 497.0}
    solved = said(evaluated.model_copy(update=reached))
    assert solved["evaluation"].value == "497.0 of 495"
    assert "return" not in solved, "what training made is not known any more"
