"""Settings that may follow a schedule: what is taken, how it stands in files, what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import combine, load_run_settings
from soulsgui.config.parsing import parse_assignments, parse_layer
from soulsgui.config.schema import Settings


def test_the_same_words_are_taken_from_a_file_and_a_command_line() -> None:
    text = "ppo:\n  clip:\n    schedule: linear\n    from: 3e-1\n    to: 0\n    over: 500\n"
    word = "ppo.clip={schedule: linear, from: 3e-1, to: 0, over: 500}"
    for layer in (parse_layer(text, "config.yaml"), parse_assignments([word])):
        assert combine([layer]).ppo.clip == {"schedule": "linear", "from": 0.3, "to": 0.0, "over": 500}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("ppo.clip", 0, "greater than 0"),
        ("ppo.clip", {"schedule": "cosine", "from": 1, "to": 0}, "linear, exponential, piecewise"),
        ("ppo.clip", {"from": 1, "to": 0}, "a map such as"),
        ("ppo.clip", {"schedule": "linear", "from": 1}, "`from`, `over`, `schedule`, `to`"),
        ("ppo.clip", {"schedule": "linear", "from": 1, "to": 0, "until": 3}, "takes"),
        ("ppo.clip", {"schedule": "linear", "from": "much", "to": 0}, "`from` should be a number"),
        ("ppo.clip", {"schedule": "linear", "from": 11, "to": 0}, "less than or equal to 10, not 11"),
        ("ppo.clip", {"schedule": "linear", "from": 1, "to": 0, "over": 0}, "at least 1"),
        ("ppo.clip", {"schedule": "exponential", "from": 1, "to": 0}, "above 0"),
        ("ppo.entropy_coef", {"schedule": "linear", "from": 1, "to": -1}, "greater than or equal to 0"),
        ("dqn.temperature", {"schedule": "linear", "from": 1, "to": 0, "over": 9}, "greater than 0"),
        ("dqn.epsilon", {"schedule": "piecewise", "points": []}, "should be a list such as"),
        ("dqn.epsilon", {"schedule": "piecewise", "points": [[0, 1], [0, 0.5]]}, "should rise"),
        ("dqn.epsilon", {"schedule": "piecewise", "points": [3]}, "environment steps, value"),
        ("dqn.epsilon", "little", "should be"),
    ],
)
def test_what_is_no_schedule_is_refused_in_words(key: str, value: Any, words: str) -> None:
    section, name = key.split(".")
    layer = parse_layer(json.dumps({section: {name: value}, "stop": {"env_steps": 1000}}), "config.yaml")
    with pytest.raises(ConfigError) as caught:
        combine([layer])
    (problem,) = caught.value.problems
    assert problem.key == key
    assert words in problem.reason


def test_a_run_of_an_earlier_version_goes_on_under_the_names_of_now(tmp_path: Path) -> None:
    tree = Settings.model_validate({"stop": {"env_steps": 5000}}).model_dump(mode="json")
    tree["ppo"] |= {"learning_rate": 0.01, "learning_rate_schedule": "linear", "normalize_advantage": True}
    tree["vtrace"] |= {"learning_rate_schedule": "constant"}
    for name in ("epsilon", "temperature"):
        del tree["dqn"][name]
        tree["dqn"] |= {f"{name}_start": 1.0, f"{name}_end": 0.1, f"{name}_steps": 70}
    tree["dqn"] |= {"priority_correction": 0.3, "priority_correction_steps": 90}
    tree["dqn"] |= {"agent": "rainbow", "n_step": None}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(tree))
    settings = load_run_settings(file)
    assert settings.ppo.learning_rate == {"schedule": "linear", "from": 0.01, "to": 0.0}
    assert settings.ppo.normalize_advantage == "round"
    assert settings.vtrace.learning_rate == Settings().vtrace.learning_rate
    ramp = {"schedule": "linear", "from": 1.0, "to": 0.1, "over": 70}
    assert (settings.dqn.epsilon, settings.dqn.temperature) == (ramp, ramp)
    assert settings.dqn.n_step == 3
    assert settings.dqn.priority_correction == {"schedule": "linear", "from": 0.3, "to": 1.0, "over": 90}


@pytest.mark.parametrize(
    ("algorithm", "every", "evaluated", "best_by_evaluation", "goal"),
    [
        ("ppo", None, 0, False, "training"),
        ("ppo", 7, 7, False, "both"),
        ("vtrace", None, 0, False, "training"),
        ("dqn", None, 5000, True, "both"),
    ],
)
def test_the_best_model_of_an_earlier_version_goes_on_by_what_it_was_chosen_by(
    tmp_path: Path, algorithm: str, every: int | None, evaluated: int, best_by_evaluation: bool, goal: str
) -> None:
    tree = Settings.model_validate({"algorithm": algorithm}).model_dump(mode="json")
    tree["evaluation"] = {"every_updates": every, "episodes": 10, "best_by": "auto"}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(tree))
    settings = load_run_settings(file)
    assert settings.evaluates_every == evaluated
    assert settings.best_by_evaluation == best_by_evaluation
    assert settings.goal_judged_by == goal
