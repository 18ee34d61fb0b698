from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from soulsgui.config.editing import text_hash
from soulsgui.config.errors import ConfigError
from soulsgui.config.parsing import parse_assignments
from soulsgui.config.paths import Folders
from soulsgui.runner import settings_file
from soulsgui.runner.refusal import Refused
from soulsgui.wire.control import ConfigCheckParams, ConfigSaveParams


def write(folders: Folders, text: str) -> None:
    folders.config.mkdir(parents=True, exist_ok=True)
    folders.overrides.write_text(text)


def test_values_of_a_file_with_mistakes_come_with_the_mistakes(folders: Folders) -> None:
    values = settings_file.values(folders, {})
    assert values.defaults["ppo.gamma"] == 0.99
    assert (values.saved, values.text, values.problems, values.running) == ({}, "", [], {})
    write(folders, "preset: lunarlander_ppo\nppo:\n  gamma: 2\n  gama: 0.9\n")
    values = settings_file.values(folders, {"seed": 1})
    assert values.saved == {"ppo.gamma": 2}
    assert values.preset == "lunarlander_ppo"
    assert {(problem["key"], problem["line"], problem["nearest"]) for problem in values.problems} == {
        ("ppo.gamma", 3, ""),
        ("ppo.gama", 4, "ppo.gamma"),
    }
    write(folders, "[")
    assert settings_file.values(folders, {}).problems != []


def test_check_tells_every_mistake_of_a_text_and_overrides(folders: Folders) -> None:
    params = ConfigCheckParams(text="seed: -1\n", overrides={"env.nam": 1, "ppo.clip": "x"})
    assert {problem["key"] for problem in settings_file.problems(folders, params)} == {
        "seed",
        "env.nam",
        "ppo.clip",
    }
    assert settings_file.problems(folders, ConfigCheckParams(text="seed: 2\n")) == []
    assert settings_file.problems(folders, ConfigCheckParams(preset="cartpoool"))[0]["key"] == "preset"


def test_changes_are_saved_with_comments_kept(folders: Folders) -> None:
    write(folders, "# mine\nseed: 2  # lucky\nppo:\n  gamma: 0.9\n")
    saved = settings_file.save(folders, ConfigSaveParams(changes={"env.num_envs": 8}, reset=["ppo.gamma"]))
    text = folders.overrides.read_text()
    assert saved == {"hash": text_hash(text), "text": text}
    assert text == "# mine\nseed: 2  # lucky\nenv:\n  num_envs: 8\n"


def test_of_changes_that_are_saved_at_once_none_is_lost(folders: Folders) -> None:
    changes = [{"seed": 3}, {"ppo.gamma": 0.9}, {"env.num_envs": 8}, {"clients.local": 2}]
    with ThreadPoolExecutor(len(changes)) as clients:
        list(clients.map(lambda one: settings_file.save(folders, ConfigSaveParams(changes=one)), changes))
    assert settings_file.values(folders, {}).saved == {key: one[key] for one in changes for key in one}


OLD = text_hash("seed: 1\n")


@pytest.mark.parametrize(
    ("params", "error", "said"),
    [
        ({"changes": {"seed": -5}}, ConfigError, "seed"),
        ({"changes": {"sed": 5}}, ConfigError, "sed"),
        ({"reset": ["sed"]}, ConfigError, "sed"),
        ({"text": "["}, ConfigError, None),
        ({"text": "seed: x\n"}, ConfigError, "seed"),
        ({"text": "seed: 3\n", "reset": ["seed"]}, Refused, "not both"),
        ({"text": "seed: 3\n", "base_hash": OLD}, Refused, "somebody else"),
        ({"changes": {"seed": 3}, "base_hash": OLD}, Refused, "somebody else"),
    ],
)
def test_neither_mistakes_are_saved_nor_is_a_file_overwritten_that_somebody_else_changed(
    folders: Folders, params: dict[str, Any], error: type[Exception], said: str | None
) -> None:
    write(folders, "seed: 2\n")
    with pytest.raises(error, match=said):
        settings_file.save(folders, ConfigSaveParams(**params))
    assert folders.overrides.read_text() == "seed: 2\n"
    settings_file.save(folders, ConfigSaveParams(text="seed: 3\n", base_hash=text_hash("seed: 2\n")))
    assert folders.overrides.read_text() == "seed: 3\n"


def test_presets_are_listed_with_a_short_title_a_line_and_values() -> None:
    found = {preset.name: preset for preset in settings_file.presets()}
    assert {"cartpole_ppo", "lunarlander_ppo"} <= set(found)
    assert found["lunarlander_ppo"].title == "LunarLander with PPO"
    assert len({preset.title for preset in found.values()}) == len(found)
    for preset in found.values():
        assert len(preset.title) <= 30, preset.title
        assert preset.about.endswith("."), preset.about
        assert preset.values["env.id"]
    assert found["lunarlander_ppo"].values["env.id"].startswith("LunarLander")


def test_difference_names_value_and_place(folders: Folders) -> None:
    write(folders, "seed: 5\nppo:\n  gamma: 0.99\n")
    found = settings_file.difference(folders, "", parse_assignments(["env.num_envs=8"]))
    assert [(one["key"], one["shipped"], one["value"], one["source"], one["line"]) for one in found] == [
        ("seed", 1, 5, "config.yaml", 1),
        ("env.num_envs", 4, 8, "--set", None),
    ]


def test_a_file_that_is_no_text_is_told_and_stays(folders: Folders) -> None:
    write(folders, "")
    folders.overrides.write_bytes(b"seed: 5 # \xe9\n")
    found = settings_file.values(folders, {})
    assert (found.text, found.saved) == ("", {})
    assert [(one["line"], "UTF-8" in one["reason"]) for one in found.problems] == [(1, True)]
    with pytest.raises(ConfigError, match="UTF-8"):
        settings_file.save(folders, ConfigSaveParams(text="seed: 6\n", base_hash=found.hash))
    assert folders.overrides.read_bytes() == b"seed: 5 # \xe9\n"
