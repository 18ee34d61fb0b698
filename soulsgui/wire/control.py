"""The control API: what the window, the command line and scripts say to a runner.

HTTP and WebSocket on loopback with a bearer token:

- `GET /v1/status` answers `Status`.
- `POST /v1/commands/GROUP.COMMAND` takes the command's parameters as a JSON object and answers
  `{"ok": true, "result": ...}` or `{"ok": false, "error": {code, message, remedy}}`.
- `GET /v1/jobs/ID` answers `Job`.
- `WS /v1/feed?cursor=N` sends `FeedMessage`s: what came after cursor N where it is still held, else
  a snapshot first.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from soulsgui.errors import ServerUnreachableError
from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.metrics import Row
from soulsgui.wire.messages.node import NodePhase

API_VERSION = 1
API_OLDEST = 1
PREFIX = "/v1"

RunState = Literal[
    "none", "starting", "waiting", "running", "paused", "saving", "finished", "stopped", "frozen", "failed"
]
ServiceState = Literal["stopped", "starting", "running", "stopping", "backoff", "failed"]
CheckpointKind = Literal["current", "best", "manual"]


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


# --- state -----------------------------------------------------------------------------------------


class RunStatus(Message):
    """The active run, or the last one."""

    id: str = ""
    name: str = ""
    dir: str = ""
    state: RunState = "none"
    detail: str = ""
    env_id: str = ""
    algorithm: str = ""
    seed: int = 0
    attempt: int = 0
    model_id: int = -1
    env_steps: int = 0
    updates: int = 0
    episodes: int = 0
    mean_return: float | None = None
    best_mean_return: float | None = None
    goal_return: float | None = None
    goal_env_steps: int | None = None
    env_steps_per_s: float = 0.0
    updates_per_s: float = 0.0
    policy_lag: float = 0.0
    seconds: float = 0.0
    reached: Literal["", "mean_return", "env_steps", "stopped", "failed"] = ""
    checkpoint_env_steps: int | None = None
    checkpoint_age_s: float | None = None
    rejected: dict[str, int] = Field(default_factory=dict)
    lost_chunks: int = 0
    error: str = ""


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
        wish: What the runner that tells this wants of it: `run`, `pause`, `finish` or `stop`; in client mode
            what its owner wants (`wire.messages.owner.OwnerState`).
        checks: In client mode: what the client has looked at, and whether it is well
            (`wire.messages.owner.ClientReport`).
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
    rejected: dict[str, int] = Field(default_factory=dict)
    wish: str = "run"
    version: str = ""
    error: str = ""
    checks: dict[str, bool] = Field(default_factory=dict)


class ServerStatus(Message):
    """The Redis server and the machine.

    Attributes:
        changed_at: When it began to answer, or was found to answer no longer, seconds since the epoch;
            told in client mode only.
    """

    url: str = ""
    version: str = ""
    memory_bytes: int = 0
    max_memory_bytes: int = 0
    disk_free_bytes: int = 0
    reachable: bool = False
    changed_at: float | None = None


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


# --- the feed --------------------------------------------------------------------------------------


class Snapshot(Message):
    """Everything, at the beginning of a feed or after a gap."""

    type: Literal["snapshot"] = "snapshot"
    cursor: int
    status: Status
    events: list[Event] = Field(default_factory=list)


class StatusChange(Message):
    """Run, services and server, whenever one changed (at most a few times a second)."""

    type: Literal["status"] = "status"
    cursor: int
    run: RunStatus
    services: list[ServiceStatus]
    server: ServerStatus


class ClientsChange(Message):
    """Clients whose status changed, and those that were forgotten."""

    type: Literal["clients"] = "clients"
    cursor: int
    changed: list[ClientStatus]
    removed: list[str] = Field(default_factory=list)


class RowsChange(Message):
    """New rows of the curves of a run."""

    type: Literal["rows"] = "rows"
    cursor: int
    rows: list[Row]


class EventChange(Message):
    """A new event."""

    type: Literal["event"] = "event"
    cursor: int
    event: Event


class LogChange(Message):
    """New log lines."""

    type: Literal["log"] = "log"
    cursor: int
    lines: list[LogLine]


class JobChange(Message):
    """A job moved on."""

    type: Literal["job"] = "job"
    cursor: int
    job: Job


FeedMessage = Annotated[
    Snapshot | StatusChange | ClientsChange | RowsChange | EventChange | LogChange | JobChange,
    Field(discriminator="type"),
]
FEED_MESSAGE: TypeAdapter[FeedMessage] = TypeAdapter(FeedMessage)


# --- commands --------------------------------------------------------------------------------------


class Params(BaseModel):
    """Parameters of a command; unknown ones are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Empty(Params):
    """No parameters."""


class ServiceParams(Params):
    """`service.start`, `service.stop`, `service.restart`. Result: {}."""

    name: str


class LocalClientsParams(Params):
    """`service.local_clients`: how many clients run on the server. Result: {"count"}."""

    count: int = Field(ge=0, le=1024)


class RunStartParams(Params):
    """`run.start`: begin a new run. Result: {"run_id", "run_dir"}.

    Attributes:
        preset: A preset's name; empty uses the saved configuration.
        overrides: Settings by dotted key, above everything else.
        if_active: What to do when a run is active: refuse (`not_now`) or stop that one first.
    """

    preset: str = ""
    overrides: dict[str, Any] = Field(default_factory=dict)
    name: str = ""
    note: str = ""
    if_active: Literal["refuse", "stop"] = "refuse"


class RunResumeParams(Params):
    """`run.resume`: go on with a run as a new attempt. Result: {"run_id", "run_dir"}.

    Attributes:
        run: Its id, or `latest`.
        checkpoint: Path of one of its checkpoints below the run's folder, such as
            `manual_save/2026-11-20_10-00-00`; empty takes the newest valid one.
    """

    run: str = "latest"
    checkpoint: str = ""
    if_active: Literal["refuse", "stop"] = "refuse"


class RunsEditParams(Params):
    """`runs.edit`: change name or note of a run. Result: the run's `RunSummary`."""

    run: str
    name: str | None = None
    note: str | None = None


class CheckpointListParams(Params):
    """`checkpoint.list`. Result: {"checkpoints": [`CheckpointInfo`]}."""

    run: str = "latest"


class CheckpointSaveParams(Params):
    """`checkpoint.save`: quicksave. Result: {"checkpoint": `CheckpointInfo`}, after it is on disk."""

    note: str = ""


class CheckpointEditParams(Params):
    """`checkpoint.edit`: change the note. Result: {"checkpoint": `CheckpointInfo`}."""

    run: str
    path: str
    note: str


class ConfigGetParams(Params):
    """`config.get`. Result: `ConfigValues`; with `run`, also that run's values."""

    run: str = ""


class ConfigCheckParams(Params):
    """`config.check`. Result: {"problems": [{source, line, key, value, reason, nearest}]}.

    Attributes:
        text: Text of a config.yaml; None checks the saved one.
        overrides: Settings above it, by dotted key.
        preset: A preset below it.
    """

    text: str | None = None
    overrides: dict[str, Any] = Field(default_factory=dict)
    preset: str = ""


class ConfigSaveParams(Params):
    """`config.save`. Either `text` whole, or `changes` and `reset` by key. Result: {"hash", "text"}.

    Attributes:
        base_hash: Hash the change was made from; None overwrites. A differing file is `not_now`.
    """

    text: str | None = None
    changes: dict[str, Any] = Field(default_factory=dict)
    reset: list[str] = Field(default_factory=list)
    base_hash: str | None = None


class HistoryQueryParams(Params):
    """`history.query`: rows of a curve. Result: `History`.

    Attributes:
        metric: `return`, `length`, or a name from an update row's values.
        client: Only this client's episodes; empty for all.
        x: The axis that `start` and `end` are in.
        limit: Most rows to answer with (the newest are kept).
    """

    run: str = "latest"
    metric: str = "return"
    client: str = ""
    x: Literal["episode", "env_step", "time"] = "episode"
    start: float | None = None
    end: float | None = None
    limit: int = Field(default=200_000, ge=1, le=200_000)


class HistoryLogsParams(Params):
    """`history.logs`. Result: {"lines": [`LogLine`], "first": number of the first line there is}.

    Attributes:
        service: Name of the service; empty for all of the run, by time.
        before: Only lines with smaller numbers (paging back); None for the newest.
        n: How many lines.
        level: Least level: debug, info, warning, error.
        filter: Only lines that contain this text, whatever its case.
    """

    service: str = ""
    run: str = "latest"
    before: int | None = None
    n: int = Field(default=200, ge=1, le=5000)
    level: Literal["debug", "info", "warning", "error"] = "debug"
    filter: str = ""


class HistoryEventsParams(Params):
    """`history.events`. Result: {"events": [`Event`]}."""

    since: int = 0


class ClientParams(Params):
    """`clients.resume`, `clients.drain`, `clients.stop`, `clients.forget`. Result: {}."""

    client: str


class ClientPauseParams(ClientParams):
    """`clients.pause`. Result: {}.

    Attributes:
        after_episode: Whether it may finish the episodes it is in; in client mode only.
    """

    after_episode: bool = False


class ShutdownParams(Params):
    """`server.shutdown`: end everything. Result: {}; the runner ends after it."""

    save: bool = True


COMMANDS: dict[str, type[Params]] = {
    "server.hello": Empty,
    "server.shutdown": ShutdownParams,
    "service.start": ServiceParams,
    "service.stop": ServiceParams,
    "service.restart": ServiceParams,
    "service.local_clients": LocalClientsParams,
    "run.start": RunStartParams,
    "run.resume": RunResumeParams,
    "run.stop": Empty,
    "runs.list": Empty,
    "runs.edit": RunsEditParams,
    "history.query": HistoryQueryParams,
    "history.logs": HistoryLogsParams,
    "history.events": HistoryEventsParams,
    "checkpoint.list": CheckpointListParams,
    "checkpoint.save": CheckpointSaveParams,
    "checkpoint.edit": CheckpointEditParams,
    "config.get": ConfigGetParams,
    "config.check": ConfigCheckParams,
    "config.save": ConfigSaveParams,
    "config.presets": Empty,
    "clients.pause": ClientPauseParams,
    "clients.resume": ClientParams,
    "clients.drain": ClientParams,
    "clients.stop": ClientParams,
    "clients.forget": ClientParams,
}
"""Every command and its parameters."""


# --- results ---------------------------------------------------------------------------------------


class Hello(Message):
    """Result of `server.hello`."""

    version: str
    api: int = API_VERSION
    api_oldest: int = API_OLDEST
    role: Literal["server", "client"] = "server"
    server_id: str
    pid: int
    started: float
    data_dir: str
    config_dir: str
    capabilities: list[str]


class CheckpointInfo(Message):
    """One checkpoint, as `checkpoints list --json` shows it.

    Attributes:
        id: Path below the run's folder.
        score: Mean return it was saved with; None when unknown.
        created: Seconds since the epoch.
        valid: Whether every file is there with the hash its manifest names.
        resumable: Whether training can go on from it.
    """

    id: str
    kind: CheckpointKind
    path: str
    model_id: int
    attempt: int = 0
    env_steps: int
    updates: int = 0
    episodes: int = 0
    score: float | None = None
    created: float
    size_bytes: int
    note: str = ""
    valid: bool
    resumable: bool = True
    error: str = ""


class RunSummary(Message):
    """One run of the library, in `runs.list` ({"runs": [...]}, newest first)."""

    id: str
    name: str = ""
    note: str = ""
    state: RunState = "stopped"
    reached: str = ""
    env_id: str = ""
    algorithm: str = ""
    seed: int = 0
    env_steps: int = 0
    episodes: int = 0
    best_mean_return: float | None = None
    created: float = 0.0
    seconds: float = 0.0
    size_bytes: int = 0
    resumable: bool = False
    error: str = ""


class AttemptStart(Message):
    """Where an attempt begins on the axes."""

    attempt: int
    update: int
    env_steps: int
    episodes: int
    time: float


class History(Message):
    """Result of `history.query`: columns of equal length in the order of storing.

    Attributes:
        last_row: For episodes the store's last row number that this answer covers: a live tail goes
            on behind it without gap or double. For other metrics the last (attempt, update).
        row: Row numbers (episodes) or update counts.
        overwritten: Whether a later attempt went back before this row.
        total: Rows there are; more than were answered when `limit` cut them.
    """

    run_id: str
    metric: str
    last_row: int
    last_update: tuple[int, int] = (0, 0)
    row: list[int]
    attempt: list[int]
    episode: list[int]
    env_steps: list[int]
    time: list[float]
    value: list[float]
    client: list[str] = Field(default_factory=list)
    overwritten: list[bool] = Field(default_factory=list)
    attempts: list[AttemptStart] = Field(default_factory=list)
    total: int
    metrics: list[str] = Field(default_factory=list)


class ConfigValues(Message):
    """Result of `config.get`.

    Attributes:
        defaults: Every setting's shipped value, by dotted key.
        saved: What the user's config.yaml overrides, by dotted key.
        running: The active run's effective values, by dotted key; empty without a run.
        run: The values of the run that was asked for, by dotted key; empty when none was.
        text: The user's config.yaml.
        hash: Hash of that text, for `config.save`.
        path: Where it is.
        preset: The preset it asks for, empty for none.
        problems: What is wrong with it.
    """

    defaults: dict[str, Any]
    saved: dict[str, Any]
    running: dict[str, Any]
    run: dict[str, Any] = Field(default_factory=dict)
    text: str
    hash: str
    path: str
    preset: str = ""
    problems: list[dict[str, Any]] = Field(default_factory=list)


class Preset(Message):
    """One of `config.presets` ({"presets": [...]})."""

    name: str
    title: str
    values: dict[str, Any]


class ControlFile(Message):
    """`control.json`: how to reach the runner of this data folder. Its file is private."""

    host: str = "127.0.0.1"
    port: int
    token: str
    server_id: str
    pid: int
    api: int = API_VERSION

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://{self.host}:{self.port}"

    @classmethod
    def load(cls, path: Path) -> "ControlFile":
        """Read the file of a runner.

        Raises:
            ServerUnreachableError: There is none, or it is damaged.
        """
        try:
            found = cls.read(path.read_bytes())
        except OSError as error:
            raise ServerUnreachableError(
                f"No runner was started here ({path} is missing).", "Start one: soulsgui serve"
            ) from error
        if found is None:
            raise ServerUnreachableError(
                f"{path} is damaged.", "Stop the runner and start it again: soulsgui serve"
            )
        return found
