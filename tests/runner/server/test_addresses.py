"""Which addresses of a machine are private, and which of them others are told."""

import socket
from collections import namedtuple

import psutil
import pytest

from soulsgui.runner.server.addresses import MOST, private_addresses, told_addresses

Entry = namedtuple("Entry", ["family", "address"])
HARDWARE = 17


def v4(address: str) -> Entry:
    return Entry(socket.AF_INET, address)


def v6(address: str) -> Entry:
    return Entry(socket.AF_INET6, address)


INTERFACES = {
    "lo": [v4("127.0.0.1"), v4("127.0.1.1"), v6("::1")],
    "eth0": [
        v6("fe80::1%eth0"),
        v6("fd12::5"),
        v6("2a02:1234::5"),
        v4("192.168.1.5"),
        Entry(HARDWARE, "02:fc:00:00:00:01"),
    ],
    "ppp0": [v4("8.8.8.8"), v4("100.64.0.9")],
    "vpn": [v4("10.8.0.2"), v4("172.20.0.1"), v4("172.32.0.1")],
    "odd": [v4("169.254.7.7"), v4("0.0.0.0"), v6("::"), v4("no address")],
}


OUTWARD = ["192.168.1.5", "2a02:1234::5"]
PRIVATE = ("192.168.1.5", "10.8.0.2", "172.20.0.1", "fd12::5", "169.254.7.7")


def test_private_addresses_alone_are_found_the_likeliest_first_unless_others_are_wanted() -> None:
    assert private_addresses(INTERFACES, OUTWARD) == PRIVATE
    found = private_addresses(INTERFACES, OUTWARD, public=True)
    assert set(found) == {*PRIVATE, "2a02:1234::5", "8.8.8.8", "100.64.0.9", "172.32.0.1"}
    assert found[:2] == ("192.168.1.5", "2a02:1234::5")
    bridges = [v4(f"172.20.{number}.1") for number in range(40)]
    found = private_addresses({"bridges": bridges, "wlan0": [v4("192.168.1.5")]}, outward=["192.168.1.5"])
    assert len(found) == MOST
    assert found[:2] == ("192.168.1.5", "172.20.0.1")
    assert private_addresses({"a": [v4("10.0.0.1")], "b": [v4("10.0.0.1")]}) == ("10.0.0.1",)


def test_unless_told_it_asks_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: INTERFACES)
    monkeypatch.setattr(socket.socket, "connect", lambda *_: None)
    monkeypatch.setattr(socket.socket, "getsockname", lambda _: ("10.8.0.2", 0))
    assert private_addresses()[:2] == ("10.8.0.2", "172.20.0.1")


def test_others_are_told_what_means_something_to_them() -> None:
    assert told_addresses(("10.0.0.1", "fd12::5"), "atelier") == ("10.0.0.1", "fd12::5", "atelier")
    for name in ("localhost", "localhost.localdomain", "", "Zoë's PC"):
        assert told_addresses(("10.0.0.1",), name) == ("10.0.0.1",)
