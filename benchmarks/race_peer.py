"""Stable-Baselines3 in the race, as rl-baselines3-zoo tunes it; run by `benchmarks.race` with its own Python.

Prints one line of JSON: seconds from the start of this program until the mean return of the last 20 training
episodes has reached the goal (null: not in time), and the steps until then.

python benchmarks/race_peer.py ENV GOAL LIMIT_S SEED
"""

import json
import sys
import time
from collections import deque
from typing import Any

STARTED = time.monotonic()

from stable_baselines3 import PPO  # noqa: E402 - importing it is a part of the time
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402

_WINDOW = 20


def linear(start: float) -> Any:
    """Return a schedule that falls to 0 with the part of the run that is left."""
    return lambda left: left * start


SETTINGS: dict[str, tuple[int, int, dict[str, Any]]] = {
    # Environments, steps of the schedule, settings.
    "CartPole-v1": (
        8,
        100_000,
        {
            **{"n_steps": 32, "batch_size": 256, "n_epochs": 20, "gae_lambda": 0.8, "gamma": 0.98},
            **{"ent_coef": 0.0, "learning_rate": linear(0.001), "clip_range": linear(0.2)},
        },
    ),
    "LunarLander-v3": (
        16,
        1_000_000,
        {
            **{"n_steps": 1024, "batch_size": 64, "n_epochs": 4, "gae_lambda": 0.98, "gamma": 0.999},
            **{"ent_coef": 0.01},
        },
    ),
}


class UntilReached(BaseCallback):  # type: ignore[misc]
    """Ends the training at the goal or when the time is over."""

    def __init__(self, goal: float, limit_s: float) -> None:
        super().__init__()
        self._goal, self._limit_s = goal, limit_s
        self._returns: deque[float] = deque(maxlen=_WINDOW)
        self.seconds: float | None = None

    def _on_step(self) -> bool:
        ended = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        self._returns.extend(ended)
        seconds = time.monotonic() - STARTED
        if len(self._returns) == _WINDOW and sum(self._returns) / _WINDOW >= self._goal:
            self.seconds = seconds
            return False
        return seconds < self._limit_s


def main(env_id: str, goal: float, limit_s: float, seed: int) -> None:
    """Train one seed and print what it came to."""
    envs, steps, settings = SETTINGS[env_id]
    model = PPO("MlpPolicy", make_vec_env(env_id, envs, seed=seed), seed=seed, device="cpu", **settings)
    watch = UntilReached(goal, limit_s)
    model.learn(steps, callback=watch)
    print(json.dumps({"seconds": watch.seconds, "env_steps": model.num_timesteps}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
