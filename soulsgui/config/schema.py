"""Every setting of the program, declared once.

Each field carries its description, unit, range, the moment a change takes effect, whether clients
receive it, and whether it is secret. The form of the window, the comments of `config_d.yaml`, the
validation and the subset sent to clients are all read from here.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from soulsgui.config.declaring import Effect, Section, setting

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


Layers = Annotated[tuple[Annotated[int, Field(ge=1, le=65536)], ...], Field(max_length=8)]


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
    num_envs: int = setting(
        4, "Environments that each client steps side by side.", to_clients=True, ge=1, le=4096
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


class NetworkSettings(Section):
    """Shape of the networks."""

    hidden_sizes: Layers = setting(
        (64, 64), "Width of each hidden layer of the policy network, or of the Q-network."
    )
    value_hidden_sizes: Layers = setting((64, 64), "Width of each hidden layer of the value network.")
    activation: Literal["tanh", "relu"] = setting("tanh", "Activation between the layers.")
    policy_init_scale: float = setting(
        0.01,
        "Factor on the initial weights of the last policy layer; small values begin with a nearly "
        "uniform policy (arXiv 2006.05990, section 3.2).",
        gt=0,
        le=10,
    )


class NormalizeSettings(Section):
    """Scaling of what the networks see."""

    observations: bool = setting(
        True, "Scale observations by their running mean and standard deviation, as part of the agent."
    )
    clip: float = setting(
        10.0,
        "Normalised observations are limited to plus and minus this value.",
        unit="standard deviations",
        gt=0,
        le=1000,
    )


class PPOSettings(Section):
    """Proximal policy optimisation."""

    n_steps: int = setting(
        256,
        "Steps each environment contributes to a round.",
        unit="steps per environment",
        ge=1,
        le=1_000_000,
    )
    n_clients: int | None = setting(
        None,
        "Fewest clients needed to begin the first round; empty means `clients.local`, at least 1. "
        "Later rounds need one.",
        ge=1,
        le=10_000,
    )
    gamma: float = setting(
        0.99,
        "Discount of future rewards: the most important setting of all.",
        ge=0,
        le=1,
    )
    gae_lambda: float = setting(
        0.9,
        "Weight of longer returns in the advantage estimate: 0 trusts the value network, 1 the rewards.",
        ge=0,
        le=1,
    )
    epochs: int = setting(10, "Passes over the data of a round.", unit="passes", ge=1, le=1000)
    minibatch_size: int = setting(
        128,
        "Transitions per gradient step.",
        unit="transitions",
        ge=1,
        le=1_000_000,
    )
    learning_rate: float = setting(1e-3, "Step size of the optimiser (Adam).", gt=0, le=1)
    learning_rate_schedule: Literal["constant", "linear"] = setting(
        "constant",
        "`linear` lowers the learning rate to zero over `stop.env_steps`, which must then be set.",
    )
    clip: float = setting(
        0.2,
        "How far the probability ratio may move away from 1 before its gradient is cut off.",
        gt=0,
        le=10,
    )
    entropy_coef: float = setting(0.0, "Reward for an undecided policy; 0 switches it off.", ge=0, le=10)
    value_coef: float = setting(1.0, "Weight of the value loss.", gt=0, le=100)
    value_clip: float | None = setting(
        None,
        "Limit on the change of the value estimate per update; empty switches it off "
        "(arXiv 2006.05990 advises against it).",
        gt=0,
    )
    max_grad_norm: float = setting(0.5, "Gradients longer than this are shortened to it.", gt=0)
    normalize_advantage: bool = setting(
        True,
        "Scale advantages to mean 0 and deviation 1 over the whole round, once per pass.",
    )
    recompute_advantages: bool = setting(
        True, "Compute advantages anew before each pass instead of once per round."
    )
    target_kl: float | None = setting(
        None,
        "Stop the passes of a round early when the policy has moved this far; empty switches it off.",
        gt=0,
    )
    round_timeout: float = setting(
        30.0,
        "A client that has not delivered its share of a round by then is lost to it, as one that leaves, is "
        "paused or begins anew is at once; `ppo.lost_member` says what follows.",
        unit="s",
        gt=0,
        le=86_400,
    )
    lost_member: Literal["shrink", "wait", "redistribute", "stop"] = setting(
        "shrink",
        "What becomes of a round that loses a client: `shrink` trains with the rest, `wait` waits until it "
        "is back or somebody stops or forgets it, `redistribute` lets the others make the missing steps, by "
        "their speed, `stop` ends the run.",
    )
    balance: bool = setting(
        False,
        "Give fast clients more steps of a round and slow ones fewer, by their measured speed, so that all "
        "end at about the same time; their sum stays. With one of four clients four times slower this "
        "made 2.2 times the steps; it costs the repeatable curve of several clients. Quotas stay equal where "
        "the round would become shorter by less than a fifth.",
    )


class DQNSettings(Section):
    """Deep Q-learning: asynchronous, off-policy."""

    gamma: float = setting(0.99, "Discount of future rewards: the most important setting of all.", ge=0, le=1)
    learning_rate: float = setting(5e-4, "Step size of the optimiser (Adam).", gt=0, le=1)
    batch_size: int = setting(64, "Transitions per gradient step.", unit="transitions", ge=1, le=1_000_000)
    buffer_size: int = setting(
        100_000,
        "Transitions that are kept to learn from; the oldest give way.",
        unit="transitions",
        ge=100,
        le=100_000_000,
    )
    learning_starts: int = setting(
        1_000,
        "Transitions to collect before the first update.",
        unit="transitions",
        ge=1,
        le=100_000_000,
    )
    replay_ratio: float = setting(
        16.0,
        "How often each transition is drawn, on average: transitions drawn by transitions taken in. Above it "
        "the learner waits for samples, below it the clients wait for the learner.",
        gt=0,
        le=1000,
    )
    replay_ratio_tolerance: float = setting(
        0.1, "How far the replay ratio may stray before one side waits, as a part of it.", gt=0, le=1
    )
    double: bool = setting(
        True,
        "Choose the next action by the online network and value it by the target network (arXiv 1509.06461).",
    )
    loss: Literal["huber", "mse"] = setting(
        "huber",
        "Loss of the temporal difference: `huber` bounds the gradient of large errors, `mse` does not.",
    )
    target_interval: int = setting(
        100, "Updates between two moves of the target network.", unit="updates", ge=1, le=10_000_000
    )
    target_tau: float = setting(
        1.0,
        "How far each move takes the target network to the online one: 1 copies it, small values with "
        "`dqn.target_interval` 1 follow softly.",
        gt=0,
        le=1,
    )
    max_grad_norm: float = setting(10.0, "Gradients longer than this are shortened to it.", gt=0)
    epsilon_start: float = setting(
        1.0, "Probability of a random action at the beginning of the run.", ge=0, le=1
    )
    epsilon_end: float = setting(0.04, "Probability of a random action at last.", ge=0, le=1)
    epsilon_steps: int = setting(
        10_000,
        "Environment steps over which the probability of a random action goes down evenly.",
        unit="steps",
        ge=1,
    )
    max_model_delay: int = setting(
        50,
        "Samples of weights that were published longer ago than this are refused, and clients wait rather "
        "than make them.",
        unit="publishes",
        ge=1,
        le=10_000,
    )


class PublishSettings(Section):
    """How often new weights go to the clients."""

    min_seconds: float = setting(
        0.2,
        "Least time between two publishes of an asynchronous algorithm; a synchronous one publishes after "
        "each round.",
        unit="s",
        gt=0,
        le=3600,
    )


class StopSettings(Section):
    """When a run has reached its goal. With neither goal set it goes on until it is stopped."""

    mean_return: float | None = setting(
        None,
        "Stop when the mean return of the last `stop.window` finished training episodes reaches this.",
    )
    env_steps: int | None = setting(
        None, "Stop after this many environment steps were trained on.", unit="steps", ge=1
    )
    window: int = setting(
        20,
        "Episodes over which the mean return is taken, for the goal, the best model and the display.",
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
        unit="updates",
        ge=1,
        le=1_000_000,
    )


class ClientsSettings(Section):
    """The clients this server starts itself, and what it expects of all of them."""

    local: int = setting(
        2, "Clients that the server starts on its own machine.", unit="clients", ge=0, le=1024
    )
    min_versions: dict[str, str] = setting(
        {},
        "Oldest version of each package that a client may run, such as `{soulsgui: 0.2.0, soulsgym: 1.3}`; "
        "an older client is told what to update.",
        to_clients=True,
    )

    @field_validator("min_versions", mode="before")
    @classmethod
    def _versions_in_words(cls, value: Any) -> Any:
        """Take versions that look like numbers as what they mean."""
        if not isinstance(value, Mapping):
            return value
        for package, version in value.items():
            if isinstance(version, bool) or not re.match(r"\d", str(version)):
                raise ValueError(f"should name a version such as 1.2.3 for {package}, not {version}")
        return {package: str(version) for package, version in value.items()}


class ClientSettings(Section):
    """How a client samples."""

    segment_length: int = setting(
        256,
        "Longest piece of an episode that is sent as one segment.",
        unit="steps",
        to_clients=True,
        ge=1,
        le=65_536,
    )
    segment_seconds: float = setting(
        0.1,
        "Longest time an asynchronous algorithm's samples are held back to be sent together.",
        unit="s",
        to_clients=True,
        gt=0,
        le=60,
    )
    when_full: Literal["wait", "drop_oldest"] = setting(
        "wait",
        "What to do while the server takes no more samples: `wait` between two steps, or play on and drop "
        "the oldest ones (for games that can't wait). Rounds of PPO always wait.",
        to_clients=True,
    )
    buffer_bytes: int = setting(
        64 * 2**20,
        "Memory for samples that wait to be sent while the server is away or slow.",
        unit="bytes",
        to_clients=True,
        ge=2**16,
    )
    workers: int = setting(
        0,
        "Processes that a client spreads its environments over: they step at the same time, and one that "
        "hangs is mended without ending the client. 0 steps them in its own process, best for quick ones.",
        unit="processes",
        to_clients=True,
        ge=0,
        le=256,
    )
    step_seconds: float = setting(
        0.0,
        "Games in real time: a step begins so long after the one before, by a fixed clock; steps that come "
        "late are counted. 0 steps as fast as it goes.",
        unit="s",
        to_clients=True,
        ge=0,
        le=60,
    )
    step_delay: float = setting(
        0.0,
        "Pause before each step.",
        unit="s",
        to_clients=True,
        ge=0,
        le=60,
    )
    restart_hook: str = setting(
        "",
        "`module:function`, installed on the clients' computers: called without arguments before an "
        "environment that failed is made anew, for instance to start the game. It may take "
        "`client.hang_seconds`.",
        to_clients=True,
        pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$",
    )
    hang_seconds: float = setting(
        120.0,
        "An environment that takes longer to be made, to reset or to step hangs: its client is ended and "
        "started again.",
        unit="s",
        to_clients=True,
        gt=0,
        le=86_400,
    )
    min_steps_per_s: float = setting(
        0.0,
        "A client that samples more slowly than this for half a minute (or for `client.hang_seconds`, where "
        "that is less) makes its environment anew; 0 switches it off.",
        unit="steps/s",
        to_clients=True,
        ge=0,
    )
    max_memory: int | None = setting(
        None,
        "A client that uses more memory than this, with everything its environment started, is ended and "
        "started again; empty means half of its machine's.",
        unit="bytes",
        to_clients=True,
        ge=2**26,
    )


class RedisSettings(Section):
    """The server that carries everything between the processes."""

    host: str = setting(
        "127.0.0.1",
        "Address the server's own processes reach it at. Only addresses of this machine itself are accepted.",
        effect=Effect.RESTART_RUNNER,
        min_length=1,
    )
    lan: bool = setting(
        False,
        "Whether the server also listens on this machine's private addresses (home, office, VPN), where each "
        "computer needs an invitation of its own. Only with redis.tls is encrypted what is sent there.",
        effect=Effect.RESTART_RUNNER,
    )
    tls: bool = setting(
        False,
        "Whether everything that goes to and from the server is encrypted (TLS). The server makes itself a "
        "certificate once, and invitations name it: after a change, issue them anew.",
        effect=Effect.RESTART_RUNNER,
    )
    public: bool = setting(
        False,
        "Whether the server also listens on this machine's addresses that are not private. Needs redis.lan "
        "and redis.tls: nothing goes there unencrypted.",
        effect=Effect.RESTART_RUNNER,
    )
    port: int = setting(
        0,
        "Port the server listens on; 0 takes any free one and keeps to it.",
        effect=Effect.RESTART_RUNNER,
        ge=0,
        le=65_535,
    )
    binary: str = setting(
        "",
        "Path of the server program; empty looks for valkey-server, redis-server, then the packaged one.",
        effect=Effect.RESTART_RUNNER,
    )
    max_memory: int = setting(
        512 * 2**20,
        "Memory limit of the server; half of it is shared out to clients as credits.",
        effect=Effect.RESTART_RUNNER,
        unit="bytes",
        ge=2**24,
    )
    prefix: str = setting(
        "souls:",
        "First part of every key on the server.",
        effect=Effect.RESTART_RUNNER,
        pattern=r"^[A-Za-z0-9_.-]+:$",
    )


class TelemetrySettings(Section):
    """What is recorded beside the training."""

    figure_every_episodes: int = setting(
        1000,
        "Episodes between two drawings of telemetry.png and telemetry.json; both are also written at "
        "the end of a run.",
        unit="episodes",
        ge=1,
    )


class ControlSettings(Section):
    """The runner's control interface, on this machine only."""

    port: int = setting(
        0,
        "Port of the control interface; 0 takes any free one and keeps to it.",
        effect=Effect.RESTART_RUNNER,
        ge=0,
        le=65_535,
    )


class LoggingSettings(Section):
    """What the log files hold."""

    level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "Least important kind of message that is written.", to_clients=True
    )


class Settings(Section):
    """The whole configuration of a server and its runs."""

    env: EnvSettings = Field(default_factory=EnvSettings, description="What the clients play.")
    seed: int = setting(
        1, "Seed of all random numbers; the same seed and one client give the same curve.", ge=0, le=2**31 - 1
    )
    algorithm: Literal["ppo", "dqn"] = setting(
        "ppo",
        "Learning algorithm: ppo (synchronous, on-policy) or dqn (asynchronous, off-policy).",
        to_clients=True,
    )
    network: NetworkSettings = Field(default_factory=NetworkSettings, description="Shape of the networks.")
    normalize: NormalizeSettings = Field(
        default_factory=NormalizeSettings, description="Scaling of what the networks see."
    )
    ppo: PPOSettings = Field(default_factory=PPOSettings, description="Proximal policy optimisation.")
    dqn: DQNSettings = Field(default_factory=DQNSettings, description="Deep Q-learning.")
    publish: PublishSettings = Field(
        default_factory=PublishSettings, description="How often new weights go to the clients."
    )
    stop: StopSettings = Field(default_factory=StopSettings, description="When a run has reached its goal.")
    checkpoint: CheckpointSettings = Field(
        default_factory=CheckpointSettings, description="How often the training is saved."
    )
    clients: ClientsSettings = Field(
        default_factory=ClientsSettings, description="The clients this server starts itself."
    )
    client: ClientSettings = Field(default_factory=ClientSettings, description="How a client samples.")
    telemetry: TelemetrySettings = Field(
        default_factory=TelemetrySettings, description="What is recorded beside the training."
    )
    redis: RedisSettings = Field(
        default_factory=RedisSettings, description="The server between the processes."
    )
    control: ControlSettings = Field(
        default_factory=ControlSettings, description="The runner's control interface."
    )
    logging: LoggingSettings = Field(default_factory=LoggingSettings, description="What the logs hold.")

    @property
    def a_client_may_tell_the_spaces(self) -> bool:
        """Whether an environment that is not installed on the server may be described by a client."""
        return self.env.spaces == "auto" and self.clients.local == 0
