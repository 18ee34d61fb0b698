import sys
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.editing import FileChangedError, read_text, save_text, text_hash, with_values
from soulsgui.config.errors import ConfigError
from soulsgui.config.parsing import parse_layer

TEXT = """\
# my notes

env:
  # the game
  id: CartPole-v1  # the easy one
  # side by side
  num_envs: 3
  kwargs:
    a: 1
    # inside
    b: [1,
      2]
# about seed
seed: 5

# about PPO
ppo: {gamma: 0.9, epochs: 3}
# the end
"""


def _comments(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith("#")]


def _values(text: str) -> dict[str, object]:
    return parse_layer(text, "test").values


def test_changed_values_keep_every_comment() -> None:
    text = with_values(TEXT, {"env.id": "X-v0", "seed": 7, "ppo.clip": 0.3, "network.hidden_sizes": (3, 4)})
    assert _comments(text) == _comments(TEXT)
    assert "# the easy one" in text
    assert _values(text) == _values(TEXT) | {
        "env.id": "X-v0",
        "seed": 7,
        "ppo.clip": 0.3,
        "network.hidden_sizes": [3, 4],
    }


@pytest.mark.parametrize("key", ["env.id", "env.num_envs", "env.kwargs", "seed", "ppo.gamma"])
def test_reset_takes_one_value_out_and_keeps_every_comment(key: str) -> None:
    text = with_values(TEXT, {}, (key,))
    assert _values(text) == {name: value for name, value in _values(TEXT).items() if name != key}
    assert _comments(text) == _comments(TEXT)


def test_reset_of_the_last_value_takes_its_section_out() -> None:
    text = with_values(TEXT, {}, ("env.id", "env.num_envs", "env.kwargs", "ppo.gamma", "ppo.epochs"))
    assert _values(text) == {"seed": 5}
    assert "env:" not in text
    assert "ppo:" not in text


FLAT = "# mine\nppo.gamma: 0.9  # far\nseed: 3\nppo:\n  epochs: 2\n"


@pytest.mark.parametrize(
    ("text", "changes", "reset", "expected"),
    [
        ("# note\nseed: 3\n", {}, ("seed",), "# note\n"),
        ("# note\n", {"seed": 3}, (), "# note\nseed: 3\n"),
        (TEXT, {}, ("ppo.clip", "stop.window", "seed.x"), TEXT),
        # An entry with its whole key, at the top.
        (FLAT, {"ppo.gamma": 0.8, "ppo.clip": 0.3}, (), FLAT.replace("0.9", "0.8") + "  clip: 0.3\n"),
        (FLAT, {}, ("ppo.gamma",), "# mine\nseed: 3\nppo:\n  epochs: 2\n"),
        # Of two entries the one that counts is changed.
        (FLAT + "  gamma: 0.7\n", {}, ("ppo.gamma",), {"seed": 3, "ppo.epochs": 2}),
        ("ppo.gamma: 0.9\nppo:\n  gamma: 0.7\n", {"ppo.gamma": 0.5}, (), {"ppo.gamma": 0.5}),
        ("ppo: {gamma: 0.7}\nppo.gamma: 0.9\n", {"ppo.gamma": 0.5}, (), {"ppo.gamma": 0.5}),
        # An anchor that is reset leaves its value to the others.
        ("seed: &n 4\nppo:\n  epochs: *n\n", {}, ("seed",), {"ppo.epochs": 4}),
        *(
            (text, {"env.num_envs": 2}, (), {"env.num_envs": 2})
            for text in ("", "env:\n", "env:\n  # nothing yet\n")
        ),
    ],
)
def test_text_or_values_after_a_change(
    text: str, changes: dict[str, Any], reset: tuple[str, ...], expected: str | dict[str, Any]
) -> None:
    changed = with_values(text, changes, reset)
    assert (changed if isinstance(expected, str) else _values(changed)) == expected


@pytest.mark.parametrize("text", ["a: [", "- a list\n", "seed: 1\nseed: 2\n"])
def test_text_that_can_not_be_changed_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"not valid YAML|expected settings|written twice"):
        with_values(text, {"ppo.gamma": 0.9})


@pytest.mark.parametrize(
    ("text", "key", "other"),
    [
        ("ppo: &p\n  gamma: 0.9\ndqn: *p\n", "dqn.gamma", "ppo.gamma = 0.9"),
        ("ppo: &p\n  gamma: 0.9\ndqn:\n  <<: *p\n", "ppo.gamma", "dqn.gamma = 0.9"),
    ],
)
def test_a_setting_that_shares_its_place_with_another_one_is_not_changed(
    text: str, key: str, other: str
) -> None:
    with pytest.raises(ConfigError, match=rf"{other}: would change together with {key}"):
        with_values(text, {key: 0.5})
    assert with_values(text, {"seed": 3}).endswith("seed: 3\n")


def test_saved_text_is_read_back_and_a_change_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.yaml"
    assert read_text(path) == ""
    save_text(path, "# é\nseed: 1\n", text_hash(""))
    assert read_text(path) == "# é\nseed: 1\n"
    base = text_hash(read_text(path))
    path.write_text("seed: 2\n")
    with pytest.raises(FileChangedError):
        save_text(path, "seed: 3\n", base)
    assert read_text(path) == "seed: 2\n"
    save_text(path, "seed: 3\n")
    assert read_text(path) == "seed: 3\n"


@pytest.mark.parametrize("text", ["a: [", "sed: 3\n", "ppo: 3\n"])
def test_text_with_mistakes_is_not_saved(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    with pytest.raises(ConfigError):
        save_text(path, text)
    assert not path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a profile is private there as it is")
def test_a_file_with_a_secret_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    save_text(path, "seed: 1\n")
    path.chmod(0o644)
    save_text(path, "alerts: {webhook: http://127.0.0.1/token}\n")
    assert path.stat().st_mode & 0o777 == 0o600
