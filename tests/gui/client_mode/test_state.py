import math
from typing import Any

import pytest

from soulsgui.gui import text
from soulsgui.gui.client_mode.state import (
    checks,
    client_words,
    how_to_update,
    lack_words,
    pause_refusals,
    server_words,
    trial_words,
    trip_words,
    update_title,
)
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.wire.control import RunStatus, ServerStatus, ServerTest, Status
from soulsgui.wire.versions import MissingRequirement
from tests import states
from tests.gui.shell.test_pure import OLD_HERE, OLD_THERE, OWN

NOW = 1_790_000_000.0
LIVE = Connection(ConnectionState.CONNECTED, "this computer")


def _status(
    service: str = "running", state: str = "online", run: str = "run-1", tried: str = "", **rest: Any
) -> Status:

    def taken(*names: str) -> dict[str, Any]:
        return {name: rest.pop(name) for name in names if name in rest}

    of_service = taken("outcome", "failures", "restart_in_s")
    server = {"url": "redis://127.0.0.1:6379", "reachable": True, "changed_at": NOW - 60, "error": tried}
    server |= taken("url", "name", "reachable", "round_trip_s")
    return Status(
        run=RunStatus(id=run),
        services=[states.service("client", service, **of_service)],
        clients=[states.client("c", state, env_id="Toy-v0", **rest)],
        server=ServerStatus.model_validate(server),
    )


AWAY = "Server away since"
HALF_PAST = text.until(NOW + 1800, NOW)


ATELIER = {"name": "atelier", "url": "redis://192.168.1.5:6379"}
NO_ROUTE = "No answer from 192.168.1.5:6379 (no route to host)."
NOT_LET_IN = "client.c is not let in at pc:1: ask for a new one."
TOO_OLD = {"checks": {"configuration": True, "version": False}, "error": "It speaks protocol 9."}


@pytest.mark.parametrize(
    ("connection", "title", "on"),
    [
        (ConnectionState.WELCOME, "Not joined", False),
        (ConnectionState.SHUT_DOWN, "Not joined", False),
        (ConnectionState.RUNNER_GONE, "Not joined", False),
        (ConnectionState.STARTING, "Getting ready …", False),
        (ConnectionState.CONNECTING, "Getting ready …", False),
        (ConnectionState.START_FAILED, "The runner could not be started", False),
        (ConnectionState.RECONNECTING, "Connection to this computer lost, trying again …", True),
        (ConnectionState.WRONG_TOKEN, "this computer does not accept this window's token", False),
        (ConnectionState.NOT_ALLOWED, "Not allowed to control this computer", False),
        (ConnectionState.TOO_OLD, "This window is too old for this computer", False),
        (ConnectionState.TOO_NEW, "this computer is too old for this window", False),
    ],
)
def test_without_a_live_runner(connection: ConnectionState, title: str, on: bool) -> None:
    words = client_words(Connection(connection, "this computer"), _status(), NOW)
    assert (words.look.word, words.on, words.wish) == (title, on, "")
    assert pause_refusals(words).now
    assert ("has stopped" in words.detail) is (connection is ConnectionState.RUNNER_GONE)
    if "Getting ready" in title:
        words = client_words(Connection(connection, "this computer"), _status(), NOW, on_wanted=True)
        assert (words.look.word, words.on) == ("Connecting …", True), "it comes up to play"


@pytest.mark.parametrize(
    ("status", "title", "detail"),
    [
        (_status("stopped"), "Not joined", "switch on"),
        (_status("stopped", outcome="ended as asked"), "Not joined", "switch on"),
        (_status("stopped", outcome="exit 0 after 3 s: asked it to stop"), "Not joined", "asked it to"),
        (_status("stopped", **ATELIER), "Not joined", "Switch on, and this computer plays for atelier."),
        (_status("starting"), "Connecting …", ""),
        (_status("starting", reachable=False), AWAY, "keeps trying"),
        (_status("starting", reachable=False, tried=NO_ROUTE), AWAY, f"{NO_ROUTE} This computer keeps"),
        (_status("starting", wish="pause"), "Paused by you", ""),
        (_status("stopping"), "Stopping …", ""),
        (_status("backoff", restart_in_s=8.0, outcome="exit 1"), "Trying again in 8 s", "exit 1"),
        (
            _status("backoff", restart_in_s=8.0, outcome="exit 1", error="name in use"),
            "Trying",
            "name in use",
        ),
        (_status("backoff", wish="pause"), "Paused by you", ""),
        (_status("failed", failures=5, outcome="exit 1"), "Stopped after 5 failures", "exit 1"),
        (_status("failed", failures=5, error="no such environment"), "Stopped after 5", "no such env"),
        (_status(state="joining"), "Connecting …", ""),
        (_status(state="waiting", run=""), "Waiting for a run", "It plays as soon as one is started on"),
        (_status(state="waiting"), "Waiting for the server", "No round"),
        (_status(episodes=96), "Playing, episode 97", "Toy-v0"),
        (_status(state="draining", wish="pause_after_episode"), "Finishing episode …", "Pauses after it."),
        (_status(state="draining"), "Finishing episode …", "Stops after it."),
        (_status(state="paused"), "Paused by the server", ""),
        (_status(state="paused", wish="pause_after_episode"), "Paused by you", ""),
        (_status(state="paused", wish="pause"), "Paused by you", ""),
        (_status(wish="pause"), "Paused by you", ""),
        (_status(wish="pause", paused_until=NOW + 1800), f"Paused by you until {HALF_PAST}", ""),
        (_status(state="paused", wish="pause", reachable=False), "Paused by you", AWAY),
        (_status(state="paused", held="full_screen"), "Paused: full-screen program", "when that is over."),
        (_status(state="paused", held="busy"), "Paused: somebody is at the computer", "by itself"),
        (_status("starting", held="hours"), "Paused: outside the hours", "by itself"),
        (
            _status(state="paused", held="hours", held_until=NOW + 1800),
            "Paused: outside the hours",
            f"It continues by itself at {HALF_PAST}.",
        ),
        (_status(state="paused", held="hours", wish="pause"), "Paused by you", ""),
        (_status(state="quarantined", held="hours", error="60 refused"), "Cut off", "60 refused"),
        (_status(reachable=False), AWAY, "keeps trying"),
        (_status(reachable=False, buffered=2_000_000), AWAY, "2.00 MB of play wait for it."),
        (_status(state="waiting", reachable=False), AWAY, ""),
        (_status(state="quarantined", error="60 refused segments"), "Cut off", "60 refused segments"),
        (_status(state="refused", error="other spaces"), "Cut off", "other spaces"),
        (_status(state="late", age_s=9.0), "The game does not answer", "9 s"),
        (_status(state="lost", age_s=90.0), "The game does not answer", "1 min"),
        *(
            (_status(service, "revoked", error=NOT_LET_IN, reachable=False), "Revoked", NOT_LET_IN)
            for service in ("running", "starting", "backoff")
        ),
        *(
            (_status(service, **TOO_OLD), "Update needed", "It speaks protocol 9. Update SoulsGUI")
            for service in ("running", "backoff", "failed")
        ),
    ],
)
def test_states_of_the_client(status: Status, title: str, detail: str) -> None:
    words = client_words(LIVE, status, NOW)
    assert title in words.look.word
    assert detail in words.detail
    assert words.look.icon.startswith("state-")
    assert words.on is (status.services[0].state not in ("stopped", "failed", "stopping"))


def test_a_client_waits_for_a_run_when_the_one_it_played_for_has_ended() -> None:
    assert client_words(LIVE, _status(state="waiting"), NOW, run_ended=True).look.word == "Waiting for a run"


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        (_status(), {"now", "for_a_time", "later"}),
        (_status(wish="pause_after_episode"), {"now", "for_a_time", "resume"}),
        (_status(wish="pause"), {"for_a_time", "resume"}),
        (_status(wish="pause", paused_until=NOW + 1800), {"now", "for_a_time", "resume"}),
        (_status("stopped", wish="pause"), set()),
        (_status("failed", wish="pause"), set()),
    ],
)
def test_what_the_owner_can_do_next(status: Status, allowed: set[str]) -> None:
    refusals = pause_refusals(client_words(LIVE, status, NOW))._asdict()
    assert {name for name, why in refusals.items() if not why} == allowed


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (_status(), "this computer, 127.0.0.1:6379"),
        (Status(), "this computer, not reached"),
        (_status(**ATELIER), "atelier, 192.168.1.5:6379"),
        (_status(**ATELIER | {"url": ""}), "atelier"),
        (_status(**ATELIER, round_trip_s=0.02), "atelier, 192.168.1.5:6379, answers in 20 ms"),
        (_status(**ATELIER, round_trip_s=0.02, reachable=False), "atelier, 192.168.1.5:6379, not reached"),
    ],
)
def test_the_server_is_named_with_its_address_and_round_trip(status: Status, words: str) -> None:
    look, where = server_words(status)
    assert where == words
    assert look.icon == ("state-good" if status.server.reachable else "state-lost")


def test_checks_say_what_is_well_what_is_not_and_what_is_not_known() -> None:
    assert len({check.look.word for check in checks(None)}) == 4
    found = checks(_status(checks={"configuration": True, "version": False}).clients[0])
    assert [check.look.icon for check in found] == ["state-good", "state-bad", "state-idle", "state-idle"]
    assert [check.look.word for check in found][:2] == ["Configuration received", "Version does not fit"]


def test_a_client_without_a_network_of_its_own_has_none_to_compare() -> None:
    shown = checks(_status(remote=True).clients[0])
    assert [check.name for check in shown] == ["configuration", "version", "environment"]


MISSING = MissingRequirement(what="pygame", has="", needs="2.5")


def test_a_round_trip_is_told_in_milliseconds_or_seconds() -> None:
    said = {0.0004: "under 1 ms", 0.0034: "3 ms", 1.2: "1,200 ms", 9.9996: "10.0 s", 12.0: "12.0 s"}
    assert {seconds: trip_words(seconds) for seconds in said} == said
    assert [trip_words(seconds) for seconds in (math.inf, math.nan)] == 2 * ["— s"]


ANSWERS = {"address": "pc:1", "round_trip_s": 0.002}


@pytest.mark.parametrize(
    ("found", "level", "what", "why"),
    [
        (
            ANSWERS | {"env_id": "Toy-v0"},
            "success",
            "atelier answers at pc:1 in 2 ms and lets this computer in.",
            "It trains Toy-v0; the versions fit.",
        ),
        (ANSWERS, "success", "answers at pc:1", "not told yet"),
        ({"error": "No answer from pc:1 (connection refused)."}, "warning", "is not found", "refused"),
        ({"error": "client.c is not let in", "shut_out": True}, "error", "does not let", "a new one and"),
        (ANSWERS | {"lacks": [OWN]}, "warning", "answers at pc:1", "computer has 0.1. Update SoulsGUI"),
    ],
)
def test_what_a_test_found(found: dict[str, Any], level: str, what: str, why: str) -> None:
    told = trial_words(ServerTest.model_validate(found), "atelier")
    assert told[0] == level
    assert what in told[1]
    assert why in told[2]


@pytest.mark.parametrize(
    ("lacks", "title", "needs", "remedy"),
    [
        ([OWN], "Update needed", "soulsgui 0.3 or newer, this computer has 0.1", "Update SoulsGUI on this"),
        ([MISSING], "Update needed", "pygame 2.5 or newer, which is missing", "Update it here; it then"),
        ([OLD_HERE], "Update needed", "protocol 2, this computer 1", "Update SoulsGUI on this"),
        ([OLD_THERE], "Update of the server needed", "protocol 1, this computer 2", "its owner to update"),
        ([OLD_THERE, MISSING], "Update needed", "computer 2. It needs pygame 2.5", "Update SoulsGUI on this"),
    ],
)
def test_the_older_side_is_to_be_updated(
    lacks: list[MissingRequirement], title: str, needs: str, remedy: str
) -> None:
    assert update_title(lacks) == title
    assert needs in lack_words(lacks)
    assert remedy in how_to_update(lacks)
