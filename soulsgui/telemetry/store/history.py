"""`history.query`: one curve of a run in so many buckets, in columns."""

import math
import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, groupby
from pathlib import Path
from typing import Any

from soulsgui.telemetry.aggregate import Limits
from soulsgui.telemetry.intake import Complete
from soulsgui.telemetry.store import resources
from soulsgui.telemetry.store.evaluations import (
    GreedyEpisodes,
    evaluation_metrics,
    has_evaluations,
    last_evaluation,
)
from soulsgui.telemetry.store.schema import (
    BLOCK_SIZES,
    EPISODE_METRICS,
    EVALUATION_ROWS,
    UPDATE_ROWS,
    VALUE_ROWS,
    attempt_starts,
    episode_rows,
    open_for_reading,
    rolled_up_to,
    value_metrics,
)
from soulsgui.wire.control import History, HistoryQueryParams
from soulsgui.wire.messages.metrics import EVALUATION_PREFIX, RESOURCE_PREFIX

_AXES = {"episode": "episode", "env_step": "env_steps", "time": "time"}
_MOST_CLIENTS, _MOST_METRICS = 100, 1000

_MOST_READ = 1 << 14  # rows that are read one by one; of more, blocks are, and of so many blocks larger ones

Part = tuple[Any, ...]
"""One or more rows: row, number, attempt, episode, env_steps, time, x, low, high, sum and count."""

Bucket = tuple[Any, ...]  # row of the last row in it, then the columns of `History`

_COLUMNS = ("row", "attempt", "episode", "env_steps", "time", "value", "low", "high", "count")


def query_history(path: Path, params: HistoryQueryParams) -> History:
    """Return one curve in at most `params.points` buckets, which all rows asked for are in, each once.

    Up to that many rows come one by one: buckets of one row. Of more, the buckets are of equal width along
    `params.x`, within each attempt.

    Reads a snapshot: `last_row` and `last_update` name the last rows stored at that moment, whether they pass
    the filters or not; for a metric of evaluations `last_update` names the last evaluation. Updates whose
    value is not a number are left out. A client filter leaves no updates.

    Returns an empty history when there is no store, or no such metric.
    """
    about: dict[str, Any] = {"run_id": path.absolute().parent.name, "metric": params.metric}
    with open_for_reading(path) as db:
        if db is None:
            return as_history([], **about, last_row=0, metrics=list(EPISODE_METRICS))
        asked, made = params, _UpdatesMade(db) if params.x == "update" else None
        if made is not None:
            params = made.in_env_steps(params)
        last_row = _number(db, "SELECT max(row) FROM episodes")
        last = db.execute("SELECT attempt, update_count FROM updates ORDER BY row DESC LIMIT 1").fetchone()
        configured = value_metrics(db)
        of_episodes = params.metric in (*EPISODE_METRICS, *configured)
        if of_episodes:
            rolled_up = not params.client and rolled_up_to(db, "episodes") == last_row
            rows = episode_rows(params.metric) if params.metric in EPISODE_METRICS else VALUE_ROWS
            found = _buckets(db, rows, params, rolled_up)
        elif params.client:
            found = []
        elif params.metric.startswith(EVALUATION_PREFIX):
            last = last_evaluation(db)
            found = _buckets(db, EVALUATION_ROWS, params, rolled_up=False) if has_evaluations(db) else []
        elif params.metric.startswith(RESOURCE_PREFIX):
            last, found = None, []
            if resources.has_resources(db):
                found = _buckets(db, resources.ROWS, params, rolled_up=False)
        else:
            rolled_up = rolled_up_to(db, "updates") == _number(db, "SELECT max(row) FROM updates")
            found = _buckets(db, UPDATE_ROWS, params, rolled_up)
        updates: list[int] = []
        if made is not None:
            low, high = asked.start or 0, math.inf if asked.end is None else asked.end
            counted = [made.by(bucket[2], bucket[4]) if of_episodes else bucket[1] for bucket in found]
            inside = [low <= count <= high for count in counted]
            found, updates = list(compress(found, inside)), list(compress(counted, inside))
        starts = attempt_starts(db)
        limits = Limits(starts)
        others = [*evaluation_metrics(db), *resources.resource_metrics(db)]
        names = db.execute("SELECT name FROM metrics ORDER BY name LIMIT ?", (_MOST_METRICS,))
        return as_history(
            found,
            **about,
            overwritten=[
                limits.of(attempt).overwrites_episode(env_steps, episode)
                if of_episodes
                else number > limits.of(attempt).updates
                for _, number, attempt, episode, env_steps, *_ in found
            ],
            update=updates,
            clients=[name for (name,) in db.execute("SELECT name FROM clients LIMIT ?", (_MOST_CLIENTS,))],
            last_row=last_row,
            last_update=last or (0, 0),
            attempts=starts,
            metrics=list(
                dict.fromkeys([*EPISODE_METRICS, *configured, *(name for (name,) in names), *others])
            ),
            of_episodes=of_episodes,
        )


def played_as_asked(path: Path, command_id: str) -> Complete | None:
    """Return the evaluation by clients that a trainer was asked for; None before it is played."""
    with open_for_reading(path) as db:
        if db is None or not has_evaluations(db):
            return None
        episodes = GreedyEpisodes(db)
        return episodes.newest_complete(lambda order: command_id in order.asked)


class _UpdatesMade:
    """How many updates a run had made after so many environment steps, attempt by attempt."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._begins = {start.attempt: start.update for start in attempt_starts(db)}
        self._of: dict[int, tuple[list[int], list[int]]] = {}
        for attempt, env_steps, update in db.execute(
            "SELECT attempt, env_steps, update_count FROM updates ORDER BY row"
        ):
            steps, updates = self._of.setdefault(attempt, ([], []))
            steps.append(env_steps)
            updates.append(update)

    def by(self, attempt: int, env_steps: int) -> int:
        """Return how many had been made."""
        steps, updates = self._of.get(attempt, ([], []))
        place = bisect_right(steps, env_steps)
        return updates[place - 1] if place else self._begins.get(attempt, 0)

    def in_env_steps(self, params: HistoryQueryParams) -> HistoryQueryParams:
        """Return a question along environment steps whose answer holds at least what was asked for."""
        begins, ends = [], []
        for steps, updates in self._of.values():
            before = 0 if params.start is None else bisect_right(updates, params.start - 1)
            begins.append(steps[before - 1] if before else -math.inf)
            after = len(steps) if params.end is None else bisect_right(updates, params.end)
            ends.append(steps[after] if after < len(steps) else math.inf)
        place = {"start": min(begins, default=None), "end": max(ends, default=None)}
        return params.model_copy(update={"x": "env_step", **place})


def client_names(path: Path) -> list[str]:
    """Return the clients whose episodes a store holds."""
    with open_for_reading(path) as db:
        return [] if db is None else [name for (name,) in db.execute("SELECT name FROM clients")]


def as_history(buckets: Sequence[Bucket], **about: Any) -> History:
    """Return an answer with these buckets; `about` are the other fields."""
    _, *columns = zip(*buckets, strict=True) if buckets else [()] * (1 + len(_COLUMNS))
    return History.model_validate(about | dict(zip(_COLUMNS, columns, strict=True)))


def _number(db: sqlite3.Connection, query: str) -> int:
    return db.execute(query).fetchone()[0] or 0


def _buckets(db: sqlite3.Connection, rows: str, params: HistoryQueryParams, rolled_up: bool) -> list[Bucket]:
    """Return the buckets of a curve, in the order of storing."""
    x = _AXES[params.x]
    asked: dict[str, Any] = {
        "metric": params.metric,
        "client": params.client,
        "start": -math.inf if params.start is None else params.start,
        "end": math.inf if params.end is None else params.end,
        "size": BLOCK_SIZES[1],
    }
    of_client = " AND client = (SELECT id FROM clients WHERE name = :client)" if params.client else ""
    each = f"FROM ({rows}) WHERE metric = :metric AND {x} BETWEEN :start AND :end{of_client}"
    blocks = f"FROM blocks WHERE metric = :metric AND size = :size AND first_{x} <= :end AND {x} >= :start"
    by_row = f"SELECT attempt, min(row), max(row), min({x}), max({x}), count(*) {each}"
    by_block = f"SELECT attempt, min(first), max(last), min(first_{x}), max({x}), sum(count) {blocks}"
    spans = db.execute(f"{by_block if rolled_up else by_row} GROUP BY attempt", asked).fetchall()
    of_span = " AND attempt = :attempt AND row BETWEEN :first AND :last"
    if rolled_up and sum(span[-1] for span in spans) <= params.points + 2 * BLOCK_SIZES[1] * len(spans):
        # Without what the blocks at the ends hold beyond them, it may be few enough to keep rows apart.
        spans = [
            exact
            for attempt, first, last, *_ in spans
            for exact in db.execute(
                f"{by_row}{of_span} GROUP BY attempt",
                asked | {"attempt": attempt, "first": first, "last": last},
            )
        ]
    count = sum(span[-1] for span in spans)
    asked["size"] = next(
        (size for size in (1, *BLOCK_SIZES) if count <= max(_MOST_READ, params.points) * size),
        BLOCK_SIZES[-1],
    )
    length = sum(min(last, asked["end"]) - max(first, asked["start"]) for *_, first, last, _ in spans)
    width = bucket_width(params.points, count, length, len(spans))

    def read_rows(attempt: int, first: int, last: int) -> Iterable[Part]:
        return db.execute(
            f"SELECT row, number, attempt, episode, env_steps, time, {x}, value, value, value, 1 {each}"
            f"{of_span} ORDER BY row",
            asked | {"attempt": attempt, "first": first, "last": last},
        )

    def read_blocks(attempt: int, first: int, last: int) -> Iterable[Part]:
        inside = f"first_{x} >= :start AND {x} <= :end"
        span = asked | {"attempt": attempt, "first": first, "last": last}
        among = (
            f"{blocks} AND attempt = :attempt AND block BETWEEN (:first - 1) / :size AND (:last - 1) / :size"
        )
        whole = db.execute(
            f"SELECT last, number, attempt, episode, env_steps, time, {x}, low, high, total, count {among}"
            f" AND {inside}",
            span,
        )
        # Of blocks that begin or end outside, the rows are read.
        cut = db.execute(f"SELECT attempt, first, last {among} AND NOT ({inside})", span)
        return sorted(chain(whole, *(read_rows(*edge) for edge in cut)))

    read = read_blocks if rolled_up and asked["size"] > 1 else read_rows
    return sorted(chain.from_iterable(into_buckets(read(*span[:3]), width) for span in spans))


def bucket_width(points: int, count: int, length: float, attempts: int) -> float:
    """Return how wide buckets are along x, so that there are no more than wanted; 0 keeps rows apart."""
    return 0.0 if count <= points else length / max(points - 2 * attempts, 1) or math.inf


def into_buckets(parts: Iterable[Part], width: float) -> Iterator[Bucket]:
    """Iterate over the buckets of one attempt."""
    for _, group in groupby(parts, lambda part: part[6] // width if width else part[0]):
        bucket = list(group)
        *_, low, high, total, count = zip(*bucket, strict=True)
        yield *bucket[-1][:6], sum(total) / sum(count), min(low), max(high), sum(count)
