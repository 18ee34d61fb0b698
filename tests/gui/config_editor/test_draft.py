import pytest
import yaml

from soulsgui.gui.config_editor.draft import Draft, changed_keys, merged, read, with_wanted

TEXT = """# mine
preset: cartpole_ppo
ppo:
  # patient
  gamma: 0.99
  epochs: 4
network:
  hidden_sizes: [32, 32]
"""


def wanted(text: str) -> dict[str, object]:
    layer = read(text)
    assert layer is not None
    return dict(layer.values)


def test_wanting_what_is_there_changes_nothing() -> None:
    layer = read(TEXT)
    assert layer is not None
    same = wanted(TEXT) | {"network.hidden_sizes": (32, 32)}
    assert with_wanted(TEXT, layer, same, "cartpole_ppo") == TEXT


def test_only_what_differs_is_written_and_comments_stay() -> None:
    draft = Draft(TEXT, "h")
    own = wanted(TEXT) | {"ppo.gamma": 0.9, "seed": 5}
    del own["ppo.epochs"]
    draft.want(own, "")
    assert yaml.safe_load(draft.text) == {
        "ppo": {"gamma": 0.9},
        "network": {"hidden_sizes": [32, 32]},
        "seed": 5,
    }
    assert "# mine" in draft.text
    assert "# patient" in draft.text
    assert "[32, 32]" in draft.text
    assert draft.dirty


def test_a_text_that_is_no_yaml_is_not_touched_by_a_form() -> None:
    draft = Draft(TEXT, "h")
    draft.write("ppo: [")
    draft.want({"seed": 5}, "")
    assert draft.text == "ppo: ["
    assert draft.layer is None
    assert not draft.mergeable


def test_going_back_to_the_same_text_is_no_change() -> None:
    draft = Draft(TEXT, "h")
    draft.write("seed: 1\n")
    draft.write(TEXT)
    assert not draft.dirty


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
    base, own = read("seed: 1\n"), read(mine)
    assert base is not None
    assert own is not None
    mixed = merged(base, own, theirs)
    assert mixed is not None
    assert yaml.safe_load(mixed) == result


def test_merging_keeps_their_comments_and_begins_from_their_hash() -> None:
    draft = Draft("seed: 1\n", "old")
    draft.write("seed: 2\n")
    assert draft.merge("# theirs\nseed: 1  # lucky\n", "new")
    assert draft.text == "# theirs\nseed: 2  # lucky\n"
    assert draft.base_hash == "new"
    assert not draft.merge("seed: [", "newest")
    assert draft.base_hash == "new"


def test_keys_that_two_texts_set_differently() -> None:
    assert changed_keys(read("seed: 1\nppo: {gamma: 0.9}\n"), read("seed: 1\nppo: {clip: 0.1}\n")) == [
        "ppo.gamma",
        "ppo.clip",
    ]
    assert changed_keys(None, read("seed: 1\n")) == ["seed"]
