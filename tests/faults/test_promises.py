"""The list of promises names tests that exist, in the form that it says, and what they told is printed."""

from tests.faults.promises import PROMISES, README, ROWS, forms
from tests.faults.report import lines

TEST = "faults/test_flood.py::test_a_flooder_is_cut_off_and_weights_still_go_out"


def test_each_promise_has_tests_in_the_form_that_is_told() -> None:
    assert [name for name in PROMISES if name != "S"] == [f"R{number}" for number in range(1, 43)]
    assert len(ROWS) == README.read_text(encoding="utf-8").count("\n|") - 2
    assert [(file, test) for _, file, test, form in ROWS if forms(file).get(test) != form] == []
    quick = {f"{file}::{test}" for _, file, test, form in ROWS if "quick" in form}
    held = [name for name, tests in PROMISES.items() if quick & set(tests)]
    assert held == list(PROMISES), "none is held by full counts alone"
    assert sorted(forms("faults/test_killed_client.py").values())[-2:] == ["quick", "slow"]
    assert set(forms("faults/test_fleet.py").values()) >= {"quick", "quick, slow"}


def test_all_forms_of_a_test_are_told_together_below_their_promise() -> None:
    told = [
        (
            f"tests/{TEST}[{number}]",
            number > 0,
            [["injected", "a flood", 1.0], ("lost", "chunks", number), ("recovered", "", 1.5 + number)],
        )
        for number in range(3)
    ]
    other = ("tests/faults/test_new.py::test_more", True, [("injected", "frost", 1.0)])
    assert list(lines(PROMISES, [other, *told])) == [
        " R12  2 of 3 passed  test_a_flooder_is_cut_off_and_weights_still_go_out",
        "      injected: 3 × a flood",
        "      lost: 3 chunks",
        "      recovery: 3.50 s at most, 2.50 s median of 3",
        "      1 of 1 passed  test_more",
        "      injected: frost",
    ]
