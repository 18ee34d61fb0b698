from typing import Any

import pytest

from soulsgui.config.schema import Settings, all_settings
from soulsgui.gui.settings.form import Edits
from soulsgui.gui.settings.row import effect_words
from soulsgui.gui.settings.spec import Kind, as_yaml, section_titles, specs, title_of

DEFAULTS = Settings()
RAMP = {"schedule": "linear", "from": 0.001, "to": 0.0}


@pytest.mark.parametrize("key", list(all_settings()))
def test_every_setting_is_explained_and_survives_being_written_and_read(key: str) -> None:
    spec = specs()[key]
    value = all_settings()[key].default
    if spec.kind in (Kind.SWITCH, Kind.CHOICE):
        assert spec.check(value) == (value, "")
    else:
        assert spec.read(spec.written(value)) == (value, "")
    assert spec.section in section_titles()
    assert spec.info.description
    assert effect_words(spec.info.effect)[0]
    assert spec.matches(key)


def test_each_type_gets_its_editor() -> None:
    kinds = {
        "env.id": Kind.TEXT,
        "env.kwargs": Kind.STRUCTURE,
        "network.hidden_sizes": Kind.STRUCTURE,
        "network.activation": Kind.CHOICE,
        "normalize.observations": Kind.SWITCH,
        "ppo.n_steps": Kind.WHOLE,
        "ppo.n_clients": Kind.WHOLE,
        "ppo.gamma": Kind.NUMBER,
        "ppo.learning_rate": Kind.SCHEDULE,
        "vtrace.clip": Kind.SCHEDULE,
    }
    assert {key: specs()[key].kind for key in kinds} == kinds


@pytest.mark.parametrize(
    ("key", "written", "value"),
    [
        ("ppo.learning_rate", "1e-3", 0.001),
        ("ppo.learning_rate", " 0.5 ", 0.5),
        ("ppo.learning_rate", "{schedule: linear, from: 1e-3, to: 0}", RAMP),
        ("vtrace.clip", "", None),
        ("ppo.n_steps", "1e3", 1000),
        ("ppo.n_steps", "2_048", 2048),
        ("ppo.n_clients", "", None),
        ("ppo.n_clients", "null", None),
        ("ppo.n_clients", "none", None),
        ("network.hidden_sizes", "[64, 32]", (64, 32)),
        ("network.hidden_sizes", "[]", ()),
        ("env.kwargs", "{gravity: -9.8, wind: true}", {"gravity": -9.8, "wind": True}),
        ("env.kwargs", "", {}),
    ],
)
def test_texts_are_read_as_people_write_them(key: str, written: str, value: object) -> None:
    assert specs()[key].read(written) == (value, "")


@pytest.mark.parametrize(
    ("key", "written", "said"),
    [
        ("ppo.gamma", "1.5", "less than or equal to 1"),
        ("ppo.gamma", "high", "Expected a number"),
        ("ppo.gamma", "", "Expected a number"),
        ("ppo.gamma", "nan", "finite"),
        ("ppo.n_steps", "2.5", "Should be a whole number."),
        ("ppo.n_steps", "0", "greater than or equal to 1"),
        ("network.hidden_sizes", "[64, x]", "Should be a whole number."),
        ("network.hidden_sizes", "[64", "Not valid YAML"),
        ("env.id", "", "at least 1"),
    ],
)
def test_what_is_wrong_is_said_in_words(key: str, written: str, said: str) -> None:
    problem = specs()[key].read(written)[1]
    assert said in problem
    assert problem.endswith(".")


def test_ranges_sizes_and_names_are_told_for_people() -> None:
    ranges = {
        "ppo.gamma": "0 to 1",
        "ppo.learning_rate": "more than 0, at most 1",
        "ppo.n_steps": "1 to 1,000,000",
        "env.id": "",
    }
    assert {key: specs()[key].limits for key in ranges} == ranges
    assert specs()["redis.max_memory"].hint(536_870_912) == "537 MB"
    assert specs()["ppo.n_steps"].hint(256) == ""
    assert title_of("gae_lambda") == "GAE lambda"
    assert title_of("num_envs") == "Number of environments"
    assert title_of("tensorboard") == "TensorBoard"


def test_search_looks_at_key_title_and_explanation() -> None:
    words = ("gamma", "DISCOUNT rewards", "discount tomato", "")
    assert [specs()["ppo.gamma"].matches(each) for each in words] == [True, True, False, True]
    assert specs()["ppo.n_steps"].matches("number of steps")


SAVED = {"ppo.gamma": 0.95, "network.hidden_sizes": (32, 32)}


@pytest.fixture
def edits() -> Edits:
    base = {key: info.default for key, info in all_settings().items()}
    return Edits(base, SAVED | {"network.hidden_sizes": [32, 32]})


def unsaved(edits: Edits) -> set[str]:
    return {key for key in specs() if edits.unsaved(key)}


def test_saved_values_win_over_shipped_ones(edits: Edits) -> None:
    assert edits.value("ppo.gamma") == 0.95
    assert edits.value("network.hidden_sizes") == (32, 32)
    assert edits.value("ppo.epochs") == DEFAULTS.ppo.epochs
    assert (edits.modified("ppo.gamma"), edits.modified("ppo.epochs")) == (True, False)
    assert (edits.own, unsaved(edits)) == (SAVED, set())


GAMMA, EPOCHS = DEFAULTS.ppo.gamma, DEFAULTS.ppo.epochs
NO_GAMMA = {"network.hidden_sizes": (32, 32)}


@pytest.mark.parametrize(
    ("steps", "own", "changed"),
    [
        ([("ppo.epochs", 3)], SAVED | {"ppo.epochs": 3}, {"ppo.epochs"}),
        ([("ppo.epochs", 3), ("ppo.epochs", EPOCHS)], SAVED, set()),
        ([("ppo.gamma", GAMMA)], NO_GAMMA, {"ppo.gamma"}),  # the shipped value needs no entry
        ([("ppo.gamma", GAMMA), ("ppo.gamma", 0.95)], SAVED, set()),
        ([("ppo.gamma", 0.5), ("ppo.gamma",)], NO_GAMMA, {"ppo.gamma"}),
        ([("ppo.epochs", 3), ("ppo.epochs",)], SAVED, set()),
    ],
    ids=["typed", "typed back", "typed as shipped", "and back", "reset", "reset without an entry"],
)
def test_what_is_typed_and_reset_makes_the_entries_of_the_file(
    edits: Edits, steps: list[tuple[Any, ...]], own: dict[str, Any], changed: set[str]
) -> None:
    for key, *typed in steps:
        if typed:
            edits.type(key, *typed)
        else:
            edits.reset(key)
    assert (edits.own, unsaved(edits)) == (own, changed)
    assert edits.modified("ppo.gamma") is ("ppo.gamma" in own)


def test_what_is_wrong_is_named_and_kept(edits: Edits) -> None:
    edits.type("ppo.gamma", "high", "Expected a number.")
    assert edits.problems == {"ppo.gamma": "Expected a number."}
    assert (edits.own, unsaved(edits)) == (SAVED | {"ppo.gamma": "high"}, {"ppo.gamma"})
    edits.type("ppo.gamma", 0.9)
    assert (edits.problems, edits.own) == ({}, SAVED | {"ppo.gamma": 0.9})


def test_a_draft_from_elsewhere_is_what_is_unsaved() -> None:
    edits = Edits({"ppo.epochs": 10}, {"seed": 3, "ppo.gamma": 0.9})
    edits.type("ppo.clip", 0.3)
    edits.take({"seed": 3, "ppo.epochs": 4, "network.hidden_sizes": [8]})
    assert edits.value("ppo.epochs") == 4
    assert unsaved(edits) == {"ppo.gamma", "ppo.epochs", "network.hidden_sizes"}
    assert edits.own == {"seed": 3, "ppo.epochs": 4, "network.hidden_sizes": (8,)}


def test_an_entry_of_the_file_that_says_what_is_shipped_stays_when_it_is_typed_again() -> None:
    edits = Edits({"seed": 3}, {"seed": 3})
    edits.type("seed", 3)
    assert (edits.own, unsaved(edits)) == ({"seed": 3}, set())


def test_a_value_that_is_nested_without_end_is_told_as_one() -> None:
    value: object = 1
    for _ in range(600):
        value = [value]
    assert as_yaml(value) == "…"
