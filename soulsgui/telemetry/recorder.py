"""From accepted episodes and the trainer's rows to the store, and to what they amount to.

Everything here stands in the store after each `record`: a recorder opened again goes on exactly where the
last one was, also when that one was killed.
"""

import logging
import math
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from soulsgui.config.metrics import EpisodeMetric
from soulsgui.telemetry.aggregate import Aggregator, Best, Curve, Judge, best_of
from soulsgui.telemetry.intake import Arrival, Played
from soulsgui.telemetry.store.evaluations import add_evaluation, best_evaluated, newest_evaluation
from soulsgui.telemetry.store.resources import add_resources
from soulsgui.telemetry.store.schema import (
    DamagedStoreError,
    ScoreSummary,
    StoreError,
    attempt_starts,
    damaged,
    is_damage,
    read_summary,
    set_aside,
)
from soulsgui.telemetry.store.writer import EpisodeRecord, StoreWriter
from soulsgui.wire.keys import EntryId
from soulsgui.wire.messages.metrics import (
    EVALUATION_RETURN,
    AttemptRow,
    AttemptStart,
    CheckpointRow,
    EpisodeRows,
    ResourceRow,
    UpdateRow,
)
from soulsgui.wire.messages.node import Verdict
from soulsgui.wire.messages.session import Episode

logger = logging.getLogger(__name__)

TrainerRow = UpdateRow | AttemptRow | CheckpointRow | ResourceRow

_ROWS_PER_MESSAGE = 500
_LARGEST_VALUE = 1e30
_NO_VALUES: dict[str, float] = {}
_COLUMNS = tuple(name for name in EpisodeRows.model_fields if name not in ("kind", "run_id", "values"))


class Recorder:
    """Owns the store of a run and its aggregates."""

    def __init__(
        self,
        path: Path,
        run_id: str,
        window: int,
        goal: float | None,
        by_evaluation: bool = False,
        judged_by: Judge = "training",
        metrics: Mapping[str, EpisodeMetric] | None = None,
    ) -> None:
        self._metrics = metrics or {}
        self.by_evaluation = by_evaluation  # whether evaluations rank the models
        self._judged_by: Judge = judged_by
        self._claimed_at: int | None = None
        self._path = path
        self._run_id = run_id
        self._window = window
        self._goal = goal
        self.lost: Path | None = None
        try:
            self._open()
        except DamagedStoreError as error:
            self.lost = set_aside(path)
            logger.error("%s It is now %s; the curves start again", error.message, self.lost.name)
            self._open()

    def _open(self) -> None:
        store = StoreWriter(self._path)
        self._store = store
        try:
            self._restore()
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            store.close()
            raise _worse(self._path, error) from error

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def give_up(self, error: sqlite3.DatabaseError) -> StoreError:
        """Close a store that fails while it is in use, and return what to say; a damaged one is set aside."""
        self._store.close()
        if not is_damage(error):
            return StoreError(
                f"{self._path} can't be used any more: {error}.",
                "Telemetry is started again by itself. If it fails again, move the file away.",
            )
        aside = set_aside(self._path)
        return DamagedStoreError(
            f"{self._path} was damaged while in use: {error}. It is now {aside.name}.",
            "Telemetry begins a new one at its next start; training is not affected.",
        )

    @property
    def last_row(self) -> int:
        """Number of the last stored episode's row."""
        return self._store.last_row

    @property
    def cursor(self) -> EntryId:
        """Last entry of the `metrics` stream that is stored."""
        return self._store.cursor

    @property
    def attempt(self) -> int:
        """The newest attempt, 0 before the first."""
        return self._curve.attempt

    @property
    def env_steps(self) -> int:
        """Steps of finished episodes on the curve."""
        return self._curve.place(self.attempt).env_steps

    @property
    def episodes(self) -> int:
        """Finished episodes on the curve."""
        return self._curve.place(self.attempt).episodes

    @property
    def evaluated(self) -> int:
        """Weights of the newest evaluation by a client in this attempt that is whole; -1 before the first."""
        whole = self._whole
        return -1 if whole is None or whole.order.attempt < self.attempt else whole.order.model_id

    @property
    def played(self) -> dict[str, int]:
        """Clients that have played their part of this attempt's newest evaluation, with its weights."""
        played = {client: whole.order for client, whole in self._played.items()}
        return {client: order.model_id for client, order in played.items() if order.attempt >= self.attempt}

    @property
    def mean_return(self) -> float | None:
        """Mean of the last `window` episodes on the curve."""
        return self._aggregator.mean_return

    @property
    def shared(self) -> bool:
        """Whether invited clients play this run among others, so that none decides alone."""
        return self._aggregator.shared

    @property
    def judged_by(self) -> Judge:
        """Whose mean return reaches the goal."""
        return self._judged_by

    @judged_by.setter
    def judged_by(self, judge: Judge) -> None:
        self._judged_by = self._aggregator.judged_by = judge
        if judge != "both" and self._aggregator.claim is not None:
            logger.warning("nobody confirms the goal by greedy episodes: what training reached counts")
            self._aggregator.answer()

    @property
    def verdict(self) -> Verdict:
        """Best model so far, and whether the goal is reached."""
        best = self._evaluated if self.by_evaluation else self._aggregator.best
        return Verdict(
            best_model_id=best.model_id if best else None,
            best_score=best.score if best else None,
            best_by="evaluation" if self.by_evaluation else "training",
            to_confirm=None if self._aggregator.claim is None else self._claimed_at,
            reached=self._aggregator.reached,
            reached_with=self._aggregator.reached_with,
        )

    def record(
        self, rows: Sequence[TrainerRow], arrivals: Sequence[Arrival], cursor: EntryId, now: float
    ) -> list[EpisodeRecord]:
        """Store rows, then episodes, in one transaction; return what was stored of the episodes."""
        try:
            with self._store.transaction():
                for row in rows:
                    self._take_row(row)
                records = self._place(arrivals, now)
                self._store.add_episodes(records)
                attempts = {record.attempt for record in records}
                self._store.set_places({attempt: self._curve.place(attempt) for attempt in attempts})
                self._store.set_state(cursor, self._summary())
        except BaseException:
            self._restore()
            raise
        return records

    def knows_greedy(self, arrival: Arrival) -> bool:
        """Whether a greedy episode is stored already."""
        return self._store.greedy.knows(arrival.client, arrival.id)

    def record_greedy(self, played: Sequence[Played], now: float) -> list[Arrival]:
        """Store greedy episodes that were asked for; return those whose number was stored before."""
        greedy = self._store.greedy
        with self._store.transaction():
            refused = [one.arrival for one in played if not greedy.add(one, now)]
        self._look_for_evaluation()
        return refused

    def _look_for_evaluation(self) -> None:
        self._whole = self._store.greedy.newest_complete()
        self._played = self._store.greedy.newest_played()
        self.evaluation_due = (
            None if self._whole is None else self._store.evaluation_due(self._run_id, self._whole)
        )

    def rows_after(self, row: int) -> Iterator[EpisodeRows]:
        """Iterate over messages with the stored episodes behind a row, oldest first."""
        while records := self._store.episodes_after(row, _ROWS_PER_MESSAGE):
            yield from as_messages(self._run_id, records)
            row = records[-1].row

    def _restore(self) -> None:
        store = self._store
        self._look_at_evaluations()
        self._curve = Curve(attempt_starts(store.db), store.places())
        self._averaged = {
            name: deque(store.last_values(name, one.window), one.window)
            for name, one in self._metrics.items()
        }
        summary = read_summary(store.db)
        best = self._restored_best(summary)
        self._aggregator = Aggregator(self._window, self._goal, best, self._judged_by, store.players())
        attempt = self._curve.attempt
        end = store.curve_end(self._window)
        self._aggregator.begin_attempt(
            attempt,
            carried=[value for one, value, *_ in end if one != attempt],
            own=[(value, model_id, client) for one, value, model_id, client in end if one == attempt],
        )
        if summary and summary.attempt == attempt and summary.goal == self._goal:
            self._aggregator.reached_with = summary.reached_with
            self._aggregator.refuted, self._aggregator.claims_in = summary.refuted, summary.claims_in
        self._look_for_evaluation()

    def _look_at_evaluations(self) -> None:
        self._evaluated = best_evaluated(self._store.db)
        self.evaluation_return = newest_evaluation(self._store.db)

    def _restored_best(self, summary: ScoreSummary | None) -> Best | None:
        if summary is None:
            return None
        if summary.window != self._window:
            logger.info(
                "stop.window was %d and is %d: ranking the models again", summary.window, self._window
            )
            return best_of(self._window, self._store.returns())
        if summary.best_score is None or summary.best_model_id is None:
            return None
        return Best(summary.best_score, summary.best_model_id)

    def _take_row(self, row: TrainerRow) -> None:
        match row:
            case UpdateRow(kind="evaluation"):
                add_evaluation(self._store.db, row)
                due = self.evaluation_due
                if due is not None and (row.attempt, row.update) == (due.attempt, due.update):
                    self.evaluation_due = None
                self._look_at_evaluations()
                if EVALUATION_RETURN in row.values:
                    self._judge(row, row.values[EVALUATION_RETURN])
            case UpdateRow():
                self._store.add_update(row)
            case CheckpointRow():
                self._store.add_checkpoint(row)
            case ResourceRow():
                add_resources(self._store.db, row)
            case AttemptRow():
                self._begin(row)
                # It may begin before the newest evaluation.
                self._look_at_evaluations()

    def _judge(self, row: UpdateRow, mean: float) -> None:
        if self._judged_by == "evaluation":
            self._aggregator.judge(row.attempt, mean)
        elif row.confirms is not None and row.confirms == self.verdict.to_confirm:
            self._aggregator.answer(mean, row.model_id)
            words = "confirm" if self._aggregator.reached else "do not confirm"
            logger.info("greedy episodes of model %d %s the goal: %.2f", row.model_id, words, mean)

    def _begin(self, row: AttemptRow) -> None:
        """Begin an attempt at its checkpoint.

        Where that has every update of the attempt before, nothing learned is overwritten: the curve goes on
        behind the episodes that ended after the checkpoint.
        """
        steps, episodes = row.env_steps, row.episodes
        if steps and row.attempt > self.attempt and row.update >= self._store.last_update(self.attempt):
            before = self._curve.place(self.attempt)
            steps, episodes = max(steps, before.env_steps), max(episodes, before.episodes)
        start = AttemptStart(
            attempt=row.attempt, update=row.update, env_steps=steps, episodes=episodes, time=row.time
        )
        self._store.add_attempt(start, row.model_id)
        if self._curve.begin(start) and row.attempt > self._aggregator.attempt:
            logger.info("attempt %d begins at %d steps", row.attempt, steps)
            self._begin_aggregates(row.attempt)

    def _begin_aggregates(self, attempt: int) -> None:
        carried = [value for _, value, *_ in self._store.curve_end(self._window)]
        self._aggregator.begin_attempt(attempt, carried)

    def _place(self, arrivals: Sequence[Arrival], now: float) -> list[EpisodeRecord]:
        records = []
        row = self._store.last_row
        for client, entry, episode in arrivals:
            if self._store.knows(client, entry):
                continue
            if episode.attempt > self._aggregator.attempt:
                self._begin_aggregates(episode.attempt)
            env_steps, number = self._curve.advance(episode.attempt, episode.length)
            row += 1
            claimed = self._aggregator.claim is not None
            mean = self._aggregator.add(episode.attempt, episode.total_return, episode.model_id, client)
            if self._aggregator.claim is not None and not claimed:
                logger.info("%.2f over %d training episodes: to be confirmed", mean, self._window)
                self._claimed_at = row
            total, length, model_id = episode.total_return, episode.length, episode.model_id
            placed = row, client, entry, episode.attempt, number, env_steps, now
            played = total, length, episode.terminated, model_id, episode.seconds, episode.env_index
            values = self._values_of(episode) if self._averaged else _NO_VALUES
            records.append(EpisodeRecord(*placed, *played, mean, values))
        return records

    def _values_of(self, episode: Episode) -> dict[str, float]:
        """Return what is configured of what an episode tells, and the moving averages up to it."""
        found = {}
        for name, averaged in self._averaged.items():
            value = episode.metrics.get(name, math.nan)
            if not abs(value) <= _LARGEST_VALUE:
                continue
            found[name] = value
            if averaged.maxlen:
                averaged.append(value)
                found[f"{name}_mean"] = math.fsum(averaged) / len(averaged)
        return found

    def _summary(self) -> ScoreSummary:
        verdict, best = self.verdict, self._aggregator.best
        return ScoreSummary(
            window=self._window,
            goal=self._goal,
            attempt=self._aggregator.attempt,
            mean_return=self.mean_return,
            best_score=best.score if best else None,
            best_model_id=best.model_id if best else None,
            reached=verdict.reached,
            reached_with=verdict.reached_with,
            refuted=self._aggregator.refuted,
            claims_in=self._aggregator.claims_in,
        )


def _worse(path: Path, error: Exception) -> StoreError:
    passing = isinstance(error, sqlite3.OperationalError) and not str(error).startswith("no such ")
    if passing:
        return StoreError(
            f"{path} can't be used: {error}.", "Check its permissions and the free space of its disk."
        )
    return damaged(path, error)


def as_messages(run_id: str, records: Sequence[EpisodeRecord]) -> Iterator[EpisodeRows]:
    """Iterate over the live rows of stored episodes, a bounded number in each message."""
    for first in range(0, len(records), _ROWS_PER_MESSAGE):
        part = records[first : first + _ROWS_PER_MESSAGE]
        columns: dict[str, Any] = {name: [getattr(record, name) for record in part] for name in _COLUMNS}
        names = sorted({name for record in part for name in record.values})
        columns["values"] = {name: [record.values.get(name) for record in part] for name in names}
        yield EpisodeRows(run_id=run_id, **columns)
