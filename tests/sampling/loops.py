"""A loop written by hand, as somebody would write it for a connector."""

import json
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
        self.obs, _ = env.reset(seed=seed)
        self.step_id, self.total = 0, 0.0
        self.model_ids: list[int] = []
        self.returns: list[float] = []

    def step(self, info: dict[str, Any] | None = None) -> None:
        with self.connector as (agent, model_id):
            action = agent(self.obs)
        after, reward, terminated, truncated, _ = self.env.step(action)
        self.model_ids.append(model_id)
        step = (terminated, truncated, info or {}, model_id, self.step_id)
        self.connector.push_sample(pack_sample(self.obs, action, float(reward), after, *step))
        self.obs, self.step_id, self.total = after, self.step_id + 1, self.total + float(reward)
        if terminated or truncated:
            told = {"total_return": self.total, "length": self.step_id, "terminated": terminated}
            self.connector.push_episode_info(json.dumps(told).encode())
            self.returns.append(self.total)
            self.obs, _ = self.env.reset()
            self.step_id, self.total = 0, 0.0
