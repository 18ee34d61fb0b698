"""A report on an environment in words."""

from soulsgui.environments.check import check
from soulsgui.environments.report_words import report_lines, spaces_words
from soulsgui.environments.spaces import BoxSpec, DiscreteSpec, SpacesSpec

TOYS = "tests.environments.toys"


def test_spaces_are_told_in_words() -> None:
    image = SpacesSpec(BoxSpec((84, 84, 3), "uint8", (0,), (255,)), DiscreteSpec(4))
    assert spaces_words(image) == ("84×84×3 numbers (uint8), between 0 and 255", "one of 4 actions")
    vector = SpacesSpec(BoxSpec((2,), "float32"), DiscreteSpec(2, -1))
    assert spaces_words(vector) == ("2 numbers (float32), unbounded", "one of 2 actions, from -1")
    half = SpacesSpec(BoxSpec((2,), "float32", (0.5, 1.0)), DiscreteSpec(2))
    assert spaces_words(half)[0] == "2 numbers (float32), between 0.5 and inf"


def test_a_good_report_names_spaces_and_speed() -> None:
    report = check(f"{TOYS}:ToysCounter-v0", {"length": 500}, [], steps=50).to_json()
    lines = report_lines(report | {"seconds_per_step": 0.004})
    assert lines[:5] == [
        f"{TOYS}:ToysCounter-v0: works",
        "  shows        2 numbers (float32), between 0 and 1000",
        "  takes        one of 2 actions",
        "  several      are stepped one after the other",
        "  speed        4 ms a step, 250 steps/s",
    ]
    assert lines[5] == "  tried        50 steps, 0 episodes"
    assert all(line.startswith("  note ") for line in lines[6:])


def test_a_bad_report_names_the_problem_on_one_line() -> None:
    first, *rest = report_lines(check("CartPool-v1", {}, []).to_json())
    assert first == "CartPool-v1: can not be trained on"
    (problem,) = rest
    assert problem.startswith("  problem      There is no environment 'CartPool-v1'.")
    assert "CartPole-v1" in problem


def test_a_missing_module_is_told_apart_from_a_mistake() -> None:
    assert check("no_such_module:Game-v0", {}, []).missing
    assert not check("CartPool-v1", {}, []).missing
    assert not check("CartPole-v1", {}, ["no_such_module:Wrap"]).missing
