"""Counters side by side, in both ways of beginning the next episode."""

from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from soulsgui.environments.make import Vector
from tests.environments.toys import Counter, NativeCounter


def same_step(num_envs: int) -> Vector:
    """Counters of lengths 3, 4, 5 …, reset in the step that ends the episode."""

    def make(length: int) -> Callable[[], gymnasium.Env[Any, Any]]:
        return lambda: Counter(length)

    return SyncVectorEnv(
        [make(3 + index) for index in range(num_envs)], autoreset_mode=AutoresetMode.SAME_STEP
    )


MODES = pytest.mark.parametrize("make", [NativeCounter, same_step], ids=["next_step", "same_step"])
