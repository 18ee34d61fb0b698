"""What the infos of environments tell of an episode, put together to its metrics."""

import math
from collections.abc import Mapping, Sequence

from soulsgui.config.metrics import EpisodeMetric, info_keys


class EpisodeValues:
    """What came under the keys of metrics in the episodes of several environments, up to now."""

    def __init__(self, metrics: Mapping[str, EpisodeMetric], num_envs: int) -> None:
        self._metrics = metrics
        self.keys = info_keys(metrics)
        self._seen: list[dict[str, list[float]]] = [{} for _ in range(num_envs)]

    def add(self, env: int, values: Sequence[float]) -> None:
        """Take in a step of an environment: the values of `keys`, NaN for those that were not told."""
        seen = self._seen[env]
        for key, value in zip(self.keys, values, strict=True):
            if math.isfinite(value):
                last = seen.setdefault(key, [value, 0.0, value, value, 0])
                last[:] = value, last[1] + value, max(last[2], value), min(last[3], value), last[4] + 1

    def begin(self, env: int) -> None:
        """Begin another episode."""
        self._seen[env] = {}

    def of(self, env: int, **known: float) -> dict[str, float]:
        """Return the metrics of an episode that has ended; those whose key was never told are left out."""
        found = {}
        for name, metric in self._metrics.items():
            if metric.key in known:
                raw = known[metric.key]
            elif (seen := self._seen[env].get(metric.key)) is not None:
                last, total, largest, least, count = seen
                raw = {"last": last, "sum": total, "mean": total / count, "max": largest, "min": least}[
                    metric.over
                ]
            else:
                continue
            if math.isfinite(value := metric.of(raw)):
                found[name] = value
        return found
