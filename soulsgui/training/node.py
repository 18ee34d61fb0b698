"""The loop every training node has in common.

What is particular to an algorithm stands in a subclass: how samples are used and when to update.
"""

import json
import logging
import threading
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import redis

from soulsgui.config.like import ConfigLike, as_settings
from soulsgui.config.load import load_run_settings
from soulsgui.config.paths import Folders, RunFolder, default_config_dir, default_data_dir
from soulsgui.config.schema import Settings, client_settings
from soulsgui.environments.make import make_env
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import CheckpointError
from soulsgui.rl.agents.base import Agent
from soulsgui.system import atomic_write
from soulsgui.training.checkpoint import Checkpoint, CheckpointInfo, read_checkpoint, write_checkpoint
from soulsgui.training.desk import CommandDesk
from soulsgui.training.intake import Intake
from soulsgui.training.publisher import Publisher
from soulsgui.training.report import Observes, Rate, StateReporter, Stopwatch, Timing
from soulsgui.training.sessions import Session
from soulsgui.wire.codec import CodecError
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.instance import own_instance
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.chunk import Segments
from soulsgui.wire.messages.metrics import ROW_FIELD, STREAM_LENGTH, AttemptRow, CheckpointRow
from soulsgui.wire.messages.node import NodePhase, NodeState
from soulsgui.wire.messages.server_config import ServerConfig, contract_hash
from soulsgui.wire.weights import HEADER_BYTES, read_header

logger = logging.getLogger(__name__)

_BLOCK_MS = 50
_REFUSED_WAIT_S = 0.5


class TrainingNode(ABC):
    """Takes samples in, updates an agent, publishes its weights, saves checkpoints.

    Args:
        config: Settings, a dictionary or a namespace; what is not named keeps its default.
        run: The run's folder; None makes a new one in the default data folder.
        address: The server; None reads where the runner of the default data folder put it.
        stop: Set from outside to end the node; None makes one that only `shutdown` sets.

    Raises:
        ConfigError: The configuration has mistakes.
        EnvironmentCheckError: The spaces are not known and the environment can't be made here.
    """

    name = "trainer"
    family: ClassVar[str]

    def __init__(
        self,
        config: ConfigLike,
        run: RunFolder | None = None,
        address: Address | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        folders = Folders(default_config_dir(), default_data_dir())
        self.settings: Settings = as_settings(config)
        self.run_folder = run or RunFolder(folders.runs / datetime.now().strftime("%Y-%m-%d_%H-%M-%S"))
        self.run_folder.root.mkdir(parents=True, exist_ok=True)
        self.spaces = self._find_spaces()
        self.model_id = 0
        self.env_steps = 0
        self.episodes = 0
        self.attempt = 0
        self.phase: NodePhase = "loading"
        self.detail = ""
        self.goal_reached = False
        self._address = address or Address.read(folders.server / "redis.json")
        self._stop = stop or threading.Event()
        self._timings = {name: Timing() for name in ("update", "publish")}
        self._rates = {name: Rate() for name in ("env_steps", "updates")}
        self._high_water: dict[str, str] = {}
        self._rows: list[Message] = []
        self._tick = 0
        self._unpublished = False
        self._returning = False
        self._farewell = ""
        self._make_agent()

    # --- what a subclass provides ------------------------------------------------------------------

    @property
    @abstractmethod
    def agent(self) -> Agent:
        """The learner."""

    @abstractmethod
    def _make_agent(self) -> None:
        """Make a new agent for the settings and spaces."""

    @abstractmethod
    def _use(self, session: Session, segments: Segments) -> tuple[int, dict[str, int]]:
        """Check and take over the segments of one chunk.

        Returns:
            How many were accepted, and how many refused by reason.
        """

    @abstractmethod
    def _advance(self, seconds: float) -> None:
        """Do what is due: begin or close a round, update, publish.

        Args:
            seconds: Time since the last call in which the server was there.

        Raises:
            redis.RedisError: The server is away; called again, it goes on where it was.
        """

    @abstractmethod
    def _client_dropped_out(self, client: str, reason: str) -> None:
        """Take note that a client won't deliver what it was asked for."""

    # --- the public face ---------------------------------------------------------------------------

    def run(self) -> None:
        """Train until stopped. A last checkpoint is saved at the end."""
        self._open()
        try:
            self._begin_attempt()
            last = time.monotonic()
            while not self._stop.is_set():
                now = time.monotonic()
                self._turn(now - last)
                last = now
        except Stopped:
            logger.info("stopped while the server was away")
        finally:
            self._close()

    def checkpoint(self, path: Path, options: dict[str, Any] | None = None) -> None:
        """Save a checkpoint now and wait until it is on disk.

        Args:
            path: Its folder.
            options: `kind` (`current`, `best`, `manual`), `score`, `note`.

        Raises:
            CheckpointError: It could not be saved.
        """
        write_checkpoint(Path(path), self.snapshot(**{"kind": "manual", **(options or {})}))

    def load_checkpoint(self, path: Path) -> None:
        """Continue from a checkpoint; call it before `run`.

        Raises:
            CheckpointError: It is damaged, holds weights alone, or was saved for another environment or
                network.
        """
        loaded = read_checkpoint(Path(path))
        info = loaded.info
        if not info.resumable:
            raise CheckpointError(f"{path} holds weights alone.", "Resume from another checkpoint.")
        if info.spaces != self.spaces.to_json() or info.algorithm != self.settings.algorithm:
            raise CheckpointError(
                f"{path} was saved for {info.algorithm} on {info.env_id}, which differs from this run.",
                "Resume it with the configuration it was saved with.",
            )
        self.agent.load_state(loaded.agent, loaded.state["agent"])
        self.env_steps, self.episodes, self.model_id = info.env_steps, info.episodes, info.model_id
        self._high_water = dict(loaded.state["high_water"])
        logger.info("going on from %s: %d steps, %d updates", path, info.env_steps, info.update)

    def load_config(self, path: Path) -> None:
        """Take the settings of a configuration file over, with a new agent; call it before `run`.

        Raises:
            ConfigError: The file is missing or has mistakes.
        """
        self.settings = load_run_settings(Path(path))
        self._make_agent()

    def save_config(self, path: Path) -> None:
        """Write the effective settings as JSON."""
        atomic_write(Path(path), json.dumps(self.settings.model_dump(mode="json"), indent=1).encode())

    def monitor_timing(self, prom_timer: Observes) -> AbstractContextManager[None]:
        """Return a context whose wall time in seconds is given to `prom_timer.observe`."""
        return Stopwatch(prom_timer)

    def shutdown(self, _: Any = None) -> None:
        """Ask the node to save and end; the argument, a message, is not looked at."""
        self._stop.set()

    def snapshot(self, kind: str = "current", score: float | None = None, note: str = "") -> Checkpoint:
        """Return a checkpoint of this instant; nothing in it changes any more."""
        tensors, meta = self.agent.state()
        return Checkpoint(
            self._info(kind, score, self.model_id, self.agent.updates, True),
            self.agent.export_weights(),
            tensors,
            {"agent": meta, "high_water": dict(self._high_water)},
            note,
        )

    def weights_snapshot(self, model_id: int, score: float | None) -> Checkpoint:
        """Return a checkpoint of weights published a while ago.

        Raises:
            CheckpointError: They are not kept any more.
        """
        if model_id == self.model_id:
            return self.snapshot("best", score)
        kept = self._publisher.weights_of(model_id)
        if kept is None:
            raise CheckpointError(f"Model {model_id} is gone: only the last ones are kept.")
        header, tensors = kept
        return Checkpoint(self._info("best", score, model_id, header.update, False), tensors)

    # --- beginning and end -------------------------------------------------------------------------

    def _find_spaces(self) -> SpacesSpec:
        """Read what the probe found, or make the environment here."""
        path = self.run_folder.spaces
        if path.exists():
            return SpacesSpec.from_json(json.loads(path.read_text(encoding="utf-8")))
        env = self.settings.env
        made = make_env(env.id, env.kwargs, env.wrappers)
        try:
            return SpacesSpec.from_env(made.observation_space, made.action_space)
        finally:
            made.close()

    def _open(self) -> None:
        """Connect, and make what needs the final settings."""
        self.keys = Keys(self._address.prefix)
        self.attempt = self._count_attempt()
        config = self._server_config()
        self._link = Link(self._address, self._stop, self.name)
        self._publisher = Publisher(self.keys, config)
        self._intake = Intake(
            self.keys,
            config,
            self.spaces,
            self._publisher,
            self.settings.redis.max_memory // 2,
            self._use,
            self._client_dropped_out,
        )
        self._intake.ingest.high_water = self._high_water
        self._desk = CommandDesk(self, self.run_folder, self.keys, self.name, self._saved)
        self._instance = own_instance()
        self._reporter = StateReporter(self._address, self.name, self._state)
        self._reporter.start()

    def _server_config(self) -> ServerConfig:
        env, spaces = self.settings.env, self.spaces.to_json()
        settings = client_settings(self.settings)
        return ServerConfig(
            run_id=self.run_folder.run_id,
            attempt=self.attempt,
            contract=contract_hash(env.id, env.kwargs, settings["env.wrappers"], spaces, self.family),
            spaces=spaces,
            policy=self.agent.policy_spec(),
            settings=settings,
            seed=self.settings.seed,
        )

    def _count_attempt(self) -> int:
        """Return this attempt's number, and write it into the run's folder."""
        path = self.run_folder.attempts
        try:
            begun = int(json.loads(path.read_text(encoding="utf-8"))["begun"])
        except (OSError, ValueError, KeyError, TypeError):
            begun = 0
        atomic_write(path, json.dumps({"begun": begun + 1}).encode())
        return begun + 1

    def _begin_attempt(self) -> None:
        """Find the next free model id, take over sessions that go on, prepare the first weights."""
        head = self._link.run(lambda connection: connection.getrange(self.keys.weights, 0, HEADER_BYTES - 1))
        try:
            published = read_header(head) if isinstance(head, bytes) and head else None
        except CodecError:
            published = None
        if published is not None and published.run_id == self.run_folder.run_id:
            self.model_id = max(self.model_id, published.model_id)
        self.model_id += 1
        self._link.run(self._intake.readmit)
        self._prepare_weights()
        self._rows.append(AttemptRow(**self._here(), update=self.agent.updates))
        if self.agent.updates:
            self._desk.save_current()
        self.phase = "waiting"

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
        """Save, answer what was asked, say goodbye."""
        self.phase = "stopping"
        try:
            self._desk.close(self._link.redis, save=self.agent.updates > 0)
            self._flush_rows(self._link.redis)
        except (*AWAY, redis.ResponseError) as error:
            logger.warning("the server is away at the end: %s", error)
        self._farewell = "ended as asked"
        self._reporter.close()
        self._link.close()

    # --- one turn of the loop ----------------------------------------------------------------------

    def _turn(self, seconds: float) -> None:
        """Read, obey, advance; when the server is away, wait for it."""
        self._tick += 1
        connection = self._link.redis
        try:
            if self._returning:
                self._come_back(connection)
            self._intake.look_around(connection, often=self.phase == "waiting")
            self._intake.take(connection, _BLOCK_MS)
            self._desk.look(connection)
            self._advance(seconds)
            self._flush_rows(connection)
            self._link.back()
        except AWAY as error:
            self._returning = True
            self._link.lost(error)
        except redis.ResponseError as error:  # out of memory, disk full: nothing was lost, try again
            logger.warning("the server refuses: %s", error)
            self._stop.wait(_REFUSED_WAIT_S)

    def _come_back(self, connection: redis.Redis) -> None:
        """After the server was away: publish again what it may have lost."""
        if connection.exists(self.keys.config, self.keys.weights) != 2:
            logger.warning("the server came back without its data: publishing again")
            self._unpublished = True
        self._intake.start_over()
        self._returning = False

    # --- weights, rows, state ----------------------------------------------------------------------

    def _prepare_weights(self) -> None:
        """Make the agent's weights the newest ones under the present model id."""
        self._publisher.prepare(self.model_id, self.agent.updates, self.agent.export_weights())
        self._unpublished = True

    def _publish(self) -> None:
        """Send the newest weights with everybody's grants."""
        sessions = self._intake.sessions
        grants = {name: session.grant(sessions.bytes_ahead) for name, session in sessions.by_client.items()}
        with self.monitor_timing(self._timings["publish"]):
            self._publisher.publish(self._link.redis, grants)
        self._unpublished = False

    def _flush_rows(self, connection: redis.Redis) -> None:
        """Send rows of the curves; they are named by attempt and update, so twice does no harm."""
        sent = len(self._rows)  # the writing thread may add more meanwhile
        if not sent:
            return
        pipeline = connection.pipeline(transaction=False)
        for row in self._rows[:sent]:
            pipeline.xadd(
                self.keys.metrics, {ROW_FIELD: row.to_json()}, maxlen=STREAM_LENGTH, approximate=True
            )
        pipeline.execute()
        del self._rows[:sent]

    def _info(
        self, kind: str, score: float | None, model_id: int, update: int, resumable: bool
    ) -> CheckpointInfo:
        return CheckpointInfo(
            run_id=self.run_folder.run_id,
            attempt=self.attempt,
            model_id=model_id,
            update=update,
            env_steps=self.env_steps,
            episodes=self.episodes,
            algorithm=self.settings.algorithm,
            env_id=self.settings.env.id,
            spaces=self.spaces.to_json(),
            policy=self.agent.policy_spec(),
            kind=kind,
            score=score,
            resumable=resumable,
        )

    def _saved(self, info: CheckpointInfo, path: Path) -> None:
        """Put a marker on the curves; called by the writing thread."""
        self._rows.append(
            CheckpointRow(
                run_id=info.run_id,
                attempt=info.attempt,
                update=info.update,
                env_steps=info.env_steps,
                episodes=info.episodes,
                model_id=info.model_id,
                time=info.created,
                saved=info.kind,
                path=path.relative_to(self.run_folder.root).as_posix(),
            )
        )

    def _state(self) -> NodeState:
        now = time.monotonic()
        rejected = self._intake.sessions.rejected_by_client()
        total: dict[str, int] = {}
        for counts in rejected.values():
            for reason, count in counts.items():
                total[reason] = total.get(reason, 0) + count
        saved = self._desk.last_current
        return NodeState(
            name=self.name,
            instance=self._instance,
            tick=self._tick,
            phase="saving" if self._desk.saving and self.phase == "stopping" else self.phase,
            detail=self.detail,
            run_id=self.run_folder.run_id,
            attempt=self.attempt,
            model_id=self.model_id,
            env_steps=self.env_steps,
            updates=self.agent.updates,
            episodes=self.episodes,
            env_steps_per_s=round(self._rates["env_steps"].update(self.env_steps, now), 1),
            updates_per_s=round(self._rates["updates"].update(self.agent.updates, now), 2),
            checkpoint_env_steps=None if saved is None else saved.env_steps,
            checkpoint_time=None if saved is None else saved.created,
            lost_chunks=self._intake.sessions.missing(),
            rejected=total,
            rejected_by_client=rejected,
            timings_s={name: timing.last_s for name, timing in self._timings.items()},
            stop_reached=self.goal_reached,
            farewell=self._farewell,
        )
