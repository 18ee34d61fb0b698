from typing import Any

import pytest

from soulsgui.config.metrics import info_keys, read_metrics


def test_a_metric_is_a_key_alone_or_what_is_made_of_it() -> None:
    wins = {"key": "boss_hp", "compare": "<=", "value": 0, "window": 50}
    found = read_metrics(
        {"hp": "boss_hp", "wins": wins, "left": {"key": "length", "scale": -1, "offset": 500}}
    )
    assert [found["wins"].of(value) for value in (0.5, 0.0)] == [0.0, 1.0]
    assert (found["hp"].of(0.5), found["left"].of(100.0)) == (0.5, 400.0)
    assert info_keys(found) == ("boss_hp",)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"return": "x"}, "is not a metric name"),
        ({"wins_mean": "x"}, "is not a metric name"),
        ({"a b": "x"}, "is not a metric name"),
        ({"a": {"compare": "<"}}, "a.key"),
        ({"a": {"key": "x", "compare": "~"}}, "a.compare"),
        ({"a": {"key": "x", "scale": float("nan")}}, "a.scale"),
        ({"a": {"key": "x", "wrong": 1}}, "a.wrong"),
        ({f"m{n}": "x" for n in range(21)}, "at most 20"),
    ],
)
def test_what_is_none_is_refused_with_its_place(told: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_metrics(told)
