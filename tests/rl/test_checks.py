"""Every check of learning has its tests, and the list of them is the one that is shown."""

from tests.faults.promises import forms
from tests.rl.checks import README, SECTIONS, readme


def test_the_tests_of_every_check_are_there() -> None:
    places = [place for checks in SECTIONS.values() for check in checks.values() for place in check.tests]
    missing = [place for place in places if place.partition("::")[2] not in forms(place.partition("::")[0])]
    assert missing == []
    assert all(check.tests for checks in SECTIONS.values() for check in checks.values())


def test_the_list_that_is_shown_is_this_one() -> None:
    assert README.read_text(encoding="utf-8") == readme(), "write it anew: python -m tests.rl.checks"
