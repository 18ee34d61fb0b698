"""A run that is trained, its learner, and one attempt of it: server, clients, rows, checkpoints."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import redis
from numpy.typing import NDArray

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings, client_settings
from soulsgui.environments.spaces import MOST_OUTPUTS, reference_observation
from soulsgui.experience.segments import Ints, Segments
from soulsgui.policies.exploration import Moment
from soulsgui.rl.agents.base import Agent
from soulsgui.system import atomic_write
from soulsgui.training.agents import learner_device
from soulsgui.training.checkpoint import manifest_of
from soulsgui.training.checkpoint_manager import CheckpointManager
from soulsgui.training.command_handler import CommandHandler
from soulsgui.training.divergence import DivergenceError, Divergences, find_divergence
from soulsgui.training.intake.chunks import Steps
from soulsgui.training.intake.reader import Intake
from soulsgui.training.publisher import Publisher, TrainingPosition
from soulsgui.training.spaces import find_spaces
from soulsgui.training.status import Rows, Stopwatch, TrainerStatus
from soulsgui.wire.connection import Address, Link
from soulsgui.wire.keys import Keys
from soulsgui.wire.manifest import CheckpointKind, Manifest
from soulsgui.wire.messages.metrics import CheckpointRow, UpdateRow
from soulsgui.wire.messages.server_config import OFF_POLICY, ServerConfig, contract_hash, state_of
from soulsgui.wire.messages.session import Grant

if TYPE_CHECKING:
    from soulsgui.training.trainer import Learner, TrainingNode

logger = logging.getLogger(__name__)


class TrainingRun:
    """Settings, spaces and counters of a run."""

    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        self.folder = folder
        self.attempt = self.model_id = self.env_steps = self.episodes = 0
        self.high_water: dict[str, str] = {}
        self.origins: dict[str, int] = {}  # a number for each client (`Segments.origin`)
        self.status = TrainerStatus()
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Take settings over."""
        self.settings = settings
        self.spaces = find_spaces(settings, self.folder)
        self.device = learner_device(settings, self.spaces)

    @property
    def moment(self) -> Moment:
        """Where the run is: what schedules look at."""
        return Moment(self.env_steps, self.settings.stop.env_steps)

    def count(self, segments: Segments) -> None:
        """Count steps and episodes, before the update: nobody is ever told of an update without its steps."""
        self.env_steps += segments.steps
        self.episodes += int(np.count_nonzero(segments.ended))

    def position(self, updates: int) -> TrainingPosition:
        """Return where the run is, with so many updates of the agent."""
        return TrainingPosition(self.model_id, updates, self.env_steps, self.episodes)

    def manifest(
        self,
        kind: CheckpointKind,
        score: float | None,
        position: TrainingPosition,
        policy: dict[str, Any],
        resumable: bool,
    ) -> Manifest:
        """Return what a checkpoint says of itself."""
        told = {"kind": kind, "score": score, "resumable": resumable}
        scored_by = "" if score is None else "training"
        run_id, spaces = self.folder.run_id, self.spaces.to_json()
        return manifest_of(
            self.settings, run_id, self.attempt, position, spaces, policy, scored_by=scored_by, **told
        )

    def count_attempt(self) -> None:
        """Begin the next attempt, and write its number into the run's folder."""
        try:
            begun = int(json.loads(self.folder.attempts.read_text(encoding="utf-8"))["begun"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            begun = 0
        atomic_write(self.folder.attempts, json.dumps({"begun": begun + 1}).encode())
        self.attempt = begun + 1

    def server_config(
        self, policy: dict[str, Any], family: str, max_model_delay: int | None = None
    ) -> ServerConfig:
        """Return the run as clients see it."""
        settings, env, spaces = self.settings, self.settings.env, self.spaces.to_json()
        told = client_settings(settings) | {"client.segment_length": settings.longest_segment}
        contract = contract_hash(env.id, env.kwargs, told["env.wrappers"], spaces, family, state_of(policy))
        return ServerConfig(
            run_id=self.folder.run_id,
            attempt=self.attempt,
            contract=contract,
            spaces=spaces,
            policy=policy,
            settings=told,
            seed=settings.seed,
            max_model_delay=max_model_delay,
        )


BLOCK_MS = 50  # how long to wait for samples before everything else is looked after


class Attempt:
    """What an attempt of a run uses from its first turn to its last."""

    def __init__(
        self,
        run: TrainingRun,
        learner: Learner,
        address: Address,
        stop: threading.Event,
        trainer: TrainingNode,
    ) -> None:
        free = learner.family == OFF_POLICY and run.settings.determinism != "lockstep"
        delay = learner.remembered_ids - 1 if free else None
        config = run.server_config(learner.agent.policy_spec(), learner.family, delay)
        self.run, self.stop = run, stop
        self.keys = Keys(address.prefix)
        self.link = Link(address, stop, trainer.name)
        self.divergences = Divergences(run.folder.divergence)
        self.publisher = Publisher(self.keys, config, learner.remembered_ids)
        bytes_ahead = run.settings.redis.max_memory // 2
        self.intake = Intake(self.keys, config, run.spaces, self.publisher, bytes_ahead, learner)
        self.intake.reader.high_water, self.intake.ingest.origins = run.high_water, run.origins
        self.rows = Rows()
        self.checkpoints = CheckpointManager(
            trainer, run.folder, self.keys, run.settings.checkpoint, self._saved
        )
        self.commands = CommandHandler(trainer, self.keys, self.checkpoints)
        self.unpublished = False
        self._reference = reference_observation(run.spaces.observation)

    def look(self, connection: redis.Redis) -> None:
        """Look after the checkpoints, and carry out what is commanded."""
        self.checkpoints.look(connection)
        self.commands.look(connection)

    def here(self) -> dict[str, Any]:
        """Return where the run is, as rows name it."""
        return {
            "run_id": self.run.folder.run_id,
            "attempt": self.run.attempt,
            "env_steps": self.run.env_steps,
            "episodes": self.run.episodes,
            "model_id": self.run.model_id,
            "time": time.time(),
        }

    def tell_update(self, update: int, previous: int, values: Mapping[str, float]) -> None:
        """Put the agent's newest update on the curves."""
        reason = find_divergence(values, self.run.settings.guard)
        if reason:
            raise DivergenceError(update, reason)
        finite = {name: value for name, value in values.items() if math.isfinite(value)}  # JSON has no NaN
        self.rows.add(UpdateRow(**self.here(), update=update, previous=previous, values=finite))

    def prepare(self, agent: Agent, weights: dict[str, NDArray[Any]]) -> None:
        """Make an agent's weights the newest ones under the present model id."""
        outputs = agent.outputs(self._reference)[0, :MOST_OUTPUTS]
        if not np.isfinite(outputs).all():
            raise DivergenceError(agent.updates, "the network gives numbers that are not finite")
        self.publisher.prepare(self.run.position(agent.updates), weights, tuple(map(float, outputs)))
        self.unpublished = True

    def publish(self, grants: Mapping[str, Grant]) -> None:
        """Send the newest weights with the grants that belong to them."""
        with Stopwatch(self.run.status.timings["publish"]):
            self.publisher.publish(self.link.redis, grants)
        self.unpublished = False

    def refused_late(self, updates: int, model_ids: Ints, lengths: Steps) -> None:
        """Count what is refused as late; ids that were never published have no age."""
        known = self.publisher.updates
        oldest = next(iter(known))
        published = (model_ids >= 0) & (model_ids <= self.run.model_id)
        # Between two publishes there was an update at least: more of those that are forgotten nobody knows.
        made_with = [
            known.get(one, known[oldest] - max(oldest - one, 0)) for one in model_ids[published].tolist()
        ]
        lags = updates - np.array(made_with, np.int64)
        self.run.status.staleness.refuse(np.maximum(lags, 0), lengths[published])

    def _saved(self, info: Manifest, path: Path) -> None:
        """Put a marker on the curves; called by the writing thread."""
        if info.kind == "current" and self.divergences.overcome(info.updates):
            logger.info("the training has passed the point where it diverged")
            self.run.status.diverged = ""
        place = info.model_dump(include={"run_id", "attempt", "env_steps", "episodes", "model_id"})
        place |= {"update": info.updates, "time": info.created}
        below = path.relative_to(self.run.folder.root).as_posix()
        self.rows.add(CheckpointRow(**place, saved=info.kind, path=below))
