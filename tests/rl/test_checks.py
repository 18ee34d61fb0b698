"""`README.md` beside this file lists what is checked of the mathematics of learning, and the tests that do
it."""

import re
from pathlib import Path

from tests.faults.promises import forms

TEXT = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.*) \| `(.+)` `(.+)` \| (.+) \|$", TEXT, re.MULTILINE)


def test_the_tests_of_every_check_are_there_in_the_form_that_is_told() -> None:
    assert len(ROWS) == TEXT.count("\n|") - 2 * TEXT.count("| check | test | form |")
    wrong = [(file, test) for _, file, test, form in ROWS if forms(file).get(test) != form]
    assert wrong == []
    names = re.findall(r"^\*\*(\w+)\*\* .", "\n".join(check for check, *_ in ROWS), re.MULTILINE)
    assert len(names) == len(set(names)) == sum(bool(check.strip()) for check, *_ in ROWS) >= 40
