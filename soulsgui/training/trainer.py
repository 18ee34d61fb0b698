"""The trainer's loop: it takes samples in, lets a learner update, publishes, obeys and saves."""

import json
import logging
import math
import os
import platform
import threading
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import redis
import torch

from soulsgui.config.layers import ConfigLike, as_settings, load_run_settings
from soulsgui.config.paths import RunFolder, default_folders
from soulsgui.config.schema import public_values
from soulsgui.errors import (
    CheckpointError,
    CheckpointMisfitError,
    ServiceError,
    SoulsGuiError,
    counted,
    error_words,
)
from soulsgui.policies.exploration import without_noise
from soulsgui.rl.agents.base import Agent
from soulsgui.rl.buffers.array_storage import IN_FILE
from soulsgui.system import atomic_write
from soulsgui.training.agents import choose_threads, hardware_words
from soulsgui.training.attempt import BLOCK_MS, Attempt, TrainingRun
from soulsgui.training.checkpoint import Checkpoint, read_checkpoint, recover_checkpoints, write_checkpoint
from soulsgui.training.divergence import DivergenceError
from soulsgui.training.group import LearnerLostError, learning_together
from soulsgui.training.learners.replay import ReplayLearner
from soulsgui.training.learners.rounds import RoundLearner
from soulsgui.training.learners.vtrace import VTraceLearner
from soulsgui.training.status import QUIET_END, IsSet, Observes, StateReporter, Stopwatch
from soulsgui.training.threads import threads_of_a_learner
from soulsgui.wire.beats import own_instance
from soulsgui.wire.connection import AWAY, Address, Stopped
from soulsgui.wire.keys import TRAINER
from soulsgui.wire.manifest import MANIFEST, CheckpointKind, ScoredBy
from soulsgui.wire.messages.live import LiveChange
from soulsgui.wire.messages.metrics import AttemptRow
from soulsgui.wire.messages.node import NodePhase, NodeState
from soulsgui.wire.messages.server_config import algorithm_name
from soulsgui.wire.published import published_header
from soulsgui.wire.versions import installed_versions

logger = logging.getLogger(__name__)

_REFUSED_WAIT_S = 0.5
_COUNT_EVERY_S = 0.25
_HELD = "clients are granted nothing more: the server's memory fills up"
_PAUSED = "by request"
_TOLD = ("torch", "numpy", "gymnasium", "safetensors", "redis")  # packages whose versions are written down

Learner = RoundLearner | ReplayLearner | VTraceLearner  # an agent, what it learns from, and when it does


class TrainingNode(ABC):
    """Takes samples in, updates an agent, publishes its weights, saves checkpoints.

    Args:
        config: Settings, a dictionary or a namespace; what is not named keeps its default.
        run: The run's folder; None makes a new one in the default data folder.
        address: The server; None reads where the runner of the default data folder put it.
        stop: Set from outside to end the node; None makes one that only `shutdown` sets.

    Attributes:
        training: The run: settings, spaces, counters, status.
        learner: What it learns with.
        attempt: Server, clients, rows and checkpoints, from the beginning of `run` on.

    Raises:
        ConfigError: The configuration has mistakes.
        EnvironmentCheckError: The spaces are not known and the environment can't be made here.
        UsageError: No address is given, and there is no runner.
    """

    name: ClassVar[str] = TRAINER
    attempt: Attempt

    def __init__(
        self,
        config: ConfigLike,
        run: RunFolder | None = None,
        address: Address | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        settings = as_settings(config)
        name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        folder = run or RunFolder(default_folders().runs / name)
        folder.root.mkdir(parents=True, exist_ok=True)
        self.training = TrainingRun(settings, folder)
        self.learner = self.make_learner(self.training)
        self._address = address or Address.read(default_folders().server_address)
        self._stop = stop or threading.Event()
        self.passed_over = ""  # which damaged checkpoints it did not begin from, in words
        self._came_from: Path | None = None
        self._held_until = float("-inf")
        self._next_count = 0.0
        self._wait_until, self._waits_why = float("-inf"), ""
        self._returning = self._resting = self._paused = self._waits = False
        self._spoilt = False  # by a failure, so that it is not saved

    @abstractmethod
    def make_learner(self, run: TrainingRun) -> Learner:
        """Make a new learner for the settings and spaces of a run."""

    @property
    def agent(self) -> Agent:
        """What learns."""
        return self.learner.agent

    @threads_of_a_learner()
    def run(self) -> None:
        """Train until stopped. A last checkpoint is saved at the end."""
        self._open()
        training, status = self.training, self.training.status
        try:
            with learning_together(training.settings, training.spaces, self.agent, training.device):
                self._begin()
                while not self._stop.is_set():
                    self._turn()
        except Stopped:
            logger.info("stopped while the server was away")
        except ServiceError as error:  # the numbers are of no more use: what was saved before is
            status.error, self._spoilt = error.message, True
            reason = error.message.rstrip(".")
            if isinstance(error, DivergenceError):
                reason = error.reason + self._cut_off_outliers()
            self.attempt.divergences.note(self.agent.updates, reason)
            raise
        except BaseException as error:
            status.error = str(error) if isinstance(error, SoulsGuiError) else error_words(error)
            self._spoilt = not isinstance(error, LearnerLostError)
            raise
        finally:
            self._close()

    def checkpoint(self, path: Path, options: dict[str, Any] | None = None) -> None:
        """Save a checkpoint now and wait until it is on disk.

        Args:
            path: Its folder.
            options: `kind` (`current`, `best`, `manual`), `score`, `note`, `buffer` (the replay memory, too).

        Raises:
            CheckpointError: It could not be saved.
        """
        write_checkpoint(Path(path), self.snapshot(**{"kind": "manual", **(options or {})}))

    def load_checkpoint(self, path: Path) -> None:
        """Continue from a checkpoint; call it before `run`.

        Raises:
            CheckpointMisfitError: It holds weights alone, or was saved for another environment or network.
            CheckpointError: It is damaged.
        """
        loaded = read_checkpoint(Path(path))
        try:
            self._take_up(Path(path), loaded)
        except CheckpointError as error:
            raise CheckpointMisfitError(error.message, error.remedy) from error

    def load_config(self, path: Path) -> None:
        """Take the settings of a configuration file over, with a new agent; call it before `run`.

        Raises:
            ConfigError: The file is missing or has mistakes.
            EnvironmentCheckError: The spaces are not known and the environment can't be made here.
        """
        self.training.configure(load_run_settings(Path(path)))
        self.learner = self.make_learner(self.training)

    def save_config(self, path: Path) -> None:
        """Write the effective settings as JSON."""
        settings = self.training.settings.model_dump(mode="json")
        atomic_write(Path(path), json.dumps(settings, indent=1).encode())

    def monitor_timing(self, prom_timer: Observes | IsSet) -> AbstractContextManager[None]:
        """Return a context whose wall time in seconds is given to `prom_timer.observe`, or to `set`.

        Args:
            prom_timer: A Gauge, Histogram or Summary of prometheus_client, or what else has one of both.
        """
        return Stopwatch(prom_timer)

    def shutdown(self, _: Any = None) -> None:
        """Ask the node to save and end; the argument, a message, is not looked at."""
        self._stop.set()

    def _open(self) -> None:
        """Connect, and make what needs the final settings."""
        training = self.training
        recover_checkpoints(training.folder)
        learner = training.settings.learner
        weights = sum(array.size for array in self.agent.export_weights().values())
        threads = choose_threads(learner.threads, weights, (os.cpu_count() or 1) // learner.processes)
        torch.set_num_threads(threads)
        training.status.learns_on = hardware_words(training.device, learner.processes)
        where, with_threads = training.status.learns_on, counted(threads, "thread")
        logger.info("%d weights learn on %s, with %s", weights, where, with_threads)
        if not training.folder.config.exists():
            self.save_config(training.folder.config)
        training.count_attempt()
        versions = installed_versions(_TOLD) | {"python": platform.python_version()}
        atomic_write(training.folder.versions, json.dumps(versions, indent=1).encode())
        self.attempt = Attempt(training, self.learner, self._address, self._stop, self)
        self.learner.begin(self.attempt)
        self._tell_of_divergence()
        self._instance = own_instance()
        self.reporter = StateReporter(self._address, self.name, self.state)
        self.reporter.start()

    def _cut_off_outliers(self) -> str:
        """Cut those off who may have made the training diverge; say who and why."""
        try:
            return self.attempt.intake.cut_off_outliers(self.attempt.link.redis)
        except (*AWAY, redis.ResponseError) as error:
            logger.warning("who may be the cause can't be told: %s", error)
            return ""

    def _tell_of_divergence(self) -> None:
        """Say that the attempt before has diverged; after too many in a row, wish for the end of the run."""
        status, divergences = self.training.status, self.attempt.divergences
        last, most = divergences.last, self.training.settings.guard.max_restores
        if last is None:
            return
        if last.times <= most:
            status.diverged = last.words(self.agent.updates, most)
            logger.warning("%s", status.diverged)
            return
        status.stop_reason = last.given_up()
        logger.error("%s: the run is to be ended", status.stop_reason)
        # Who resumes the run has changed something, or wants it all the same.
        divergences.forget()
        status.detail = status.stop_reason
        self.rest()

    def _begin(self) -> None:
        """Find the next free model id, take over sessions that go on, prepare the first weights."""
        training, attempt = self.training, self.attempt
        run_id = training.folder.run_id
        published = attempt.link.run(lambda connection: published_header(connection, attempt.keys, run_id))
        seen = attempt.link.run(attempt.intake.begin)
        for client in attempt.intake.roster.clients if attempt.divergences.last else ():
            if attempt.intake.sessions.is_cut_off(client):
                self.learner.forget(client)
        if published is not None:
            attempt.publisher.remember(published)  # samples made with them may wait on the streams
            seen = max(seen, published.model_id)
        training.model_id = max(training.model_id, seen) + 1
        attempt.prepare(self.agent, self.learner.weights())
        attempt.rows.add(
            AttemptRow(**attempt.here(), update=self.agent.updates, passed_over=self.passed_over)
        )
        # Before anything of this attempt can be played: telemetry then knows where its curve begins.
        attempt.link.run(lambda connection: attempt.rows.flush(connection, attempt.keys))
        if self._came_from not in (None, training.folder.checkpoint):
            note = f"the newest state before going on from {self._came_from}"
            attempt.checkpoints.keep_current_aside(f"{self.passed_over} This is {note}".strip())
        if self.agent.updates:
            attempt.checkpoints.save_current()
        training.status.phase = "waiting"
        if training.folder.paused.exists():
            self.pause()

    def _close(self) -> None:
        """Save unless something went wrong, answer what was asked, say goodbye."""
        status = self.training.status
        try:
            self.learner.finish()
        except ServiceError as error:
            status.error, self._spoilt = status.error or str(error), True
            raise
        finally:
            try:
                self._end_attempt()
            finally:
                # What a run that failed has left is not what its last checkpoint tells of.
                with_buffer = self.training.settings.checkpoint.with_buffer
                self.learner.close(keep_memory=with_buffer and not self._spoilt)

    def _end_attempt(self) -> None:
        status, attempt = self.training.status, self.attempt
        status.phase = "stopping"
        connection = attempt.link.redis
        try:
            attempt.checkpoints.close(save=self.agent.updates > 0 and not self._spoilt)
            attempt.commands.answer(connection)
            attempt.rows.flush(connection, attempt.keys)
            attempt.intake.rejects.flush(connection, math.inf)
        except (*AWAY, redis.ResponseError) as error:
            logger.warning("the server is away at the end: %s", error)
        except BaseException as error:
            status.error = status.error or error_words(error)
            raise
        finally:
            status.count(attempt.intake)
            status.farewell = "" if status.error else QUIET_END
            self.reporter.close()
            attempt.link.close()

    def _turn(self) -> None:
        """Read, obey, update; when the server is away, wait for it."""
        attempt, status = self.attempt, self.training.status
        status.alive()
        connection = attempt.link.redis
        began = time.monotonic()
        try:
            if self._returning:
                self._come_back(connection)
            self._work(connection, began)
            attempt.rows.flush(connection, attempt.keys)
            attempt.intake.rejects.flush(connection, began)
            attempt.link.back()
        except AWAY as error:
            self._returning = True
            attempt.link.lost(error)
        except redis.ResponseError as error:  # out of memory, disk full: nothing was lost, try again
            attempt.link.refused(error)
            attempt.intake.refused()
            self._stop.wait(_REFUSED_WAIT_S)
        if began >= self._next_count:
            self._next_count = began + _COUNT_EVERY_S
            status.count(attempt.intake)

    def _work(self, connection: redis.Redis, began: float) -> None:
        """Take in, obey, train; at rest, in a pause, and while the disk is full, only obey."""
        intake = self.attempt.intake
        if (waits := began < self._wait_until) != self._waits:
            self._waits = waits
            logger.info("it %s", f"rests: {self._waits_why}" if waits else "continues")
            self.training.status.stop_waiting() if waits else self.training.status.wait_again()
        intake.rest(connection, self._paused or waits)
        if self._stands_still:
            self._stop.wait(BLOCK_MS / 1000)
            self.attempt.look(connection)
            return
        held = began < self._held_until
        if held != intake.sessions.held:
            intake.sessions.held = held
            logger.warning(_HELD) if held else logger.info("clients are granted more again")
        intake.look_around(connection, often=self.training.status.phase == "waiting")
        self.learner.read(connection)
        self.attempt.look(connection)
        if not self._stands_still:  # a save may have failed while samples were waited for
            # Neither the server's absence nor an update counts as time of collecting.
            self.learner.update(time.monotonic() - began)
            if self.training.status.stop_reason:
                self.rest()

    @property
    def _stands_still(self) -> bool:
        return self._resting or self._paused or self._waits or self.attempt.checkpoints.disk_full

    def _come_back(self, connection: redis.Redis) -> None:
        """After the server was away: publish again what it may have lost, the last second or everything."""
        attempt = self.attempt
        if connection.exists(attempt.keys.config, attempt.keys.weights) != 2:
            logger.warning("the server came back without its data: publishing again")
        attempt.unpublished = True
        attempt.intake.start_over(connection)
        self._returning = False

    def hold(self, seconds: float) -> None:
        """Grant clients nothing more for so long, unless it is said again: the server's memory fills up."""
        self._held_until = time.monotonic() + seconds

    def wait(self, seconds: float, why: str) -> None:
        """Stand still as in a pause for so long, unless it is said again."""
        self._wait_until, self._waits_why = time.monotonic() + seconds, why

    def rest(self) -> None:
        """Take nothing in and train no more; commands are still obeyed."""
        self._resting = True
        self.training.status.stop_waiting()

    def pause(self) -> None:
        """Take nothing in, grant nothing and train no more until `go_on`; commands are still obeyed."""
        if not self._paused:
            logger.info("paused")
            self._paused = True
            self.training.status.stop_waiting()

    def go_on(self) -> None:
        """Go on where `pause` came."""
        if self._paused:
            logger.info("continues")
            self._paused = False
            self.training.status.wait_again()

    def configure(self, values: dict[str, Any], undoes: bool = False) -> LiveChange:
        """Take over other values of live settings, between two updates, and note that in the run's folder."""
        training = self.training
        before = public_values(training.settings)
        settings = as_settings(training.settings, values)
        change = LiveChange(
            time=time.time(),
            attempt=training.attempt,
            update=self.agent.updates,
            env_steps=training.env_steps,
            before={key: before[key] for key in values},
            after=values,
            undoes=undoes,
        )
        change.append_to(training.folder.changes)
        training.settings = settings
        self.learner.configure(settings)
        logger.info("from update %d on: %s", change.update + 1, values)
        return change

    def snapshot(
        self,
        kind: CheckpointKind = "current",
        score: float | None = None,
        note: str = "",
        buffer: bool = False,
    ) -> Checkpoint:
        """Return a checkpoint of this instant; nothing in it changes any more."""
        training = self.training
        tensors, meta = self.agent.state()
        spoilt = sorted(name for name, array in tensors.items() if not np.isfinite(array).all())
        if spoilt:
            raise ServiceError(
                f"The agent is not saved: not all numbers are finite in {', '.join(spoilt)}.",
                "Resume from a checkpoint with a lower learning rate, and check the size of the rewards.",
            )
        with_memory = buffer or (kind == "current" and training.settings.checkpoint.with_buffer)
        pacing, memory = self.learner.state(with_memory)
        position = training.position(self.agent.updates)
        info = training.manifest(kind, score, position, self.agent.policy_spec(), True)
        return Checkpoint(
            info.model_copy(update={"memory_in_file": IN_FILE in memory}),
            self.learner.weights(published=False),
            tensors,
            {
                "agent": meta,
                "high_water": dict(training.high_water),
                "origins": dict(training.origins),
                "pacing": pacing,
            },
            note,
            memory,
            training.settings,
        )

    def weights_snapshot(
        self, model_id: int, score: float | None, scored_by: ScoredBy, kind: CheckpointKind = "best"
    ) -> Checkpoint:
        """Return a checkpoint of weights published a while ago, or written aside by the evaluator."""
        kept = self.attempt.publisher.kept(model_id)
        aside = self.training.folder.evaluated / str(model_id)
        newest = self.training.model_id, self.agent.updates
        if kept is not None and kind == "best" and (model_id, kept.position.update) == newest:
            # The normaliser may have moved since, without an update: what earned the score was published.
            found = replace(self.snapshot("best", score), weights=without_noise(kept.tensors))
        elif kept is not None:
            policy = self.agent.policy_spec()
            info = self.training.manifest(kind, score, kept.position, policy, False)
            found = Checkpoint(info, without_noise(kept.tensors))
        elif (aside / MANIFEST).exists():
            written = read_checkpoint(aside)
            told = {"kind": kind, "score": score, "resumable": False}
            found = Checkpoint(written.info.model_copy(update=told), written.weights)
        else:
            raise CheckpointError(f"Model {model_id} is gone: only the last ones are kept.")
        info = found.info.model_copy(update={"scored_by": scored_by})
        return replace(found, info=info, settings=self.training.settings)

    def _take_up(self, path: Path, loaded: Checkpoint) -> None:
        info, training = loaded.info, self.training
        if not info.resumable:
            raise CheckpointError(f"{path} holds weights alone.", "Resume from another checkpoint.")
        if info.spaces != training.spaces.to_json() or info.algorithm != training.settings.algorithm:
            name = algorithm_name(info.algorithm, info.agent)
            raise CheckpointError(
                f"{path} was saved for {name} on {info.env_id}, which differs from this run.",
                "Resume it with the configuration it was saved with.",
            )
        if info.policy != self.agent.policy_spec():
            raise CheckpointError(
                f"{path} was saved for another network: {info.policy}.",
                "Resume it with the configuration it was saved with.",
            )
        self.agent.load_state(loaded.agent, loaded.state["agent"])
        if loaded.memory:  # last: a file that is taken up is no longer what the checkpoint tells of
            self.learner.load(loaded.state.get("pacing", {}), loaded.memory)
        training.env_steps, training.episodes = info.env_steps, info.episodes
        training.model_id = info.model_id
        training.high_water = dict(loaded.state["high_water"])
        training.origins = dict(loaded.state.get("origins", {}))  # one of an earlier version has none
        self._came_from = path
        logger.info("going on from %s: %d steps, %d updates", path, info.env_steps, info.updates)

    def state(self) -> NodeState:
        """Return the state as of now; called by the reporting thread, so it reads whole values only."""
        training, checkpoints = self.training, self.attempt.checkpoints
        saved = checkpoints.last_current
        phase, detail = self._doing_now()
        return training.status.told(
            training.env_steps,
            self.agent.updates,
            name=self.name,
            instance=self._instance,
            phase=phase,
            detail=detail,
            run_id=training.folder.run_id,
            attempt=training.attempt,
            model_id=training.model_id,
            episodes=training.episodes,
            checkpoint_env_steps=None if saved is None else saved.env_steps,
            checkpoint_time=None if saved is None else saved.created,
            error=training.status.error or checkpoints.last_error,
            unsaved=checkpoints.unsaved,
        )

    def _doing_now(self) -> tuple[NodePhase, str]:
        status, checkpoints = self.training.status, self.attempt.checkpoints
        if status.phase == "stopping":
            return "saving" if checkpoints.saving else "stopping", status.detail
        if checkpoints.disk_full:
            return "paused", checkpoints.unsaved
        if self._waits:
            return "paused", self._waits_why
        if self._paused:
            return "paused", _PAUSED
        return status.phase, status.detail or (_HELD if self.attempt.intake.sessions.held else "")
