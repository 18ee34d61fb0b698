import socket

import pytest

from soulsgui.errors import UsageError
from soulsgui.wire.keys import EntryId, Keys, check_client_name, is_client_name, name_of_machine

NAMES = {"gamer-01": "gamer-01", "Gamer_01.fritz.box": "Gamer_01", "BÜRO-PC": "BURO-PC", "_x": "x"}
NAMES |= {"Anna's PC": "AnnasPC", "電腦": "pc", "": "pc", "a" * 70: "a" * 64}


@pytest.mark.parametrize(("host", "name"), NAMES.items())
def test_a_client_is_called_as_its_machine_as_far_as_it_may(
    monkeypatch: pytest.MonkeyPatch, host: str, name: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert name_of_machine() == name
    assert is_client_name(name)


@pytest.mark.parametrize("name", ["CON", "nul", "Com1", "lpt9.x", "aux.log"])
def test_names_of_devices_are_no_names_of_clients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_client_name(name)
    with pytest.raises(UsageError, match="device on Windows"):
        check_client_name(name)
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    assert is_client_name(name_of_machine())


@pytest.mark.parametrize("name", ["console", "com", "com10", "my.con"])
def test_names_that_only_look_like_devices_are_names(name: str) -> None:
    assert check_client_name(name) == name


def test_clients_are_found_by_their_beats_and_by_what_they_send() -> None:
    keys = Keys("t:")
    names = (keys.beat("a"), keys.chunks("b"), "t:infer:req:c")
    assert [keys.client_of_beat(name) for name in names] == ["a", "", ""]
    assert [keys.client_of_chunks(name) for name in names] == ["", "b", ""]


LARGEST = 2**64 - 1


@pytest.mark.parametrize(("text", "entry"), [("17-3", (17, 3)), (b"17-3", (17, 3)), ("17", (17, 0))])
def test_ids_are_read(text: str | bytes, entry: tuple[int, int]) -> None:
    assert EntryId.parse(text) == entry
    assert str(EntryId.parse(text)) == f"{entry[0]}-{entry[1]}"


def test_ids_are_ordered_as_numbers_and_have_a_next_one() -> None:
    assert EntryId.parse("9-10") < EntryId.parse("10-9") < EntryId.parse("10-10")
    assert EntryId(5, 7).next == (5, 8)
    assert EntryId(5, LARGEST).next == (6, 0)
    assert EntryId(LARGEST, LARGEST).next == (LARGEST, LARGEST)
    for text in ("", "-", "a-1", "1-b", "1-2-3"):
        with pytest.raises(ValueError, match="invalid literal"):
            EntryId.parse(text)
