"""What a client is called that nobody named: as its machine, as far as that is a client's name."""

import socket

import pytest

from soulsgui.wire.keys import is_client_name, name_of_machine


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("gamer-01", "gamer-01"),
        ("Gamer_01.fritz.box", "Gamer_01"),
        ("BÜRO-PC", "BURO-PC"),
        ("_x", "x"),
        ("Anna's PC", "AnnasPC"),
        ("電腦", "pc"),
        ("", "pc"),
        ("a" * 70, "a" * 64),
    ],
)
def test_a_client_is_called_as_its_machine_as_far_as_it_may(
    monkeypatch: pytest.MonkeyPatch, host: str, name: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert name_of_machine() == name
    assert is_client_name(name)
