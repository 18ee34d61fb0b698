"""Versions of packages."""

import pytest

from soulsgui.wire.versions import is_older, update_needed


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


def test_nothing_is_needed_where_nothing_is_asked_for() -> None:
    assert update_needed({}, {}) == ""
    assert update_needed({"a": "2"}, {"a": "1"}) == ""
