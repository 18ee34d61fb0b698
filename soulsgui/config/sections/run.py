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
        "then go by training episodes alone, where chance has a part.",
        unit="updates",
        effect=Effect.NOW,
    )
    episodes: Annotated[int, Field(ge=1, le=10_000)] = setting(
        10,
        "Episodes of each evaluation; they begin from the same seeds every time, unless a client plays them "
        "because the server can't make the environment.",
        unit="episodes",
        effect=Effect.NOW,
    )
    max_steps: Annotated[int, Field(ge=1, le=1_000_000_000)] = setting(
        10_000,
        "Steps after which a greedy episode is cut where the environment sets no limit (Gymnasium's "
        "`max_episode_steps`): a policy that walks in circles would never end it.",
        unit="steps",
        to_clients=True,
    )
    best_by: Literal["auto", "evaluation", "training"] = setting(
        "auto",
        "What the best model is chosen by: the mean return of its evaluation, or that of `stop.window` "
        "training episodes, most of which it played; `auto` takes the evaluation where there are any.",
    )


class CentralSettings(Section, to_clients=True):
    """Central inference, with `inference: server`: who chooses the actions of clients without a policy."""

    inference_servers: Annotated[int, Field(ge=1, le=64)] = setting(
        1, "Inference servers; each has its share of the clients.", unit="processes"
    )
    inference_batchsize: Annotated[int, Field(ge=1, le=65_536)] = setting(
        4,
        "Environments that actions are chosen for at once, at most (the requests of a client stay together). "
        "Fewer, where nobody else asks.",
        unit="environments",
    )
    inference_delay: Annotated[float, Field(ge=0, le=2)] = setting(
        0.1,
        "How long a batch waits for the other clients, from its first request on. It does not wait once all "
        "have asked who asked as lately as that.",
        unit="s",
    )
    broadcast_period: Annotated[float, Field(ge=0, le=3600)] = setting(
        2.5,
        "Least time between two changes of the weights that choose actions; the newest ones are taken.",
        unit="s",
    )
    inference_device: Literal["auto", "cpu", "cuda"] = setting(
        "auto",
        "Where inference servers compute networks that need torch: `cuda` on a GPU, `cpu` never; `auto` "
        "takes a GPU, where there is one. All others are computed on the CPU, which is quicker for them.",
        effect=Effect.RESUME,
    )


class PublishSettings(Section):
    """How often new weights go to the clients."""

    min_seconds: Annotated[float, Field(gt=0, le=3600)] = setting(
        0.02,
        "Least time between two publishes of an asynchronous algorithm; they are no more frequent than its "
        "`max_policy_lag` asks for, nor than the size of the weights allows. A synchronous one publishes "
        "after each round.",
        unit="s",
    )


class StopSettings(Section, effect=Effect.RESUME):
    """When a run has reached its goal.

    With neither goal set it goes on until it is stopped.
    """

    mean_return: float | None = setting(
        None, "Stop when the mean return reaches this: of what, `stop.judged_by` says."
    )
    judged_by: Literal["training", "evaluation"] = setting(
        "training",
        "Whose mean return has to reach `stop.mean_return`: that of the last `stop.window` finished training "
        "episodes, or that of one evaluation (`evaluation.every_updates`). Where training episodes carry "
        "exploration, an evaluation knows sooner what was learned. Greedy episodes of the newest weights, "
        f"{LEAST_TO_CONFIRM} to {MOST_TO_CONFIRM} as it takes, have to confirm either, while the training "
        "goes on. Where nobody can play them, neither the server nor a client, training alone decides. Where "
        "invited clients play among others, none decides alone: of training episodes the median of the means "
        "by client counts (the lower of two), and an evaluation that a client plays only confirms.",
    )
    env_steps: Annotated[int | None, Field(ge=1)] = setting(
        None, "Stop after this many environment steps were trained on.", unit="steps"
    )
    window: Annotated[int, Field(ge=1, le=100_000)] = setting(
        20,
        "Training episodes over which a mean return is taken, for the goal, the best model and the display.",
        unit="episodes",
    )


class CheckpointSettings(Section, effect=Effect.RESUME):
    """How often the training is saved."""

    every_updates: Annotated[int, Field(ge=1, le=1_000_000)] = setting(
        10,
        "Updates between two checkpoints: rounds of PPO, gradient steps of DQN. A crash costs at most the "
        "work since the last one.",
        unit="updates",
    )
    history_minutes: Annotated[float | None, Field(gt=0)] = setting(
        10.0,
        "Minutes between two checkpoints that are kept in the history of the run, beside the newest ones; "
        "empty: not by time.",
        unit="minutes",
    )
    history_updates: Annotated[int | None, Field(ge=1)] = setting(
        None, "The same in updates, whichever comes first; empty: not by updates.", unit="updates"
    )
    history_kept: Annotated[int, Field(ge=2, le=10_000)] = setting(
        100,
        "Most checkpoints in the history, beside the pinned ones: of more, those are removed that stand "
        "closest to others.",
    )
    with_buffer: bool = setting(
        False,
        "Save the replay memory with each regular checkpoint, so that a run that goes on learns at once; it "
        "may be large. A quicksave has it when that is asked for; without, a crashed run goes on from the "
        "regular checkpoint.",
    )


class TelemetrySettings(Section, effect=Effect.RESUME):
    """What is recorded beside the training."""

    figure_every_episodes: Annotated[int, Field(ge=1)] = setting(
        1000,
        "Episodes between two drawings of telemetry.png and telemetry.json; both are also written at "
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
        "Write the run for Weights & Biases: `offline` into its folder, where `wandb sync` finds it, or "
        "`online`; needs the package wandb.",
    )
    wandb_project: str = setting("soulsgui", "Project of W&B that runs belong to.", min_length=1)
    resources_every_s: Annotated[float, Field(ge=0, le=3600)] = setting(
        15.0,
        "Time between two measurements of what services, network, disk and GPUs of the server use; they are "
        "curves of the run. 0: none.",
        unit="s",
    )
    metrics: dict[str, Any] = setting(
        {},
        "Further numbers of each episode, by name: a key (`return`, `length`, `seconds`, or one of the "
        "environment's info), or a map such as `{key: boss_hp, compare: <=, value: 0, window: 50}` (also "
        "over: last, sum, mean, max or min; scale; offset).",
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


_EMPTY = "empty: only numbers that are not finite."


class GuardSettings(Section, effect=Effect.RESUME):
    """When training has diverged, and is taken back.

    What diverged is not published, and the last checkpoint takes its place.
    """

    max_loss: Annotated[float | None, Field(gt=0)] = setting(
        1e10, f"Largest absolute value of a loss; {_EMPTY} Rewards of a million need more."
    )
    max_grad_norm: Annotated[float | None, Field(gt=0)] = setting(
        1e10, f"Largest length of a gradient before it is shortened; {_EMPTY}"
    )
    max_q_value: Annotated[float | None, Field(gt=0)] = setting(
        1e8, f"Largest absolute mean of the values of actions, or of their targets; {_EMPTY}"
    )
    max_kl: Annotated[float | None, Field(gt=0)] = setting(
        100.0, f"Largest divergence of a policy from the one before its update; {_EMPTY}"
    )
    max_restores: Annotated[int, Field(ge=0, le=100)] = setting(
        3,
        "How often in a row the training goes on from its last checkpoint after it has diverged; then the "
        "run is ended. A checkpoint behind the place where it diverged begins the count anew.",
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
    kwargs: dict[str, Any] = setting({}, "Keyword arguments the environment is made with.", to_clients=True)
    wrappers: tuple[str | dict[str, dict[str, Any]], ...] = setting(
        (),
        "Wrappers around the environment, innermost first: a name from gymnasium.wrappers or "
        "`module:Class`; arguments as `{name: {argument: value}}`.",
        to_clients=True,
    )
    spaces: Literal["auto", "server"] = setting(
        "auto",
        "Where it is found out what the environment shows and takes: on the server; or, with `auto`, where "
        "its module is not installed there and `clients.local` is 0, from the first client that joins.",
    )
    num_envs: Annotated[int, Field(ge=1, le=MAX_NUM_ENVS)] = setting(
        4, "Environments that each client steps side by side.", to_clients=True
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
