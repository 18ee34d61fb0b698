import io
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from soulsgui.cli.inviting import take_up
from soulsgui.cli.joined import agree, clock_words, join_text, state_words, until_words
from soulsgui.cli.parser import parse
from soulsgui.config.paths import Folders
from soulsgui.errors import UsageError
from soulsgui.runner.join.servers import SavedInvitations
from soulsgui.wire.control import ClientStatus, OfferedServer, RunStatus, ServerStatus, Status
from soulsgui.wire.messages.owner import Agreement
from soulsgui.wire.messages.server_config import Execution
from tests.states import invitation
from tests.states import service as state_of

END = 1_790_000_000.0
UNTIL = until_words(END)
FAILED = {"state": "failed", "failures": 5, "outcome": "exit code 1"}
ASKS = Execution(env_id="my_game:My-v0", num_envs=2, restart_hook="my_game:start")
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
        (status(state="online", wish="pause"), "paused by you; continue: soulsgui join continue"),
        (status(state="paused"), "paused by the server"),
        (status(state="online", held="full_screen"), "paused while a program fills the screen"),
        (status(state="online", held="hours", held_until=END), f"paused outside the hours you set{UNTIL}"),
        (status(state="draining", wish="pause_after_episode"), "finishing its episode, then it pauses"),
        (status(state="waiting"), "waiting for a run: it plays as soon as one is started on the server"),
        (status(server=ServerStatus(), state="online"), "the server can't be reached; trying again"),
        (status({"state": "stopped"}), "it does not play; start: soulsgui join continue"),
        (status(FAILED), "stopped after 5 failures: exit code 1; try again: soulsgui join continue"),
        (
            status(state="waiting", asks=ASKS),
            "waiting for you: the server wants to run what follows; agree: soulsgui join agree",
        ),
        (status(state="waiting", asks=ASKS, wish="pause"), "paused by you; continue: soulsgui join continue"),
        (status(state="revoked"), "revoked: the server no longer lets it in"),
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


def test_what_is_asked_is_told_whole() -> None:
    told = join_text(status(state="waiting", asks=ASKS)).splitlines()
    assert told[-4:] == [
        "  environment: my_game:My-v0 × 2",
        "  called when it fails: my_game:start",
        "  imported: my_game",
        "  what it may write: Only files in a folder of its own, and devices, such as graphics and sound.",
    ]


def test_what_can_t_be_kept_to_a_folder_is_told() -> None:
    words = "  what it may write: Files, wherever you may write yourself. Only Linux can keep it to a folder."
    for asks in (None, ASKS):
        given = status(state="waiting", asks=asks, unconfined="Only Linux can keep it to a folder.")
        assert words in join_text(given).splitlines()
    assert "may write" not in join_text(status(state="online"))


class Terminal(io.StringIO):
    """Standard input of somebody who sits there."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "typed", "agreed"),
    [
        (["--trust"], None, Agreement(always=True)),
        ([], None, Agreement()),
        ([], "n\n", None),
        ([], "", None),
        ([], "yes\n", Agreement(digests=[ASKS.digest])),
    ],
)
def test_who_joins_is_asked_in_a_terminal_and_else_the_client_waits(
    words: list[str],
    typed: str | None,
    agreed: Agreement | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved, asking = SavedInvitations(Folders(tmp_path, tmp_path)), invitation()
    saved.keep(asking)
    monkeypatch.setattr(sys, "stdin", io.StringIO() if typed is None else Terminal(typed))
    offers = partial(OfferedServer.model_copy, update={"runs": ASKS})
    monkeypatch.setattr("soulsgui.runner.join.servers.examined", lambda blank, *_: offers(blank))
    ask = partial(agree, parse(["join", "x.soulsgui", *words]), saved, asking)
    if agreed is None:
        with pytest.raises(UsageError, match="nothing runs here"):
            ask()
    else:
        ask()
    assert saved.agreement(asking) == (agreed or Agreement())
    told = capsys.readouterr().out
    assert ("environment: my_game:My-v0 × 2" in told) is (typed is not None)
    assert ("what it may write: Only files" in told) is (typed is not None)


def test_a_confined_client_that_starts_over_has_nothing_to_write(tmp_path: Path) -> None:
    folders, asking = Folders(tmp_path, tmp_path), invitation()
    saved, file = SavedInvitations(folders), tmp_path / "x.soulsgui"
    asking.save(file)

    def begin() -> list[int]:
        arguments = parse(["client", str(file), "--trust", "--config-dir", str(tmp_path)])
        assert take_up(arguments) == asking
        agree(arguments, saved, asking)
        return [
            path.stat().st_ino for path in (saved.path_of(asking.server_id), saved.agreement_path(asking))
        ]

    assert begin() == begin()


def test_an_agreement_is_with_one_server_whatever_id_another_one_states(tmp_path: Path) -> None:
    saved, first = SavedInvitations(Folders(tmp_path, tmp_path)), invitation()
    saved.keep(first)
    saved.agree(first, "a", always=True)
    kept = Agreement(always=True, digests=["a"])
    assert saved.agreement(first) == kept
    assert saved.agreement(first.model_copy(update={"secret": "t" * 43})) == kept, "it was invited anew"
    moved = first.model_copy(update={"addresses": (("10.9.9.9", 1),)})
    assert saved.agreement(moved) == kept, "its certificate proves that it is the same server"
    for changed in ({"pin": "1" * 64}, {"server_id": "SERVER-1"}):
        other = first.model_copy(update=changed)
        saved.keep(other)
        assert saved.agreement(other) == Agreement(), "nothing proves that it is the same server"
    saved.agree(first, "", always=False)
    assert saved.agreement(first) == Agreement(digests=["a"])
    saved.forget(first)
    assert saved.agreement(first) == Agreement()
    saved.agreement_path(first).write_text("{")
    assert saved.agreement(first) == Agreement(), "a damaged file agrees to nothing"
