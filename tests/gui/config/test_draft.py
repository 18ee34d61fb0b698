import pytest
import yaml

from soulsgui.config.errors import Problem
from soulsgui.gui.config.draft import (
    Draft,
    by_key,
    by_line,
    changed_keys,
    read,
    read_problems,
    sentence,
    with_wanted,
)

TEXT = """# mine
preset: cartpole_ppo
ppo:
  # patient
  gamma: 0.99
  epochs: 4
network:
  hidden_sizes: [32, 32]
"""


def test_only_what_differs_is_written_and_comments_stay() -> None:
    layer = read(TEXT)
    assert layer is not None
    own = dict(layer.values) | {"network.hidden_sizes": (32, 32)}
    assert with_wanted(TEXT, layer, own, "cartpole_ppo") == TEXT
    draft = Draft(TEXT, "h")
    own |= {"ppo.gamma": 0.9, "seed": 5}
    del own["ppo.epochs"]
    draft.want(own, "")
    assert yaml.safe_load(draft.text) == {
        "ppo": {"gamma": 0.9},
        "network": {"hidden_sizes": [32, 32]},
        "seed": 5,
    }
    assert all(kept in draft.text for kept in ("# mine", "# patient", "[32, 32]"))
    assert draft.dirty
    draft.write(TEXT)
    assert not draft.dirty, "going back to the same text is no change"


def test_a_text_that_is_no_yaml_is_not_touched_by_a_form() -> None:
    draft = Draft(TEXT, "h")
    draft.write("ppo: [")
    draft.want({"seed": 5}, "")
    assert (draft.text, draft.layer, draft.mergeable) == ("ppo: [", None, False)
    assert read("seed: 1\nseed: 2\n") is None, "nor is one that says two things"


@pytest.mark.parametrize(
    ("mine", "theirs", "result"),
    [
        ("seed: 2\n", "seed: 1\nppo: {gamma: 0.9}\n", {"seed": 2, "ppo": {"gamma": 0.9}}),
        ("seed: 2\n", "seed: 3\n", {"seed": 2}),
        ("", "seed: 1\nppo: {gamma: 0.9}\n", {"ppo": {"gamma": 0.9}}),
        ("seed: 1\n", "ppo: {gamma: 0.9}\n", {"ppo": {"gamma": 0.9}}),
        ("preset: cartpole_ppo\nseed: 1\n", "seed: 7\n", {"preset": "cartpole_ppo", "seed": 7}),
        ("seed: 1\n", "preset: cartpole_ppo\nseed: 1\n", {"preset": "cartpole_ppo", "seed": 1}),
    ],
    ids=["both stay", "mine wins", "mine took it out", "they took it out", "my preset", "their preset"],
)
def test_merging_puts_my_changes_into_their_text(mine: str, theirs: str, result: dict[str, object]) -> None:
    draft = Draft("seed: 1\n", "old")
    draft.write(mine)
    assert draft.merge(theirs, "new")
    assert yaml.safe_load(draft.text) == result


def test_merging_keeps_their_comments_and_begins_from_their_hash() -> None:
    draft = Draft("seed: 1\n", "old")
    draft.write("seed: 2\n")
    assert draft.merge("# theirs\nseed: 1  # lucky\n", "new")
    assert draft.text == "# theirs\nseed: 2  # lucky\n"
    assert draft.base_hash == "new"
    assert not draft.merge("seed: [", "newest")
    assert draft.base_hash == "new"


def test_keys_that_two_texts_set_differently() -> None:
    old, new = read("seed: 1\nppo: {gamma: 0.9}\n"), read("seed: 1\nppo: {clip: 0.1}\n")
    assert changed_keys(old, new) == ["ppo.gamma", "ppo.clip"]
    assert changed_keys(None, read("seed: 1\n")) == ["seed"]


def test_each_mistake_is_a_sentence_with_its_place_found_by_setting_and_by_line() -> None:
    fields = ("source", "line", "key", "value", "reason", "nearest")
    told = [
        ("config.yaml", 4, "ppo.gama", None, "is not a setting.", "ppo.gamma"),
        ("config.yaml", 4, "ppo.clip", True, "should be at most 10", ""),
        ("preset x", 2, "seed", -1, "should be at least 0.", ""),
        ("config.yaml", 9, "", None, "not valid YAML: x", ""),
    ]
    problems = read_problems(dict(zip(fields, one, strict=True)) for one in told)
    assert [sentence(problem) for problem in problems] == [
        "Line 4: ppo.gama is not a setting. Did you mean ppo.gamma?",
        "Line 4: ppo.clip = true: should be at most 10.",
        "preset x: seed = -1: should be at least 0.",
        "Line 9: Not valid YAML: x.",
    ]
    assert set(by_key(problems)) == {"ppo.gama", "ppo.clip", "seed"}
    lines = by_line(problems)
    assert set(lines) == {4, 9}
    assert lines[4].count("\n") == 1


def test_of_a_long_value_a_sentence_has_the_beginning() -> None:
    told = sentence(Problem("config.yaml", 4, "seed", "x" * 10_000, "should be a whole number."))
    assert told.startswith("Line 4: seed = xxx")
    assert told.endswith("x…: should be a whole number.")
    assert len(told) < 300


@pytest.mark.parametrize("line", [-(2**63), 0, 2**63, 1.5, "4", None])
def test_a_mistake_in_a_line_that_no_text_has_is_one_of_the_whole_text(line: object) -> None:
    (problem,) = read_problems([{"source": "config.yaml", "line": line, "key": "seed", "reason": "is bad"}])
    assert problem.line is None
    assert by_line([problem]) == {}
