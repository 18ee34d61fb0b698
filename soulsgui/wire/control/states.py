"""Run, services, clients, server, and what happens to them, as the control API tells it."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.neighbour import Held
from soulsgui.wire.messages.node import NodePhase, Staleness
from soulsgui.wire.versions import Lack

RunState = Literal[
    "none", "starting", "waiting", "running", "paused", "saving", "finished", "stopped", "frozen", "failed"
]
ServiceState = Literal["stopped", "starting", "running", "stopping", "backoff", "failed"]
CheckpointKind = Literal["current", "best", "manual"]
ScoredBy = Literal["", "training", "evaluation"]
"""What the score of a checkpoint is the mean return of: the last training episodes, or one evaluation."""


class ErrorCode(StrEnum):
    """Why a command was refused."""

    BAD_REQUEST = "bad_request"
    BAD_CONFIG = "bad_config"
    NOT_FOUND = "not_found"
    NOT_NOW = "not_now"
    NOT_ALLOWED = "not_allowed"
    NO_ANSWER = "no_answer"
    FAILED = "failed"


class ApiError(Message):
    """What went wrong, in words, and what to do."""

    code: ErrorCode
    message: str
    remedy: str = ""


class RunStatus(Message):
    """The active run, or the last one.

    Attributes:
        agent: The agent of the DQN family (`dqn.agent`); empty for other algorithms.
        learns_on: What the trainer computes on, in words, such as "4 GPUs"; empty while that is not known.
        learner_waits: Part of the last seconds in which the trainer waited for samples, 0 to 1; None while
            that is not known.
        clients_wait: Part of the last seconds in which samples waited for the trainer, 0 to 1; likewise.
        best_mean_return: That of the best model: over `goal_window` training episodes, or of its evaluation
            where evaluations rank the models.
        evaluation_return: Mean return of the newest evaluation; None before the first.
        goal_window: Finished training episodes that `mean_return` is over (`stop.window`); 0 while unknown.
        goal_judged_by: Whose mean return has to reach `goal_return` (`stop.judged_by`): that of an
            evaluation (when a run has ended because one did, `mean_return` is its), that of training alone,
            where nobody can evaluate, or of both: greedy episodes confirm what training reached.
        wished_pause: Whether it is to rest (`run.pause`), until it is told to go on.
    """

    id: str = ""
    name: str = ""
    dir: str = ""
    state: RunState = "none"
    detail: str = ""
    env_id: str = ""
    algorithm: str = ""
    agent: str = ""
    seed: int = 0
    attempt: int = 0
    model_id: int = -1
    env_steps: int = 0
    updates: int = 0
    episodes: int = 0
    mean_return: float | None = None
    best_mean_return: float | None = None
    evaluation_return: float | None = None
    goal_return: float | None = None
    goal_env_steps: int | None = None
    goal_window: int = 0
    goal_judged_by: Literal["training", "evaluation", "both"] = "training"
    env_steps_per_s: float = 0.0
    updates_per_s: float = 0.0
    policy_lag: float = 0.0
    learns_on: str = ""
    learner_waits: float | None = None
    clients_wait: float | None = None
    seconds: float = 0.0
    reached: Literal["", "mean_return", "env_steps", "stopped", "failed"] = ""
    checkpoint_env_steps: int | None = None
    checkpoint_age_s: float | None = None
    rejected: dict[str, int] = Field(default_factory=dict)
    lost_chunks: int = 0
    staleness: Staleness | None = None
    error: str = ""
    wished_pause: bool = False


class ServiceStatus(Message):
    """One supervised process.

    Attributes:
        kind: `redis`, `trainer`, `telemetry` or `client`.
        phase: A node's own phase while it runs, empty otherwise.
        outcome: How its last process ended, in words; empty while none has.
        restart_in_s: Seconds to the next try while in `backoff`.
        failures: Failures counted towards giving up.
        max_failures: Failures after which it is given up.
        last_lines: End of its log when it failed.
    """

    name: str
    kind: str
    state: ServiceState
    phase: NodePhase | Literal[""] = ""
    detail: str = ""
    pid: int | None = None
    port: int | None = None
    uptime_s: float | None = None
    restarts: int = 0
    failures: int = 0
    max_failures: int = 5
    restart_in_s: float | None = None
    outcome: str = ""
    last_lines: list[str] = Field(default_factory=list)
    cpu_percent: float | None = None
    memory_bytes: int | None = None


class ClientStatus(Message):
    """One client of the roster, by the server's clock; in client mode the one of this machine.

    Attributes:
        env_steps: Environment steps since its process started; in client mode those for the present run,
            also those of earlier processes. The same holds for `episodes`.
        waiting: Part of the last seconds in which it waited for the trainer (for credits, for the next
            round), 0 to 1.
        waits: How often it has done so since its process started, `waited_s` seconds in all.
        wish: What the runner that tells this wants of it: `run`, `pause`, `finish` or `stop`; in client mode
            what its owner wants (`wire.messages.owner.OwnerState`).
        paused_until: In client mode: when the owner's pause ends by itself, seconds since the epoch; None
            when it does not.
        held: In client mode: why it holds back by itself, by its owner's rules.
        held_until: In client mode: when that ends, seconds since the epoch; None where nobody can say.
        checks: In client mode: what the client has looked at, and whether it is well
            (`wire.messages.owner.ClientReport`).
        lacks: In client mode: what the server needs and this computer has not.
        share: In client mode: which part of all that the trainer receives is of this computer, 0 to 1; None
            while it plays nothing or nobody has told.
        error_details: Where the last error happened: the end of a traceback.
        step_ms: Recent mean time its environments take for a step of all of them, milliseconds.
        late_steps: Steps that began after their time on a fixed clock.
        human_steps: Steps that a person played; they are not sent.
        env_restarts: How often its environment was made anew because it had failed.
        invited: When it was invited, seconds since the epoch; None for one that was not.
        invited_again: Whether it had been invited before, too.
    """

    id: str
    name: str
    host: str = ""
    local: bool = False
    state: str = "joining"
    stalled: bool = False
    age_s: float | None = None
    env_id: str = ""
    num_envs: int = 0
    env_steps: int = 0
    episodes: int = 0
    env_steps_per_s: float = 0.0
    last_return: float | None = None
    mean_return: float | None = None
    model_id: int = -1
    lag: int | None = None
    buffered: int = 0
    dropped: int = 0
    waiting: float = 0.0
    waits: int = 0
    waited_s: float = 0.0
    rejected: dict[str, int] = Field(default_factory=dict)
    wish: str = "run"
    paused_until: float | None = None
    held: Held = ""
    held_until: float | None = None
    version: str = ""
    error: str = ""
    error_details: str = ""
    step_ms: float | None = None
    late_steps: int = 0
    human_steps: int = 0
    env_restarts: int = 0
    checks: dict[str, bool] = Field(default_factory=dict)
    lacks: list[Lack] = Field(default_factory=list)
    share: float | None = None
    invited: float | None = None
    invited_again: bool = False


class ServerStatus(Message):
    """The Redis server and the machine.

    Attributes:
        memory_limit_bytes: Most memory it may use; 0 for no limit.
        changed_at: When it began to answer, or was found to answer no longer, seconds since the epoch;
            told in client mode only.
        name: What the server is called by the invitation; empty for the one of this computer. In client mode
            only.
        round_trip_s: How long its answers take, seconds; None while there is none. In client mode only.
        error: Why it is not reached, in words: which addresses were tried, or that it does not let us in.
            With an invitation only.
    """

    url: str = ""
    version: str = ""
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    disk_free_bytes: int = 0
    reachable: bool = False
    changed_at: float | None = None
    name: str = ""
    round_trip_s: float | None = None
    error: str = ""


class Status(Message):
    """Everything at one moment: `GET /v1/status` and `soulsgui status --json`."""

    run: RunStatus = Field(default_factory=RunStatus)
    services: list[ServiceStatus] = Field(default_factory=list)
    clients: list[ClientStatus] = Field(default_factory=list)
    server: ServerStatus = Field(default_factory=ServerStatus)


class Event(Message):
    """Something worth knowing tomorrow morning: what, why, and what to do.

    Attributes:
        number: Counts up from 1, without gaps, over restarts of the runner.
        service: The service it is about, whose log at `time` tells more; may be empty.
    """

    number: int
    time: float
    level: Literal["info", "warning", "error"]
    what: str
    cause: str = ""
    remedy: str = ""
    service: str = ""
    run_id: str = ""


class LogLine(Message):
    """One line of a service's log."""

    service: str
    number: int
    time: float | None = None
    level: str = ""
    text: str


class Job(Message):
    """Work that takes longer than an answer may."""

    id: str
    command: str
    state: Literal["running", "done", "failed"]
    progress: str = ""
    result: dict[str, Any] = Field(default_factory=dict)
    error: ApiError | None = None
