"""Invitations: the same comes out of link, text and file; what is none of them is said in words."""

import base64
import json
import stat
import sys
import traceback
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulsgui.errors import UsageError
from soulsgui.wire.connection import Address
from soulsgui.wire.invitation import (
    FORMAT,
    Invitation,
    invitation_file_name,
    is_link,
    read_invitation,
    read_place,
)

SECRET = "Zm9yLXRlc3RzLW9ubHktMzItYnl0ZXMtb2YtaXQ"


def invitation(**fields: Any) -> Invitation:
    values: dict[str, Any] = {
        "server_id": "0123456789abcdef",
        "server_name": "atelier",
        "client": "gamer-01",
        "addresses": [("192.168.1.5", 6379), ("fd00::5", 6379), ("atelier", 6379)],
        "secret": SECRET,
        "prefix": "souls:",
        "created": 1_700_000_000.5,
        "pin": "5e" * 32,
    }
    return Invitation.model_validate(values | fields)


def test_link_text_and_file_hold_the_same(tmp_path: Path) -> None:
    made = invitation()
    path = tmp_path / invitation_file_name(made.client)
    made.save(path)
    assert path.name == "gamer-01.soulsgui"
    assert [read_invitation(text) for text in (made.link, made.file_text, str(path))] == [made] * 3
    assert made.link.startswith("soulsgui://join/")
    assert "=" not in made.link
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_address_of_it_has_everything_to_be_let_in() -> None:
    made = invitation()
    assert made.address("atelier", 6379) == Address(
        "atelier", 6379, SECRET, "souls:", "client.gamer-01", "5e" * 32
    )
    assert made.places == "192.168.1.5:6379, [fd00::5]:6379, atelier:6379"
    assert not made.for_this_machine_only
    assert invitation(addresses=[("127.0.0.1", 1), ("::1", 1)]).for_this_machine_only


def test_the_secret_is_in_no_repr_and_no_error() -> None:
    made = invitation()
    assert SECRET not in repr(made)
    assert SECRET not in str(made)
    fields = json.loads(made.file_text) | {"prefix": "no colon"}
    for text in (json.dumps(fields), json.dumps(fields)[:-5], made.link[:-1]):
        with pytest.raises(UsageError) as caught:
            Invitation.parse(text)
        assert SECRET[:8] not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "around", ["{}", "  {}\n", "<{}>", '"{}"', "'{}'", "{}/", "{}="], ids=lambda text: repr(text)
)
def test_a_link_is_understood_as_it_comes_out_of_letters(around: str) -> None:
    made = invitation()
    half = len(made.link) // 2
    broken = f"{made.link[:half]}\r\n  {made.link[half:]}"
    for link in (made.link, broken, made.link.replace("soulsgui://join", "SoulsGUI://JOIN")):
        assert is_link(around.format(link))
        assert read_invitation(around.format(link)) == made


@given(data=st.data())
def test_a_link_that_was_cut_off_or_mistyped_is_damaged_whatever_is_left(data: st.DataObject) -> None:
    link = invitation().link
    head = len("soulsgui://join/")
    end = data.draw(st.integers(head, len(link) - 1))
    with pytest.raises(UsageError, match="damaged or cut off"):
        Invitation.parse(link[:end])
    place = data.draw(st.integers(head, len(link) - 2))
    other = "A" if link[place] != "A" else "B"
    with pytest.raises(UsageError, match="damaged or cut off"):
        Invitation.parse(f"{link[:place]}{other}{link[place + 1 :]}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("soulsgui://watch/abc", "begin with soulsgui://join/"),
        ("soulsgui://join/a b!", "begin with soulsgui://join/"),
        ("soulsgui:", "begin with soulsgui://join/"),
        ("{", "The invitation is damaged or cut off"),
        ("hello", "is not an invitation of SoulsGUI"),
        ("[1, 2]", "is not an invitation of SoulsGUI"),
        ('{"name": "another program"}', "is not an invitation of SoulsGUI"),
        ("[" * 100_000, "is not an invitation of SoulsGUI"),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_invitation_is_said(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        Invitation.parse(text)
    assert "again" in caught.value.remedy


WRONG: dict[str, list[Any]] = {
    "client": ["two words", "../up"],
    "server_id": ["../../etc/x", ""],
    "addresses": [[], [["pc", 0]], [["pc", 65_536]], [["pc /x", 1]]],
    "secret": ["", "has a space in the middle"],
    "prefix": ["all*:"],
    "created": ["yesterday"],
    "version": ["1.5"],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_field_that_can_not_be_is_named(name: str) -> None:
    for value in WRONG[name]:
        text = json.dumps(json.loads(invitation().file_text) | {name: value})
        with pytest.raises(UsageError, match=f"is damaged: wrong {name}"):
            Invitation.parse(text)


def test_a_field_that_is_not_known_yet_is_no_hindrance_but_a_newer_program_asks_for_an_update() -> None:
    fields = json.loads(invitation().file_text)
    assert Invitation.parse(json.dumps(fields | {"tls_pin": "x"})) == invitation()
    newer = json.dumps({"version": FORMAT + 1, "server_id": "x", "keys": {}}).encode()
    link = base64.urlsafe_b64encode(newer + zlib.crc32(newer).to_bytes(4, "big")).decode()
    for text in (newer.decode(), f"soulsgui://join/{link}"):
        with pytest.raises(UsageError, match=f"newer SoulsGUI .format {FORMAT + 1}") as caught:
            Invitation.parse(text)
        assert "Update" in caught.value.remedy


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_is_read_as_windows_programs_write_it(tmp_path: Path, encoding: str) -> None:
    made = invitation()
    path = tmp_path / "a.soulsgui"
    for text in (made.file_text, made.link, made.file_text.replace("\n", "\r\n")):
        path.write_bytes(text.encode(encoding))
        assert Invitation.load(path) == made


def test_a_file_that_is_no_invitation_is_named_with_what_to_do(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.soulsgui", tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(UsageError, match=r"There is no invitation in .*: \w+") as caught:
            read_invitation(str(path))
        assert "soulsgui://join/" in caught.value.remedy
    file = tmp_path / "a"
    file.write_bytes(b"{" * 100_000)
    with pytest.raises(UsageError, match="a is damaged or cut off"):
        read_invitation(str(file))
    for data in (b"\xff\xfea", b"\xff\xff\xff", b"\x00" * 10, b"PK\x03\x04zip"):
        file.write_bytes(data)
        with pytest.raises(UsageError, match="is not an invitation of SoulsGUI"):
            Invitation.load(file)
    with pytest.raises(UsageError):
        read_invitation("nul\0byte")


def test_a_place_is_read_as_people_write_it_or_refused() -> None:
    places = ("192.168.1.7:6380", " pc ", "[fd00::5]:6380", "[fd00::5]", "fd00::5")
    hosts = ("192.168.1.7", "pc", "fd00::5", "fd00::5", "fd00::5")
    found = [read_place(text, 6379) for text in places]
    assert found == list(zip(hosts, (6380, 6379, 6380, 6379, 6379), strict=True))
    for text in ("", ":6379", "pc:", "pc:0", "pc:65536", "pc:x", "a b:1", "[fd00::5", "[]:1"):
        with pytest.raises(UsageError, match="not the address of a server"):
            read_place(text, 6379)


@pytest.mark.parametrize("pin", [{}, {"pin": ""}])
def test_one_of_an_earlier_version_that_proves_no_server_is_refused(
    pin: dict[str, str],
) -> None:
    fields = {name: value for name, value in json.loads(invitation().file_text).items() if name != "pin"}
    with pytest.raises(UsageError, match="nothing in it proves which server answers") as caught:
        Invitation.parse(json.dumps(fields | pin | {"version": 1}))
    assert "--reissue" in caught.value.remedy
