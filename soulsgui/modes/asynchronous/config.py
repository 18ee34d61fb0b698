"""What the asynchronous trainer, its actors and its replay memory are told, loaded from and saved as YAML."""

from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from soulsgui.config.errors import nearest, reason_of
from soulsgui.errors import UsageError
from soulsgui.system import atomic_write

Interval = Annotated[int, Field(ge=1)]


class YamlConfig(BaseModel):
    """Fields that stand in a YAML file.

    Raises:
        UsageError: A field is mistaken.
    """

    model_config = ConfigDict(extra="forbid")

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            wrong = "; ".join(self._mistake(dict(one)) for one in error.errors())
            raise UsageError(f"{type(self).__name__} has mistakes: {wrong}.") from None

    @classmethod
    def _mistake(cls, found: dict[str, Any]) -> str:
        name = ".".join(map(str, found["loc"]))
        if found["type"] != "extra_forbidden":
            return f"{name} {reason_of(found)}"
        meant = nearest(name, cls.model_fields)
        return f"{name} is not one of its fields{f' (did you mean {meant}?)' if meant else ''}"

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a file; what it leaves out keeps its default.

        Raises:
            UsageError: It can't be read, or a field is mistaken.
        """
        try:
            read = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
            if not isinstance(read, dict):
                raise UsageError("it should hold fields with their values")
            return cls(**{str(name): value for name, value in read.items()})
        except UsageError as error:
            raise UsageError(f"{path}: {error.message}") from None
        except (OSError, UnicodeError, yaml.YAMLError) as error:
            raise UsageError(f"{path} can't be read: {error}") from error

    def save(self, path: Path | str) -> None:
        """Write all fields into a file."""
        atomic_write(Path(path), yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False).encode())


class AsyncTrainerConfig(YamlConfig):
    """When the trainer does what; intervals are counted in optimisation steps (updates).

    Attributes:
        max_opts: Where the training ends.
        model_dir: Where models are saved: `best`, one folder per `save_interval`, and `last`, that of the
            end; None saves none.
        eval_interval: Between two evaluations.
        flush_record_interval: Between two flushes of the recorder.
        record_compute_cost_interval: Between two records of rates: samples and updates a second.
        record_agent_info_interval: Between two records of what the agent tells: losses and their like.
        save_interval: Between two saved models.
        sync_interval: Between two models that are sent to the actors.
        warmup_period: Environment steps before the first update.
    """

    max_opts: Interval = 10
    model_dir: Path | None = None
    eval_interval: Interval = 5_000
    flush_record_interval: Interval = 5_000
    record_compute_cost_interval: Interval = 5_000
    record_agent_info_interval: Interval = 5_000
    save_interval: Interval = 50_000
    sync_interval: Annotated[int, Field(ge=1, le=100_000)] = 100
    warmup_period: Interval = 10_000

    def settings(self) -> dict[str, Any]:
        """Return the settings of an off-policy algorithm (below its name) that these stand for."""
        # A quarter of the bound is for the age of the weights: see `training.learners.limits`.
        return {"learning_starts": self.warmup_period, "max_policy_lag": max(30, 4 * self.sync_interval)}


class PerConfig(YamlConfig):
    """Prioritised replay (arXiv 1511.05952).

    Attributes:
        alpha: How much surprise counts.
        beta_0, beta_final: How much of the bias is undone, at first and from `n_opts_final` steps on.
    """

    alpha: Annotated[float, Field(ge=0, le=1)] = 0.6
    beta_0: Annotated[float, Field(ge=0, le=1)] = 0.4
    beta_final: Annotated[float, Field(ge=0, le=1)] = 1.0
    n_opts_final: Interval = 500_000


class ReplayBufferConfig(YamlConfig):
    """The replay memory.

    Attributes:
        capacity: Most transitions in it.
        per_config: How transitions are drawn; None: all alike.
    """

    capacity: Interval = 10_000
    per_config: PerConfig | None = None

    def settings(self, steps_per_opt: float) -> dict[str, Any]:
        """Return the settings below `dqn` (without priorities, also `sac`) that these stand for.

        Args:
            steps_per_opt: Environment steps that are made for each update.
        """
        per = self.per_config
        if per is None:
            return {"buffer_size": self.capacity}
        rises = {"schedule": "linear", "from": per.beta_0, "to": per.beta_final}
        return {
            "buffer_size": self.capacity,
            "replay": "prioritised",
            "priority_exponent": per.alpha,
            "priority_correction": rises | {"over": max(1, round(per.n_opts_final * steps_per_opt))},
        }


class SimpleStepProcessorConfig(YamlConfig):
    """How steps become transitions: the rewards of `n_step` of them are added up."""

    n_step: Interval = 1


class ActorManagerConfig(YamlConfig):
    """How actors send: at most `n_buffer` steps at once, and sooner rather than late."""

    n_buffer: Annotated[int, Field(ge=1, le=65_536)] = 100


def load_async_trainer_config(folder: Path | str) -> AsyncTrainerConfig:
    """Read `trainer.yaml` of a model's folder.

    Raises:
        UsageError: It can't be read, or a field is mistaken.
    """
    return AsyncTrainerConfig.load(Path(folder) / "trainer.yaml")


def load_replay_buffer_config(folder: Path | str) -> ReplayBufferConfig:
    """Read `replay_buffer.yaml` of a model's folder.

    Raises:
        UsageError: It can't be read, or a field is mistaken.
    """
    return ReplayBufferConfig.load(Path(folder) / "replay_buffer.yaml")
