from typing import Any

import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import combine
from soulsgui.config.parsing import Layer
from soulsgui.config.rules import broken_rules
from soulsgui.config.schema import Settings
from soulsgui.config.sections.run import EVERY

LINEAR = {"schedule": "linear", "from": 0.001, "to": 0}
CROSSQ: dict[str, Any] = {"algorithm": "sac", "sac": {"agent": "crossq"}}
R2D2: dict[str, Any] = {"algorithm": "dqn", "network": {"recurrent": "gru"}}


ONE_CLIENT = {"clients": {"local": 1}}


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"vtrace": {"batch_size": 512, "buffer_size": 1023}}, "vtrace.buffer_size"),
        ({"vtrace": {"learning_rate": LINEAR}}, "vtrace.learning_rate"),
        ({"ppo": {"entropy_coef": LINEAR}}, "ppo.entropy_coef"),
        ({"algorithm": "dqn", "network": {"shared": True}}, "network.shared"),
        ({"network": {"hidden_sizes": (), "recurrent": "lstm"}}, "network.hidden_sizes"),
        ({"algorithm": "vtrace", "network": {"recurrent": "gru"}}, "network.recurrent"),
        ({"sac": {"buffer_size": 500}}, "sac.buffer_size"),
        (R2D2 | {"dqn": {"agent": "r2d2", "q_clip": 1.0}}, "dqn.q_clip"),
        ({"algorithm": "dqn", "dqn": {"agent": "r2d2"}}, "network.recurrent"),
        (R2D2, "network.recurrent"),
        (R2D2 | {"dqn": {"agent": "r2d2", "exploration": "boltzmann"}}, "dqn.exploration"),
        (R2D2 | {"dqn": {"agent": "r2d2", "buffer_size": 1000, "burn_in": 990}}, "dqn.buffer_size"),
        (R2D2 | {"dqn": {"agent": "r2d2", "buffer_size": 1000, "burn_in": 125}}, "dqn.buffer_size"),
        ({"stop": {"judged_by": "evaluation"}, "evaluation": {"every_updates": 0}}, "stop.judged_by"),
        ({"algorithm": "sac", "network": {"squash": "clip"}}, "network.squash"),
        ({"sac": {"quantiles": 3, "dropped_quantiles": 3}}, "sac.dropped_quantiles"),
        (CROSSQ | {"learner": {"processes": 2}}, "learner.processes"),
        (CROSSQ | {"sac": {"agent": "crossq", "batch_size": 1}}, "sac.batch_size"),
        ({"algorithm": "sac", "stop": {"env_steps": 1000}}, "stop.env_steps"),
        ({"algorithm": "sac", "network": {"recurrent": "gru"}}, "network.recurrent"),
        ({"algorithm": "sac", "network": {"name": "nature_cnn"}}, "network.name"),
        ({"inference": "server"}, "inference"),
        ({"inference": "server", "algorithm": "sac", "determinism": "lockstep"} | ONE_CLIENT, "inference"),
    ],
)
def test_settings_that_do_not_go_together_are_named(changed: dict[str, Any], key: str) -> None:
    assert [rule.key for rule in broken_rules(Settings.model_validate(changed))] == [key]


@pytest.mark.parametrize(
    "changed",
    [
        {"network": {"squash": "clip"}},
        {"vtrace": {"batch_size": 512, "buffer_size": 1024}},
        {"vtrace": {"learning_rate": LINEAR}, "stop": {"env_steps": 1000}},
        {"algorithm": "vtrace", "network": {"name": "my.nets:Own"}},
        {"algorithm": "sac", "stop": {"env_steps": 1001}},
        {"stop": {"env_steps": 1000}},
        {"inference": "server", "algorithm": "vtrace"},
        {"algorithm": "sac", "stop": {"judged_by": "evaluation"}},
        {"algorithm": "dqn", "network": {"name": "nature_cnn"}},
        {"network": {"name": "nature_cnn", "recurrent": "lstm", "hidden_sizes": ()}},
        R2D2 | {"dqn": {"agent": "r2d2"}, "network": {"name": "my.nets:Own", "recurrent": "lstm"}},
        R2D2 | {"dqn": {"agent": "r2d2", "buffer_size": 1000, "burn_in": 124}},
    ],
)
def test_settings_that_go_together_are_good(changed: dict[str, Any]) -> None:
    assert broken_rules(Settings.model_validate(changed)) == []


def test_a_run_that_would_end_before_its_first_update_is_told_what_to_change() -> None:
    changed = {"algorithm": "dqn", "stop": {"env_steps": 500}, "dqn": {"learning_starts": 2500}}
    (rule,) = broken_rules(Settings.model_validate(changed))
    assert rule.key == "stop.env_steps"
    assert "more than dqn.learning_starts (2,500)" in rule.reason
    assert "set dqn.learning_starts lower" in rule.reason


@pytest.mark.parametrize(
    ("values", "every", "by_evaluation"),
    [
        *(({"algorithm": algorithm}, every, True) for algorithm, every in EVERY.items()),
        ({"algorithm": "ppo", "evaluation.every_updates": 3}, 3, True),
        ({"algorithm": "dqn", "evaluation.best_by": "training"}, EVERY["dqn"], False),
        ({"algorithm": "dqn", "evaluation.every_updates": 0}, 0, False),
    ],
)
def test_who_evaluates_and_ranks_by_it(values: dict[str, Any], every: int, by_evaluation: bool) -> None:
    settings = combine([Layer("test", values)])
    assert (settings.evaluates_every, settings.best_by_evaluation) == (every, by_evaluation)


def test_ranking_by_evaluations_that_never_come_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.every_updates"):
        combine([Layer("test", {"evaluation.best_by": "evaluation", "evaluation.every_updates": 0})])
