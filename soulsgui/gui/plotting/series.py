"""Rows of one run and metric as series: what is drawn of them at any zoom, smoothed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.ma  # np.unique imports it when it is first called: that would stop the window
from numpy.typing import NDArray

from soulsgui.gui.plotting.rows import (
    EPISODE_FIELDS,
    RETURN,
    UNKNOWN,
    Axis,
    CurveRows,
    Mark,
    attempt_start,
    from_episodes,
    from_history,
    from_update,
)
from soulsgui.wire.control import History
from soulsgui.wire.messages.metrics import (
    EVALUATION_PREFIX,
    AttemptRow,
    AttemptStart,
    EpisodeRows,
    ResourceRow,
    Row,
    UpdateRow,
)

_PARTS = 20
SHORTEST = 2 * _PARTS
"""Values of the shortest curve that is smoothed at all."""

_MOST_ATTEMPTS = 250  # that are drawn, the newest: each is a curve of its own


def exponential_mean(
    values: NDArray[np.float64], counts: NDArray[np.int64], weight: float
) -> NDArray[np.float64]:
    """Return the exponential moving mean with bias correction: the first values are no worse than later ones.

    s_t = Σ w^(t-i) x_i / Σ w^(t-i), over the values that are not missing (Adam, arXiv 1412.6980, section 3).
    A value that stands for n rows counts as n rows with this value. Both sums are recursions
    y_t = a_t y_(t-1) + b_t, solved for all t at once by doubling the rows that each y holds (Hillis and
    Steele, Data parallel algorithms, 1986).
    """
    known = np.isfinite(values)
    decay = weight ** counts.astype(np.float64)
    norms = np.where(known, 1.0 - decay, 0.0)
    sums = np.stack((norms * np.where(known, values, 0.0), norms))
    reach = 1
    while reach < values.size and decay.any():
        sums[:, reach:] += decay[reach:] * sums[:, :-reach]
        decay[reach:] *= decay[:-reach].copy()
        decay[:reach] = 0.0
        reach *= 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known, sums[0] / sums[1], np.nan)


def memory(weight: float) -> int:
    """Return after how many rows an old value no longer matters: its share is below what can be seen."""
    return 1 if weight <= 0 else max(1, int(np.ceil(np.log(1e-3) / np.log(weight))))


def fitting_weight(weight: float, count: int) -> float:
    """Return the weight that suits a curve: a mean over most of its values would be nearly straight.

    A mean with the weight w is one over about 1 / (1 - w) values: here over a twentieth of the curve at most,
    and below `SHORTEST` over none. The limit doubles whenever the curve does: what is drawn already changes
    seldom.
    """
    longest = 1 << max((count // _PARTS).bit_length() - 1, 0)
    return min(weight, 1.0 - 1.0 / longest)


def _attempts(rows: CurveRows) -> list[int]:
    """Return the attempts that are drawn of rows."""
    newest: list[int] = np.unique(rows.attempt)[-_MOST_ATTEMPTS:].tolist()
    return newest


Points = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Reading:
    """One row, or the mean of `runs`, for the crosshair; `count` says how many rows it stands for."""

    episode: int
    env_steps: int
    time: float
    value: float
    smooth: float
    x: float
    count: int = 1
    update: int = 0
    low: float = np.nan
    high: float = np.nan
    runs: int = 0


class AttemptCurve:
    """Rows of one attempt, in rising order of x."""

    def __init__(self, rows: CurveRows, x: NDArray[np.float64], smooth: NDArray[np.float64]) -> None:
        self._rows = rows
        self._x = x
        self._smooth = smooth

    @property
    def x_range(self) -> tuple[float, float]:
        """The first and the last x."""
        return float(self._x[0]), float(self._x[-1])

    def is_coarse(self, left: float, right: float) -> bool:
        """Whether one between two positions stands for several rows."""
        return bool((self._rows.count[self._seen(left, right)] > 1).any())

    def _seen(self, left: float, right: float) -> slice:
        """Return which rows are between two positions, with one beyond each edge."""
        start = int(np.searchsorted(self._x, left)) - 1
        return slice(max(start, 0), int(np.searchsorted(self._x, right, "right")) + 1)

    def points(self, left: float, right: float, width_px: int, smooth: bool) -> Points:
        """Return what to draw of the raw or of the smoothed values: at most 2 points per pixel."""
        seen = self._seen(left, right)
        x, low, high = self._x[seen], self._rows.low[seen], self._rows.high[seen]
        if smooth:
            low = high = self._smooth[seen]
        single = smooth or np.array_equal(low, high, equal_nan=True)
        if x.size > (2 if single else 1) * width_px:
            pixel = ((x - left) * (width_px / (right - left))).astype(np.int64)
            firsts = np.flatnonzero(np.diff(pixel, prepend=pixel[0] - 1))
            single = False
            x, low, high = x[firsts], np.fmin.reduceat(low, firsts), np.fmax.reduceat(high, firsts)
        if smooth:
            # The middle is enough for a smooth curve, and half the work to paint.
            return x, (low + high) / 2
        return (x, low) if single else (np.repeat(x, 2), np.stack((low, high), axis=1).ravel())

    def kept(self, end: float) -> Points:
        """Return x and the smoothed values up to a position, without the missing ones."""
        stop = int(np.searchsorted(self._x, end, "right"))
        known = np.isfinite(self._smooth[:stop])
        return self._x[:stop][known], self._smooth[:stop][known]

    def x_after_step(self, env_steps: float, default: float) -> float:
        """Return x of the first row beyond a number of environment steps, `default` when there is none."""
        return float(self._x[self._rows.env_steps > env_steps].min(initial=default))

    def nearest(self, x: float, limit: float) -> Reading | None:
        """Return the row nearest to a position, None when none is at or before `limit`."""
        stop = int(np.searchsorted(self._x, limit, "right"))
        return self._reading(int(np.argmin(np.abs(self._x[:stop] - x)))) if stop else None

    def readings(self, left: float, right: float) -> Iterator[Reading]:
        """Yield the rows between two positions."""
        start, stop = np.searchsorted(self._x, left), np.searchsorted(self._x, right, "right")
        return map(self._reading, range(int(start), int(stop)))

    def _reading(self, place: int) -> Reading:
        rows = self._rows
        return Reading(
            int(rows.episode[place]),
            int(rows.env_steps[place]),
            float(rows.time[place]),
            float(rows.value[place]),
            float(self._smooth[place]),
            float(self._x[place]),
            int(rows.count[place]),
            int(rows.update[place]),
            float(rows.low[place]),
            float(rows.high[place]),
        )


@dataclass(frozen=True)
class Piece:
    """One attempt's part of a curve as it is to be drawn."""

    raw: Points  # points of the raw values
    smooth: Points  # points of the smoothed values
    overwritten: bool  # whether a later attempt went back before this part: drawn dotted, left out of means


class _Part(NamedTuple):
    """A part of x in finer buckets, and the last row that was stored when it was asked for."""

    rows: CurveRows
    left: float
    right: float
    last: tuple[int, int]


class Series:
    """The rows of one metric of one run: the whole run in buckets, a part of it in finer ones, live rows.

    With a client only those of the episodes that it played.

    Live rows may arrive before and after the answer to the query. Row numbers decide what is old and what is
    new, so that nothing is drawn twice or missed.
    """

    def __init__(
        self,
        run_id: str,
        metric: str = RETURN,
        axis: Axis = Axis.EPISODE,
        weight: float = 0.95,
        client: str = "",
    ) -> None:
        self.run_id = run_id
        self.metric = metric
        self.client = client
        self._axis = axis
        self._weight = weight
        self._part: _Part | None = None
        self._clear()

    def _clear(self) -> None:
        self._whole = CurveRows.empty()
        self._live: list[CurveRows] = []
        self._starts: dict[int, AttemptStart] = {}
        self._pauses: dict[int, float] = {}
        self._last = (0, 0)
        self._last_time = 0.0
        self._updates = 0
        self._configured = False  # a metric of episodes that is one of `telemetry.metrics`
        self._loaded = False
        self._drawn: dict[int, AttemptCurve] | None = None
        self._ends: dict[int, float] = {}  # of each attempt that is drawn
        self.missed_rows = False

    def load(self, history: History) -> None:
        """Replace all but the finer part by an answer that covers the whole run."""
        self._clear()
        self._starts = {start.attempt: start for start in history.attempts[-_MOST_ATTEMPTS:]}
        self._whole = from_history(history)
        self._configured = history.of_episodes
        self._last = self._last_of(history)
        self._last_time = max(history.time, default=0.0)
        self._updates = history.last_update[1]
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
            self._starts[row.attempt] = attempt_start(row)
            if len(self._starts) > _MOST_ATTEMPTS:
                del self._starts[min(self._starts)]
            self._drawn = None
        elif isinstance(row, EpisodeRows) and self.of_episodes:
            # Updates are followed only where x means them.
            update = self._updates if self._axis is Axis.UPDATE else UNKNOWN
            self._append_episodes(from_episodes(row, self.metric, update), row.client)
        elif isinstance(row, UpdateRow) and self.of_episodes:
            self._updates = row.update if row.kind == "update" else self._updates
        elif isinstance(row, ResourceRow):
            found = from_update(row, self.metric)
            if found is not None and row.time > self._last_time:
                self._last_time = row.time
                self._take(found)
        elif isinstance(row, UpdateRow):
            found = from_update(row, self.metric)
            if found is not None and (row.attempt, row.update) > self._last:
                self._last = (row.attempt, row.update)
                self._take(found)

    def _append_episodes(self, rows: CurveRows, clients: Sequence[str]) -> None:
        new = rows.row > self._last[1]
        if not new.any():
            return
        newest = int(rows.row.max())
        self.missed_rows |= self._loaded and newest - self._last[1] != int(new.sum())
        self._last = (0, newest)
        if self.client:
            new &= np.asarray(clients) == self.client
        self._take(rows.where(new))

    def _take(self, rows: CurveRows) -> None:
        self._live.append(rows)
        self._drawn = None

    @property
    def of_episodes(self) -> bool:
        """Whether its rows are episodes; else they are updates."""
        return self._configured or self.metric in EPISODE_FIELDS

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
            for number, places, smooth in self._smoothed(rows):
                own = rows.where(places)
                self._drawn[number] = AttemptCurve(own, self._x(own), smooth)
            self._ends = {number: self._find_end(number) for number in self._drawn}
        return self._drawn

    def _x(self, rows: CurveRows) -> NDArray[np.float64]:
        """Return x of each row."""
        x = rows.axis(self._axis)
        if self._axis is Axis.TRAINING:
            for number, pause in self._pauses.items():
                x[rows.attempt == number] -= pause
        return x

    def _find_pauses(self, rows: CurveRows) -> None:
        """Find what is to be taken from the wall time of each attempt, so that training alone counts."""
        self._pauses, trained = {}, 0.0
        for number in _attempts(rows):
            times = rows.time[rows.attempt == number]
            told = self._starts[number].time if number in self._starts else 0.0
            began = min(told, float(times.min())) if told else float(times.min())
            self._pauses[number] = began - trained
            trained += float(times.max()) - began

    def stored_range(self, left: float, right: float) -> tuple[float, float]:
        """Return a part of x as the store knows it."""
        return self._stored_x(left), self._stored_x(right)

    def _stored_x(self, x: float) -> float:
        if self._axis is not Axis.TRAINING:
            return x
        found = x
        for number, curve in self._curves.items():
            if number == min(self._curves) or curve.x_range[0] <= x:
                found = x + self._pauses[number]
        return found

    def placed(self, marks: Iterable[Mark]) -> list[Mark]:
        """Return moments with what the rows tell of their places: where the last row before each stands."""
        rows = self._all_rows()
        rows = rows.where(np.argsort(rows.time, kind="stable"))
        starts = np.array([start.time for start in self._starts.values()])
        numbers, first = np.array(list(self._starts), int), min(self._pauses, default=0)
        found = []
        for mark in marks:
            began = numbers[starts <= mark.time]
            pause = self._pauses.get(int(began.max()) if began.size else first, np.nan)
            mark = replace(mark, trained=mark.time - pause)
            last = int(np.searchsorted(rows.time, mark.time, "right")) - 1
            if last >= 0 and not np.isfinite(mark.episode):
                update = float(rows.update[last]) if rows.update[last] != UNKNOWN else mark.update
                place = float(rows.episode[last]), float(rows.env_steps[last])
                mark = replace(mark, episode=place[0], env_steps=place[1], update=update)
            found.append(mark)
        return found

    def newest_attempt(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return times and values of the rows of the newest attempt, by time."""
        rows = self._all_rows()
        rows = rows.where(rows.attempt == rows.attempt.max(initial=0))
        rows = rows.where(np.argsort(rows.time, kind="stable"))
        return rows.time, rows.value

    @property
    def largest(self) -> float:
        """The largest value by its size, 0 without any."""
        rows = self._all_rows()
        ends = np.abs(np.concatenate((rows.low, rows.high)))
        return float(np.max(ends, initial=0.0, where=np.isfinite(ends)))

    def _all_rows(self) -> CurveRows:
        """Return the whole run with the finer part in its place, and the live rows."""
        live, part = CurveRows.joined([CurveRows.empty(), *self._live]), self._part
        self._live = [live]
        self._find_pauses(CurveRows.joined((self._whole, live)))
        if part is None:
            return CurveRows.joined((self._whole, live))
        attempt, row = part.last
        after = live.row > row if self.of_episodes else live.attempt > attempt
        after |= (live.attempt == attempt) & (live.row > row)
        outside = [(x < part.left) | (x > part.right) for x in (self._x(self._whole), self._x(live))]
        return CurveRows.joined((self._whole.where(outside[0]), part.rows, live.where(outside[1] | after)))

    def _smoothed(self, rows: CurveRows) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.float64]]]:
        """Yield each attempt with the places of its rows and their smoothed values.

        These go on where the attempt began on the curve of its predecessors.
        """
        weight = self._fitting_weight
        wanted = memory(weight)
        starts = sorted(self._starts.values(), key=lambda start: -start.attempt)
        kept = np.empty(0, np.intp)  # places of rows that no attempt so far went back before
        for number in _attempts(rows):
            while starts and starts[-1].attempt <= number:
                kept = kept[rows.env_steps[kept] <= starts.pop().env_steps]
            places = np.flatnonzero(rows.attempt == number)
            joined = np.concatenate((kept[-wanted:], places))
            smooth = exponential_mean(rows.value[joined], rows.count[joined], weight)
            yield number, places, smooth[-places.size :]
            kept = np.concatenate((kept, places))

    def _find_end(self, attempt: int) -> float:
        """Return x beyond which an attempt was overwritten by a later one; infinity when it was not."""
        later = [start for start in self._starts.values() if start.attempt > attempt]
        if not later:
            return float("inf")
        first = min(later, key=lambda start: start.env_steps)
        if self._axis is Axis.EPISODE:
            return float(first.episodes)
        if self._axis is Axis.ENV_STEP:
            return float(first.env_steps)
        if self._axis is Axis.UPDATE:
            return float(first.update)
        beyond = self._curves[attempt].x_after_step(first.env_steps, float("inf"))
        return float(np.nextafter(beyond, -np.inf))

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
        """Return what part to ask for so that a view becomes finer: with half a view beyond each edge."""
        span, whole, part = right - left, self.x_range(), self._part
        if whole is None or 2 * span > whole[1] - whole[0]:
            return None
        if part and part.left <= left and right <= part.right and 4 * span >= part.right - part.left:
            return None
        coarse = any(curve.is_coarse(left, right) for curve in self._curves.values())
        return (left - span / 2, right + span / 2) if coarse else None

    def pieces(self, left: float, right: float, width_px: int) -> Iterator[Piece]:
        """Yield what to draw between two positions, attempt by attempt."""
        for number, curve in self._curves.items():
            end = self._ends[number]
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
            if (reading := curve.nearest(x, self._ends[number])) is not None
        ]
        return min(reversed(found), key=lambda reading: abs(reading.x - x), default=None)

    def at(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the smoothed values at positions, on straight lines between rows; NaN where there are none.

        What was overwritten is left out.
        """
        kept = [curve.kept(self._ends[number]) for number, curve in self._curves.items()]
        xs, ys = (np.concatenate([np.empty(0), *(points[side] for points in kept)]) for side in (0, 1))
        order = np.argsort(xs, kind="stable")
        return np.interp(x, xs[order], ys[order], np.nan, np.nan) if xs.size else np.full(x.shape, np.nan)

    def readings(self, left: float, right: float) -> Iterator[tuple[int, Reading, bool]]:
        """Yield the rows between two positions: the attempt of each, and whether it was overwritten."""
        for number, curve in self._curves.items():
            end = self._ends[number]
            for reading in curve.readings(left, right):
                yield number, reading, reading.x > end
