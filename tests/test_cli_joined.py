from typing import Any

import pytest

from soulsgui.cli.joined import clock_words, join_text, state_words, until_words
from soulsgui.wire.control import ClientStatus, RunStatus, ServerStatus, Status
from tests.states import service as state_of

END = 1_790_000_000.0
UNTIL = until_words(END)
FAILED = {"state": "failed", "failures": 5, "outcome": "exit code 1"}
SERVER = ServerStatus(name="den", url="redis://10.0.0.2:6379", reachable=True, round_trip_s=0.012)


def status(service: dict[str, Any] | None = None, server: ServerStatus = SERVER, **client: Any) -> Status:
    return Status(
        run=RunStatus(),
        services=[state_of("client", **service or {})],
        clients=[ClientStatus(id="gamer", name="gamer", **client)],
        server=server,
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (status(state="online", episodes=96), "playing, episode 97; pause it: soulsgui join pause"),
        (status(state="online", wish="pause"), "paused by you; go on: soulsgui join continue"),
        (status(state="paused"), "paused by the server"),
        (status(state="online", held="full_screen"), "paused while a program fills the screen"),
        (status(state="online", held="hours", held_until=END), f"paused outside the hours you set{UNTIL}"),
        (status(state="draining", wish="pause_after_episode"), "finishing its episode, then it pauses"),
        (status(state="waiting"), "waiting for a run: it plays as soon as one is started on the server"),
        (status(server=ServerStatus(), state="online"), "the server is away; it is tried again all the time"),
        (status({"state": "stopped"}), "it does not play; begin: soulsgui join continue"),
        (status(FAILED), "stopped after 5 failures: exit code 1; try again: soulsgui join continue"),
        (status(state="revoked"), "revoked: the server does not let it in any more"),
    ],
)
def test_each_situation_has_its_words(given: Status, words: str) -> None:
    assert state_words(given) == words


def test_what_began_is_not_in_the_future_and_what_ends_does_not_end_before() -> None:
    noon = 1_790_000_000.0 // 3600 * 3600
    assert clock_words(noon + 59.0, noon) == clock_words(noon, noon)
    assert until_words(noon + 1.0) == until_words(noon + 60.0) != until_words(noon)


def test_a_join_is_told_in_a_few_lines() -> None:
    game = {"env_id": "CartPole-v1", "num_envs": 4, "env_steps": 12_000, "episodes": 96}
    told = join_text(status(state="online", error="oh\x1b[2J", **game))
    *lines, error = told.splitlines()
    assert lines == [
        "gamer helps den (redis://10.0.0.2:6379, 12 ms away)",
        "  playing, episode 97; pause it: soulsgui join pause",
        "  CartPole-v1 × 4 · 12,000 steps · 96 episodes",
    ]
    assert error.startswith("  oh")
    assert "\x1b" not in error, "what others wrote can't steer the terminal"
