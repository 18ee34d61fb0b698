"""The telemetry node: every finished episode from the clients' streams into the store, and a verdict on them.

One loop, one thread. An episode is acknowledged after it was stored; what was delivered and not acknowledged
is read again and recognised by its entry id, so that a kill at any moment neither loses nor doubles one.
"""

import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

import redis

from soulsgui.config.layers import load_run_settings
from soulsgui.config.metrics import read_metrics
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.telemetry.backing import Backing
from soulsgui.telemetry.export import Drawing
from soulsgui.telemetry.intake import (
    Arrival,
    DropReason,
    Played,
    Refusal,
    order_of,
    sort_out,
    why_not_counted,
)
from soulsgui.telemetry.recorder import Recorder, TrainerRow, as_messages
from soulsgui.telemetry.store.writer import EpisodeRecord
from soulsgui.telemetry.streams import BATCH_ENTRIES, EpisodeStreams, MetricsStream
from soulsgui.wire.beats import own_instance
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.group_reader import Entry
from soulsgui.wire.keys import EVALUATOR, TELEMETRY, TRAINER, Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.metrics import EVALUATION_RETURN, AttemptRow
from soulsgui.wire.messages.node import NodePhase, NodeState, Verdict
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Grant
from soulsgui.wire.published import published_header

logger = logging.getLogger(__name__)

_BLOCK_MS = 100
_GATHER_S = 0.02
_GATHER_BELOW = 256
_DISCOVER_S = 0.25
_STATE_S = 0.1
_RETRY_S = 0.5
_ROW_WAIT_S = 1.0
_DRAIN_S = 2.0
# Longer than a step of a game may take in the evaluator.
_GONE_S = 120.0
_DRAIN_QUIET_MS = 50
# With what is done before and after, less than the grace of a node that was asked to end.
_FIGURE_S = 20.0


class TelemetryNode:
    """The node of one run."""

    def __init__(
        self, settings: Settings, run: RunFolder, address: Address, instance: Instance, stop: threading.Event
    ) -> None:
        self._run_id = run.run_id
        self._instance = instance
        self._stop = stop
        self._keys = Keys(address.prefix)
        self._link = Link(address, stop, TELEMETRY)
        self._by_evaluation, self._judged_by = settings.best_by_evaluation, settings.goal_judged_by
        goals = settings.stop
        self._recorder = Recorder(
            run.store,
            run.run_id,
            goals.window,
            goals.mean_return,
            self._by_evaluation,
            self._judged_by,
            read_metrics(settings.telemetry.metrics),
        )
        self._plays = True  # somebody can evaluate
        self._waits_for: tuple[int | None, int | None] = (None, None)
        self._waits_since = 0.0
        self._metrics = MetricsStream(self._keys, run.run_id, self._recorder.cursor)
        self._streams = EpisodeStreams(self._keys)
        self._drawing = Drawing(run.root, settings.telemetry.figure_every_episodes, self._recorder.last_row)
        self._connected = False
        self._published = 0
        self._evaluation_told = -1
        self._rejected: dict[str, Counter[str]] = {}
        self._grants: dict[str, Grant] = {}
        self._trainer = b""  # what it told last
        self._backing = Backing()
        self._unsettled: dict[str, list[Entry]] = {}  # read, but not acknowledged yet
        self._newest = -1  # model that clients may have played with
        self._tick = 0
        self._phase: NodePhase = "loading"
        self._error = ""
        self._told: Verdict | None = None
        self._told_at = -1.0
        self._discovered_at = -1.0
        self._stored_in_s = 0.0

    def run(self) -> None:
        """Work until stopped, then drain, draw and say goodbye."""
        try:
            while not self._stop.is_set():
                self._guarded(_BLOCK_MS)
            self._drain()
        except Stopped:
            logger.warning("the server is away: what it still holds is read at the next start")
        finally:
            self._recorder.close()
        self._finish()

    def _guarded(self, block_ms: int) -> int:
        """Make one turn of the loop, whatever goes wrong; return how many entries it took in."""
        try:
            taken = self._turn(block_ms)
        except AWAY as error:
            self._start_over()
            self._link.lost(error)
        except redis.ResponseError as error:
            self._start_over()
            self._trouble(f"the server refused: {error}", "waiting")
        except sqlite3.OperationalError as error:
            self._start_over()
            self._trouble(f"telemetry.sqlite can't be written: {error}", "frozen")
        except sqlite3.DatabaseError as error:
            logger.exception("the store failed")
            raise self._recorder.give_up(error) from error
        else:
            self._link.back()
            return taken
        return 0

    def _start_over(self) -> None:
        """Forget what was read and not stored: it is read again."""
        self._connected = False
        self._metrics.cursor = self._recorder.cursor
        self._backing.start_over()
        self._unsettled.clear()

    def _trouble(self, what: str, phase: NodePhase) -> None:
        """Say what is wrong, once in the log, and wait a moment."""
        if self._error != what:
            logger.warning("%s; trying again", what)
        self._error = what
        self._phase = phase
        try:
            self._write_state(self._link.redis)
        except (*AWAY, redis.ResponseError) as error:
            logger.debug("the state could not be written either: %s", error)
        self._stop.wait(_RETRY_S)

    def _turn(self, block_ms: int) -> int:
        began = time.monotonic()
        connection = self._link.redis
        self._tick += 1
        if not self._connected:
            self._connect(connection)
        if began - self._discovered_at >= _DISCOVER_S:
            self._streams.discover(connection)
            # A connection that was cut between two commands is made anew in silence.
            self._metrics.find_place(connection)
            self._discovered_at = began
        entries = self._streams.read(connection, block_ms)
        records = self._store(connection, entries)
        self._error = ""
        self._phase = "stopping" if self._stop.is_set() else "waiting" if self._streams.idle else "collecting"
        self._publish(connection, records)
        if self._recorder.verdict != self._told or time.monotonic() - self._told_at >= _STATE_S:
            self._write_state(connection)
        verdict = self._recorder.verdict
        self._drawing.turn(self._recorder.last_row, verdict.reached or verdict.to_confirm is not None)
        # Let a few more come together: a transaction for each single episode would eat a core.
        if self._streams.idle:
            self._stop.wait(_BLOCK_MS / 1000)
        elif 0 < len(entries) < _GATHER_BELOW:
            self._stop.wait(max(0.0, began + _GATHER_S - time.monotonic()))
        return len(entries)

    def _connect(self, connection: redis.Redis) -> None:
        """At the start, and after every absence of the server: find out where we stand with it."""
        self._write_state(connection)
        self._metrics.resume(connection)
        self._streams.unsettle()
        self._streams.discover(connection)
        on_stream = self._metrics.last_published(connection)
        last_row = self._recorder.last_row
        # A kill between storing and publishing leaves at most one batch unpublished.
        known = self._published if on_stream is None else min(on_stream, last_row)
        self._published = max(known, last_row - BATCH_ENTRIES)
        self._evaluation_told = -1
        self._connected = True

    def _store(self, connection: redis.Redis, entries: Sequence[Entry]) -> list[EpisodeRecord]:
        """Store what was read and what the trainer said meanwhile, then acknowledge it."""
        # After the episodes: the row that begins an attempt is written before its first episode.
        rows = self._metrics.read(connection)
        arrivals, refusals = sort_out(entries, self._run_id)
        if arrivals or self._backing.waiting:
            self._look_at_trainer(connection, {one.client for one in arrivals} | self._backing.waiting)
            arrivals = self._admitted(arrivals, refusals)
            if greedy := [one for one in arrivals if one.episode.greedy]:
                refusals += self._store_greedy(greedy)
            backed, unbacked = self._backing.sort_out(one for one in arrivals if not one.episode.greedy)
            refusals += unbacked
            arrivals = self._admitted(backed, refusals)  # who was cut off meanwhile is admitted no more
        newest = self._newest_attempt(connection, rows, arrivals)
        # One of an attempt that never began would end the present attempt on the curve.
        unknown = [one.client for one in arrivals if one.episode.attempt > newest]
        if unknown:
            refusals += [Refusal(client, DropReason.ATTEMPT) for client in unknown]
            arrivals = [one for one in arrivals if one.episode.attempt <= newest]
        records: list[EpisodeRecord] = []
        if rows or arrivals:
            began = time.perf_counter()
            records = self._recorder.record(rows, arrivals, self._metrics.cursor, time.time())
            self._stored_in_s = time.perf_counter() - began
        self._count([*refusals, *self._streams.take_refusals()])
        if settled := self._settled(entries):
            self._streams.acknowledge(connection, settled)
        return records

    def _admitted(self, arrivals: Sequence[Arrival], refusals: list[Refusal]) -> list[Arrival]:
        """Return the episodes of clients that the trainer has admitted; the others are refused."""
        found = []
        for one in arrivals:
            why = why_not_counted(one.episode, self._grants.get(one.client), self._newest)
            if why is None:
                found.append(one)
            else:
                refusals.append(Refusal(one.client, why))
        return found

    def _settled(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return what can be acknowledged, of new entries and of those before: nothing before it waits."""
        read, self._unsettled = self._unsettled, {}
        for entry in entries:
            read.setdefault(entry.client, []).append(entry)
        found = []
        for client, of_client in read.items():
            done = [one for one in of_client if self._backing.has_settled(client, one.id)]
            found += done
            if left := of_client[len(done) :]:
                self._unsettled[client] = left
        return found

    def _look_at_trainer(self, connection: redis.Redis, clients: Iterable[str]) -> None:
        """Read what the trainer granted clients, and its newest weights, both older than what they played.

        And what came of them.
        """
        clients = list(clients)
        keys = [self._keys.node(TRAINER), *map(self._keys.grant, clients)]
        told, *texts = cast("list[bytes | None]", connection.mget(keys))
        if told is not None and told != self._trainer:
            self._trainer, state = told, NodeState.of_run(told, self._run_id)
            if state is not None:
                self._backing.hear(state, time.monotonic())
        # A server that lost its data is told of them again in a moment.
        self._grants |= {
            client: grant
            for client, text in zip(clients, texts, strict=True)
            if (grant := Grant.read(text)) is not None
        }
        header = published_header(connection, self._keys, self._run_id)
        self._newest = max(self._newest, -1 if header is None else header.model_id)

    def _store_greedy(self, arrivals: Sequence[Arrival]) -> list[Refusal]:
        """Store greedy episodes that their client is asked for now; return the others."""
        # A grant asks before its client can have played, and until all of it is counted here.
        played, refused = [], []
        for arrival in arrivals:
            if self._recorder.knows_greedy(arrival):
                continue
            order = order_of(arrival, self._grants.get(arrival.client))
            if order is not None:
                played.append(Played(arrival, order))
            elif arrival.episode.model_id != self._recorder.evaluated:  # of that one, fewer were enough
                refused.append(arrival)
        if played:
            refused += self._recorder.record_greedy(played, time.time())
        return [Refusal(one.client, DropReason.NOT_ASKED) for one in refused]

    def _newest_attempt(
        self, connection: redis.Redis, rows: list[TrainerRow], arrivals: Sequence[Arrival]
    ) -> int:
        """Return the newest attempt that has begun; wait a moment for the row that says where it begins."""
        newest = max([1, self._recorder.attempt, *(row.attempt for row in rows)])
        asked = max((one.episode.attempt for one in arrivals), default=0)
        if asked <= newest:
            return newest
        config = ServerConfig.read(cast("bytes | None", connection.get(self._keys.config)))
        if config is None or config.run_id != self._run_id or config.attempt <= newest:
            return newest
        attempt, deadline = min(asked, config.attempt), time.monotonic() + _ROW_WAIT_S
        while not any(isinstance(row, AttemptRow) and row.attempt >= attempt for row in rows):
            if time.monotonic() > deadline:
                logger.warning(
                    "the start of attempt %d is unknown: it continues where the last one is", attempt
                )
                break
            rows.extend(self._metrics.read(connection, _BLOCK_MS))
        return config.attempt

    def _count(self, refusals: Sequence[Refusal]) -> None:
        for client, reason in refusals:
            counts = self._rejected.setdefault(client, Counter())
            if not counts[reason]:
                logger.warning("refused from %s: %s (more of the same are only counted)", client, reason)
            counts[reason] += 1

    def _publish(self, connection: redis.Redis, records: Sequence[EpisodeRecord]) -> None:
        """Publish stored rows to the windows, with those that could not be published before."""
        if records and records[0].row == self._published + 1:
            messages = as_messages(self._run_id, records)
        else:
            messages = self._recorder.rows_after(self._published)
        try:
            self._tell_evaluation(connection)
            if self._published < self._recorder.last_row:
                for message in messages:
                    self._published = self._metrics.publish(connection, message)
        except redis.OutOfMemoryError as error:
            # Not a reason to leave the streams unread: that is what frees the server's memory.
            self._error = f"the server's memory is full: {error}"

    def _tell_evaluation(self, connection: redis.Redis) -> None:
        """Put the row of an evaluation by a client on the curves: it counts when it comes back."""
        row = self._recorder.evaluation_due
        if row is not None and row.model_id != self._evaluation_told:
            self._metrics.tell(connection, row)
            self._evaluation_told = row.model_id
            mean = row.values[EVALUATION_RETURN]
            logger.info("model %d, played by a client: mean return %.2f", row.model_id, mean)

    def _choose_ranking(self, connection: redis.Redis) -> None:
        """Rank and judge by training where neither evaluator nor clients can evaluate."""
        if not self._by_evaluation and self._judged_by == "training":
            return
        keys = [self._keys.node(name) for name in (EVALUATOR, TRAINER)]
        told = cast("list[bytes | None]", connection.mget(keys))
        evaluator, trainer = (NodeState.of_run(data, self._run_id) for data in told)
        gone = self._evaluator_is_gone(evaluator)
        # What such a one can is not known yet, or matters no more; but a claim does not wait for ever.
        for node in (trainer,) if gone else (trainer, evaluator):
            if node is not None and node.phase in ("loading", "stopping"):
                return
        absent = evaluator is not None and evaluator.phase == "frozen"
        clients_do = trainer is not None and trainer.asks_clients is not False
        plays = clients_do if absent else not gone
        if plays != self._plays:
            logger.warning(
                "best model and goal go by %s",
                "evaluations, as configured" if plays else "training episodes: nobody can evaluate here",
            )
        self._plays = plays
        # An evaluation is played by one client: among others it may confirm what they have reached, no more.
        alone = absent and self._recorder.shared
        self._recorder.by_evaluation = plays and self._by_evaluation and not alone
        if not self._recorder.verdict.reached:  # what has reached the goal stays what has
            judge = "both" if alone and self._judged_by == "evaluation" else self._judged_by
            self._recorder.judged_by = judge if plays else "training"

    def _evaluator_is_gone(self, evaluator: NodeState | None) -> bool:
        """Whether it has left a claim unanswered for so long that no answer is to be expected."""
        asked, now = self._recorder.verdict.to_confirm, time.monotonic()
        at_work = evaluator is not None and evaluator.phase == "evaluating"
        seen = (asked, evaluator.tick if evaluator is not None and at_work else None)
        if seen != self._waits_for:
            self._waits_for, self._waits_since = seen, now
        return asked is not None and now >= self._waits_since + _GONE_S

    def _write_state(self, connection: redis.Redis, farewell: str = "") -> None:
        self._choose_ranking(connection)
        recorder = self._recorder
        self._told_at = time.monotonic()
        verdict = recorder.verdict
        total = sum(self._rejected.values(), Counter())
        if self._metrics.unreadable:
            total["unreadable_row"] = self._metrics.unreadable
        detail = "no client yet" if self._streams.idle else ""
        if recorder.lost is not None:
            detail = f"started again: the damaged store is {recorder.lost.name}"
        state = NodeState(
            name=TELEMETRY,
            instance=self._instance,
            tick=self._tick,
            phase=self._phase,
            detail=detail,
            run_id=self._run_id,
            attempt=recorder.attempt,
            env_steps=recorder.env_steps,
            episodes=recorder.episodes,
            mean_return=recorder.mean_return,
            best_mean_return=verdict.best_score,
            evaluation_return=recorder.evaluation_return,
            judged_by=recorder.judged_by,
            rejected=dict(total),
            rejected_by_client={client: dict(counts) for client, counts in self._rejected.items()},
            timings_s={"record": self._stored_in_s},
            verdict=verdict,
            evaluated=recorder.evaluated,
            played=recorder.played,
            error=self._error,
            farewell=farewell,
        )
        connection.set(self._keys.node(TELEMETRY), state.to_json())
        self._told = verdict

    def _drain(self) -> None:
        deadline = time.monotonic() + _DRAIN_S
        self._discovered_at = -1.0
        while (self._guarded(_DRAIN_QUIET_MS) or self._backing.waiting) and time.monotonic() < deadline:
            pass

    def _finish(self) -> None:
        self._phase = "stopping"
        self._drawing.finish(_FIGURE_S)
        try:
            self._write_state(self._link.redis, f"{self._recorder.last_row} episodes stored")
        except (*AWAY, redis.ResponseError) as error:
            logger.warning("the farewell could not be written: %s", error)
        self._link.close()


def run_telemetry(run: RunFolder, address: Address) -> int:
    """Run the node of a run until the process is asked to stop; call it in the main thread."""
    stop = stop_on_signals()
    settings = load_run_settings(run.config)
    setup_logging(settings.logging.level)
    logger.info("telemetry of run %s", run.run_id)
    TelemetryNode(settings, run, address, own_instance(), stop).run()
    logger.info("ended")
    return 0
