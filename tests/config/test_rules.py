"""Rules between settings of soft actor-critic."""

from typing import Any

import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import Layer, combine


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"sac.buffer_size": 500}, "sac.buffer_size", "sac.learning_starts"),
        ({"algorithm": "sac", "network.squash": "clip"}, "network.squash", "tanh for sac"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes: dict[str, Any], key: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        combine([Layer("test", changes)])
    assert key in str(refusal.value)
    assert reason in str(refusal.value)


def test_other_algorithms_may_cut_actions_off() -> None:
    assert combine([Layer("test", {"network.squash": "clip"})]).network.squash == "clip"
