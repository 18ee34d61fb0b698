"""An environment that is never made: `tests.sampling.hanging_toy:ToysHangs-v0`."""

import threading

import gymnasium

from tests.environments.toys import Counter


class Hangs(Counter):
    """A `Counter` whose constructor does not return."""

    def __init__(self) -> None:
        super().__init__()
        threading.Event().wait()


if "ToysHangs-v0" not in gymnasium.registry:
    gymnasium.register("ToysHangs-v0", entry_point=Hangs)
