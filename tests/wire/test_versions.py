import pytest

from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.versions import (
    PROTOCOL_NAME,
    MissingRequirement,
    is_older,
    lacks,
    lacks_here,
    least_versions,
    update_needed,
)


@pytest.mark.parametrize(
    ("version", "wanted", "older"),
    [
        ("1.9", "1.10", True),
        ("1.10", "1.9", False),
        ("1.2", "1.2.0", False),
        ("1.2.0", "1.2", False),
        ("1.2", "1.2.1", True),
        ("2.0rc1", "2.0", False),
        ("0.1.dev3+gabc", "0.1.1", True),
        ("", "0", False),
        ("", "0.1", True),
    ],
)
def test_versions_are_compared_number_by_number(version: str, wanted: str, older: bool) -> None:
    assert is_older(version, wanted) is older


@pytest.mark.parametrize("nonsense", [None, "1.0", ["a"], 3])
def test_a_server_that_tells_nonsense_of_versions_needs_none(nonsense: object) -> None:
    assert least_versions({"clients.min_versions": nonsense}) == least_versions({}) == {}


def test_what_could_be_pasted_into_a_terminal_is_a_name_and_a_version_alone() -> None:
    told = {'numpy"; rm -rf ~; "': "1", "numpy": '1"; rm', "--index-url=http://x": "1", "torch": "2.13.0+cpu"}
    assert least_versions({"clients.min_versions": told}) == {"torch": "2.13.0+cpu"}


def test_what_is_too_old_or_missing_is_named_with_what_is_there_and_what_is_needed() -> None:
    least = least_versions({"clients.min_versions": {"a": 2, "b": "1", "c": "3"}})
    assert update_needed({}, {}) == update_needed({"a": "2"}, {"a": "1"}) == ""
    found = lacks({"a": "1.9", "b": "1"}, least)
    assert found == [
        MissingRequirement(what="a", has="1.9", needs="2"),
        MissingRequirement(what="c", has="", needs="3"),
    ]


@pytest.mark.parametrize(
    ("low", "high", "needs"),
    [
        (PROTOCOL, PROTOCOL, None),
        (PROTOCOL + 1, PROTOCOL + 3, PROTOCOL + 1),
        (PROTOCOL - 3, PROTOCOL - 1, PROTOCOL - 1),
    ],
)
def test_a_protocol_that_is_not_spoken_here_is_a_lack(low: int, high: int, needs: int | None) -> None:
    found = lacks_here(low, high, {"soulsgui": "0.0.1"})
    lack = MissingRequirement(what=PROTOCOL_NAME, has=str(PROTOCOL), needs=str(needs))
    assert found == ([] if needs is None else [lack])
