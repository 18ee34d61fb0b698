"""What a form knows of each setting, and what was changed in it."""

import pytest

from soulsgui.config.schema import Settings, all_settings
from soulsgui.gui.settings.form import Edits
from soulsgui.gui.settings.row import effect_words
from soulsgui.gui.settings.spec import Kind, section_titles, specs, title_of

DEFAULTS = Settings()
RAMP = {"schedule": "linear", "from": 0.001, "to": 0.0}


@pytest.mark.parametrize("key", list(all_settings()))
def test_every_setting_survives_being_written_and_read(key: str) -> None:
    spec = specs()[key]
    value = all_settings()[key].default
    if spec.kind in (Kind.SWITCH, Kind.CHOICE):
        assert spec.check(value) == (value, "")
    else:
        assert spec.read(spec.written(value)) == (value, "")


@pytest.mark.parametrize("key", list(all_settings()))
def test_every_setting_has_a_section_an_explanation_and_a_known_effect(key: str) -> None:
    spec = specs()[key]
    assert spec.section in section_titles()
    assert spec.info.description
    assert effect_words(spec.info.effect)[0]
    assert spec.matches(key)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("env.id", Kind.TEXT),
        ("env.kwargs", Kind.STRUCTURE),
        ("network.hidden_sizes", Kind.STRUCTURE),
        ("network.activation", Kind.CHOICE),
        ("normalize.observations", Kind.SWITCH),
        ("ppo.n_steps", Kind.WHOLE),
        ("ppo.n_clients", Kind.WHOLE),
        ("ppo.gamma", Kind.NUMBER),
        ("ppo.learning_rate", Kind.SCHEDULE),
        ("vtrace.clip", Kind.SCHEDULE),
    ],
)
def test_each_type_gets_its_editor(key: str, kind: Kind) -> None:
    assert specs()[key].kind is kind


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


@pytest.mark.parametrize(
    ("key", "limits"),
    [
        ("ppo.gamma", "0 to 1"),
        ("ppo.learning_rate", "more than 0, at most 1"),
        ("ppo.n_steps", "1 to 1,000,000"),
        ("env.id", ""),
    ],
)
def test_ranges_are_told_in_words(key: str, limits: str) -> None:
    assert specs()[key].limits == limits


def test_bytes_are_told_in_sizes_too() -> None:
    assert specs()["redis.max_memory"].hint(536_870_912) == "537 MB"
    assert specs()["ppo.n_steps"].hint(256) == ""


@pytest.mark.parametrize(
    ("words", "key", "found"),
    [
        ("gamma", "ppo.gamma", True),
        ("DISCOUNT rewards", "ppo.gamma", True),
        ("discount tomato", "ppo.gamma", False),
        ("number of steps", "ppo.n_steps", True),
        ("", "seed", True),
    ],
)
def test_search_looks_at_key_title_and_explanation(words: str, key: str, found: bool) -> None:
    assert specs()[key].matches(words) is found


def test_names_are_written_for_people() -> None:
    assert title_of("gae_lambda") == "GAE lambda"
    assert title_of("num_envs") == "Number of environments"


# --- edits ---


SAVED = {"ppo.gamma": 0.95, "network.hidden_sizes": (32, 32)}


@pytest.fixture
def edits() -> Edits:
    base = {key: info.default for key, info in all_settings().items()}
    return Edits(base, {"ppo.gamma": 0.95, "network.hidden_sizes": [32, 32]})


def unsaved(edits: Edits) -> set[str]:
    return {key for key in specs() if edits.unsaved(key)}


def test_saved_values_win_over_shipped_ones(edits: Edits) -> None:
    assert edits.value("ppo.gamma") == 0.95
    assert edits.value("network.hidden_sizes") == (32, 32)
    assert edits.value("ppo.epochs") == DEFAULTS.ppo.epochs
    assert edits.modified("ppo.gamma")
    assert not edits.modified("ppo.epochs")
    assert unsaved(edits) == set()


def test_a_typed_value_is_a_change_and_typing_it_back_is_none(edits: Edits) -> None:
    edits.type("ppo.epochs", 3)
    assert edits.own == SAVED | {"ppo.epochs": 3}
    assert unsaved(edits) == {"ppo.epochs"}
    edits.type("ppo.epochs", DEFAULTS.ppo.epochs)
    assert unsaved(edits) == set()


def test_typing_the_shipped_value_takes_the_entry_out_of_the_file(edits: Edits) -> None:
    edits.type("ppo.gamma", DEFAULTS.ppo.gamma)
    assert edits.own.keys() == SAVED.keys() - {"ppo.gamma"}
    assert unsaved(edits) == {"ppo.gamma"}
    assert not edits.modified("ppo.gamma")
    edits.type("ppo.gamma", 0.95)
    assert unsaved(edits) == set()


def test_a_reset_takes_a_saved_entry_out_and_forgets_what_was_typed(edits: Edits) -> None:
    edits.type("ppo.gamma", 0.5)
    edits.reset("ppo.gamma")
    assert edits.own.keys() == SAVED.keys() - {"ppo.gamma"}
    assert edits.value("ppo.gamma") == DEFAULTS.ppo.gamma
    edits.type("ppo.epochs", 3)
    edits.reset("ppo.epochs")
    assert unsaved(edits) == {"ppo.gamma"}


def test_what_is_wrong_is_named_and_kept(edits: Edits) -> None:
    edits.type("ppo.gamma", "high", "Expected a number.")
    assert edits.problems == {"ppo.gamma": "Expected a number."}
    assert edits.own == SAVED | {"ppo.gamma": "high"}
    assert unsaved(edits) == {"ppo.gamma"}
    edits.type("ppo.gamma", 0.9)
    assert edits.problems == {}
    assert edits.own == SAVED | {"ppo.gamma": 0.9}


def test_a_draft_from_elsewhere_is_what_is_unsaved() -> None:
    edits = Edits({"ppo.epochs": 10}, {"seed": 3, "ppo.gamma": 0.9})
    edits.type("ppo.clip", 0.3)
    edits.take({"seed": 3, "ppo.epochs": 4, "network.hidden_sizes": [8]})
    assert edits.value("ppo.epochs") == 4
    assert {key for key in specs() if edits.unsaved(key)} == {
        "ppo.gamma",
        "ppo.epochs",
        "network.hidden_sizes",
    }
    assert edits.own == {"seed": 3, "ppo.epochs": 4, "network.hidden_sizes": (8,)}
