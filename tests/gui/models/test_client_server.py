"""The server of client mode in words: where it is, what a test of it found, what it needs."""

from typing import Any

import pytest

from soulsgui.gui.models.client_server import (
    how_to_update,
    lack_words,
    server_words,
    trial_words,
    trip_words,
    update_title,
)
from soulsgui.wire.control import ServerStatus, ServerTest, Status
from soulsgui.wire.versions import PROTOCOL_NAME, Lack

OWN = Lack(what="soulsgui", has="0.1", needs="0.3")
MISSING = Lack(what="pygame", has="", needs="2.5")
OLD_HERE = Lack(what=PROTOCOL_NAME, has="1", needs="2")
OLD_THERE = Lack(what=PROTOCOL_NAME, has="2", needs="1")


@pytest.mark.parametrize(("seconds", "words"), [(0.0004, "under 1 ms"), (0.0034, "3 ms"), (1.2, "1,200 ms")])
def test_a_round_trip_is_told_in_milliseconds(seconds: float, words: str) -> None:
    assert trip_words(seconds) == words


def test_a_server_that_answers_is_said_with_its_round_trip_and_one_that_does_not_without() -> None:
    server = ServerStatus(url="redis://10.0.0.5:6379", name="atelier", reachable=True, round_trip_s=0.02)
    assert server_words(Status(server=server))[1] == "atelier, 10.0.0.5:6379, answers in 20 ms"
    lost = server.model_copy(update={"reachable": False})
    assert server_words(Status(server=lost))[1] == "atelier, 10.0.0.5:6379, not reached"


@pytest.mark.parametrize(
    ("found", "level", "what", "why"),
    [
        (
            {"address": "pc:1", "round_trip_s": 0.002, "env_id": "Toy-v0"},
            "success",
            "atelier answers at pc:1 in 2 ms and lets this computer in.",
            "It trains Toy-v0; the versions fit.",
        ),
        ({"address": "pc:1", "round_trip_s": 0.002}, "success", "answers at pc:1", "not told yet"),
        ({"error": "No answer from pc:1 (connection refused)."}, "warning", "is not found", "refused"),
        (
            {"error": "client.c is not let in", "shut_out": True},
            "error",
            "does not let",
            "a new one and paste",
        ),
        (
            {"address": "pc:1", "round_trip_s": 0.002, "lacks": [OWN]},
            "warning",
            "answers at pc:1",
            "It needs soulsgui 0.3 or newer, this computer has 0.1. Update SoulsGUI",
        ),
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
    ],
)
def test_the_older_side_is_to_be_updated(lacks: list[Lack], title: str, needs: str, remedy: str) -> None:
    assert update_title(lacks) == title
    assert needs in lack_words(lacks)
    assert remedy in how_to_update(lacks)
