"""`tests.sampling.odd_toys:ToysSlow-v0` can be watched, `ToysHangs-v0` never made, `ToysWrites-v0` writes."""

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium

from tests.environments.toys import Counter

LENGTHS = (10, 13)
"""Different ones in a process: hardly ever all of its environments are between two episodes."""

_number = itertools.count()


class Slow(Counter):
    """A `Counter` that takes its time."""

    def __init__(self) -> None:
        super().__init__(LENGTHS[next(_number) % len(LENGTHS)])

    def step(self, action: int) -> Any:
        time.sleep(0.02)
        return super().step(action)


class Hangs(Counter):
    """A `Counter` whose constructor does not return."""

    def __init__(self) -> None:
        super().__init__()
        threading.Event().wait()


class Writes(Counter):
    """A `Counter` that writes a file where it is told to."""

    def __init__(self, path: str) -> None:
        super().__init__()
        Path(path).write_text("written")


for name, made in {"ToysSlow-v0": Slow, "ToysHangs-v0": Hangs, "ToysWrites-v0": Writes}.items():
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=made)
