import pytest

from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.gui.models.rules import (
    load_question,
    possible,
    question_before,
    resume_question,
    stop_question,
    why_not_possible,
    why_not_resumed,
    why_refused,
)
from soulsgui.wire.control import ClientStatus, RunStatus, RunSummary, Status
from tests.states import checkpoint, client, service

RUNNING = RunStatus(id="lunar-1", name="lunar", state="running", env_id="LunarLander-v3", algorithm="ppo")
ACTIVE = Status(run=RUNNING)
CONNECTED, NO_REDIS, CUT = (
    Connection(state, "my-server")
    for state in (ConnectionState.CONNECTED, ConnectionState.REDIS_DOWN, ConnectionState.RECONNECTING)
)


def test_the_runner_says_what_it_would_refuse_and_the_window_that_it_is_away() -> None:
    status = Status(allowed={"run.stop": "No run is active.", "run.start": ""})
    for command, connection, reason in (
        ("run.stop", CONNECTED, "No run is active."),
        ("run.start", CONNECTED, ""),
        ("run.stop", NO_REDIS, "No run is active."),
        ("run.start", NO_REDIS, ""),
        ("run.start", CUT, "Not connected to my-server."),
        ("run.stop", CUT, "Not connected to my-server."),
    ):
        assert why_refused(command, connection, status) == reason


def test_only_stopping_the_trainer_of_a_run_is_asked_about() -> None:
    asked = stop_question(service("trainer"), RUNNING.model_copy(update={"checkpoint_age_s": 120.0}))
    assert asked is not None
    assert "Clients will wait" in asked.sentence
    assert "2 min ago" in asked.sentence
    assert stop_question(service("telemetry"), RUNNING) is None


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
        ("forget", client(), True),
        ("revoke", client(state="revoked"), False),
        ("revoke", client(state="left"), True),
    ],
)
def test_an_action_is_possible_or_says_why_not(action: str, status: ClientStatus, able: bool) -> None:
    reason = why_not_possible(action, status, ACTIVE)
    assert (reason == "") is able
    assert able or status.name in reason


def test_what_the_runner_refuses_is_not_possible_in_its_words() -> None:
    known = client(allowed={"clients.pause": "gamer-1 is revoked.", "clients.stop": ""})
    assert why_not_possible("pause", known, ACTIVE) == "gamer-1 is revoked."
    assert why_not_possible("stop", known, ACTIVE) == ""
    with pytest.raises(KeyError):
        why_not_possible("dance", client(), ACTIVE)


def test_a_local_client_is_started_again_for_a_run_once_its_process_has_ended() -> None:
    left = client("client-1", "left", local=True, wish="finish")
    no_run = Status(allowed={"service.local_clients": "No run is active."})
    assert why_not_possible("resume", left, no_run) == "No run is active."
    for state, reason in (("running", "client-1 is about to end."), ("stopped", "")):
        ending = Status(run=RUNNING, services=[service("client-1", state)])
        assert why_not_possible("resume", left, ending) == reason


def test_an_action_takes_those_of_the_chosen_it_is_possible_with() -> None:
    first, second = client("a", "left"), client("b")
    able, reason = possible("pause", [first, second], ACTIVE)
    assert (able, reason) == ([second], "")
    assert possible("pause", [first], ACTIVE)[1].startswith("a is left")
    assert possible("stop", [], ACTIVE) == ([], "Choose a client first.")


def test_revoking_asks_first_and_pausing_does_not() -> None:
    assert question_before("pause", [client()]) is None
    asked = question_before("revoke", [client("gamer-01"), client("gamer-03")])
    assert asked is not None
    assert asked.title == "Revoke gamer-01, gamer-03?"
    assert asked.sentence.startswith("They are cut off at once")


OLD = RunSummary(id="2026-01-01_a", name="old", state="finished", created=1.0, env_steps=3500)
NEW = RunSummary(id="2026-02-01_b", name="new", state="stopped", created=2.0, resumable=True)
AGAIN = RunStatus(id=OLD.id, name="old", state="running", env_steps=9000, checkpoint_age_s=125)


def test_why_a_run_can_not_be_resumed() -> None:
    assert "Choose" in why_not_resumed(None)
    assert why_not_resumed(OLD) == "", "what the window thinks of it does not count"
    assert why_not_resumed(OLD.model_copy(update={"allowed": {"run.resume": "No."}})) == "No."


def test_resuming_asks_only_where_another_run_would_be_stopped() -> None:
    assert resume_question(NEW, RunStatus()) is None
    assert resume_question(NEW, AGAIN.model_copy(update={"state": "finished"})) is None
    question = resume_question(NEW, AGAIN)
    assert question is not None
    assert question.title == "Stop old and resume new?"
    assert "saves before it ends (last checkpoint 2 min ago)" in question.sentence


def test_loading_tells_into_which_run_and_what_is_overwritten() -> None:
    assert why_not_resumed(None, "checkpoint") == "Choose a checkpoint first."
    question = load_question(checkpoint(), OLD, AGAIN)
    assert question.title == "Load this checkpoint into old?"
    assert "old is saved first; its clients stay." in question.sentence
    assert "from update 40 as a new attempt" in question.sentence
    assert "The 8,000 steps after it stay on the curves" in question.sentence, "its newest ones count"
    assert "overwritten" not in load_question(checkpoint(), NEW, AGAIN).sentence
