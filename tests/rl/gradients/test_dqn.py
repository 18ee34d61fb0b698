"""Which parts the agents of the DQN family are made of, and what IQN's quantiles are drawn to."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from soulsgui.rl.gradients.dqn import DQNParts, DQNRows, ImplicitGradient
from soulsgui.rl.optimiser import FlatParameters
from tests.rl.support import dqn_settings

QUANTILES = torch.tensor([[[-1.0, 50.0], [4.0, 4.0]]])
"""Of two actions: the first is worth 24.5, and 2 where nothing counts beyond 5."""


def test_the_next_action_is_chosen_before_what_follows_is_limited() -> None:
    online = torch.nn.Linear(1, 1)
    flat = FlatParameters([online])

    networks: Any = lambda obs, _: online(obs)[:, :, None].expand(1, 2, 2), lambda *_: QUANTILES
    gradient = ImplicitGradient(*networks, flat, 2, np.random.default_rng(0))
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    rows = DQNRows(zero[:, None], np.zeros(1, np.int64), zero, zero[:, None], one)
    settings = dqn_settings(agent="iqn", double=False, q_clip=5.0, kappa=1.0).dqn
    figures = gradient(rows, settings).figures
    assert figures[2].item() == 2.0


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("levels", [8, 32])
def test_a_perfect_network_aims_at_the_true_value(levels: int, double: bool) -> None:
    """Algorithm 1 of arXiv 1806.06923: the levels that choose the next action are not those that value it."""
    weight = torch.nn.Linear(1, 1)

    def perfect(obs: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        """Say the quantiles of four returns of mean 0: exponential, its mirror image, normal, and certain."""
        exponential, mirrored = -torch.log1p(-level) - 1, torch.log(level) + 1
        normal = torch.special.ndtri(level)
        quantiles = torch.stack([exponential, mirrored, normal, torch.zeros_like(level)], 1)
        return quantiles.clamp(-30, 30) + 0 * weight(obs)[:, :, None]

    networks: Any = perfect, perfect
    gradient = ImplicitGradient(*networks, FlatParameters([weight]), levels, np.random.default_rng(0))
    count = 10_000
    state, zero, one = (np.full(count, value, np.float32) for value in (0, 0, 1))
    rows = DQNRows(state[:, None], np.zeros(count, np.int64), zero, state[:, None], one)
    aim = gradient(rows, dqn_settings(agent="iqn", double=double).dqn).figures[2].item()
    assert aim == pytest.approx(0, abs=0.01)


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
