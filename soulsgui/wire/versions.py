"""Versions of packages: which are here, and which are too old."""

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from itertools import zip_longest
from typing import Any

from soulsgui import __version__
from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.messages.base import Message, Words


def is_older(version: str, wanted: str) -> bool:
    """Whether a version is older than another, by the numbers before any letter: 1.10 is newer than 1.9."""
    for mine, other in zip_longest(_numbers(version), _numbers(wanted), fillvalue=0):
        if mine != other:
            return mine < other
    return False


def _numbers(version: str) -> list[int]:
    release = re.split(r"[A-Za-z+-]", version, maxsplit=1)[0]
    return [int(number) for number in re.findall(r"\d{1,18}", release)]


class MissingRequirement(Message):
    """Something that a server needs and a computer has not.

    Attributes:
        what: Name of a package, or `PROTOCOL_NAME`.
        has: The version that is there; empty when there is none.
        needs: The oldest version that will do; of the protocol, the one the server speaks.
    """

    what: Words
    has: Words
    needs: Words


_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9][A-Za-z0-9.+!]*")

PROTOCOL_NAME = "protocol"  # what the language of server and client is called in a `MissingRequirement`


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of the installed packages among these, and of our own."""
    found = {"soulsgui": __version__}
    for package in set(packages) - {"soulsgui"}:
        with contextlib.suppress(metadata.PackageNotFoundError, ValueError):
            found[package] = metadata.version(package)
    return found


def least_versions(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the oldest version of each package that will do for a server; none where it tells nonsense.

    What the server tells (`ServerConfig.settings`) is unchecked: a newer one may tell what can't be checked.
    The owner of this computer may paste it into a terminal (`pip install NAME>=VERSION`): what is no name or
    no version is left out.
    """
    least = settings.get("clients.min_versions")
    told = least.items() if isinstance(least, dict) else ()
    return {
        str(name): str(oldest)
        for name, oldest in told
        if _NAME.fullmatch(str(name)) and _VERSION.fullmatch(str(oldest))
    }


def server_is_older(lacks: Sequence[MissingRequirement]) -> bool:
    """Return whether it is the server, not this computer, that has to be updated."""
    spoken = next((lack for lack in lacks if lack.what == PROTOCOL_NAME), None)
    return spoken is not None and len(lacks) == 1 and int(spoken.needs) < int(spoken.has)


def lacks_here(protocol_min: int, protocol_max: int, least: Mapping[str, str]) -> list[MissingRequirement]:
    """Return what a server needs, protocol and packages, and this computer has not; empty for nothing."""
    found = []
    if not protocol_min <= PROTOCOL <= protocol_max:
        spoken = protocol_min if protocol_min > PROTOCOL else protocol_max
        found.append(MissingRequirement(what=PROTOCOL_NAME, has=str(PROTOCOL), needs=str(spoken)))
    return found + lacks(installed_versions(least), least)


def lacks(versions: Mapping[str, str], least: Mapping[str, str]) -> list[MissingRequirement]:
    """Return what is too old or missing among the installed versions, of the packages in `least`."""
    return [
        MissingRequirement(what=package, has=versions.get(package, ""), needs=wanted)
        for package, wanted in least.items()
        if package not in versions or is_older(versions[package], wanted)
    ]


def update_needed(versions: Mapping[str, str], least: Mapping[str, str]) -> str:
    """Return `lacks` in words, empty when nothing lacks."""
    old = [
        f"{lack.what} {lack.has} is older than {lack.needs}"
        if lack.has
        else f"{lack.what} is missing, {lack.needs} or newer is needed"
        for lack in lacks(versions, least)
    ]
    return f"update needed: {'; '.join(old)}" if old else ""
