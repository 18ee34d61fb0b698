"""What the dialog of an invitation says."""

import pytest

from soulsgui.gui.colours import Tone
from soulsgui.gui.models.inviting import (
    known_as,
    lan_words,
    next_name,
    reach_look,
    reissue_words,
    wrong_name,
)
from soulsgui.wire.control import InvitationInfo, InvitationList


def invited(name: str, revoked: float | None = None) -> InvitationInfo:
    return InvitationInfo(client=name, invited=1_790_000_000.0, revoked=revoked)


def test_the_next_free_name_is_offered() -> None:
    assert next_name([]) == "gamer-01"
    assert next_name([invited("gamer-01"), invited("gamer-03")]) == "gamer-02"


def test_one_that_was_revoked_is_invited_as_if_never_before() -> None:
    assert known_as("a", [invited("a", revoked=1.0)]) is None
    found = known_as("a", [invited("a")])
    assert found is not None
    assert "ends the older one at once" in reissue_words(found, 1_790_000_100.0)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("", "Give the computer"),
        ("client-3", "this server's own"),
        ("two words", "letters, digits"),
        ("gamer-01", ""),
    ],
)
def test_a_name_is_checked_as_it_is_typed(name: str, wrong: str) -> None:
    assert wrong_name(name).startswith(wrong) or wrong in wrong_name(name)
    assert bool(wrong_name(name)) is bool(wrong)


def test_it_says_from_where_the_server_is_reachable() -> None:
    closed = reach_look(InvitationList(lan=False, addresses=[("127.0.0.1", 6379)], invitations=[]))
    assert (closed.tone, closed.word) == (
        Tone.WARNING,
        "Reachable from this computer alone, at 127.0.0.1:6379",
    )
    places = [("192.168.1.5", 6379), ("pc", 6379)]
    wide = reach_look(InvitationList(lan=True, addresses=places, invitations=[]))
    assert wide.tone is Tone.GOOD
    assert wide.word.endswith("at 192.168.1.5:6379, pc:6379")


def test_opening_the_network_says_what_it_means_and_what_it_needs() -> None:
    assert "Only with redis.tls" in lan_words(saved=False, run_goes_on=True)
    assert "the run is saved and ended first" in lan_words(saved=True, run_goes_on=True)
    assert "no run goes on" in lan_words(saved=True, run_goes_on=False)
