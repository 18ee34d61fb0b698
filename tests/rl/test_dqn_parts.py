"""Which parts the agents of the DQN family are made of."""

from dataclasses import replace
from typing import Any

import pytest

from soulsgui.rl.gradients.dqn import DQNParts
from tests.rl.support import dqn_settings

PLAIN = DQNParts("value", double=True, dueling=False, noisy=False, prioritised=False, n_step=1)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({}, PLAIN),
        ({"double": False}, replace(PLAIN, double=False)),
        ({"dueling": True}, replace(PLAIN, dueling=True)),
        ({"exploration": "noisy"}, replace(PLAIN, noisy=True)),
        ({"exploration": "boltzmann"}, PLAIN),
        ({"replay": "prioritised"}, replace(PLAIN, prioritised=True)),
        ({"n_step": 5}, replace(PLAIN, n_step=5)),
        ({"agent": "qr_dqn"}, replace(PLAIN, kind="quantile")),
        ({"agent": "c51", "dueling": True}, replace(PLAIN, kind="categorical", dueling=True)),
        ({"agent": "iqn"}, replace(PLAIN, kind="implicit")),
        ({"agent": "rainbow", "double": False}, DQNParts("categorical", True, True, True, True, 1)),
        ({"agent": "rainbow", "n_step": 3}, DQNParts("categorical", True, True, True, True, 3)),
    ],
)
def test_parts_are_as_the_settings_say_and_rainbow_has_all(changes: dict[str, Any], parts: DQNParts) -> None:
    assert DQNParts.of(dqn_settings(**changes).dqn) == parts
