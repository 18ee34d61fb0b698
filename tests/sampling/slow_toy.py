"""An environment slow enough to be watched: `tests.sampling.slow_toy:ToysSlow-v0`, with steps of 20 ms.

Episodes of a process's environments have different lengths: hardly ever all of them are between two.
"""

import itertools
import time
from typing import Any

import gymnasium

from tests.environments.toys import Counter

LENGTHS = (10, 13)
STEP_S = 0.02


_number = itertools.count()


class Slow(Counter):
    """A `Counter` that takes its time."""

    def __init__(self) -> None:
        super().__init__(LENGTHS[next(_number) % len(LENGTHS)])

    def step(self, action: int) -> Any:
        time.sleep(STEP_S)
        return super().step(action)


if "ToysSlow-v0" not in gymnasium.registry:
    gymnasium.register("ToysSlow-v0", entry_point=Slow)
