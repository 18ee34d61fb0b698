"""A person takes over: those steps are not recorded, and the episode is not told of."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from soulsgui.environments.spaces import BoxSpec
from soulsgui.environments.step import HUMAN, EnvStepper
from soulsgui.sampling.rollout import FinishedEpisode, Rollout

LENGTH = 6


class Shared(gymnasium.Env[Any, Any]):
    """An episode has 6 steps; a person plays steps 3 and 4 of each odd one, or its last."""

    observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, by_hand: tuple[int, ...]) -> None:
        self.by_hand = by_hand
        self.episode, self.steps = -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.episode, self.steps = self.episode + 1, 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        info = {HUMAN: True} if self.episode % 2 and self.steps in self.by_hand else {}
        return np.full(1, self.steps, np.float32), 1.0, self.steps == LENGTH, False, info


def _played(
    mode: AutoresetMode, by_hand: tuple[int, ...]
) -> tuple[Rollout, list[Any], list[FinishedEpisode]]:
    ended: list[FinishedEpisode] = []
    vector = SyncVectorEnv([lambda: Shared(by_hand)], autoreset_mode=mode)
    rollout = Rollout(EnvStepper(vector), BoxSpec((1,), "float32"), 100, 1, ended.append)

    def act(obs: Any, rng: np.random.Generator, mask: Any) -> Any:
        return np.zeros(1, np.int64), np.zeros(1, np.float32)

    most = 3 * LENGTH - len(by_hand)
    (segments,) = rollout.play(act, 1, 2, most, lambda: True)
    rollout.close()
    pieces = list(
        zip(segments.episode.tolist(), segments.first_step.tolist(), segments.length.tolist(), strict=True)
    )
    return rollout, pieces, ended


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_steps_by_hand_leave_a_gap(mode: AutoresetMode) -> None:
    rollout, pieces, ended = _played(mode, (3, 4))
    assert pieces == [(0, 0, 6), (1, 0, 2), (1, 4, 2), (2, 0, 6)]
    assert rollout.human_steps == 2
    assert [episode.total_return for episode in ended] == [6.0, 6.0], "the one in between is not told of"


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_the_last_step_of_an_episode_may_be_by_hand(mode: AutoresetMode) -> None:
    rollout, pieces, ended = _played(mode, (LENGTH,))
    assert pieces == [(0, 0, 6), (1, 0, 5), (2, 0, 6)]
    assert rollout.human_steps == 1
    assert len(ended) == 2
