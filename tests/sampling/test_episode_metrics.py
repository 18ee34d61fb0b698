"""From the infos of an environment to the metrics of its episodes."""

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from soulsgui.config.metrics import info_keys, read_metrics
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import EnvStepper
from soulsgui.sampling.rollout import FinishedEpisode, Rollout


class Fight(gymnasium.Env[Any, Any]):
    """Ends after three steps; tells the boss's health in each, and at the reset that of a new boss."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._left = 3
        return np.zeros(1, np.float32), {"boss": {"hp": 99.0}, "name": "Iudex"}

    def step(self, action: Any) -> Any:
        self._left -= 1
        info = {"boss": {"hp": float(self._left)}, "name": "Iudex"} | ({"late": 7} if self._left == 0 else {})
        return np.zeros(1, np.float32), 1.0, self._left == 0, False, info


_METRICS = {
    "wins": {"key": "boss.hp", "compare": "<=", "value": 0},
    "hp": {"key": "boss.hp", "over": "mean"},
    "hardest": {"key": "boss.hp", "over": "max"},
    "steps": {"key": "length", "offset": 1},
    "late": "late",
    "word": "name",
    "never": "no.such",
}


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_each_episode_has_what_its_own_steps_told(mode: AutoresetMode) -> None:
    metrics = read_metrics(_METRICS)
    vector = SyncVectorEnv([Fight, Fight], autoreset_mode=mode)
    stepper = EnvStepper(vector, info_keys(metrics))
    ended: list[FinishedEpisode] = []
    spaces = SpacesSpec.from_env(vector.single_observation_space, vector.single_action_space)
    rollout = Rollout(stepper, spaces, 8, 0, ended.append, metrics=metrics)

    def act(obs: Any, *_: Any) -> Any:
        return np.zeros(2, np.int64), np.zeros(2, np.float32)

    list(rollout.play(act, 0, 0, 16, lambda: True))
    expected = {"wins": 1.0, "hp": 1.0, "hardest": 2.0, "steps": 4.0, "late": 7.0}
    assert len(ended) >= 4
    assert [one.metrics for one in ended] == [expected] * len(ended)
    vector.close()


def test_what_is_not_asked_for_costs_nothing() -> None:
    vector = SyncVectorEnv([Fight])
    stepper = EnvStepper(vector)
    stepper.reset()
    assert stepper.step(np.zeros(1, np.int64)).info is None
    stepper = EnvStepper(vector, ("boss.hp", "name"))
    stepper.reset()
    (told,) = stepper.step(np.zeros(1, np.int64)).info
    assert told[0] == 2.0
    assert math.isnan(told[1])
