"""A curve: one metric of one run over all its attempts, queried once and then kept up by the live tail."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.gui.plotting.attempt import AttemptCurve, Points, Reading
from soulsgui.gui.plotting.rows import LENGTH, RETURN, Axis, Rows, from_episodes, from_history, from_update
from soulsgui.gui.plotting.smoothing import SHORTEST, exponential_mean, fitting_weight, memory
from soulsgui.wire.control import AttemptStart, History
from soulsgui.wire.messages.metrics import EVALUATION_PREFIX, AttemptRow, EpisodeRows, Row, UpdateRow


@dataclass(frozen=True)
class Piece:
    """One attempt's part of a curve as it is to be drawn.

    Attributes:
        raw: Points of the raw values.
        smooth: Points of the smoothed values.
        overwritten: Whether a later attempt went back before this part: drawn dotted, left out of means.
    """

    raw: Points
    smooth: Points
    overwritten: bool


class _Part(NamedTuple):
    """A part of x in finer buckets, and the last row that was stored when it was asked for."""

    rows: Rows
    left: float
    right: float
    last: tuple[int, int]


class Series:
    """The rows of one metric of one run: the whole run in buckets, a part of it in finer ones, live rows.

    Live rows may arrive before and after the answer to the query. Row numbers decide what is old and what is
    new, so that nothing is drawn twice or missed.

    Args:
        run_id: The run; rows of others are ignored.
        metric: `return`, `length`, or a name of an update's values.
        axis: What x means at first.
        weight: Weight of the exponential mean, of a long curve.

    Attributes:
        missed_rows: Whether live rows are missing: the history must be queried again.
    """

    def __init__(
        self, run_id: str, metric: str = RETURN, axis: Axis = Axis.EPISODE, weight: float = 0.95
    ) -> None:
        self.run_id = run_id
        self.metric = metric
        self._axis = axis
        self._weight = weight
        self._part: _Part | None = None
        self._clear()

    def _clear(self) -> None:
        self._whole = Rows.empty()
        self._live: list[Rows] = []
        self._starts: dict[int, AttemptStart] = {}
        self._last = (0, 0)
        self._loaded = False
        self._drawn: dict[int, AttemptCurve] | None = None
        self.missed_rows = False

    # --- data in ---

    def load(self, history: History) -> None:
        """Replace all but the finer part by an answer that covers the whole run."""
        self._clear()
        self._starts = {start.attempt: start for start in history.attempts}
        self._whole = from_history(history)
        self._last = self._last_of(history)
        self._loaded = True

    def refine(self, history: History, left: float, right: float) -> None:
        """Show finer what is between two positions: an answer that covers this part."""
        self._part = _Part(from_history(history), left, right, self._last_of(history))
        self._drawn = None

    def _last_of(self, history: History) -> tuple[int, int]:
        return (0, history.last_row) if self.of_episodes else history.last_update

    def append(self, rows: Sequence[Row]) -> None:
        """Add live rows as the feed brings them; those of other runs and metrics are passed over."""
        for row in rows:
            if row.run_id == self.run_id:
                self._append_one(row)

    def _append_one(self, row: Row) -> None:
        if isinstance(row, AttemptRow):
            start = AttemptStart(
                attempt=row.attempt,
                update=row.update,
                env_steps=row.env_steps,
                episodes=row.episodes,
                time=row.time,
            )
            self._starts[row.attempt] = start
            self._drawn = None
        elif isinstance(row, EpisodeRows) and self.of_episodes:
            found = from_episodes(row, self.metric)
            if found is not None:
                self._append_episodes(found)
        elif isinstance(row, UpdateRow) and not self.of_episodes:
            found = from_update(row, self.metric)
            if found is not None and (row.attempt, row.update) > self._last:
                self._last = (row.attempt, row.update)
                self._take(found)

    def _append_episodes(self, rows: Rows) -> None:
        new = rows.row > self._last[1]
        if not new.any():
            return
        newest = int(rows.row.max())
        self.missed_rows |= self._loaded and newest - self._last[1] != int(new.sum())
        self._last = (0, newest)
        self._take(rows.where(new))

    def _take(self, rows: Rows) -> None:
        self._live.append(rows)
        self._drawn = None

    @property
    def of_episodes(self) -> bool:
        """Whether its rows are episodes; else they are updates."""
        return self.metric in (RETURN, LENGTH, "mean_return")

    # --- how it is shown ---

    @property
    def axis(self) -> Axis:
        """What x means."""
        return self._axis

    @property
    def smooths(self) -> bool:
        """Whether smoothed values differ from raw ones at all."""
        return self._fitting_weight > 0

    @property
    def of_measurements(self) -> bool:
        """Whether each value counts by itself: those of evaluations, and the few of a short curve."""
        return self.metric.startswith(EVALUATION_PREFIX) or len(self) < SHORTEST

    @property
    def _fitting_weight(self) -> float:
        return fitting_weight(self._weight, len(self))

    def show_along(self, axis: Axis) -> None:
        """Give x another meaning."""
        if axis is not self._axis:
            self._axis = axis
            # Its ends are places on the other axis.
            self._part = self._drawn = None

    def smooth_with(self, weight: float) -> None:
        """Smooth with another weight."""
        self._weight = weight
        self._drawn = None

    @property
    def _curves(self) -> dict[int, AttemptCurve]:
        """What is drawn, attempt by attempt."""
        if self._drawn is None:
            self._drawn = {}
            rows = self._all_rows()
            x = rows.axis(self._axis)
            # Live rows may come late.
            rows = rows.where(np.lexsort((x, rows.attempt)))
            for number in np.unique(rows.attempt).tolist():
                own = rows.where(rows.attempt == number)
                self._drawn[number] = AttemptCurve(own, self._axis, self._smoothed(number, own))
        return self._drawn

    def _all_rows(self) -> Rows:
        """Return the whole run with the finer part in its place, and the live rows."""
        live, part = Rows.joined([Rows.empty(), *self._live]), self._part
        self._live = [live]
        if part is None:
            return Rows.joined((self._whole, live))
        attempt, row = part.last
        after = live.row > row if self.of_episodes else live.attempt > attempt
        after |= (live.attempt == attempt) & (live.row > row)
        outside = [
            (x < part.left) | (x > part.right) for x in (self._whole.axis(self._axis), live.axis(self._axis))
        ]
        return Rows.joined((self._whole.where(outside[0]), part.rows, live.where(outside[1] | after)))

    def _smoothed(self, attempt: int, rows: Rows) -> NDArray[np.float64]:
        """Return the smoothed values; they go on where the attempt began on the curve of its predecessors."""
        weight = self._fitting_weight
        wanted = memory(weight)
        pieces = [rows]
        for number in sorted((n for n in self._curves if n < attempt), reverse=True):
            if wanted <= 0:
                break
            pieces.insert(0, self._curves[number].before(self._find_end(number, attempt), wanted))
            wanted -= len(pieces[0])
        joined = Rows.joined(pieces)
        return exponential_mean(joined.value, joined.count, weight)[len(joined) - len(rows) :]

    def _end(self, attempt: int) -> float:
        """Return x beyond which an attempt was overwritten by a later one; infinity when it was not."""
        return self._find_end(attempt, max(self._starts, default=0))

    def _find_end(self, attempt: int, until: int) -> float:
        """Return the same for the time when `until` was the newest attempt."""
        later = [start for start in self._starts.values() if attempt < start.attempt <= until]
        if not later:
            return float("inf")
        first = min(later, key=lambda start: start.env_steps)
        if self._axis is Axis.EPISODE:
            return float(first.episodes)
        if self._axis is Axis.ENV_STEP:
            return float(first.env_steps)
        beyond = self._curves[attempt].x_after_step(first.env_steps, float("inf"))
        return float(np.nextafter(beyond, -np.inf))

    # --- data out ---

    def __len__(self) -> int:
        return int(self._whole.count.sum()) + self.live_rows

    @property
    def in_buckets(self) -> bool:
        """Whether the answer that covers the whole run is coarser than its rows."""
        return bool((self._whole.count > 1).any())

    @property
    def live_rows(self) -> int:
        """How many rows came live since the answer that covers the whole run."""
        return sum(map(len, self._live))

    def x_range(self) -> tuple[float, float] | None:
        """Return the first and the last x, None without rows."""
        if not self._curves:
            return None
        firsts, lasts = zip(*(curve.x_range for curve in self._curves.values()), strict=True)
        return min(firsts), max(lasts)

    def to_refine(self, left: float, right: float) -> tuple[float, float] | None:
        """Return what part to ask for so that a view becomes finer: with half a view beyond each edge.

        Args:
            left: x at the left edge.
            right: x at the right edge.

        Returns:
            The ends of the part; None where all rows in view are drawn, or it would be hardly finer.
        """
        span, whole, part = right - left, self.x_range(), self._part
        if whole is None or 2 * span > whole[1] - whole[0]:
            return None
        if part and part.left <= left and right <= part.right and 4 * span >= part.right - part.left:
            return None
        coarse = any(curve.is_coarse(left, right) for curve in self._curves.values())
        return (left - span / 2, right + span / 2) if coarse else None

    def pieces(self, left: float, right: float, width_px: int) -> Iterator[Piece]:
        """Yield what to draw between two positions, attempt by attempt.

        Args:
            left: x at the left edge.
            right: x at the right edge, greater than `left`.
            width_px: Pixels between them.
        """
        for number, curve in self._curves.items():
            end = self._end(number)
            bounds = curve.x_range
            if bounds[0] <= end:
                yield self._piece(curve, left, right, width_px, end, overwritten=False)
            if bounds[1] > end:
                yield self._piece(curve, left, right, width_px, end, overwritten=True)

    @staticmethod
    def _piece(
        curve: AttemptCurve, left: float, right: float, width_px: int, end: float, overwritten: bool
    ) -> Piece:
        parts = []
        for smooth in (False, True):
            x, y = curve.points(left, right, width_px, smooth)
            chosen = x > end if overwritten else x <= end
            parts.append((x[chosen], y[chosen]))
        return Piece(parts[0], parts[1], overwritten)

    def nearest(self, x: float) -> Reading | None:
        """Return the row nearest to a position that was not overwritten, None without rows."""
        found = [
            reading
            for number, curve in self._curves.items()
            if (reading := curve.nearest(x, self._end(number))) is not None
        ]
        return min(reversed(found), key=lambda reading: abs(reading.x - x), default=None)
