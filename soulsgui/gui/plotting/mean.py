"""The mean of several runs as one curve, with a band from the lowest to the highest of them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from soulsgui.gui.plotting.rows import Axis
from soulsgui.gui.plotting.series import Piece, Reading, Series

_COUNTED = {Axis.EPISODE: "episode", Axis.ENV_STEP: "env_steps", Axis.UPDATE: "update"}


class MeanSeries:
    """Of the smoothed curves of several runs, as far as all of them reach.

    It is drawn as a `Series` is; in place of its raw values stands the band.
    """

    smooths, of_measurements = True, False

    def __init__(self, members: Sequence[Series], name: str = "") -> None:
        self._all = members
        self.run_id, self.metric, self.client = name, members[0].metric, members[0].client

    @property
    def _members(self) -> list[Series]:
        return [one for one in self._all if one.x_range() is not None]

    def __len__(self) -> int:
        return sum(map(len, self._all)) if self.x_range() else 0

    @property
    def axis(self) -> Axis:
        """What x means."""
        return self._all[0].axis

    def show_along(self, axis: Axis) -> None:
        """Give x another meaning."""
        for one in self._all:
            one.show_along(axis)

    @property
    def largest(self) -> float:
        """The largest value by its size, 0 without any."""
        return max((one.largest for one in self._all), default=0.0)

    def x_range(self) -> tuple[float, float] | None:
        """Return from where to where all runs reach; None where that is nowhere."""
        ranges = [found for one in self._all if (found := one.x_range())]
        first, last = (
            max((low for low, _ in ranges), default=0),
            min((high for _, high in ranges), default=-1),
        )
        return (first, last) if first <= last else None

    def _mean(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean, the lowest and the highest value at positions, as three rows."""
        values = np.ma.masked_invalid(np.stack([one.at(x) for one in self._members]))
        found = (values.mean(axis=0), values.min(axis=0), values.max(axis=0))
        return np.stack([one.filled(np.nan) for one in found])

    def pieces(self, left: float, right: float, width_px: int) -> Iterator[Piece]:
        """Yield what to draw between two positions: two lines a pixel, which make the band a surface."""
        ends = self.x_range()
        if ends is None or ends[0] > right or ends[1] < left:
            return
        first, last = max(left, ends[0]), min(right, ends[1])
        x = np.linspace(first, last, 2 + int(2 * width_px * (last - first) / (right - left)))
        mean, low, high = self._mean(x)
        yield Piece((np.repeat(x, 2), np.stack((low, high), axis=1).ravel()), (x, mean), overwritten=False)

    def table(self, left: float, right: float) -> list[dict[str, object]]:
        """Return the mean and the band between two positions, wherever one of the runs has a row."""
        ends = self.x_range()
        if ends is None:
            return []
        told = [one.readings(max(left, ends[0]), min(right, ends[1])) for one in self._members]
        x = np.unique([one.x for rows in told for _, one, overwritten in rows if not overwritten])
        names = ("x", "mean", "low", "high")
        return [dict(zip(names, row, strict=True)) for row in np.vstack([x, self._mean(x)]).T.tolist()]

    def nearest(self, x: float) -> Reading | None:
        """Return the mean at a position, None where there is none."""
        ends = self.x_range()
        if ends is None:
            return None
        at = min(max(x, ends[0]), ends[1])
        place = self._members[0].nearest(at)
        mean, low, high = self._mean(np.asarray([at]))[:, 0].tolist()
        found = {"value": mean, "smooth": mean, "low": low, "high": high, "runs": len(self._members)}
        # The mean stands between the rows of its runs, too.
        found |= {_COUNTED[self.axis]: round(at)} if self.axis in _COUNTED else {}
        return replace(place, x=at, **found) if place else None


Drawn = Series | MeanSeries
