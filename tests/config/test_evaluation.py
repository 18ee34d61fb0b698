"""When a run evaluates, and what its best model is chosen by."""

from typing import Any

import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import Layer, combine
from soulsgui.config.sections.evaluation import EVERY


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
