"""A loop written by hand, as somebody would write it for a connector."""

import json
from collections.abc import Callable
from typing import Any

import gymnasium

from soulsgui.sampling import DQNConnector, PPOConnector
from soulsgui.wire.codec import pack_sample


class Loop:
    """Plays one environment through a connector, and remembers with which weights and with what success."""

    def __init__(
        self, connector: DQNConnector | PPOConnector, env: gymnasium.Env[Any, Any], seed: int | None = None
    ) -> None:
        self.connector = connector
        self.env = env
        self.obs, self.info = env.reset(seed=seed)
        self.step_id, self.total = 0, 0.0
        self.model_ids: list[int] = []
        self.returns: list[float] = []

    def step(self, told: dict[str, Any] | None = None) -> None:
        with self.connector as (agent, model_id):
            action = agent(self.obs, self.info.get("action_mask"))
        after, reward, terminated, truncated, info = self.env.step(action)
        self.model_ids.append(model_id)
        told = (told or {}) | self.info | {f"next_{name}": info[name] for name in info}
        ends = terminated, truncated, told, model_id, self.step_id
        self.connector.push_sample(pack_sample(self.obs, action, float(reward), after, *ends))
        self.obs, self.info = after, info
        self.step_id, self.total = self.step_id + 1, self.total + float(reward)
        if terminated or truncated:
            told = {"total_return": self.total, "length": self.step_id, "terminated": terminated}
            self.connector.push_episode_info(json.dumps(told).encode())
            self.returns.append(self.total)
            self.obs, self.info = self.env.reset()
            self.step_id, self.total = 0, 0.0


def play_by_hand(connector: Any, env: gymnasium.Env[Any, Any], go_on: Callable[[], object]) -> None:
    """A loop over one environment; at the end its episode is not over."""
    loop = Loop(connector, env)
    while go_on():
        loop.step()
