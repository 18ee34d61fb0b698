"""A curve: one metric of one run over all its attempts, queried once and then kept up by the live tail."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from soulsgui.gui.plotting.attempt import AttemptCurve, Reading
from soulsgui.gui.plotting.pyramid import Points
from soulsgui.gui.plotting.rows import LENGTH, RETURN, Axis, Rows, from_episodes, from_history, from_update
from soulsgui.gui.plotting.smoothing import SHORTEST, MakeSmoother, Smoother, fitting_mean
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


class Series:
    """The rows of one metric of one run.

    Live rows may arrive before and after the answer to the query. Row numbers decide what is old and what is
    new, so that nothing is drawn twice or missed.

    Args:
        run_id: The run; rows of others are ignored.
        metric: `return`, `length`, or a name of an update's values.
        axis: What x means at first.
        smoother: Makes a fresh smoother for an attempt, given how many values the whole curve has.

    Attributes:
        missed_rows: Whether live rows are missing: the history must be queried again.
    """

    def __init__(
        self,
        run_id: str,
        metric: str = RETURN,
        axis: Axis = Axis.EPISODE,
        smoother: MakeSmoother = fitting_mean(0.95),
    ) -> None:
        self.run_id = run_id
        self.metric = metric
        self.missed_rows = False
        self._axis = axis
        self._make_smoother = smoother
        self._clear()

    def _clear(self) -> None:
        self._curves: dict[int, AttemptCurve] = {}
        self._starts: dict[int, AttemptStart] = {}
        self._ends: dict[int, float] = {}
        self._last = (0, 0)
        self._loaded = False
        self._smoothed_as = 0
        self.missed_rows = False

    # --- data in ---

    def load(self, history: History) -> None:
        """Replace everything by an answer to `history.query`."""
        self._clear()
        self._starts = {start.attempt: start for start in history.attempts}
        self._take(from_history(history))
        self._last = (0, history.last_row) if self.of_episodes else history.last_update
        self._loaded = True

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
            self._ends.clear()
        elif isinstance(row, EpisodeRows) and self.of_episodes:
            self._append_episodes(row)
        elif isinstance(row, UpdateRow) and not self.of_episodes:
            found = from_update(row, self.metric)
            if found is not None and (row.attempt, row.update) > self._last:
                self._last = (row.attempt, row.update)
                self._take(found)

    def _append_episodes(self, rows: EpisodeRows) -> None:
        numbers = np.asarray(rows.row, np.int64)
        new = numbers > self._last[1]
        if not new.any():
            return
        newest = int(numbers.max())
        self.missed_rows |= self._loaded and newest - self._last[1] != int(new.sum())
        self._last = (0, newest)
        fresh = rows.model_copy(update=_chosen(rows, new)) if not new.all() else rows
        found = from_episodes(fresh, self.metric)
        if found is not None:
            self._take(found)

    def _take(self, rows: Rows) -> None:
        self._fit_smoothing(len(self) + len(rows))
        for attempt in np.unique(rows.attempt):
            number = int(attempt)
            if number not in self._curves:
                self._curves[number] = AttemptCurve(self._axis, self._smoother_for(number))
                self._curves = dict(sorted(self._curves.items()))
            self._curves[number].append(rows.where(rows.attempt == attempt))
            self._ends.pop(number, None)

    def _fit_smoothing(self, count: int) -> None:
        """Smooth as suits a curve of so many values."""
        old, self._smoothed_as = self._new_smoother(), count
        if self._curves and self._new_smoother().memory != old.memory:
            self._rebuild()

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
        return self._new_smoother().memory > 1

    @property
    def of_measurements(self) -> bool:
        """Whether each value counts by itself: those of evaluations, and the few of a short curve."""
        return self.metric.startswith(EVALUATION_PREFIX) or len(self) < SHORTEST

    def _new_smoother(self) -> Smoother:
        return self._make_smoother(self._smoothed_as)

    def show_along(self, axis: Axis) -> None:
        """Give x another meaning."""
        if axis is not self._axis:
            self._axis = axis
            self._rebuild()

    def smooth_with(self, smoother: MakeSmoother) -> None:
        """Smooth in another way."""
        self._make_smoother = smoother
        self._rebuild()

    def _rebuild(self) -> None:
        self._ends.clear()
        for number, curve in self._curves.items():
            # Its predecessors were rebuilt before it and can tell their values along the new axis.
            curve.rebuild(self._axis, self._smoother_for(number))

    def _smoother_for(self, attempt: int) -> Smoother:
        """Return a smoother that goes on where the attempt began on the curve of its predecessors."""
        smoother = self._new_smoother()
        wanted = smoother.memory
        pieces = []
        for number in sorted((n for n in self._curves if n < attempt), reverse=True):
            if wanted <= 0:
                break
            values = self._curves[number].values_before(self._find_end(number, attempt), wanted)
            pieces.append(values)
            wanted -= values.size
        for values in reversed(pieces):
            smoother.extend(values)
        return smoother

    def _end(self, attempt: int) -> float:
        """Return x beyond which an attempt was overwritten by a later one; infinity when it was not."""
        if attempt not in self._ends:
            self._ends[attempt] = self._find_end(attempt, max(self._starts, default=0))
        return self._ends[attempt]

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
        return sum(len(curve) for curve in self._curves.values())

    def x_range(self) -> tuple[float, float] | None:
        """Return the first and the last x, None without rows."""
        ranges = [found for curve in self._curves.values() if (found := curve.x_range())]
        if not ranges:
            return None
        return min(first for first, _ in ranges), max(last for _, last in ranges)

    def pieces(self, left: float, right: float, width_px: int) -> Iterator[Piece]:
        """Yield what to draw between two positions, attempt by attempt.

        Args:
            left: x at the left edge.
            right: x at the right edge, greater than `left`.
            width_px: Pixels between them.
        """
        for number, curve in self._curves.items():
            end = self._end(number)
            bounds = curve.x_range()
            if bounds is None:
                continue
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


def _chosen(rows: EpisodeRows, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> dict[str, list[object]]:
    """Return the columns of some of the episodes."""
    columns = {name: value for name, value in rows if isinstance(value, list)}
    return {
        name: [item for item, chosen in zip(column, mask, strict=True) if chosen]
        for name, column in columns.items()
    }
