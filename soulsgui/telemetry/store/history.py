"""`history.query`: one curve of a run, raw, in columns."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soulsgui.telemetry.curve import Limits
from soulsgui.telemetry.store.attempts import attempt_starts
from soulsgui.telemetry.store.evaluations import evaluation_metrics, has_evaluations, last_evaluation
from soulsgui.telemetry.store.schema import open_for_reading
from soulsgui.wire.control import History, HistoryQueryParams
from soulsgui.wire.messages.metrics import EVALUATION_PREFIX

EPISODE_METRICS = {"return": "total_return", "length": "length", "mean_return": "mean_return"}
"""Metrics of episodes, by the column that holds them; every other metric is one of updates or evaluations."""

_EPISODE_AXES = {"episode": "episode", "env_step": "env_steps", "time": "time"}
_UPDATE_AXES = {"episode": "episodes", "env_step": "env_steps", "time": "time"}


_EMPTY: dict[str, Any] = {
    "last_row": 0,
    "last_update": (0, 0),
    "attempts": [],
    "metrics": list(EPISODE_METRICS),
}


@dataclass(frozen=True)
class _Filter:
    """Conditions of a query and the values for their marks."""

    conditions: tuple[str, ...]
    values: tuple[Any, ...]

    @property
    def where(self) -> str:
        return f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""


def query_history(path: Path, params: HistoryQueryParams) -> History:
    """Return the rows of one curve, at most the newest `params.limit` of those asked for.

    Reads a snapshot: `last_row` and `last_update` name the last rows stored at that moment, whether they pass
    the filters or not; for a metric of evaluations `last_update` names the last evaluation. Updates whose
    value is not a number are left out. A client filter leaves no updates.

    Args:
        path: The store (`telemetry.sqlite` in the run's folder).
        params: Metric, filters and limit; `params.run` is not looked at. Metrics of episodes: `return`,
            `length`, `mean_return` (over `stop.window` episodes, as it was shown live).

    Returns:
        An empty history when there is no store, or no such metric.

    Raises:
        StoreError: The store is damaged, or of a newer version.
    """
    run_id = path.absolute().parent.name
    with open_for_reading(path) as db:
        if db is None:
            return _history(run_id, params.metric, [], 0, _EMPTY)
        common = _common(db)
        if params.metric in EPISODE_METRICS:
            rows, total = _episodes(db, params, common["last_row"])
        elif params.metric.startswith(EVALUATION_PREFIX):
            common["last_update"] = last_evaluation(db)
            rows, total = _evaluations(db, params)
        else:
            rows, total = _updates(db, params)
        return _history(run_id, params.metric, rows, total, common)


def _common(db: sqlite3.Connection) -> dict[str, Any]:
    """Return what every answer tells of the whole store."""
    last_update = db.execute("SELECT attempt, update_count FROM updates ORDER BY row DESC LIMIT 1").fetchone()
    names = db.execute("SELECT name FROM metrics ORDER BY name").fetchall()
    return {
        "last_row": db.execute("SELECT coalesce(max(row), 0) FROM episodes").fetchone()[0],
        "last_update": last_update or (0, 0),
        "attempts": attempt_starts(db),
        "metrics": [*EPISODE_METRICS, *(name for (name,) in names), *evaluation_metrics(db)],
    }


def _episodes(db: sqlite3.Connection, params: HistoryQueryParams, last_row: int) -> tuple[list[Any], int]:
    """Return columns (row, attempt, episode, env_steps, time, value, client, overwritten) and the total."""
    clients = dict(db.execute("SELECT id, name FROM clients"))
    chosen = _range(_EPISODE_AXES[params.x], params)
    if params.client:
        numbers = [number for number, name in clients.items() if name == params.client]
        chosen = _Filter((*chosen.conditions, "client = ?"), (*chosen.values, *(numbers or [-1])))
    # Rows have no gaps, so that without a filter the last number is their count.
    total = last_row if not chosen.conditions else _count(db, f"episodes{chosen.where}", chosen.values)
    column = EPISODE_METRICS[params.metric]
    found = db.execute(
        f"SELECT row, attempt, episode, env_steps, time, {column}, client, episode FROM episodes"
        f"{chosen.where} ORDER BY row DESC LIMIT ?",
        (*chosen.values, params.limit),
    )
    columns = _columns(found.fetchall(), 8)
    columns[6] = [clients[number] for number in columns[6]]
    limits = Limits(attempt_starts(db))
    columns[7] = [
        limits.of(attempt).overwrites_episode(env_steps, episode)
        for attempt, env_steps, episode in zip(columns[1], columns[3], columns[2], strict=True)
    ]
    return columns, total


def _updates(db: sqlite3.Connection, params: HistoryQueryParams) -> tuple[list[Any], int]:
    """Return the same as `_episodes`, with update counts for row numbers and no clients."""
    metric = db.execute("SELECT id FROM metrics WHERE name = ?", (params.metric,)).fetchone()
    if metric is None or params.client:
        return [], 0
    return _values_of("update", metric[0], db, params)


def _evaluations(db: sqlite3.Connection, params: HistoryQueryParams) -> tuple[list[Any], int]:
    """Return the same of evaluations, named by the updates whose weights they are of."""
    if not has_evaluations(db) or params.client:
        return [], 0
    return _values_of("evaluation", params.metric, db, params)


def _values_of(
    what: str, metric: int | str, db: sqlite3.Connection, params: HistoryQueryParams
) -> tuple[list[Any], int]:
    """Return the columns of one metric of updates, or of evaluations."""
    chosen = _range(_UPDATE_AXES[params.x], params)
    conditions = ("metric = ?", "value IS NOT NULL", *chosen.conditions)
    where = _Filter(conditions, ()).where
    source = f"{what}_values JOIN {what}s ON {what}s.row = {what}_row{where}"
    values = (metric, *chosen.values)
    found = db.execute(
        f"SELECT update_count, attempt, episodes, env_steps, time, value, '', update_count FROM {source}"
        f" ORDER BY {what}_row DESC LIMIT ?",
        (*values, params.limit),
    )
    columns = _columns(found.fetchall(), 8)
    limits = Limits(attempt_starts(db))
    columns[6] = []
    columns[7] = [
        update > limits.of(attempt).updates for attempt, update in zip(columns[1], columns[0], strict=True)
    ]
    return columns, _count(db, source, values)


def _range(column: str, params: HistoryQueryParams) -> _Filter:
    bounds = [(f"{column} >= ?", params.start), (f"{column} <= ?", params.end)]
    given = [(condition, value) for condition, value in bounds if value is not None]
    return _Filter(tuple(condition for condition, _ in given), tuple(value for _, value in given))


def _count(db: sqlite3.Connection, source: str, values: Sequence[Any]) -> int:
    count: int = db.execute(f"SELECT count(*) FROM {source}", values).fetchone()[0]
    return count


def _columns(newest_first: list[tuple[Any, ...]], width: int) -> list[list[Any]]:
    newest_first.reverse()
    return [list(column) for column in zip(*newest_first, strict=True)] or [[] for _ in range(width)]


def _history(run_id: str, metric: str, columns: list[Any], total: int, common: dict[str, Any]) -> History:
    row, attempt, episode, env_steps, time, value, client, overwritten = columns or [[] for _ in range(8)]
    # Types are those of the tables: checking a million numbers again would take longer than reading them.
    return History.model_construct(
        run_id=run_id,
        metric=metric,
        row=row,
        attempt=attempt,
        episode=episode,
        env_steps=env_steps,
        time=time,
        value=[float(one) for one in value],
        client=client,
        overwritten=overwritten,
        total=total,
        **common,
    )
