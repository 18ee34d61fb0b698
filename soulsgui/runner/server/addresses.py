"""The addresses of this machine at which other computers reach it, and which of them are told to them."""

import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import psutil

from soulsgui.wire.invitation import is_host

IpAddress = IPv4Address | IPv6Address

MOST = 15  # addresses that are listened on

_SOMEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def private_addresses(
    interfaces: Mapping[str, Sequence[Any]] | None = None,
    outward: Collection[str] | None = None,
    public: bool = False,
) -> tuple[str, ...]:
    """Return this machine's own private addresses, the likeliest to be reached first; at most `MOST`.

    Private is what Python calls so (RFC 1918, unique local, link-local, ranges for tests), but for loopback,
    and for IPv6 addresses of one link: nobody else could be told those. With `public`, others are wanted too.
    What is not given is asked of the system: `interfaces` as `psutil.net_if_addrs` tells them, and the
    addresses this machine has towards the rest of the world (`outward`).
    """
    found = interfaces if interfaces is not None else psutil.net_if_addrs()
    first = outward if outward is not None else _outward()
    addresses = {
        parsed
        for listed in found.values()
        for one in listed
        if one.family in (socket.AF_INET, socket.AF_INET6)
        and (parsed := _parsed(one.address)) is not None
        and _is_of_use(parsed, public)
    }

    def rank(address: IpAddress) -> tuple[bool, bool, bool, int]:
        return str(address) not in first, address.is_link_local, address.version == 6, int(address)

    return tuple(str(address) for address in sorted(addresses, key=rank)[:MOST])


def told_addresses(listened: Iterable[str], host_name: str) -> tuple[str, ...]:
    """Return the addresses for other computers, then the name where they can resolve it."""
    useful = is_host(host_name) and not host_name.lower().startswith("localhost")
    return (*listened, *((host_name,) if useful else ()))


def _outward() -> set[str]:
    """Ask the system from which addresses it would reach somewhere else; nothing is sent."""
    found = set()
    for family, somewhere in _SOMEWHERE:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((somewhere, 9))
            found.add(str(asking.getsockname()[0]))
    return found


def _parsed(address: str) -> IpAddress | None:
    try:
        return ip_address(address)
    except ValueError:
        return None


def _is_of_use(address: IpAddress, public: bool) -> bool:
    if address.is_loopback or address.is_unspecified or not (address.is_private or public):
        return False
    return not (address.version == 6 and address.is_link_local)
