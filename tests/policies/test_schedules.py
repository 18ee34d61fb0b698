"""Schedules over a run."""

import pytest

from soulsgui.policies.schedules import scheduled


def test_constant_stays() -> None:
    assert [scheduled(0.3, "constant", progress) for progress in (0, 0.5, 1)] == [0.3] * 3


def test_linear_goes_to_zero_and_stays_there() -> None:
    values = [scheduled(2.0, "linear", progress) for progress in (-1, 0, 0.25, 1, 1.5)]
    assert values == [2, 2, 1.5, 0, 0]


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="cosine"):
        scheduled(1.0, "cosine", 0.0)  # type: ignore[arg-type]
