"""Rows, histories and series for the tests of curves."""

from collections.abc import Sequence

from soulsgui.gui.plotting.plot import Plot
from soulsgui.gui.plotting.series import Series
from soulsgui.wire.control import History
from soulsgui.wire.messages.metrics import AttemptRow, AttemptStart, EpisodeRows, UpdateRow
from tests.states import RUN

START = 1_790_000_000.0


def points_drawn(plot: Plot) -> int:
    items = [item for curve in plot.curves for item in curve.items]
    return sum(line.xData.size for item in items for line in (item.raw, item.smooth))


def episodes(
    numbers: Sequence[int],
    *,
    attempt: int = 1,
    values: Sequence[float] | None = None,
    env_steps: Sequence[int] | None = None,
    episode: Sequence[int] | None = None,
    client: str = "a",
    run: str = RUN,
    step_s: float = 1.0,
) -> EpisodeRows:
    """Live episodes: row n is episode n, ends at 10·n steps and n seconds, with return n, unless said."""
    count = len(numbers)
    returns = list(values) if values is not None else [float(n) for n in numbers]
    return EpisodeRows(
        run_id=run,
        row=list(numbers),
        attempt=[attempt] * count,
        client=[client] * count,
        episode=list(episode) if episode is not None else list(numbers),
        env_steps=list(env_steps) if env_steps is not None else [10 * n for n in numbers],
        time=[START + step_s * n for n in numbers],
        total_return=returns,
        length=[10] * count,
        model_id=[0] * count,
        mean_return=returns,
    )


def history(numbers: Sequence[int], attempts: Sequence[AttemptStart] = ()) -> History:
    """An answer that covers these rows of attempt 1."""
    rows = episodes(numbers)
    return History(
        run_id=RUN,
        metric="return",
        last_row=max(numbers, default=0),
        row=rows.row,
        attempt=rows.attempt,
        episode=rows.episode,
        env_steps=rows.env_steps,
        time=rows.time,
        value=rows.total_return,
        low=rows.total_return,
        high=rows.total_return,
        count=[1] * len(rows.row),
        attempts=list(attempts),
    )


def attempt_row(attempt: int, episodes_before: int) -> AttemptRow:
    return AttemptRow(
        run_id=RUN,
        attempt=attempt,
        update=0,
        env_steps=10 * episodes_before,
        episodes=episodes_before,
        model_id=0,
        time=START,
    )


def update(number: int, *, attempt: int = 1, **values: float) -> UpdateRow:
    return UpdateRow(
        run_id=RUN,
        attempt=attempt,
        update=number,
        previous=number - 1,
        env_steps=100 * number,
        episodes=10 * number,
        model_id=number,
        time=START + number,
        values=values,
    )


def drawn(series: Series, overwritten: bool = False, smooth: bool = False) -> list[tuple[float, float]]:
    """Every point of the series as (x, y), at a zoom that shows each."""
    bounds = series.x_range()
    if bounds is None:
        return []
    pieces = series.pieces(bounds[0] - 1, bounds[1] + 1, 10_000)
    parts = [piece.smooth if smooth else piece.raw for piece in pieces if piece.overwritten is overwritten]
    return [(float(x), float(y)) for xs, ys in parts for x, y in zip(xs, ys, strict=True)]
