"""What IQN's quantiles are drawn to."""

from typing import Any

import numpy as np
import torch

from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.gradients.dqn import DQNRows
from soulsgui.rl.gradients.implicit import ImplicitGradient
from tests.rl.support import dqn_settings

QUANTILES = torch.tensor([[[-1.0, 50.0], [4.0, 4.0]]])
"""Of two actions: the first is worth 24.5, and 2 where nothing counts beyond 5."""


def test_the_next_action_is_chosen_before_what_follows_is_limited() -> None:
    online = torch.nn.Linear(1, 1)
    flat = FlatParameters([online])

    def say(obs: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        return online(obs)[:, :, None].expand(1, 2, 2)

    def follow(obs: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        return QUANTILES

    networks: Any = say, follow
    gradient = ImplicitGradient(*networks, flat, 2, np.random.default_rng(0))
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    rows = DQNRows(zero[:, None], np.zeros(1, np.int64), zero, zero[:, None], one)
    settings = dqn_settings(agent="iqn", double=False, q_clip=5.0, kappa=1.0).dqn
    figures = gradient(rows, settings).figures
    assert figures[2].item() == 2.0
