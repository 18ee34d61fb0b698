"""Running mean and variance of observations."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]

# Keeps the deviation of a feature that never changes above 0; its normalised value is then held by the clip.
EPSILON = 1e-8


class RunningNormaliser:
    """Mean and variance over all batches seen, in float64.

    Batches are joined by the parallel update of Chan, Golub and LeVeque (1983), so that the statistics are
    those of all rows together, however they were split. Before the first batch they are those of a standard
    normal: nothing changes but the clipping.

    Args:
        size: Number of features; observations are flattened.
        fixed: `[size]`, which features stay as they are but for the clipping; None: none.
    """

    def __init__(self, size: int, clip: float, fixed: NDArray[np.bool_] | None = None) -> None:
        self._fixed = fixed if fixed is not None and fixed.any() else None
        self.clip = clip
        self.count = 0
        self.mean: Doubles = np.zeros(size)
        self._squares: Doubles = np.zeros(size)

    @property
    def var(self) -> Doubles:
        """Variance `[size]` over everything seen (divided by the count)."""
        return self._squares / self.count if self.count else np.ones_like(self._squares)

    def update(self, batch: NDArray[Any]) -> None:
        """Take the rows of `[N, *shape]` into the statistics."""
        if not len(batch):
            return
        rows = batch.reshape(len(batch), len(self.mean)).astype(np.float64)
        mean = rows.mean(axis=0)
        count = self.count + len(rows)
        delta = mean - self.mean
        self._squares += np.square(rows - mean).sum(axis=0) + delta**2 * (self.count * len(rows) / count)
        self.mean += delta * (len(rows) / count)
        self.count = count

    def normalise(self, obs: NDArray[Any]) -> Floats:
        """Return `[N, *shape]` flattened and normalised with the present statistics, `[N, size]` float32."""
        return normalise(obs, self.frozen())

    def frozen(self) -> dict[str, NDArray[Any]]:
        """Return the statistics as they are published with a model: `mean`, `var` float32, `eps`, `clip`."""
        mean, var = self.mean.astype(np.float32), self.var.astype(np.float32)
        if self._fixed is not None:
            mean[self._fixed], var[self._fixed] = 0.0, 1.0
        limits = {"eps": np.array(EPSILON, np.float32), "clip": np.array(self.clip, np.float32)}
        return {"mean": mean, "var": var, **limits}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that a bit-equal continuation needs."""
        count = np.array(self.count, np.int64)
        return {"count": count, "mean": self.mean.copy(), "squares": self._squares.copy()}

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned."""
        self.count = int(state["count"])
        self.mean = np.array(state["mean"], dtype=np.float64)
        self._squares = np.array(state["squares"], dtype=np.float64)


def normalise(obs: NDArray[Any], frozen: Mapping[str, NDArray[Any]]) -> Floats:
    """Flatten, shift, scale and clip observations `[N, *shape]` by what `frozen` returned: `[N, size]`."""
    normalised = obs.reshape(len(obs), len(frozen["mean"])).astype(np.float32)
    normalised -= frozen["mean"]
    normalised *= inverse_std(frozen["var"], frozen["eps"])
    np.maximum(normalised, -frozen["clip"], out=normalised)
    np.minimum(normalised, frozen["clip"], out=normalised)
    return normalised


def inverse_std(var: NDArray[Any], eps: NDArray[Any]) -> Floats:
    """Return `1 / sqrt(var + eps)` in float32: the one place, so that every policy rounds alike."""
    one = np.float32(1)
    scale: Floats = one / np.sqrt(np.asarray(var, dtype=np.float32) + np.float32(eps))
    return scale
