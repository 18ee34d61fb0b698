"""Shipped values that depend on what learns: which they are, and what wins over them."""

import json
from pathlib import Path
from typing import get_args

import pytest

from soulsgui.config.layers import parse_assignments
from soulsgui.config.like import as_settings
from soulsgui.config.load import defaults_layer, load_settings
from soulsgui.config.paths import Folders
from soulsgui.config.schema import Settings
from soulsgui.config.sections.agents import SHIPPED_WITH, shipped_with
from soulsgui.config.sections.dqn import DQNSettings
from soulsgui.config.settings_info import all_settings
from soulsgui.runner import settings_file


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    (tmp_path / "config").mkdir()
    return Folders(tmp_path / "config", tmp_path / "data")


AGENTS = get_args(DQNSettings.model_fields["agent"].annotation)
CHOICES = [f"algorithm={one}" for one in get_args(Settings.model_fields["algorithm"].annotation)]
CHOICES += [f"dqn.agent={one}" for one in AGENTS]


def test_the_table_names_what_there_is_and_says_nothing_twice() -> None:
    known = all_settings()
    for choice, values in SHIPPED_WITH.items():
        assert choice in CHOICES
        for key, value in values.items():
            assert json.dumps(known[key].default) != json.dumps(value), (choice, key)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_agent_runs_with_nothing_else_set(folders: Folders, choice: str) -> None:
    settings = load_settings(folders, assignments=["algorithm=dqn", choice])
    brought = shipped_with(defaults_layer().values, parse_assignments(["algorithm=dqn", choice]).values)
    told = json.loads(settings.model_dump_json())
    for key, value in brought.items():
        section, name = key.split(".")
        assert told[section][name] == value


def test_an_agent_brings_its_own_and_those_of_its_family(folders: Folders) -> None:
    plain, memory = (load_settings(folders, assignments=["algorithm=dqn", *more]) for more in ([], R2D2))
    assert (plain.network.hidden_sizes, plain.network.recurrent) == ((128, 128), "none")
    assert (memory.network.hidden_sizes, memory.network.recurrent) == ((64,), "lstm")
    assert load_settings(folders, assignments=R2D2).network == Settings().network, "ppo learns, not it"


R2D2 = ["dqn.agent=r2d2"]


def test_preset_and_user_win_over_what_an_agent_brings(folders: Folders) -> None:
    assert shipped_with({"algorithm": "sac"})["network.hidden_sizes"] == [256, 256]
    assert load_settings(folders, "pendulum_sac").network.hidden_sizes == (64, 64), "of the preset"
    folders.overrides.write_text("dqn:\n  agent: r2d2\n  batch_size: 320\n")
    settings = load_settings(folders, "cartpole_dqn", ["network.recurrent_size=32"])
    assert settings.network.recurrent == "lstm"
    assert (settings.dqn.batch_size, settings.network.recurrent_size) == (320, 32)


def test_settings_made_in_python_have_them_too() -> None:
    assert as_settings({"algorithm": "dqn", "dqn": {"agent": "r2d2"}}).network.recurrent == "lstm"


def test_what_differs_from_the_shipped_settings_differs_from_the_agents(folders: Folders) -> None:
    overrides = parse_assignments(["algorithm=dqn", *R2D2, "network.recurrent=lstm", "dqn.batch_size=64"])
    found = {one["key"]: one["shipped"] for one in settings_file.difference(folders, "", overrides)}
    assert found == {"algorithm": "ppo", "dqn.agent": "dqn", "dqn.batch_size": 640}
