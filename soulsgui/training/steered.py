"""A training node as others see and steer it: its state, its rows on the curves, what it is asked for."""

import logging
import math
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from soulsgui.config.like import ConfigLike
from soulsgui.config.paths import RunFolder, default_folders
from soulsgui.errors import CheckpointError
from soulsgui.policies.still import without_noise
from soulsgui.training.batch import Ints, Steps
from soulsgui.training.checkpoint import Checkpoint, read_checkpoint
from soulsgui.training.desk import CommandDesk
from soulsgui.training.divergence import DivergenceError, Divergences, find_divergence
from soulsgui.training.intake import Intake
from soulsgui.training.publisher import Publisher
from soulsgui.training.refusals import Refusals
from soulsgui.training.report import IsSet, Observes, Rate, Stopwatch, Timing, Waiting
from soulsgui.training.rows import Rows
from soulsgui.training.staleness import StalenessCount
from soulsgui.training.trainee import Trainee
from soulsgui.wire.connection import Address, Link
from soulsgui.wire.control import ScoredBy
from soulsgui.wire.keys import TRAINER
from soulsgui.wire.manifest import MANIFEST, Manifest
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.metrics import CheckpointRow, UpdateRow
from soulsgui.wire.messages.node import NodePhase, NodeState, Staleness

logger = logging.getLogger(__name__)

_HELD = "clients are granted nothing more: the server's memory fills up"
_PAUSED = "by request"


class SteeredTrainee(Trainee):
    """Obeys what it is asked for between two turns of the node's loop, and tells what it does.

    Args:
        config: Settings, a dictionary or a namespace; what is not named keeps its default.
        run: The run's folder; None makes a new one in the default data folder.
        address: The server; None reads where the runner of the default data folder put it.
        stop: Set from outside to end the node; None makes one that only `shutdown` sets.
    """

    name: ClassVar[str] = TRAINER
    # What the node makes when it opens.
    _instance: Instance
    _link: Link
    _publisher: Publisher
    _intake: Intake
    _desk: CommandDesk
    _divergences: Divergences

    def __init__(
        self,
        config: ConfigLike,
        run: RunFolder | None = None,
        address: Address | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        super().__init__(config, run)
        self.phase: NodePhase = "loading"
        self.detail = ""
        self.goal_reached = False
        self.policy_lag = 0.0
        self.trouble = ""
        self.diverged = ""
        self.stop_reason = ""
        self.asks_clients: bool | None = False
        self._held_until = float("-inf")
        self._waits = {name: Waiting() for name in ("learner", "clients")}
        self._address = address or Address.read(default_folders().server_address)
        self._stop = stop or threading.Event()
        self._timings = {name: Timing() for name in ("update", "publish")}
        self._rates = {name: Rate() for name in ("env_steps", "updates", *self._waits)}
        self._rows = Rows()
        self._refusals = Refusals()
        self.staleness = StalenessCount()
        self._staleness = Staleness()
        self._next_count = 0.0
        self._tick = 0
        self._unpublished = False
        self._returning = False
        self._resting = False
        self._paused = False
        self._waited_before: list[str] = []
        self._learns_on = ""
        self._failure = ""
        self._spoilt = False  # by a failure, so that it is not saved
        self._farewell = ""

    # --- what it is asked for ----------------------------------------------------------------------

    def came_late(self, model_ids: Ints, lengths: Steps) -> None:
        """Count what is refused as late, as `batch.Taker`; ids that were never published have no age."""
        known = self._publisher.updates
        oldest = next(iter(known))
        published = (model_ids >= 0) & (model_ids <= self.model_id)
        # Between two publishes there was an update at least: more of those that are forgotten nobody knows.
        made_with = [
            known.get(one, known[oldest] - max(oldest - one, 0)) for one in model_ids[published].tolist()
        ]
        lags = self.agent.updates - np.array(made_with, np.int64)
        self.staleness.refuse(np.maximum(lags, 0), lengths[published])

    def release(self, client: str) -> bool:
        """Let a client that was cut off send again; return whether it was."""
        return self._intake.release(client)

    def rest(self) -> None:
        """Take nothing in and train no more; commands are still obeyed."""
        self._resting = True
        for waiting in self._waits.values():
            waiting.set(False, time.monotonic())

    def pause(self) -> None:
        """Take nothing in, grant nothing and train no more until `go_on`; commands are still obeyed."""
        if not self._paused:
            logger.info("paused")
            self._paused = True
            self._waited_before = [name for name, waiting in self._waits.items() if waiting.waiting]
            for name in self._waited_before:
                self._waits[name].set(False, time.monotonic())

    def go_on(self) -> None:
        """Go on where `pause` came."""
        if self._paused:
            logger.info("goes on")
            self._paused = False
            for name in self._waited_before:
                self._waits[name].set(True, time.monotonic())

    def hold(self, seconds: float) -> None:
        """Grant clients nothing more for a while: the server's memory fills up.

        Args:
            seconds: How long, unless it is said again.
        """
        self._held_until = time.monotonic() + seconds

    def cut_off(self, client: str, reason: str) -> int:
        """Take nothing of a client any more, and take what it has sent off the server.

        Args:
            client: The client.
            reason: Why, in words.

        Returns:
            Entries that were taken off.

        Raises:
            redis.RedisError: The server is away or refuses.
        """
        return self._intake.cut_off(self._link.redis, client, reason)

    def shutdown(self, _: Any = None) -> None:
        """Ask the node to save and end; the argument, a message, is not looked at."""
        self._stop.set()

    def weights_snapshot(self, model_id: int, score: float | None, scored_by: ScoredBy) -> Checkpoint:
        """Return a checkpoint of weights published a while ago.

        Raises:
            CheckpointError: They are not kept any more.
        """
        found = self._weights_of(model_id, score)
        return replace(found, info=found.info.model_copy(update={"scored_by": scored_by}))

    def _weights_of(self, model_id: int, score: float | None) -> Checkpoint:
        kept = self._publisher.kept(model_id)
        if kept is None:
            return self._evaluated(model_id, score)
        if model_id == self.model_id and kept.standing.update == self.agent.updates:
            # The normaliser may have moved since, without an update: what earned the score was published.
            return replace(self.snapshot("best", score), weights=without_noise(kept.tensors))
        return Checkpoint(self._info("best", score, kept.standing, False), without_noise(kept.tensors))

    def _evaluated(self, model_id: int, score: float | None) -> Checkpoint:
        """Return weights that the evaluator wrote aside.

        Raises:
            CheckpointError: It did not, or they are damaged.
        """
        aside = self.run_folder.evaluated / str(model_id)
        if not (aside / MANIFEST).exists():
            raise CheckpointError(f"Model {model_id} is gone: only the last ones are kept.")
        found = read_checkpoint(aside)
        best = {"kind": "best", "score": score, "resumable": False}
        return Checkpoint(found.info.model_copy(update=best), found.weights)

    def _look_at_hold(self, now: float) -> None:
        held = now < self._held_until
        if held != self._intake.sessions.held:
            self._intake.sessions.held = held
            logger.warning(_HELD) if held else logger.info("clients are granted more again")

    def monitor_timing(self, prom_timer: Observes | IsSet) -> AbstractContextManager[None]:
        """Return a context whose wall time in seconds is given to `prom_timer.observe`, or to `set`.

        Args:
            prom_timer: A Gauge, Histogram or Summary of prometheus_client, or what else has one of both.
        """
        return Stopwatch(prom_timer)

    # --- rows --------------------------------------------------------------------------------------

    def _here(self) -> dict[str, Any]:
        """Return where the run is, as rows name it."""
        return {
            "run_id": self.run_folder.run_id,
            "attempt": self.attempt,
            "env_steps": self.env_steps,
            "episodes": self.episodes,
            "model_id": self.model_id,
            "time": time.time(),
        }

    def _tell_update(self, previous: int, values: Mapping[str, float]) -> None:
        """Put the agent's newest update on the curves.

        Args:
            previous: The update that was told of before this one.
            values: What there is to tell of the updates since then; what is not finite is left out.

        Raises:
            DivergenceError: A figure has left all bounds; the agent is of no more use.
        """
        reason = find_divergence(values, self.settings.guard)
        if reason:
            raise DivergenceError(self.agent.updates, reason)
        finite = {name: value for name, value in values.items() if math.isfinite(value)}  # JSON has no NaN
        row = UpdateRow(**self._here(), update=self.agent.updates, previous=previous, values=finite)
        self._rows.add(row)

    def _saved(self, info: Manifest, path: Path) -> None:
        """Put a marker on the curves; called by the writing thread."""
        if info.kind == "current" and self._divergences.overcome(info.updates):
            logger.info("the training has passed the place where it diverged")
            self.diverged = ""
        self._rows.add(
            CheckpointRow(
                run_id=info.run_id,
                attempt=info.attempt,
                update=info.updates,
                env_steps=info.env_steps,
                episodes=info.episodes,
                model_id=info.model_id,
                time=info.created,
                saved=info.kind,
                path=path.relative_to(self.run_folder.root).as_posix(),
            )
        )

    def _tell_of_divergence(self) -> None:
        """Say that the attempt before has diverged; after too many in a row, wish for the end of the run."""
        last, most = self._divergences.last, self.settings.guard.max_restores
        if last is None:
            return
        if last.times <= most:
            self.diverged = last.words(self.agent.updates, most)
            logger.warning("%s", self.diverged)
            return
        self.stop_reason = last.given_up()
        logger.error("%s: the run is to be ended", self.stop_reason)
        # Who resumes the run has changed something, or wants it all the same.
        self._divergences.forget()
        self.detail = self.stop_reason
        self.rest()

    # --- state -------------------------------------------------------------------------------------

    def _count_refusals(self) -> None:
        self._refusals = self._intake.sessions.refusals()
        self._staleness = self.staleness.told

    def _alive(self) -> None:
        """Give a sign of life: the main loop goes on, or an update that takes long."""
        self._tick += 1

    def _state(self) -> NodeState:
        """Return the state as of now; called by the reporting thread, so it reads whole values only."""
        now = time.monotonic()
        refusals, saved = self._refusals, self._desk.last_current
        phase, detail = self._doing_now()
        return NodeState(
            name=self.name,
            instance=self._instance,
            tick=self._tick,
            phase=phase,
            detail=detail,
            run_id=self.run_folder.run_id,
            attempt=self.attempt,
            model_id=self.model_id,
            env_steps=self.env_steps,
            updates=self.agent.updates,
            episodes=self.episodes,
            policy_lag=round(self.policy_lag, 1),
            env_steps_per_s=round(self._rates["env_steps"].update(self.env_steps, now), 1),
            updates_per_s=round(self._rates["updates"].update(self.agent.updates, now), 2),
            checkpoint_env_steps=None if saved is None else saved.env_steps,
            checkpoint_time=None if saved is None else saved.created,
            lost_chunks=refusals.missing,
            rejected=refusals.total,
            rejected_by_client=refusals.by_client,
            staleness=self._staleness,
            timings_s={name: timing.last_s for name, timing in self._timings.items()},
            learner_waits=self._part_waited("learner", now),
            clients_wait=self._part_waited("clients", now),
            trouble=self.trouble,
            diverged=self.diverged,
            stop_reason=self.stop_reason,
            stop_reached=self.goal_reached,
            asks_clients=self.asks_clients,
            learns_on=self._learns_on,
            error=self._failure or self._desk.last_error,
            unsaved=self._desk.unsaved,
            farewell=self._farewell,
        )

    def _part_waited(self, who: str, now: float) -> float:
        """Return in which part of the last seconds somebody waited."""
        return round(min(max(self._rates[who].update(self._waits[who].total(now), now), 0.0), 1.0), 3)

    def _doing_now(self) -> tuple[NodePhase, str]:
        """Return phase and detail as others see them."""
        if self.phase == "stopping":
            return "saving" if self._desk.saving else "stopping", self.detail
        if self._desk.disk_full:
            return "paused", self._desk.unsaved
        if self._paused:
            return "paused", _PAUSED
        return self.phase, self.detail or (_HELD if self._intake.sessions.held else "")
