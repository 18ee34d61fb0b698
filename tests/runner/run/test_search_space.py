import time

import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.schema import Settings
from soulsgui.runner.run.search_space import Dimension, search_space


@pytest.mark.parametrize(
    ("key", "asked", "found"),
    [
        ("ppo.learning_rate", "1e-4..1e-2:log", Dimension(1e-4, 1e-2, log=True)),
        ("ppo.learning_rate", {"low": 0.1, "high": 0.3, "step": 0.1}, Dimension(0.1, 0.3, step=0.1)),
        ("ppo.learning_rate", {"low": 0.1, "high": 0.3, "step": 0.2}, Dimension(0.1, 0.3, step=0.2)),
        ("ppo.epochs", "1 .. 20", Dimension(1, 20, whole=True)),
        ("ppo.n_clients", {"low": 1, "high": 4}, Dimension(1, 4, whole=True)),
        ("network.activation", "[tanh, relu]", Dimension(choices=('"tanh"', '"relu"'))),
        ("network.hidden_sizes", [[64], [64, 64]], Dimension(choices=("[64]", "[64, 64]"))),
    ],
)
def test_what_is_searched_is_told_in_a_few_ways(key: str, asked: object, found: Dimension) -> None:
    assert search_space({key: asked}, Settings()) == {key: found}
    assert found.value(found.choices[0] if found.choices else found.low) == found.ends[0]


def test_every_mistake_is_told_before_anything_begins() -> None:
    wrong = {
        "ppo.lerning_rate": "0..1",
        "ppo.learning_rate": "1e-4..2",
        "ppo.epochs": "1.5..3",
        "ppo.clip": "0.3..0.1",
        "ppo.gae_lambda": "0..1:log",
        "network.activation": "1..2",
        "vtrace.gamma": "[0.9, 1.5]",
        "ppo.gamma": 0.9,
        "ppo.value_coef": "nan..1",
        "redis.port": "1..2",
        "ppo.minibatch_size": [],
        "ppo.adam_epsilon": {"low": 1e-5, "high": 1, "step": 1e-320},
        "ppo.n_clients": {"low": 1, "high": 4, "step": 8},
        "vtrace.learning_rate": {"low": 0, "high": 10**400},
        "sac.learning_rate": {"low": 1e-5, "high": 1e-2, "log": "yes"},
    }
    with pytest.raises(ConfigError) as caught:
        search_space(wrong, Settings())
    told = {problem.key: problem.reason for problem in caught.value.problems}
    assert told.keys() == wrong.keys()
    assert "less than or equal to 1" in told["ppo.learning_rate"]
    assert "whole number" in told["ppo.epochs"]
    assert "should rise" in told["ppo.clip"]
    assert "belongs to the server" in told["redis.port"]
    assert "list its choices" in told["network.activation"]
    assert "steps at most" in told["ppo.adam_epsilon"]
    assert "`step` should be above 0, no more than" in told["ppo.n_clients"]
    assert "log: true" in told["sac.learning_rate"]


@pytest.mark.parametrize(
    "bomb",
    [
        "[&a [1, 1, 1, 1, 1, 1, 1], &b [*a, *a, *a, *a, *a, *a, *a], &c [*b, *b, *b, *b, *b, *b, *b],"
        " &d [*c, *c, *c, *c, *c, *c, *c], &e [*d, *d, *d, *d, *d, *d, *d], [*e, *e, *e, *e, *e, *e]]",
        "&a [*a]",
        "[" * 9_000,
        "[" + "1," * 100_000 + "]",
        "!!python/object/apply:os.system [id]",
    ],
    ids=["grows", "holds itself", "deep", "long", "code"],
)
def test_text_of_anybody_makes_no_great_values(bomb: str) -> None:
    begun = time.process_time()
    with pytest.raises(ConfigError):
        search_space({"network.hidden_sizes": bomb}, Settings())
    assert time.process_time() - begun < 3.0
