import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from soulsgui.config.errors import ConfigError, Problem
from soulsgui.config.layers import as_settings, combine, load_run_settings, load_settings, over_defaults
from soulsgui.config.parsing import Layer, parse_assignments, parse_layer
from soulsgui.config.paths import Folders
from soulsgui.config.schema import Settings, client_settings


def _problems(text: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        combine([parse_layer(text, "config.yaml")])
    assert caught.value.exit_code == 2
    return caught.value.problems


def test_of_settings_that_are_as_near_the_one_of_the_same_section_is_meant() -> None:
    meant = {
        "ppo:\n  learning_ratee: 1": "ppo.learning_rate",
        "ppo:\n  gamma: 0.9\nlearning_ratee: 1": "ppo.learning_rate",
        "dqn:\n  gamma: 0.9\nLearning_Rate: 1": "dqn.learning_rate",
        "learning_ratee: 1\nsac:\n  gamma: 0.9": "ppo.learning_rate",
        "ppo:\n  n_envs: 3": "env.num_envs",
        "poo.gama: 3": "ppo.gamma",
        "vtrace:\n  entropy: 0.1": "vtrace.entropy_coef",
        "ppo:\n  colour: red": "",
        "stop:\n  lag: 3": "",
        "checkpont:\n  every: 3": "checkpoint",
    }
    assert {text: "".join(problem.nearest for problem in _problems(text)) for text in meant} == meant


def test_five_mistakes_are_refused_at_once_each_with_its_place() -> None:
    problems = _problems(
        """\
env:
  num_env: 3
ppo:
  n_steps: many
  gamma: 1.5
  learning_rate: {schedule: linear, from: 1e-3, to: 0}
client: 7
"""
    )
    linear = {"schedule": "linear", "from": 0.001, "to": 0}
    assert [(one.line, one.key, one.value) for one in problems] == [
        (2, "env.num_env", None),
        (4, "ppo.n_steps", "many"),
        (5, "ppo.gamma", 1.5),
        (6, "ppo.learning_rate", linear),
        (7, "client", 7),
    ]
    assert problems[0].nearest == "env.num_envs"
    assert problems[1].reason == "should be a whole number (in steps per environment)."
    assert str(problems[2]) == "config.yaml, line 5: ppo.gamma = 1.5: should be less than or equal to 1."
    assert "stop.env_steps" in problems[3].reason
    assert "is a section" in problems[4].reason


def test_of_an_unknown_algorithm_no_rules_are_told_that_another_one_breaks() -> None:
    assert [one.key for one in _problems("algorithm: dqnn\ninference: server\n")] == ["algorithm"]


def test_sequences_of_r2d2_overlap_by_half() -> None:
    r2d2 = {"algorithm": "dqn", "dqn.agent": "r2d2", "network.recurrent": "gru", "dqn.sequence_length": 30}
    assert combine([Layer("test", r2d2)]).longest_segment == 15
    assert combine([Layer("test", r2d2 | {"client.segment_length": 7})]).longest_segment == 7
    assert combine([]).longest_segment == 256


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("algorithm: r2d2\n", "should be dqn, with dqn.agent: r2d2."),
        ("algorithm: td3\n", "should be sac, with sac.agent: td3."),
        ("network: {name: resnet}\n", "own as module:Class."),
        ("network: {name: 3}\n", "should be a word: put it in quotes."),
        ("dqn: {n_step: null}\n", "a whole number, or left out for the default (in steps)."),
        ("seed: true", "true or false"),
        ("ppo:\n  epochs: false", "true or false"),
        ("ppo:\n  gamma: true", "true or false"),
        *(
            (f"env:\n  wrappers: [{one}]\n", "{name: {argument: value}}")
            for one in ("{a: 1, b: 2}", "{a: 1}", "3")
        ),
    ],
)
def test_what_is_wanted_is_said_without_a_regular_expression(text: str, reason: str) -> None:
    assert reason in _problems(text)[0].reason


def test_what_is_not_yaml_is_refused_with_its_line() -> None:
    for text, line in (("a: [1\nb: 2\n", 2), ("- 1\n- 2\n", 1), ("seed: 1\n\tx: 2\n", 2)):
        with pytest.raises(ConfigError) as caught:
            parse_layer(text, "config.yaml")
        assert caught.value.problems[0].line == line


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
def test_numbers_are_finite(value: str) -> None:
    (problem,) = _problems(f"ppo:\n  learning_rate: {value}\n")
    assert problem.key == "ppo.learning_rate"


def test_merged_keys_are_read_without_a_line() -> None:
    problems = _problems("x: &x\n  gamma: 2\nppo:\n  <<: *x\n")
    assert {(problem.key, problem.line) for problem in problems} == {("x", 1), ("ppo.gamma", None)}


def test_later_layers_win_entry_by_entry(folders: Folders) -> None:
    folders.overrides.write_text(
        "preset: lunarlander_ppo\nppo:\n  gamma: 0.5\nstop:\n  window: 7\n", encoding="utf-8"
    )
    settings = load_settings(folders, assignments=["ppo.epochs=3", "stop.window=9"])
    assert settings.env.id == "LunarLander-v3"  # preset over defaults
    assert settings.ppo.gamma == 0.5  # config.yaml over preset
    assert settings.stop.window == 9  # --set over config.yaml
    assert settings.ppo.epochs == 3
    assert settings.ppo.clip == Settings().ppo.clip
    folders.overrides.write_text("preset: lunarlander_ppo\n", encoding="utf-8")
    settings = load_settings(folders, preset="cartpole_ppo")
    assert settings.env.id == "CartPole-v1"
    assert settings.stop.mean_return == 475


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("cartpol_ppo", r"is not a preset\. Did you mean cartpole_ppo\?"),
        ("lunarlander", r"is not a preset\. Did you mean lunarlander_ppo\?"),
        ("Lunar", r"is not a preset\. Did you mean lunarlander_ppo\?"),
        ("chess", r"There are: .*, lunarlander_ppo, pendulum_crossq, pendulum_ppo"),
    ],
)
def test_unknown_preset_names_the_nearest_or_else_all(folders: Folders, typed: str, words: str) -> None:
    folders.overrides.write_text(f"preset: {typed}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        load_settings(folders)


def test_missing_file_is_an_empty_layer(folders: Folders) -> None:
    missing = load_settings(folders)
    folders.overrides.write_text("")
    assert load_settings(folders) == missing


@pytest.mark.parametrize(
    ("assignment", "key", "value"),
    [
        ("ppo.n_clients=null", "ppo.n_clients", None),
        ("network.hidden_sizes=[32, 16]", "network.hidden_sizes", [32, 16]),
        ("ppo.learning_rate=1e-3", "ppo.learning_rate", 0.001),
        ("normalize.observations=false", "normalize.observations", False),
        ("env.kwargs={gravity: 9.8}", "env.kwargs", {"gravity": 9.8}),
        (" seed = 5", "seed", 5),
        # To a text as text.
        ("redis.prefix=souls:", "redis.prefix", "souls:"),
        ("redis.binary=", "redis.binary", ""),
        ("env.id=007", "env.id", "007"),
        ("env.id=module:Env-v0", "env.id", "module:Env-v0"),
        ("redis.host='::1'", "redis.host", "::1"),
        ("env.id=2024-01-01", "env.id", "2024-01-01"),
    ],
)
def test_assignments_are_yaml_values(assignment: str, key: str, value: object) -> None:
    assert parse_assignments([assignment]).values == {key: value}


@pytest.mark.parametrize(
    ("assignment", "reason"),
    [
        ("seed", "expected key=value"),
        ("sed=3", "Did you mean seed"),
        ("seed=[1", "is not a YAML value"),
        *((one, "") for one in ("ppo.n_steps=&a [*a]", "env.kwargs=&a {x: *a}", "seed=" + "[" * 400)),
        ("env.kwargs={x: 2024-01-01}", ""),
    ],
)
def test_wrong_and_hostile_assignments_are_refused_in_words(assignment: str, reason: str) -> None:
    layer = parse_assignments([assignment])
    (problem,) = layer.problems
    assert reason in str(problem)
    assert problem.source == "--set"
    assert not layer.values


def test_run_settings_come_back_as_they_were_written(tmp_path: Path) -> None:
    points = {"schedule": "piecewise", "points": [[0, 1], [100, 0.1]]}
    settings = Settings.model_validate(
        {
            "env": {"kwargs": {"name": 'é😀\t"\\ \u2028', "small": 1e-05}},
            "ppo": {"learning_rate": 1e-05},
            "dqn": {"epsilon": points, "temperature": 0.5},
        }
    )
    path = tmp_path / "config.json"
    with pytest.raises(ConfigError, match="no configuration in"):
        load_run_settings(path)
    path.write_text(settings.model_dump_json(), encoding="utf-8")
    assert load_run_settings(path) == settings
    path.write_text(Settings().model_dump_json(indent=1).replace('"gamma": 0.99', '"gamma": 99'))
    with pytest.raises(ConfigError, match=r"config\.json, line \d+: ppo\.gamma = 99"):
        load_run_settings(path)


@pytest.mark.allow_warnings
def test_a_retired_setting_is_said_once_with_what_replaces_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        layer = parse_layer("redis:\n  tls: true\n  port: 3\n", "retired.yaml")
        assert (layer.values, layer.problems) == ({"redis.port": 3}, ())
    assert caplog.messages == [
        "retired.yaml: redis.tls was removed, and is ignored: "
        "other computers are always let in by the gateway, encrypted (redis.lan, redis.public)"
    ]
    (problem,) = parse_assignments(["redis.tls=true"]).problems
    assert str(problem).startswith("--set: redis.tls: was removed: other computers")
    path = tmp_path / "config.json"
    path.write_text(Settings().model_dump_json().replace('"redis":{', '"redis":{"tls":true,'))
    assert '"tls"' in path.read_text()
    assert load_run_settings(path) == Settings()
    assert len(caplog.messages) == 1, "what an earlier version wrote into a run was nobody's wish"


def test_settings_may_be_given_as_dictionary_or_namespace_and_their_mistakes_are_refused() -> None:
    given = Layer("test", {"ppo.gamma": 0.5, "network.hidden_sizes": [8], "seed": 3})
    expected = combine(over_defaults([given]))
    assert as_settings({"ppo": {"gamma": 0.5}, "network.hidden_sizes": (8,), "seed": 3}) == expected
    namespace = SimpleNamespace(
        ppo=SimpleNamespace(gamma=0.5), network=SimpleNamespace(hidden_sizes=[8]), seed=3
    )
    assert as_settings(namespace) == expected
    assert as_settings(expected) is expected
    assert as_settings({"preset": "lunarlander_ppo"}).env.id == "LunarLander-v3"
    assert as_settings(namespace, {"preset": "lunarlander_ppo"}).env.id == "LunarLander-v3"
    with pytest.raises(ConfigError) as caught:
        as_settings({"ppo": {"gama": 0.5, "epochs": 0}, "client": 3})
    assert [problem.key for problem in caught.value.problems] == ["ppo.gama", "client", "ppo.epochs"]
    assert caught.value.problems[0].nearest == "ppo.gamma"


def test_clients_receive_only_what_is_meant_for_them() -> None:
    sent = client_settings(Settings())
    assert sent["env.id"] == "CartPole-v1"
    assert sent["client.segment_length"] == 256
    assert not any(key.startswith(("redis.", "control.", "ppo.")) for key in sent)


_LAUGHS = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "\n".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]" for a, b in pairwise("abcdefghij")
)


@pytest.mark.parametrize(
    "text",
    [
        "ppo: &p\n  <<: *p\n",
        "seed: " + "[" * 400,
        "env:\n  kwargs:\n    " + _LAUGHS.replace("\n", "\n    "),
        "env:\n  kwargs: {x: 2024-01-01}\n",
        "env:\n  kwargs: {x: !!binary aGVsbG8=}\n",
        "env:\n  kwargs: {x: .nan}\n",
        "env:\n  kwargs: {x: [.inf]}\n",
        "? [1, 2]\n: 3\n",
    ],
)
def test_hostile_yaml_is_a_mistake_in_words(text: str) -> None:
    assert _problems(text)


@pytest.mark.parametrize(
    "value", ["[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, "[{a: " * 450], ids=["[", "{", "[{"]
)
def test_deep_nesting_is_told_with_its_line_before_it_takes_long(tmp_path: Path, value: str) -> None:
    begun = time.process_time()
    (problem,) = _problems(f"seed: 1\nenv:\n  kwargs: {value}\n")
    assert (problem.line, problem.reason) == (3, "not valid YAML: nested deeper than 100 levels")
    path = tmp_path / "config.json"
    path.write_text('{\n"seed": 1,\n"env": {"kwargs": ' + value)
    with pytest.raises(ConfigError, match=r"config\.json, line 3: .* nested deeper than 100 levels"):
        load_run_settings(path)
    assert time.process_time() - begun < 3.0


def test_text_that_aliases_repeat_and_maps_that_merge_again_and_again_are_told_before_they_take_long() -> (
    None
):
    begun = time.process_time()
    long, again = "x" * 20_000, "*a, " * 1_000
    (problem,) = _problems(f"env:\n  kwargs:\n    a: &a {long}\n    b: [{again}]\n")
    assert (problem.key, problem.reason) == ("env.kwargs", "has more than 131,072 letters.")
    keys = ", ".join(f"k{number}: 1" for number in range(2_000))
    (problem,) = _problems(f"a: &a {{{keys}}}\nb: {{<<: [{again}]}}\n")
    assert (problem.line, problem.reason) == (2, "not valid YAML: more than 1,000 entries are merged (<<)")
    problems = _problems(f"? &a {long}\n: 1\n" + "*a : 1\n" * 100)
    assert len(str(ConfigError(problems))) < 50_000
    assert time.process_time() - begun < 3.0


def test_brackets_in_words_and_comments_and_one_after_the_other_are_not_nested() -> None:
    words = "".join(f"    w{n}: '[{{' # [0, 1) it's {{\n" for n in range(150))
    layer = parse_layer(f"env:\n  kwargs:\n{words}    deep: {'[' * 30}1{']' * 30}\n", "config.yaml")
    assert not layer.problems
    assert len(layer.values["env.kwargs"]) == 151


@pytest.mark.parametrize("number", ["7" * 5_000, "-" + "7" * 2_000, "0x" + "f" * 5_000])
def test_a_number_of_thousands_of_digits_is_told_in_our_words(tmp_path: Path, number: str) -> None:
    (problem,) = _problems(f"ppo:\n  gamma: {number}\n")
    assert (problem.line, problem.reason) == (2, "not valid YAML: a number of more than 1,000 digits")
    (tmp_path / "config.json").write_text(f'{{"seed": 3,\n"ppo": {{"gamma": {number}}}}}')
    with pytest.raises(ConfigError, match=r"config\.json, line 2: .*a number of more than 1,000 digits"):
        load_run_settings(tmp_path / "config.json")
    with pytest.raises(ConfigError, match="seed: contains a number of more than 1,000 digits"):
        as_settings({"seed": int("0x" + "f" * 5_000, 16)})


def test_of_a_long_value_only_the_beginning_is_shown() -> None:
    for text in ("ppo.gamma: " + "7" * 400, "ppo.n_steps: " + "x" * 10_000, f"seed: [{'1, ' * 5_000}]"):
        (problem,) = _problems(text)
        assert len(str(problem)) < 400
        assert "…: should be" in str(problem)
    (problem,) = parse_assignments(["seed=[" + "x" * 10_000]).problems
    assert len(str(problem)) < 400


def test_what_is_written_twice_is_refused_with_both_lines_and_hides_no_other_mistake() -> None:
    problems = _problems("ppo.gamma: 0.9\nppo:\n  gamma: 0.8\n")
    assert [(one.key, one.line) for one in problems] == [("ppo.gamma", 3)]
    assert "in line 1 and in line 3" in problems[0].reason
    problems = _problems(
        """\
seed: -2
ppo:
  gamma: 0.9
  gamma: 0.8
  n_stepps: 3
env:
  kwargs: {length: 1, length: 2}
ppo:
  gamma: 0.7
  epochs: many
seed: 4
colour: red
"""
    )
    keys = {1: "seed", 4: "ppo.gamma", 5: "ppo.n_stepps", 7: "length", 8: "ppo", 9: "ppo.gamma"}
    keys |= {10: "ppo.epochs", 11: "seed", 12: "colour"}
    assert [(one.line, one.key) for one in problems] == list(keys.items())
    twice = [(one.line, one.reason) for one in problems if "twice" in one.reason]
    first = {4: 3, 8: 2, 9: 3, 11: 1}
    places = {line: f": in line {first[line]} and in line {line}" for line in first}
    places[7] = " in line 7"  # both stand in it
    assert twice == [(line, f"is written twice{places[line]}. Keep one of them.") for line in sorted(places)]
