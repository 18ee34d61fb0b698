"""Comparing versions of packages. Pure."""

import re
from collections.abc import Mapping
from itertools import zip_longest

_NUMBERS = re.compile(r"\d+")


def is_older(version: str, wanted: str) -> bool:
    """Whether a version is older than another, by the numbers before any letter: 1.10 is newer than 1.9."""
    for mine, other in zip_longest(_parts(version), _parts(wanted), fillvalue=0):
        if mine != other:
            return mine < other
    return False


def update_needed(versions: Mapping[str, str], least: Mapping[str, str]) -> str:
    """Return in words which packages are too old, empty when none is.

    Args:
        versions: The version of each package; one that is missing is not installed.
        least: The oldest version of each that will do.
    """
    old = [
        f"{package} {versions[package]} is older than {wanted}"
        if package in versions
        else f"{package} is missing, {wanted} or newer is needed"
        for package, wanted in least.items()
        if package not in versions or is_older(versions[package], wanted)
    ]
    return f"update needed: {'; '.join(old)}" if old else ""


def _parts(version: str) -> list[int]:
    numbers = re.split(r"[A-Za-z+-]", version, maxsplit=1)[0]
    return [int(number) for number in _NUMBERS.findall(numbers)]
