"""The loop every training node has in common.

What is particular to an algorithm stands in a subclass: how samples are used and when to update.
"""

import logging
import math
import threading
import time
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import redis

from soulsgui.config.like import ConfigLike
from soulsgui.config.paths import RunFolder, default_folders
from soulsgui.environments.reference import MOST_OUTPUTS, reference_observation
from soulsgui.errors import CheckpointError, ServiceError, SoulsGuiError
from soulsgui.policies.still import without_noise
from soulsgui.printable import error_words
from soulsgui.training.batch import Accepted, Ints, Owned, Steps
from soulsgui.training.checkpoint import Checkpoint, read_checkpoint, recover_checkpoints
from soulsgui.training.checks import Codes
from soulsgui.training.desk import CommandDesk
from soulsgui.training.divergence import DivergenceError, Divergences, find_divergence
from soulsgui.training.intake import Intake
from soulsgui.training.opening import count_attempt, published_header, server_config
from soulsgui.training.publisher import Publisher
from soulsgui.training.refusals import Refusals
from soulsgui.training.report import Observes, Rate, StateReporter, Stopwatch, Timing, Waiting
from soulsgui.training.rows import Rows
from soulsgui.training.session import Session
from soulsgui.training.trainee import Trainee
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.instance import own_instance
from soulsgui.wire.keys import TRAINER, Keys
from soulsgui.wire.manifest import MANIFEST, Manifest
from soulsgui.wire.messages.metrics import AttemptRow, CheckpointRow, UpdateRow
from soulsgui.wire.messages.node import NodePhase, NodeState, Staleness
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)

BLOCK_MS = 50
"""How long to wait for samples before everything else is looked after."""

_REFUSED_WAIT_S = 0.5
_HELD = "clients are granted nothing more: the server's memory fills up"
_PAUSED = "by request: clients are granted nothing, and nothing is learned"
_COUNT_EVERY_S = 0.25


class TrainingNode(Trainee):
    """Takes samples in, updates an agent, publishes its weights, saves checkpoints.

    Args:
        config: Settings, a dictionary or a namespace; what is not named keeps its default.
        run: The run's folder; None makes a new one in the default data folder.
        address: The server; None reads where the runner of the default data folder put it.
        stop: Set from outside to end the node; None makes one that only `shutdown` sets.

    Raises:
        ConfigError: The configuration has mistakes.
        EnvironmentCheckError: The spaces are not known and the environment can't be made here.
        UsageError: No address is given, and there is no runner.
    """

    name = TRAINER
    family: ClassVar[str]
    _remembered_ids = 1  # of how many weights samples are accepted

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
        self._held_until = float("-inf")
        self._waits = {name: Waiting() for name in ("learner", "clients")}
        self._address = address or Address.read(default_folders().server_address)
        self._stop = stop or threading.Event()
        self._timings = {name: Timing() for name in ("update", "publish")}
        self._rates = {name: Rate() for name in ("env_steps", "updates", *self._waits)}
        self._rows = Rows()
        self._refusals = Refusals()
        self._staleness = Staleness()
        self._next_count = 0.0
        self._tick = 0
        self._unpublished = False
        self._returning = False
        self._resting = False
        self._paused = False
        self._waited_before: list[str] = []
        self._failure = ""
        self._farewell = ""

    # --- what a subclass provides ------------------------------------------------------------------

    @abstractmethod
    def judge(self, owned: Owned) -> Codes:
        """Say of segments whether they are good, as `batch.Taker`."""

    @abstractmethod
    def admit_all(self, session: Session, steps: int) -> bool:
        """Let chunks of good segments in, as `batch.Taker`."""

    @abstractmethod
    def admit(self, session: Session, lengths: Steps, model_ids: Ints, codes: Codes) -> None:
        """Let one chunk in, as `batch.Taker`."""

    @abstractmethod
    def take_in(self, accepted: Accepted) -> None:
        """Take over what was let in, as `batch.Taker`."""

    @abstractmethod
    def _advance(self, seconds: float) -> None:
        """Do what is due: begin or close a round, update, publish.

        Args:
            seconds: Time since the last call in which the server was there.

        Raises:
            redis.RedisError: The server is away; called again, it goes on where it was.
        """

    @abstractmethod
    def dropped_out(self, client: str, reason: str) -> None:
        """Take note that a client won't deliver what it was asked for."""

    def _read(self, connection: redis.Redis) -> None:
        """Take what came, and wait a little for the first of it.

        Raises:
            redis.RedisError: The server is away; what was not acknowledged is read again.
        """
        self._intake.take(connection, BLOCK_MS)
        if self._intake.reader.idle:
            self._stop.wait(BLOCK_MS / 1000)

    # --- the public face ---------------------------------------------------------------------------

    def run(self) -> None:
        """Train until stopped. A last checkpoint is saved at the end."""
        self._open()
        try:
            self._begin_attempt()
            while not self._stop.is_set():
                self._turn()
        except Stopped:
            logger.info("stopped while the server was away")
        except ServiceError as error:  # the numbers are of no more use: what was saved before is
            self._failure = error.message
            reason = error.reason if isinstance(error, DivergenceError) else error.message.rstrip(".")
            self._divergences.note(self.agent.updates, reason)
            raise
        except BaseException as error:
            self._failure = str(error) if isinstance(error, SoulsGuiError) else error_words(error)
            raise
        finally:
            self._close()

    def monitor_timing(self, prom_timer: Observes) -> AbstractContextManager[None]:
        """Return a context whose wall time in seconds is given to `prom_timer.observe`."""
        return Stopwatch(prom_timer)

    @property
    def newest(self) -> int:
        """Id of the newest weights."""
        return self.model_id

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

    def weights_snapshot(self, model_id: int, score: float | None) -> Checkpoint:
        """Return a checkpoint of weights published a while ago.

        Raises:
            CheckpointError: They are not kept any more.
        """
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
        return Checkpoint(
            found.info.model_copy(update={"kind": "best", "score": score, "resumable": False}), found.weights
        )

    # --- beginning and end -------------------------------------------------------------------------

    def _open(self) -> None:
        """Connect, and make what needs the final settings."""
        recover_checkpoints(self.run_folder)
        self._divergences = Divergences(self.run_folder.divergence)
        if not self.run_folder.config.exists():
            self.save_config(self.run_folder.config)
        self.keys = Keys(self._address.prefix)
        self.attempt = count_attempt(self.run_folder)
        self._instance = own_instance()
        config = server_config(
            self.settings, self.run_folder, self.attempt, self.spaces, self.agent, self.family
        )
        self._reference = reference_observation(self.spaces.observation)
        self._link = Link(self._address, self._stop, self.name)
        self._publisher = Publisher(self.keys, config, self._remembered_ids)
        self._intake = Intake(
            self.keys,
            config,
            self.spaces,
            self._publisher,
            self.settings.redis.max_memory // 2,
            self,
        )
        self._intake.reader.high_water = self._high_water
        self._desk = CommandDesk(self, self.run_folder, self.keys, self.name, self._saved)
        self._tell_of_divergence()
        self._reporter = StateReporter(self._address, self.name, self._state)
        self._reporter.start()

    def _begin_attempt(self) -> None:
        """Find the next free model id, take over sessions that go on, prepare the first weights."""
        run_id = self.run_folder.run_id
        published = self._link.run(lambda connection: published_header(connection, self.keys, run_id))
        seen = self._link.run(self._intake.begin)
        if published is not None:
            self._publisher.remember(published)  # samples made with them may wait on the streams
            seen = max(seen, published.model_id)
        self.model_id = max(self.model_id, seen) + 1
        self._prepare_weights()
        self._rows.add(AttemptRow(**self._here(), update=self.agent.updates))
        # Before anything of this attempt can be played: telemetry then knows where its curve begins.
        self._link.run(lambda connection: self._rows.flush(connection, self.keys))
        if self._came_from not in (None, self.run_folder.checkpoint):
            self._desk.keep_current_aside(f"the newest state before going on from {self._came_from}")
        if self.agent.updates:
            self._desk.save_current()
        self.phase = "waiting"
        if self.run_folder.paused.exists():
            self.pause()

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

    def _close(self) -> None:
        """Save unless something went wrong, answer what was asked, say goodbye."""
        self.phase = "stopping"
        connection = self._link.redis
        try:
            self._desk.close(connection, save=self.agent.updates > 0 and not self._failure)
            self._rows.flush(connection, self.keys)
            self._intake.rejects.flush(connection, math.inf)
        except (*AWAY, redis.ResponseError) as error:
            logger.warning("the server is away at the end: %s", error)
        except BaseException as error:
            self._failure = self._failure or error_words(error)
            raise
        finally:
            self._count_refusals()
            self._farewell = "" if self._failure else "ended as asked"
            self._reporter.close()
            self._link.close()

    # --- one turn of the loop ----------------------------------------------------------------------

    def _turn(self) -> None:
        """Read, obey, advance; when the server is away, wait for it."""
        self._tick += 1
        connection = self._link.redis
        began = time.monotonic()
        try:
            if self._returning:
                self._come_back(connection)
            self._work(connection, began)
            self._rows.flush(connection, self.keys)
            self._intake.rejects.flush(connection, began)
            self._link.back()
        except AWAY as error:
            self._returning = True
            self._link.lost(error)
        except redis.ResponseError as error:  # out of memory, disk full: nothing was lost, try again
            self._link.refused(error)
            self._intake.unsettle()
            self._intake.make_room()
            self._stop.wait(_REFUSED_WAIT_S)
        if began >= self._next_count:
            self._next_count = began + _COUNT_EVERY_S
            self._count_refusals()

    def _work(self, connection: redis.Redis, began: float) -> None:
        """Take in, obey, train; at rest, in a pause, and while the disk is full, only obey."""
        if self._resting or self._paused or self._desk.disk_full:
            self._stop.wait(BLOCK_MS / 1000)
            self._desk.look(connection)
            return
        self._look_at_hold(began)
        self._intake.look_around(connection, often=self.phase == "waiting")
        self._read(connection)
        self._desk.look(connection)
        # A save may have failed while samples were waited for.
        if not (self._resting or self._paused or self._desk.disk_full):
            # Neither the server's absence nor an update counts as time of collecting.
            self._advance(time.monotonic() - began)

    def _look_at_hold(self, now: float) -> None:
        held = now < self._held_until
        if held != self._intake.sessions.held:
            self._intake.sessions.held = held
            logger.warning(_HELD) if held else logger.info("clients are granted more again")

    def _come_back(self, connection: redis.Redis) -> None:
        """After the server was away: publish again what it may have lost."""
        if connection.exists(self.keys.config, self.keys.weights) != 2:
            logger.warning("the server came back without its data: publishing again")
            self._unpublished = True
            self._intake.sessions.end_all()
        self._intake.start_over()
        self._returning = False

    def _count_refusals(self) -> None:
        self._refusals = self._intake.sessions.refusals()
        self._staleness = self._intake.ingest.staleness.told

    # --- weights, rows, state ----------------------------------------------------------------------

    def _prepare_weights(self) -> None:
        """Make the agent's weights the newest ones under the present model id.

        Raises:
            DivergenceError: They are of no use; those published before stay.
        """
        outputs = self.agent.outputs(self._reference)[0, :MOST_OUTPUTS]
        if not np.isfinite(outputs).all():
            raise DivergenceError(self.agent.updates, "the network gives numbers that are not finite")
        reference = tuple(map(float, outputs))
        self._publisher.prepare(self._standing(), self._weights_to_publish(), reference)
        self._unpublished = True

    def _grants_to_publish(self) -> dict[str, Grant]:
        """Return the grants that go out with the newest weights."""
        return self._intake.sessions.grants()

    def _publish(self) -> None:
        """Send the newest weights with the grants that belong to them."""
        with self.monitor_timing(self._timings["publish"]):
            self._publisher.publish(self._link.redis, self._grants_to_publish())
        self._unpublished = False

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
