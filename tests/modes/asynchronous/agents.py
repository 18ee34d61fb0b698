"""An agent of one's own that learns nothing, and says what was done with it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.sampling import SyncModel


class Counting(SyncModel):
    """Its one weight is the number of its updates; it pushes where the pole falls."""

    settings = {"batch_size": 8, "replay_ratio": 2.0}  # noqa: RUF012

    def __init__(self) -> None:
        self.opts = 0

    def sample(self, obs: NDArray[np.float32]) -> NDArray[np.int64]:
        return (obs[:, 2] > 0).astype(np.int64)

    def opt(self, batch: NStepBatch) -> Mapping[str, float]:
        assert batch.obs.shape == (8, 4)
        self.opts += 1
        return {"opts": float(self.opts)}

    def model_info(self) -> tuple[int, Mapping[str, NDArray[np.float32]]]:
        return self.opts, {"opts": np.array([self.opts], np.float32)}

    def sync_model(self, model_info: Mapping[str, NDArray[np.float32]]) -> None:
        self.opts = int(model_info["opts"][0])


class Broken(Counting):
    """One that can't be made in an actor."""

    def __init__(self, where: str) -> None:
        super().__init__()
        if where == "actor":
            raise RuntimeError("the game is not installed")
