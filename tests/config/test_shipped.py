import json
import re
from pathlib import Path
from typing import get_args

import pytest

from soulsgui.config import paths
from soulsgui.config.layers import (
    combine,
    defaults_layer,
    load_settings,
    over_defaults,
    preset_layer,
    preset_names,
)
from soulsgui.config.parsing import parse_assignments, read_layer
from soulsgui.config.paths import Folders, shipped
from soulsgui.config.schema import SHIPPED_WITH, Settings, all_settings, flatten, shipped_with
from soulsgui.config.sections.algorithms import DQNSettings, SACSettings
from soulsgui.runner import settings_file


def _comment_above(lines: list[str], number: int) -> str:
    """Return the words of the comment that stands right above a line (counted from 1)."""
    words: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith("#"):
            break
        words = line.strip().removeprefix("#").split() + words
    return " ".join(words)


def test_defaults_file_equals_the_schema_and_explains_every_setting_above_it() -> None:
    file = shipped("configs", "config_d.yaml")
    layer = read_layer(file)
    assert combine([layer]) == Settings()
    assert layer.values == defaults_layer().values
    assert list(layer.values) == list(all_settings())
    lines, at = file.read_text(encoding="utf-8").splitlines(), layer.lines
    unexplained = [
        key
        for key, info in all_settings().items()
        if " ".join(info.description.split()) not in _comment_above(lines, at[key])
    ]
    assert unexplained == []
    for key, info in all_settings().items():
        assert len(info.description) > 10, key
        assert not (info.secret and info.to_clients), key


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_valid_and_tell_steps_and_no_times(name: str) -> None:
    """Steps to a goal are the same on every machine; seconds were ten times what was told on a busy one."""
    layer = preset_layer(name)
    told = flatten(combine(over_defaults([layer])).model_dump(mode="json"))
    assert layer.values
    assert all(told[key] == value for key, value in layer.values.items())
    text = shipped("configs", "presets", f"{name}.yaml").read_text(encoding="utf-8")
    comments = "\n".join(line.partition("#")[2] for line in text.splitlines())
    assert not re.search(r"\b(seconds?|minutes?|hours?)\b|\d s\b", comments)


def test_what_was_measured_of_presets_is_of_those_there_are() -> None:
    """How long they take stands apart from them, with the machine: another one takes another time."""
    measured = json.loads(shipped("configs", "preset_times.json").read_text(encoding="utf-8"))
    assert set(measured["seconds"]) <= set(preset_names())
    took = {one.name: (one.seconds, one.machine) for one in settings_file.presets() if one.seconds}
    assert took == {name: (seconds, measured["machine"]) for name, seconds in measured["seconds"].items()}
    assert all(seconds > 0 for seconds, _ in took.values())


def test_titles_of_presets_are_short_names() -> None:
    """A list of them stands in dialogs; what there is to say more is a line of its own."""
    presets = settings_file.presets()
    assert {preset.name for preset in presets} == set(preset_names())
    assert [preset.title for preset in presets if not 0 < len(preset.title) <= 30] == []


BOTH = {
    "network.activation": "tanh",
    "network.shared": False,
    "network.policy_init_scale": 0.01,
    "ppo.shuffle": "transitions",
    "ppo.gamma": 0.99,
    "ppo.value_huber": None,
    "ppo.normalize_value": False,
    "ppo.target_kl": None,
}
WHAT_MATTERS = BOTH | {
    "ppo.clip": 0.25,
    "network.action_std": "state_dependent",
    "network.std_transform": "softplus",
    "network.initial_std": 0.5,
    "network.squash": "tanh",
    "normalize.observations": True,
    "ppo.gae_lambda": 0.9,
    "ppo.value_clip": None,
    "ppo.recompute_advantages": True,
    "ppo.adam_beta1": 0.9,
    "ppo.learning_rate": {"schedule": "linear", "from": 3e-4, "to": 0},
    "ppo.entropy_coef": 0.0,
}
DETAILS = BOTH | {
    "ppo.clip": 0.2,
    "network.action_std": "state_independent",
    "network.std_transform": "exponential",
    "network.initial_std": 1.0,
    "network.squash": "clip",
    "ppo.gae_lambda": 0.95,
    "ppo.value_clip": 0.2,
    "ppo.recompute_advantages": False,
    "ppo.normalize_advantage": "minibatch",
    "ppo.adam_epsilon": 1e-5,
    "ppo.learning_rate": {"schedule": "linear", "from": 2.5e-4, "to": 0},
    "ppo.entropy_coef": 0.01,
}
TUNED = {
    "env.id": "CartPole-v1",
    "algorithm": "ppo",
    "clients.local": 2,
    "env.num_envs": 4,
    "ppo.n_steps": 256,
    "ppo.epochs": 10,
    "ppo.learning_rate": 1e-3,
    "ppo.gamma": 0.99,
    "ppo.gae_lambda": 0.9,
    "normalize.observations": True,
    "network.policy_init_scale": 0.01,
}


@pytest.mark.parametrize(
    ("preset", "expected"),
    [(None, TUNED), ("ppo_what_matters", WHAT_MATTERS), ("ppo_37_details", DETAILS)],
    ids=["shipped", "what matters", "37 details"],
)
def test_ppo_is_what_its_sources_recommend(preset: str | None, expected: dict[str, object]) -> None:
    """arXiv 2006.05990, section 3; Huang et al. 2022; and the shipped one is tuned for CartPole."""
    settings = combine([defaults_layer()] + ([preset_layer(preset)] if preset else []))
    told = flatten(settings.model_dump(mode="json"))
    assert {key: told[key] for key in expected} == expected
    if preset == "ppo_what_matters":
        hidden, value = told["network.hidden_sizes"], told["network.value_hidden_sizes"]
        assert len(hidden) == 2
        assert min(value) > max(hidden), "the value network is wide"


@pytest.mark.parametrize("root", ["soulsgui/_shipped", "."], ids=["wheel", "checkout"])
def test_shipped_files_are_found_anywhere(tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "soulsgui" / "config" / "paths.py"))
    file = tmp_path / root / "configs" / "config_d.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("seed: 1\n")
    assert shipped("configs", "config_d.yaml").samefile(file)
    with pytest.raises(FileNotFoundError, match=r"configs/other\.yaml is missing"):
        shipped("configs", "other.yaml")


AGENTS = get_args(DQNSettings.model_fields["agent"].annotation)
CHOICES = [f"algorithm={one}" for one in get_args(Settings.model_fields["algorithm"].annotation)]
CHOICES += [f"dqn.agent={one}" for one in AGENTS]
CHOICES += [f"sac.agent={one}" for one in get_args(SACSettings.model_fields["agent"].annotation)]


def test_the_table_names_what_there_is_and_says_nothing_twice() -> None:
    known = all_settings()
    for choice, values in SHIPPED_WITH.items():
        assert choice in CHOICES
        for key, value in values.items():
            assert json.dumps(known[key].default) != json.dumps(value), (choice, key)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_agent_runs_with_nothing_else_set(folders: Folders, choice: str) -> None:
    family = "algorithm=sac" if choice.startswith("sac.") else "algorithm=dqn"
    settings = load_settings(folders, assignments=[family, choice])
    brought = shipped_with(defaults_layer().values, parse_assignments([family, choice]).values)
    told = json.loads(settings.model_dump_json())
    for key, value in brought.items():
        section, name = key.split(".")
        assert told[section][name] == value


R2D2 = ["dqn.agent=r2d2"]


def test_an_agent_brings_its_own_and_its_familys_and_preset_and_user_win_over_that(folders: Folders) -> None:
    plain, memory = (load_settings(folders, assignments=["algorithm=dqn", *more]) for more in ([], R2D2))
    assert (plain.network.hidden_sizes, plain.network.recurrent) == ((128, 128), "none")
    assert (memory.network.hidden_sizes, memory.network.recurrent) == ((64,), "lstm")
    assert load_settings(folders, assignments=R2D2).network == Settings().network, "ppo learns, not it"
    assert shipped_with({"algorithm": "sac"})["network.hidden_sizes"] == [256, 256]
    assert load_settings(folders, "pendulum_sac").network.hidden_sizes == (64, 64), "of the preset"
    td3 = load_settings(folders, assignments=["algorithm=sac", "sac.agent=td3", "sac.batch_size=64"])
    assert (td3.network.hidden_sizes, td3.network.activation) == ((400, 300), "relu")
    assert (td3.sac.learning_rate, td3.sac.batch_size, td3.agent) == (1e-3, 64, "td3")
    folders.overrides.write_text("dqn:\n  agent: r2d2\n  batch_size: 320\n")
    settings = load_settings(folders, "cartpole_dqn", ["network.recurrent_size=32"])
    assert settings.network.recurrent == "lstm"
    assert (settings.dqn.batch_size, settings.network.recurrent_size) == (320, 32)


def test_what_differs_from_the_shipped_settings_differs_from_the_agents(folders: Folders) -> None:
    overrides = parse_assignments(["algorithm=dqn", *R2D2, "network.recurrent=lstm", "dqn.batch_size=64"])
    found = {one["key"]: one["shipped"] for one in settings_file.difference(folders, "", overrides)}
    assert found == {"algorithm": "ppo", "dqn.agent": "dqn", "dqn.batch_size": 640}
