"""The series of a run for other programs: telemetry.json, and having telemetry.png drawn of it."""

import json
import logging
import os
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from soulsgui.config.layers import load_run_settings
from soulsgui.config.paths import RunFolder
from soulsgui.errors import SoulsGuiError
from soulsgui.process import child_env, own_command
from soulsgui.system import atomic_write
from soulsgui.telemetry.aggregate import Limits
from soulsgui.telemetry.figure import AHEAD, NO_MATPLOTLIB
from soulsgui.telemetry.store.evaluations import (
    PLACE_NAMES,
    best_evaluated,
    evaluation_metrics,
    has_evaluations,
)
from soulsgui.telemetry.store.schema import attempt_starts, open_for_reading, read_summary

logger = logging.getLogger(__name__)

PROGRAM = (*own_command("job"), "figure")
FORMAT = 1
MAX_POINTS = 10_000  # points of a series; more are thinned evenly

Series = dict[str, Any]

_SCORES = ("return", "mean_return", "length", "terminated", "model_id", "client", "seconds")
_EPISODE_COLUMNS = ("row", "attempt", "episode", "env_steps", "time", *_SCORES)
_UPDATE_COLUMNS = ("attempt", "update", "env_steps", "episodes", "model_id", "time")


def read_about(run: RunFolder) -> Series:
    """Return what a run is about, to stand beside its series: `env_id`, `algorithm`, `agent`, `seed`."""
    told = load_run_settings(run.config)
    return {"env_id": told.env.id, "algorithm": told.algorithm, "agent": told.agent, "seed": told.seed}


def write_series(run: RunFolder) -> Series:
    """Write telemetry.json of a run, and return what is in it: `read_about` and `read_series`."""
    series = read_about(run) | read_series(run.store)
    atomic_write(run.series, json.dumps(series, separators=(",", ":")).encode())
    return series


def read_series(path: Path, max_points: int = MAX_POINTS) -> Series:
    """Return the series of a store as JSON would hold them.

    | key | value |
    |---|---|
    | `format` | version of this layout |
    | `run_id` | name of the run's folder |
    | `note` | how points were chosen |
    | `window`, `goal` | `stop.window`, `stop.mean_return` |
    | `best_mean_return`, `best_model_id` | best full window so far, None before there is one |
    | `best_evaluation_return`, `best_evaluation_model_id` | best evaluation so far, likewise |
    | `attempts` | `[{attempt, update, env_steps, episodes, time}]`: where each begins |
    | `episodes` | `{total, every, columns}`, columns of equal length |
    | `updates` | the same; each metric is a column, None where an update lacks it |
    | `evaluations` | the same, by the update whose weights were played: `evaluation_return` (mean of its
      episodes), `evaluation_std` (their spread), `_min`, `_max`, `_length`, `_s` (seconds it took) |
    | `checkpoints` | `[{attempt, update, env_steps, episodes, model_id, time, saved, path}]` |
    """
    no_updates: dict[str, list[Any]] = {name: [] for name in (*_UPDATE_COLUMNS, "overwritten")}
    series: Series = {
        "format": FORMAT,
        "run_id": path.absolute().parent.name,
        "note": "Of `total` rows every `every`-th is here, counted back from the last; `mean_return` is the "
        "moving mean over all rows, taken before. `overwritten`: a later attempt went back before this row.",
        "window": None,
        "goal": None,
        "best_mean_return": None,
        "best_model_id": None,
        "best_evaluation_return": None,
        "best_evaluation_model_id": None,
        "attempts": [],
        "episodes": _part(0, 1, {name: [] for name in (*_EPISODE_COLUMNS, "overwritten")}),
        "updates": _part(0, 1, no_updates),
        "evaluations": _part(0, 1, no_updates),
        "checkpoints": [],
    }
    with open_for_reading(path) as db:
        if db is None:
            return series
        starts = attempt_starts(db)
        limits = Limits(starts)
        if (summary := read_summary(db)) is not None:
            series |= {"window": summary.window, "goal": summary.goal}
            series |= {"best_mean_return": summary.best_score, "best_model_id": summary.best_model_id}
        series["attempts"] = [start.model_dump() for start in starts]
        series["episodes"] = _episodes(db, limits, max_points)
        metrics = db.execute("SELECT id, name FROM metrics ORDER BY name").fetchall()
        series["updates"] = _updates(db, "update", metrics, limits, max_points)
        if has_evaluations(db):
            if (best := best_evaluated(db)) is not None:
                series |= {"best_evaluation_return": best.score, "best_evaluation_model_id": best.model_id}
            metrics = [(name, name) for name in evaluation_metrics(db)]
            series["evaluations"] = _updates(db, "evaluation", metrics, limits, max_points)
        saved = db.execute(f"SELECT {PLACE_NAMES}, saved, path FROM checkpoints ORDER BY row")
        names = (*_UPDATE_COLUMNS, "saved", "path")
        series["checkpoints"] = [dict(zip(names, row, strict=True)) for row in saved]
    return series


def _part(total: int, every: int, columns: dict[str, list[Any]]) -> dict[str, Any]:
    return {"total": total, "every": every, "columns": columns}


def _thinning(db: sqlite3.Connection, table: str, max_points: int) -> tuple[int, int]:
    """Return how many rows there are and the least distance that leaves no more than allowed."""
    total: int = db.execute(f"SELECT coalesce(max(row), 0) FROM {table}").fetchone()[0]
    return total, max(1, -(-total // max_points))


def _episodes(db: sqlite3.Connection, limits: Limits, max_points: int) -> dict[str, Any]:
    total, every = _thinning(db, "episodes", max_points)
    found = db.execute(
        "SELECT row, attempt, episode, env_steps, time, total_return, mean_return, length, terminated,"
        " model_id, name, seconds FROM episodes JOIN clients ON clients.id = client"
        " WHERE (? - row) % ? = 0 ORDER BY row",
        (total, every),
    ).fetchall()
    columns = _columns(_EPISODE_COLUMNS, found)
    columns["terminated"] = [bool(one) for one in columns["terminated"]]
    columns["overwritten"] = [
        limits.of(attempt).overwrites_episode(env_steps, episode)
        for _, attempt, episode, env_steps, *_ in found
    ]
    return _part(total, every, columns)


def _updates(
    db: sqlite3.Connection,
    kind: Literal["update", "evaluation"],
    metrics: Sequence[tuple[Any, str]],
    limits: Limits,
    max_points: int,
) -> dict[str, Any]:
    """Return the rows of one kind, each metric (by what the store knows it, and its name) a column."""
    total, every = _thinning(db, f"{kind}s", max_points)
    found = db.execute(
        f"SELECT row, {PLACE_NAMES} FROM {kind}s WHERE (? - row) % ? = 0 ORDER BY row", (total, every)
    ).fetchall()
    columns = _columns(_UPDATE_COLUMNS, [row[1:] for row in found])
    columns["overwritten"] = [update > limits.of(attempt).updates for _, attempt, update, *_ in found]
    places = {row[0]: place for place, row in enumerate(found)}
    for metric, name in metrics:
        values: list[float | None] = [None] * len(found)
        for row, value in db.execute(
            f"SELECT {kind}_row, value FROM {kind}_values WHERE metric = ? AND (? - {kind}_row) % ? = 0",
            (metric, total, every),
        ):
            values[places[row]] = value
        columns[name] = values
    return _part(total, every, columns)


def _columns(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    if not rows:
        return {name: [] for name in names}
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


class Drawing:
    """At most one drawing child at a time.

    A child draws when its standard input ends: one started ahead has its imports behind it by then, and one
    whose parent was killed draws and ends by itself.
    """

    def __init__(self, run_dir: Path, every: int, drawn: int, program: Sequence[str] = PROGRAM) -> None:
        self._run_dir = run_dir
        self._every = every
        self._drawn = drawn
        self._program = program
        self._child: subprocess.Popen[bytes] | None = None
        self._ahead = False
        self._warned = False

    def turn(self, episodes: int, ends_soon: bool) -> None:
        """Start or clear away a child when it is time."""
        if self._child is not None and self._child.poll() is not None:
            self._cleared()
        if self._ahead and not ends_soon:
            self._go()  # a new attempt began: the end is not near any more
            self._ahead = False
        if self._child is not None:
            return
        if ends_soon:
            self._start(AHEAD)
            self._ahead = self._child is not None
        elif episodes // self._every > self._drawn // self._every:
            self._start()
            self._go()
            self._drawn = episodes

    def finish(self, limit_s: float) -> None:
        """Draw what is in the store now, and wait for it; telemetry.json is whole in any case."""
        if self._drew(limit_s):
            return
        try:
            write_series(RunFolder(self._run_dir))
        except (SoulsGuiError, OSError, sqlite3.Error) as error:
            logger.warning("telemetry.json is left as it was: %s", error)

    def _drew(self, limit_s: float) -> bool:
        """Have the last child draw; return whether it has written telemetry.json."""
        if self._child is not None and (not self._ahead or self._child.poll() is not None):
            self._child.kill()  # it may have read the store too early
            self._child.wait()
            self._go()
            self._child = None
        if self._child is None:
            self._start()
        self._go()
        if self._child is None:
            return False
        try:
            code = self._child.wait(limit_s)
        except subprocess.TimeoutExpired:
            logger.warning("the figure took longer than %.0f s: telemetry.png is left as it was", limit_s)
            self._child.kill()
            self._child.wait()
            self._child = None
            return False
        self._cleared()
        return code in (0, NO_MATPLOTLIB)

    def _start(self, *arguments: str) -> None:
        command = [*self._program, str(self._run_dir), *arguments]
        try:
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, env=os.environ | child_env())
        except OSError as error:
            self._warn(f"no figure: {error}")
        self._ahead = False

    def _go(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()

    def _cleared(self) -> None:
        assert self._child is not None
        code = self._child.returncode
        self._go()
        self._child = None
        self._ahead = False
        if code == NO_MATPLOTLIB:
            self._warn(
                'no figure: matplotlib is not installed (pip install "soulsgui[server]"); telemetry.json '
                "is written"
            )
        elif code != 0:
            self._warn(f"the figure could not be drawn: its process ended with code {code}")

    def _warn(self, what: str) -> None:
        if not self._warned:
            logger.warning("%s", what)
        self._warned = True
