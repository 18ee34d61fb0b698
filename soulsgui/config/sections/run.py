"""Settings of a run: what it publishes, saves, evaluates and records, when it diverged and when it ends."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from soulsgui.config.declaring import Effect, Section, setting
from soulsgui.config.metrics import read_metrics

EVERY = {"ppo": 10, "dqn": 5_000, "sac": 5_000, "vtrace": 500}
"""Updates between two evaluations of each algorithm, where nothing else is set."""

MAX_NUM_ENVS = 4096
"""Most environments that one client steps side by side: who claims more is refused."""

LEAST_TO_CONFIRM, MOST_TO_CONFIRM = 20, 100
"""Greedy episodes that say whether a goal is reached: as many as it takes."""


def settles(returns: Sequence[float], goal: float) -> bool:
    """Whether returns say on which side of a goal a policy is: three standard errors away, or by number.

    Args:
        returns: Return of each greedy episode, at least one.
        goal: Mean return to reach.
    """
    count = len(returns)
    if not LEAST_TO_CONFIRM <= count < MOST_TO_CONFIRM:
        return count >= MOST_TO_CONFIRM
    mean = sum(returns) / count
    variance = sum((one - mean) * (one - mean) for one in returns) / (count - 1)
    return abs(mean - goal) >= 3 * math.sqrt(variance / count)


class EvaluationSettings(Section):
    """Greedy episodes during the training.

    A process of their own (the evaluator) plays them. Where the environment can't be made on the server,
    algorithms whose clients sample freely (dqn, sac, vtrace) ask one client at a time to play them.
    """

    every_updates: Annotated[int | None, Field(ge=0, le=1_000_000_000)] = setting(
        None,
        "Updates between two evaluations. Empty: "
        + ", ".join(f"{every} for {algorithm}" for algorithm, every in EVERY.items())
        + ", and never more than a tenth of the time. 0 switches evaluations off: goal and best model "
        "are then judged by training episodes only, which are partly random.",
        unit="updates",
        effect=Effect.NOW,
    )
    episodes: Annotated[int, Field(ge=1, le=10_000)] = setting(
        10,
        "Episodes of each evaluation; they start from the same seeds every time, unless a client plays "
        "them because the server can't create the environment.",
        unit="episodes",
        effect=Effect.NOW,
    )
    max_steps: Annotated[int, Field(ge=1, le=1_000_000_000)] = setting(
        10_000,
        "Steps after which a greedy episode is cut off if the environment sets no limit (Gymnasium's "
        "`max_episode_steps`): otherwise a policy that walks in circles would never finish.",
        unit="steps",
        to_clients=True,
    )
    best_by: Literal["auto", "evaluation", "training"] = setting(
        "auto",
        "How the best model is chosen: by the mean return of its evaluation, or by that of `stop.window` "
        "training episodes, most of which it played; `auto` uses evaluations if there are any.",
    )


class CentralSettings(Section, to_clients=True):
    """Central inference, with `inference: server`: who chooses the actions of clients without a policy."""

    inference_servers: Annotated[int, Field(ge=1, le=64)] = setting(
        1, "Number of inference servers; each serves a part of the clients.", unit="processes"
    )
    inference_batchsize: Annotated[int, Field(ge=1, le=65_536)] = setting(
        4,
        "Largest number of environments in a batch (the environments of a client stay together). Batches "
        "are smaller if no other client asks.",
        unit="environments",
    )
    inference_delay: Annotated[float, Field(ge=0, le=2)] = setting(
        0.1,
        "How long a batch waits for other clients after its first request. It does not wait once all "
        "recently active clients have asked.",
        unit="s",
    )
    broadcast_period: Annotated[float, Field(ge=0, le=3600)] = setting(
        2.5,
        "Shortest time between two updates of the weights that choose actions; the newest weights are used.",
        unit="s",
    )
    inference_device: Literal["auto", "cpu", "cuda"] = setting(
        "auto",
        "Where inference servers compute networks that need torch: `cuda` on a GPU, `cpu` on the CPU; "
        "`auto` uses a GPU if there is one. All others run on the CPU, which is faster for them.",
        effect=Effect.RESUME,
    )


class PublishSettings(Section):
    """How often new weights go to the clients."""

    min_seconds: Annotated[float, Field(gt=0, le=3600)] = setting(
        0.02,
        "Shortest time between two publishes of an asynchronous algorithm; it publishes no more often than "
        "its `max_policy_lag` needs and the size of the weights allows. A synchronous algorithm publishes "
        "after each round.",
        unit="s",
    )


class StopSettings(Section, effect=Effect.RESUME):
    """When a run has reached its goal.

    With neither goal set it goes on until it is stopped.
    """

    mean_return: float | None = setting(
        None, "Stop when the mean return reaches this; `stop.judged_by` says which mean."
    )
    judged_by: Literal["training", "evaluation"] = setting(
        "training",
        "Which mean return has to reach `stop.mean_return`: that of the last `stop.window` finished "
        "training episodes, or that of one evaluation (`evaluation.every_updates`). If training episodes "
        "include exploration, an evaluation shows earlier what was learned. Greedy episodes of the newest "
        f"weights, {LEAST_TO_CONFIRM} to {MOST_TO_CONFIRM} as needed, have to confirm either, while "
        "training continues. If neither the server nor a client can play them, training episodes alone "
        "decide. If invited clients play, no client decides alone: for training episodes, the median of "
        "the clients' mean returns counts (the lower of two), and an evaluation played by a client only "
        "confirms.",
    )
    env_steps: Annotated[int | None, Field(ge=1)] = setting(
        None, "Stop after training on this many environment steps.", unit="steps"
    )
    window: Annotated[int, Field(ge=1, le=100_000)] = setting(
        20,
        "Number of training episodes in the mean return, for the goal, the best model and the display.",
        unit="episodes",
    )


class CheckpointSettings(Section, effect=Effect.RESUME):
    """How often the training is saved."""

    every_updates: Annotated[int, Field(ge=1, le=1_000_000)] = setting(
        10,
        "Updates between two checkpoints: rounds of PPO, gradient steps of DQN. A crash loses at most the "
        "work since the last one.",
        unit="updates",
    )
    history_minutes: Annotated[float | None, Field(gt=0)] = setting(
        10.0,
        "Minutes between two checkpoints that are kept in the history of the run, in addition to the "
        "newest ones; empty: not by time.",
        unit="minutes",
    )
    history_updates: Annotated[int | None, Field(ge=1)] = setting(
        None,
        "Updates between two checkpoints that are kept in the history of the run, if that comes before "
        "`checkpoint.history_minutes`; empty: not by updates.",
        unit="updates",
    )
    history_kept: Annotated[int, Field(ge=2, le=10_000)] = setting(
        100,
        "Largest number of checkpoints in the history, not counting pinned ones: if there are more, those "
        "closest to others are removed.",
    )
    with_buffer: bool = setting(
        False,
        "Save the replay memory with each regular checkpoint, so that a resumed run learns at once; it may "
        "be large. A quicksave includes it on request; if it does not, a crashed run continues from the "
        "regular checkpoint.",
    )


class TelemetrySettings(Section, effect=Effect.RESUME):
    """What is recorded during the training."""

    figure_every_episodes: Annotated[int, Field(ge=1)] = setting(
        1000,
        "Episodes between two updates of telemetry.png and telemetry.json; both are also written at "
        "the end of a run.",
        unit="episodes",
    )
    tensorboard: bool = setting(
        False,
        "Write event files for TensorBoard into the folder `tensorboard` of the run; needs the package "
        "tensorboard.",
    )

    wandb: Literal["off", "offline", "online"] = setting(
        "off",
        "Record the run with Weights & Biases: `offline` writes into its folder, for `wandb sync`, or "
        "`online`; needs the package wandb.",
    )
    wandb_project: str = setting("soulsgui", "W&B project of the runs.", min_length=1)
    resources_every_s: Annotated[float, Field(ge=0, le=3600)] = setting(
        15.0,
        "Time between two measurements of the resources that services, network, disk and GPUs of the "
        "server use, shown as curves of the run. 0: none.",
        unit="s",
    )
    metrics: dict[str, Any] = setting(
        {},
        "More numbers to record for each episode, by name: a key (`return`, `length`, `seconds`, or one of "
        "the environment's info), or a map such as `{key: boss_hp, compare: <=, value: 0, window: 50}` "
        "(also over: last, sum, mean, max or min; scale; offset).",
        effect=Effect.NEW_RUN,
        to_clients=True,
    )

    @field_validator("metrics")
    @classmethod
    def _describe_metrics(cls, value: dict[str, Any]) -> dict[str, Any]:
        read_metrics(value)
        return value

    @property
    def sinks(self) -> tuple[str, ...]:
        """Names of the sinks that a run has, as of the settings that switch them on."""
        wanted = {"tensorboard": self.tensorboard, "wandb": self.wandb != "off"}
        return tuple(name for name, on in wanted.items() if on)


_EMPTY = "empty: only checks for numbers that are not finite."


class GuardSettings(Section, effect=Effect.RESUME):
    """When training has diverged, and goes back to a checkpoint.

    What diverged is not published, and the last checkpoint takes its place.
    """

    max_loss: Annotated[float | None, Field(gt=0)] = setting(
        1e10, f"Largest absolute value of a loss; {_EMPTY} Rewards of a million need more."
    )
    max_grad_norm: Annotated[float | None, Field(gt=0)] = setting(
        1e10, f"Largest norm of a gradient before it is shortened; {_EMPTY}"
    )
    max_q_value: Annotated[float | None, Field(gt=0)] = setting(
        1e8, f"Largest absolute mean of action values, or of their targets; {_EMPTY}"
    )
    max_kl: Annotated[float | None, Field(gt=0)] = setting(
        100.0, f"Largest divergence between the policies before and after an update; {_EMPTY}"
    )
    max_restores: Annotated[int, Field(ge=0, le=100)] = setting(
        3,
        "How often in a row the training continues from its last checkpoint after it has diverged; then "
        "the run is ended. A checkpoint after the point where it diverged resets the count.",
        unit="restores",
    )


_WRAPPER = "a wrapper is a name or {name: {argument: value}}, each an entry of its own"


def _only_json(value: Any) -> Any:
    """Refuse what JSON can't carry to the clients: dates, binary data, numbers that are not finite."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("should have words as keys")
        parts: Iterable[Any] = value.values()
    elif isinstance(value, (list, tuple)):
        parts = value
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"should hold finite numbers, not {value}")
    elif value is None or isinstance(value, (bool, int, float, str)):
        return value
    else:
        raise ValueError(f"should hold numbers, words, lists and maps, not a {type(value).__name__}")
    for part in parts:
        _only_json(part)
    return value


class EnvSettings(Section):
    """What the clients play."""

    id: str = setting(
        "CartPole-v1",
        "Gymnasium id of the environment, or `module:Env-v0` to import a module that registers it.",
        to_clients=True,
        min_length=1,
    )
    kwargs: dict[str, Any] = setting({}, "Keyword arguments for the environment.", to_clients=True)
    wrappers: tuple[str | dict[str, dict[str, Any]], ...] = setting(
        (),
        "Wrappers around the environment, innermost first: a name from gymnasium.wrappers or "
        "`module:Class`; arguments as `{name: {argument: value}}`.",
        to_clients=True,
    )
    spaces: Literal["auto", "server"] = setting(
        "auto",
        "Where the observation and action spaces are read from: from the environment on the server; or, "
        "with `auto`, from the first client that joins if the module is not installed on the server and "
        "`clients.local` is 0.",
    )
    num_envs: Annotated[int, Field(ge=1, le=MAX_NUM_ENVS)] = setting(
        4, "Number of environments that each client steps in parallel.", to_clients=True
    )

    @field_validator("kwargs", "wrappers")
    @classmethod
    def _no_more_than_json(cls, value: Any) -> Any:
        return _only_json(value)

    @field_validator("wrappers", mode="before")
    @classmethod
    def _wrappers_in_words(cls, value: Any) -> Any:
        """Say what a wrapper looks like; pydantic would complain of each form it could have had."""
        for entry in value if isinstance(value, (list, tuple)) else ():
            named = isinstance(entry, Mapping) and len(entry) == 1
            if not (isinstance(entry, str) or (named and isinstance(next(iter(entry.values())), Mapping))):
                raise ValueError(f"{_WRAPPER}, not {str(entry)[:80]}")
        return value
