"""The list of the invited: names and hashes in one private file, and what becomes of a damaged one."""

import stat
import sys
from pathlib import Path

import pytest

from soulsgui.cli.inviting import only_here
from soulsgui.errors import UsageError
from soulsgui.runner.access.access_control import user_lines
from soulsgui.runner.access.invitations import Invitations
from soulsgui.runner.refusal import Refused
from soulsgui.wire.access import secret_hash


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clients.json"


def test_a_secret_is_told_once_and_kept_nowhere(path: Path) -> None:
    invitations = Invitations(path, wall_clock=lambda: 5.0)
    secret = invitations.invite("gamer-01", reissue=False)
    assert len(secret) == 43
    assert secret not in path.read_text()
    again = Invitations(path).clients["gamer-01"]
    assert (again.hash, again.invited, again.revoked) == (secret_hash(secret), 5.0, None)
    assert again.may_come
    assert again.hash not in repr(again)
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_who_is_invited_already_needs_a_reissue_which_ends_the_older_secret(path: Path) -> None:
    invitations = Invitations(path)
    first = invitations.invite("a", reissue=False)
    with pytest.raises(Refused, match="already invited") as caught:
        invitations.invite("a", reissue=False)
    assert caught.value.remedy.endswith("soulsgui invite a --reissue")
    assert not Invitations(path).clients["a"].again
    second = invitations.invite("a", reissue=True)
    assert Invitations(path).clients["a"].again
    assert second != first
    assert Invitations(path).clients["a"].hash == secret_hash(second)


def test_neither_what_is_no_name_is_invited_nor_the_servers_own_clients(path: Path) -> None:
    for name in ("two words", "", "a*", "../a", "x" * 65):
        with pytest.raises(UsageError):
            Invitations(path).invite(name, reissue=False)
    for name in ("client-7", "inference-1"):
        with pytest.raises(Refused, match="this server uses"):
            Invitations(path).invite(name, reissue=False)
    assert Invitations(path).invite("client-7b", reissue=False)


def test_a_revoked_client_stays_on_the_list_until_it_is_forgotten(path: Path) -> None:
    invitations = Invitations(path, wall_clock=lambda: 9.0)
    for name in ("a", "b"):
        invitations.invite(name, reissue=False)
    with pytest.raises(Refused, match="could come back"):
        invitations.forget("a")
    for name in ("a", "a", "b"):
        invitations.revoke(name)
    revoked = Invitations(path).clients["a"]
    assert (revoked.hash, revoked.revoked, revoked.may_come) == ("", 9.0, False)
    assert Invitations(path).hashes == {}
    hashed = secret_hash(invitations.invite("b", reissue=False))
    assert Invitations(path).hashes == {"b": hashed}, "who may come again"
    (line,) = user_lines(invitations.hashes, "x:")
    assert line.startswith(f"user client.b on #{hashed} resetkeys ")
    assert "%RW~x:in:b" in line
    for _ in range(2):
        invitations.forget("a")
    assert list(Invitations(path).clients) == ["b"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 1}',
        '{"version": 2, "clients": []}',
        '{"clients": [{"client": "a b", "hash": "", "invited": 1}]}',
        '{"clients": [{"client": "a", "hash": "0x", "invited": 1}]}',
        '{"clients": [{"client": "a", "hash": "", "invited": 1}, {"client": "a", "hash": "", "invited": 2}]}',
        "\0\xff",
    ],
)
def test_a_damaged_list_is_set_aside_whole_and_said(path: Path, text: str) -> None:
    path.write_text(text, encoding="latin-1")
    invitations = Invitations(path, wall_clock=lambda: 7.0)
    assert invitations.clients == {}
    aside = path.with_name("clients.damaged-7.json")
    assert aside.read_text(encoding="latin-1") == text
    assert str(path) in invitations.damage
    assert aside.name in invitations.damage
    invitations.invite("a", reissue=False)
    assert Invitations(path).damage == ""


def test_a_change_that_can_not_be_written_is_none(path: Path) -> None:
    invitations = Invitations(path)
    invitations.invite("a", reissue=False)
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match=str(path.name)):
        invitations.revoke("a")
    assert invitations.clients["a"].may_come


@pytest.mark.parametrize(
    ("listens", "said", "steps"),
    [
        (False, "the server listens on loopback only", ["server set --lan on", "--reissue"]),
        (True, "this computer has no private address now", ["--reissue"]),
    ],
)
def test_what_is_set_is_not_asked_for_again(listens: bool, said: str, steps: list[str]) -> None:
    first, *others = only_here("a", listens).splitlines()
    assert first.startswith(f"Only this computer can use it: {said}")
    assert [step in line for step, line in zip(steps, others, strict=True)] == [True] * len(steps)
