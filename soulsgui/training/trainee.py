"""What a training node is made of, and how that is saved and loaded."""

import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from soulsgui.config.like import ConfigLike, as_settings
from soulsgui.config.load import load_run_settings
from soulsgui.config.paths import RunFolder, default_folders
from soulsgui.config.schema import Settings
from soulsgui.errors import CheckpointError, CheckpointMisfitError, MemoryGoneError, ServiceError
from soulsgui.policies.schedules import Moment
from soulsgui.rl.agents.base import Agent
from soulsgui.rl.buffers.array_storage import IN_FILE
from soulsgui.system import atomic_write
from soulsgui.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from soulsgui.training.hardware import choose_device
from soulsgui.training.opening import find_spaces
from soulsgui.training.publisher import Standing
from soulsgui.wire.control import CheckpointKind
from soulsgui.wire.manifest import Manifest
from soulsgui.wire.messages.server_config import algorithm_name

logger = logging.getLogger(__name__)


class Trainee(ABC):
    """Settings, spaces, agent and counters of a run.

    Args:
        config: Settings, a dictionary or a namespace; what is not named keeps its default.
        run: The run's folder; None makes a new one in the default data folder.

    Raises:
        ConfigError: The configuration has mistakes.
        EnvironmentCheckError: The spaces are not known and the environment can't be made here.
    """

    def __init__(self, config: ConfigLike, run: RunFolder | None) -> None:
        self.settings: Settings = as_settings(config)
        name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        self.run_folder = run or RunFolder(default_folders().runs / name)
        self.run_folder.root.mkdir(parents=True, exist_ok=True)
        self.spaces = find_spaces(self.settings, self.run_folder)
        self.attempt = 0
        self.model_id = 0
        self.env_steps = 0
        self.episodes = 0
        self._high_water: dict[str, str] = {}
        self._came_from: Path | None = None
        self._make_agent()

    @property
    def device(self) -> str:
        """Where the networks live, as torch names it.

        Raises:
            HardwareError: GPUs are wanted, and there are too few.
        """
        settings, network = self.settings, self.settings.network
        widths = list(network.hidden_sizes)
        if settings.algorithm != "dqn":
            widths += network.value_hidden_sizes
        if network.recurrent != "none":
            widths.append(network.recurrent_size)
        wanted = settings.learner.device
        gpus = torch.cuda.device_count() if wanted != "cpu" else 0
        has_images = any(len(box.shape) >= 3 for _, box in self.spaces.observation.fields)
        return choose_device(wanted, gpus, has_images, widths, settings.learner.processes)

    @property
    def moment(self) -> Moment:
        """Where the run is: what schedules look at."""
        return Moment(self.env_steps, self.settings.stop.env_steps)

    @property
    @abstractmethod
    def agent(self) -> Agent:
        """The learner."""

    @abstractmethod
    def _make_agent(self) -> None:
        """Make a new agent for the settings and spaces."""

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

    def _take_up(self, path: Path, loaded: Checkpoint) -> None:
        """Continue from a checkpoint that was read.

        Raises:
            CheckpointError: It does not fit.
        """
        info = loaded.info
        if not info.resumable:
            raise CheckpointError(f"{path} holds weights alone.", "Resume from another checkpoint.")
        if info.spaces != self.spaces.to_json() or info.algorithm != self.settings.algorithm:
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
            try:
                self._load_memory(loaded.memory)
                self._load_pacing(loaded.state.get("pacing", {}))
            except MemoryGoneError as error:
                logger.warning("%s It is filled anew before the next update.", error.message)
        self.env_steps, self.episodes, self.model_id = info.env_steps, info.episodes, info.model_id
        self._high_water = dict(loaded.state["high_water"])
        self._came_from = path
        logger.info("going on from %s: %d steps, %d updates", path, info.env_steps, info.updates)

    def _weights_to_publish(self) -> dict[str, NDArray[Any]]:
        """Return the weights that clients and the evaluator get."""
        return self.agent.export_weights()

    def _weights_to_keep(self) -> dict[str, NDArray[Any]]:
        """Return the weights to act with that a checkpoint holds."""
        return self.agent.export_weights()

    def _memory_state(self) -> dict[str, NDArray[Any]]:
        """Return the state of the replay memory; nothing where there is none."""
        return {}

    def _load_memory(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue with a replay memory that was saved.

        Raises:
            CheckpointError: It does not fit this one, or there is none.
        """
        raise CheckpointError("The checkpoint holds a replay memory, which this algorithm has not.")

    def _pacing_state(self) -> dict[str, float]:
        """Return how far learner and clients are in step; nothing where they always are."""
        return {}

    def _load_pacing(self, state: Mapping[str, float]) -> None:  # noqa: B027 - most have nothing to load
        """Go on in step as `_pacing_state` told, with the memory of then.

        Args:
            state: Empty in checkpoints of earlier versions.
        """

    def load_config(self, path: Path) -> None:
        """Take the settings of a configuration file over, with a new agent; call it before `run`.

        Raises:
            ConfigError: The file is missing or has mistakes.
            EnvironmentCheckError: The spaces are not known and the environment can't be made here.
        """
        self.settings = load_run_settings(Path(path))
        self.spaces = find_spaces(self.settings, self.run_folder)
        self._make_agent()

    def save_config(self, path: Path) -> None:
        """Write the effective settings as JSON."""
        atomic_write(Path(path), json.dumps(self.settings.model_dump(mode="json"), indent=1).encode())

    def snapshot(
        self,
        kind: CheckpointKind = "current",
        score: float | None = None,
        note: str = "",
        buffer: bool = False,
    ) -> Checkpoint:
        """Return a checkpoint of this instant; nothing in it changes any more.

        Args:
            kind: Which one.
            score: Mean return.
            note: What the user says about it.
            buffer: Whether the replay memory is to be in it; it also is in regular ones where
                `checkpoint.with_buffer` says so.

        Raises:
            ServiceError: Numbers of the agent are not finite: it is of no more use.
        """
        tensors, meta = self.agent.state()
        spoilt = sorted(name for name, array in tensors.items() if not np.isfinite(array).all())
        if spoilt:
            raise ServiceError(
                f"The agent is not saved: not all numbers are finite in {', '.join(spoilt)}.",
                "Resume from a checkpoint with a lower learning rate, and check the size of the rewards.",
            )
        with_memory = buffer or (kind == "current" and self.settings.checkpoint.with_buffer)
        memory = self._memory_state() if with_memory else {}
        info = self._info(kind, score, self._standing(), True)
        return Checkpoint(
            info.model_copy(update={"memory_in_file": IN_FILE in memory}),
            self._weights_to_keep(),
            tensors,
            {"agent": meta, "high_water": dict(self._high_water), "pacing": self._pacing_state()},
            note,
            memory,
        )

    def _standing(self) -> Standing:
        return Standing(self.model_id, self.agent.updates, self.env_steps, self.episodes)

    def _info(
        self, kind: CheckpointKind, score: float | None, standing: Standing, resumable: bool
    ) -> Manifest:
        return Manifest(
            run_id=self.run_folder.run_id,
            attempt=self.attempt,
            model_id=standing.model_id,
            updates=standing.update,
            env_steps=standing.env_steps,
            episodes=standing.episodes,
            algorithm=self.settings.algorithm,
            agent=self.settings.agent,
            env_id=self.settings.env.id,
            spaces=self.spaces.to_json(),
            policy=self.agent.policy_spec(),
            kind=kind,
            score=score,
            scored_by="" if score is None else "training",
            created=time.time(),
            resumable=resumable,
        )
