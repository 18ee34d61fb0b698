import json
import sys
from pathlib import Path

import gymnasium
import pytest

from soulsgui.environments.check import check
from soulsgui.environments.spaces import SpacesSpec, report_lines
from tests.environments.toys import SPACES_TAKEN

TOYS = "tests.environments.toys"


def test_a_sound_environment_has_no_problems() -> None:
    report = check("CartPole-v1", {}, [])
    assert (report.ok, report.problems, report.notes, report.native_vector) == (True, (), (), True)
    assert report.steps == 200
    assert report.episodes > 3
    assert 0 < report.seconds_per_step < 0.1
    assert report.spaces is not None
    assert report.spaces.action.n == 2
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert SpacesSpec.from_json(data["spaces"]) == report.spaces
    assert (data["ok"], data["steps"], data["env_id"]) == (True, 200, "CartPole-v1")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raises", "It raised in step 1 (toys.py, line 84, in step): RuntimeError: the game is gone"),
        ("nan", "not finite"),
        ("dtype", "float64"),
        ("flag", "terminated is 1, not a bool, in step() (toys.py, line 80)"),
        ("info", "info is None, not a dict, in step() (toys.py, line 80)"),
        ("old", "step() (toys.py, line 80) does not return"),
        ("constructor", "no graphics here"),
    ],
)
def test_a_fault_is_told_in_words(fault: str, words: str) -> None:
    report = check(f"{TOYS}:ToysFaulty-v0", {"fault": fault}, [])
    assert not report.ok
    assert len(report.problems) == 1
    assert words in report.problems[0]
    assert json.dumps(report.to_json())


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (
            "import",
            "ends the program when it is imported: SystemExit: enough (quitter.py, line 4, in <module>)",
        ),
        ("make", "can't be made: SystemExit: enough (quitter.py, line 9, in __init__)"),
        ("spaces", "quitter:Quitter-v0 has no spaces: "),
        ("step", "It raised in step 1 (quitter.py, line 16, in step): SystemExit: enough"),
    ],
)
def test_a_program_that_is_ended_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, said: str
) -> None:
    (tmp_path / "quitter.py").write_text(QUITTER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("QUITTER_ENDS_IN", ends)
    try:
        report = check("quitter:Quitter-v0", {}, [])
    finally:
        sys.modules.pop("quitter", None)
        gymnasium.registry.pop("Quitter-v0", None)
    assert not report.missing
    assert said in report.problems[0]


QUITTER = """\
import os, sys
import gymnasium
if os.environ["QUITTER_ENDS_IN"] == "import":
    sys.exit("enough")
from gymnasium.envs.classic_control import CartPoleEnv
class Quitter(CartPoleEnv):
    def __init__(self):
        if os.environ["QUITTER_ENDS_IN"] == "make":
            sys.exit("enough")
        super().__init__()
        if os.environ["QUITTER_ENDS_IN"] == "spaces":
            del self.observation_space

    def step(self, action):
        if os.environ["QUITTER_ENDS_IN"] == "step":
            sys.exit("enough")
gymnasium.register("Quitter-v0", Quitter)
"""


def test_every_fault_is_told_at_once_each_kind_once() -> None:
    report = check(f"{TOYS}:ToysFaulty-v0", {"fault": "many"}, ["Nope", "gymnasium.wrappers:Nix"])
    assert report.spaces is None
    shape, bounds, reward, *wrappers = report.problems
    assert shape.startswith("An observation of reset() (toys.py, line 76) has shape (1,)")
    assert bounds == "An observation of step() (toys.py, line 80) is out of the bounds that its space states."
    assert reward == "The reward inf of step() (toys.py, line 80) is not a finite number."
    for number, words in enumerate(wrappers, 1):
        assert words.startswith(f"env.wrappers, entry {number}:")
    assert len(wrappers) == 2


def test_what_is_unknown_or_unsupported_is_a_problem_too_and_a_missing_module_is_told_apart() -> None:
    spoken = check(f"{TOYS}:ToysTaking-v0", {"takes": "words"}, [])
    assert "action space" in spoken.problems[0]
    unknown = check("CartPool-v1", {}, [])
    for report in (spoken, unknown):
        assert (report.spaces, report.steps) == (None, 0)
    first, problem = report_lines(unknown.to_json())
    assert first == "CartPool-v1: can not be trained on"
    assert problem.startswith("  problem      There is no environment “CartPool-v1”.")
    assert "CartPole-v1" in problem
    missing = check("no_such_module:Game-v0", {}, [])
    wrapper = check("CartPole-v1", {}, ["no_such_module:Wrap"])
    assert [report.missing for report in (missing, unknown, wrapper)] == [True, False, False]


@pytest.mark.parametrize(
    ("takes", "masked"),
    [*((name, 0) for name in SPACES_TAKEN if name != "words"), ("choices", 9), ("table", 14)],
)
def test_every_kind_of_action_is_tried_with_its_masks(takes: str, masked: int) -> None:
    report = check(f"{TOYS}:ToysTaking-v0", {"takes": takes, "masked": masked > 0}, [], steps=40)
    assert report.problems == ()
    assert (report.steps, report.episodes) == (40, 13)
    assert report.spaces is not None
    assert report.spaces.masked_actions == masked


def test_differing_resets_and_endless_episodes_are_notes() -> None:
    # The counter counts its episodes, so that no two resets are alike.
    report = check(f"{TOYS}:ToysCounter-v0", {"length": 500}, [], steps=50)
    assert report.ok
    assert [note.split()[0] for note in report.notes] == ["Two", "No"]
