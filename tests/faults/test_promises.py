"""Every promise has its tests, and the list of them is the one that is shown."""

import pytest

from tests.faults.promises import PROMISES, README, forms, readme
from tests.faults.table import HEADS, Told, lines

TEST = "faults/test_flood.py::test_a_flooder_is_cut_off_and_weights_still_go_out"


@pytest.mark.parametrize("promise", PROMISES)
def test_the_tests_of_a_promise_are_there(promise: str) -> None:
    for place in PROMISES[promise].tests:
        file, _, name = place.partition("::")
        assert name in forms(file), place


def test_the_forms_of_a_test_are_told() -> None:
    kills = forms("faults/test_checkpoint_kills.py")
    assert kills["test_25_kills_leave_a_whole_checkpoint_each"] == "quick"
    assert kills["test_200_kills_leave_a_whole_checkpoint_each"] == "slow"
    assert set(forms("faults/test_fleet.py").values()) >= {"quick, slow"}


def test_the_list_that_is_shown_is_this_one() -> None:
    assert README.read_text(encoding="utf-8") == readme(), "write it anew: python -m tests.faults.promises"


def test_the_forms_of_a_test_stand_in_one_row_of_its_promise() -> None:
    told = [
        Told(
            f"tests/{TEST}[{number}]",
            number > 0,
            (("injected", "a flood", 1.0), ("lost", "chunks", number), ("recovered", "", 1.5 + number)),
        )
        for number in range(3)
    ]
    other = Told("tests/faults/test_new.py::test_more", True, (("injected", "frost", 1.0),))
    quiet = Told("tests/test_cli.py::test_it", True)
    head, row, last = lines(PROMISES, [quiet, other, *told], 200)
    assert head.split() == " ".join(HEADS).split()
    assert row.startswith("R12  2 of 3")
    assert "3 × a flood" in row
    assert "3 chunks" in row
    assert row.endswith("  test_a_flooder_is_cut_off_and_weights_still_go_out")
    assert "3.50 s at most, 2.50 s median of 3" in row
    assert (last.split()[0], last.split()[-1]) == ("1", "test_more")


def test_what_is_too_long_for_its_column_goes_on_below() -> None:
    told = Told(f"tests/{TEST}", True, (("injected", "word " * 20, 1.0), ("lost", "steps", 12_000.0)))
    rows = lines(PROMISES, [told], 0)
    assert len(rows) > 3
    assert max(len(row) for row in rows[2:]) < 90
    assert " ".join(rows).count("word") == 20
