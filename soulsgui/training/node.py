"""The loop every training node has in common.

What is particular to an algorithm stands in a subclass: how samples are used and when to update.
"""

import logging
import math
import os
import time
from abc import abstractmethod
from typing import ClassVar

import numpy as np
import redis
import torch

from soulsgui.environments.reference import MOST_OUTPUTS, reference_observation
from soulsgui.errors import ServiceError, SoulsGuiError
from soulsgui.printable import error_words
from soulsgui.training.batch import Accepted, Ints, Owned, Steps
from soulsgui.training.checkpoint import recover_checkpoints
from soulsgui.training.checks import Codes
from soulsgui.training.desk import CommandDesk
from soulsgui.training.divergence import DivergenceError, Divergences
from soulsgui.training.group import LearnerLostError, learning_together
from soulsgui.training.hardware import choose_threads, hardware_words
from soulsgui.training.intake import Intake
from soulsgui.training.opening import count_attempt, published_header, server_config
from soulsgui.training.publisher import Publisher
from soulsgui.training.report import StateReporter
from soulsgui.training.session import Session
from soulsgui.training.steered import SteeredTrainee
from soulsgui.wire.connection import AWAY, Link, Stopped
from soulsgui.wire.instance import own_instance
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.metrics import AttemptRow
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)

BLOCK_MS = 50
"""How long to wait for samples before everything else is looked after."""

_REFUSED_WAIT_S = 0.5
_COUNT_EVERY_S = 0.25


class TrainingNode(SteeredTrainee):
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

    family: ClassVar[str]
    _remembered_ids = 1  # of how many weights samples are accepted

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

    def run(self) -> None:
        """Train until stopped. A last checkpoint is saved at the end."""
        self._open()
        try:
            with learning_together(self.settings, self.spaces, self.agent, self.device):
                self._begin_attempt()
                while not self._stop.is_set():
                    self._turn()
        except Stopped:
            logger.info("stopped while the server was away")
        except ServiceError as error:  # the numbers are of no more use: what was saved before is
            self._failure, self._spoilt = error.message, True
            reason = error.reason if isinstance(error, DivergenceError) else error.message.rstrip(".")
            self._divergences.note(self.agent.updates, reason)
            raise
        except BaseException as error:
            self._failure = str(error) if isinstance(error, SoulsGuiError) else error_words(error)
            self._spoilt = not isinstance(error, LearnerLostError)
            raise
        finally:
            self._close()

    # --- beginning and end -------------------------------------------------------------------------

    def _open(self) -> None:
        """Connect, and make what needs the final settings."""
        recover_checkpoints(self.run_folder)
        self._choose_hardware()
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

    def _choose_hardware(self) -> None:
        """Take the threads that the settings ask for, or that the network is worth; say where it learns."""
        learner = self.settings.learner
        weights = sum(array.size for array in self.agent.export_weights().values())
        threads = choose_threads(learner.threads, weights, (os.cpu_count() or 1) // learner.processes)
        torch.set_num_threads(threads)
        self._learns_on = hardware_words(self.device, learner.processes)
        logger.info("%d weights learn on %s, with %d thread(s)", weights, self._learns_on, threads)

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

    def _close(self) -> None:
        """Save unless something went wrong, answer what was asked, say goodbye."""
        self.phase = "stopping"
        connection = self._link.redis
        try:
            self._desk.close(connection, save=self.agent.updates > 0 and not self._spoilt)
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
        self._alive()
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
        self._intake.rest(connection, self._paused)
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

    def _come_back(self, connection: redis.Redis) -> None:
        """After the server was away: publish again what it may have lost."""
        if connection.exists(self.keys.config, self.keys.weights) != 2:
            logger.warning("the server came back without its data: publishing again")
            self._unpublished = True
            self._intake.sessions.end_all()
        self._intake.start_over()
        self._returning = False

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
