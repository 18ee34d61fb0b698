"""When the best model is to be saved."""

from typing import Any

from soulsgui.runner.run.best_model import BestModel
from soulsgui.wire.messages.node import Verdict

NOBODY: Any = None
"""What decides alone asks no trainer."""


def test_best_model_is_due_once_per_change_and_one_at_a_time() -> None:
    best = BestModel(NOBODY)
    first, second = Verdict(best_model_id=1, best_score=5.0), Verdict(best_model_id=2, best_score=6.0)
    assert best.due(None, 0.0) is None
    assert best.due(Verdict(), 0.0) is None
    assert best.due(first, 0.0) == (1, 5.0)
    assert best.due(second, 10.0) is None
    best.answered(delivered=True)
    assert best.due(first, 20.0) is None
    assert best.due(second, 20.0) == (2, 6.0)


def test_best_model_keeps_a_gap_unless_the_run_ends() -> None:
    best = BestModel(NOBODY)
    assert best.due(Verdict(best_model_id=1, best_score=5.0), 0.0) == (1, 5.0)
    best.answered(delivered=True)
    better = Verdict(best_model_id=2, best_score=6.0)
    assert best.due(better, 0.5) is None
    assert best.due(better, 0.5, hurry=True) == (2, 6.0)


def test_last_best_model_does_not_wait_for_the_one_before() -> None:
    best = BestModel(NOBODY)
    first = Verdict(best_model_id=1, best_score=5.0)
    assert best.due(first, 0.0) == (1, 5.0)
    assert best.due(first, 10.0, hurry=True) is None
    assert best.due(Verdict(best_model_id=2, best_score=6.0), 10.0, hurry=True) == (2, 6.0)


def test_best_model_is_due_again_when_nobody_answered() -> None:
    best = BestModel(NOBODY)
    verdict = Verdict(best_model_id=1, best_score=5.0)
    assert best.due(verdict, 0.0) == (1, 5.0)
    best.answered(delivered=False)
    assert best.due(verdict, 5.0) == (1, 5.0)


def test_best_model_that_an_earlier_attempt_saved_is_not_due() -> None:
    assert BestModel(NOBODY, (1, 5.0)).due(Verdict(best_model_id=1, best_score=5.0), 0.0) is None


def test_best_model_of_weights_that_another_process_held_is_not_due() -> None:
    best = BestModel(NOBODY, (1, 5.0))
    best.oldest = 8
    assert best.due(Verdict(best_model_id=7, best_score=6.0), 0.0, hurry=True) is None
    assert best.due(Verdict(best_model_id=8, best_score=7.0), 0.0) == (8, 7.0)
