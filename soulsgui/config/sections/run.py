"""Settings of a run: what it publishes, saves and records, and when it ends."""

from typing import Literal

from soulsgui.config.declaring import Effect, Section, setting
from soulsgui.config.sections.evaluation import LEAST_TO_CONFIRM, MOST_TO_CONFIRM


class PublishSettings(Section):
    """How often new weights go to the clients."""

    min_seconds: float = setting(
        0.02,
        "Least time between two publishes of an asynchronous algorithm; they are no more frequent than its "
        "`max_policy_lag` asks for, nor than the size of the weights allows. A synchronous one publishes "
        "after each round.",
        unit="s",
        gt=0,
        le=3600,
    )


class StopSettings(Section):
    """When a run has reached its goal. With neither goal set it goes on until it is stopped."""

    mean_return: float | None = setting(
        None,
        "Stop when the mean return reaches this: of what, `stop.judged_by` says.",
        effect=Effect.RESUME,
    )
    judged_by: Literal["training", "evaluation"] = setting(
        "training",
        "Whose mean return has to reach `stop.mean_return`: that of the last `stop.window` finished training "
        "episodes, or that of one evaluation (`evaluation.every_updates`). Where training episodes carry "
        "exploration, an evaluation knows sooner what was learned. Greedy episodes of the newest weights, "
        f"{LEAST_TO_CONFIRM} to {MOST_TO_CONFIRM} as it takes, have to confirm either, while the training "
        "goes on. Where nobody can play them, neither the server nor a client, training alone decides.",
        effect=Effect.RESUME,
    )
    env_steps: int | None = setting(
        None,
        "Stop after this many environment steps were trained on.",
        effect=Effect.RESUME,
        unit="steps",
        ge=1,
    )
    window: int = setting(
        20,
        "Training episodes over which a mean return is taken, for the goal, the best model and the display.",
        effect=Effect.RESUME,
        unit="episodes",
        ge=1,
        le=100_000,
    )


class CheckpointSettings(Section):
    """How often the state of the training is saved."""

    every_updates: int = setting(
        10,
        "Updates between two checkpoints: rounds of PPO, gradient steps of DQN. A crash costs at most the "
        "work since the last one.",
        effect=Effect.RESUME,
        unit="updates",
        ge=1,
        le=1_000_000,
    )
    with_buffer: bool = setting(
        False,
        "Save the replay memory with each regular checkpoint, so that a run that goes on learns at once; it "
        "may be large. A quicksave has it when that is asked for.",
        effect=Effect.RESUME,
    )


class TelemetrySettings(Section):
    """What is recorded beside the training."""

    figure_every_episodes: int = setting(
        1000,
        "Episodes between two drawings of telemetry.png and telemetry.json; both are also written at "
        "the end of a run.",
        effect=Effect.RESUME,
        unit="episodes",
        ge=1,
    )
