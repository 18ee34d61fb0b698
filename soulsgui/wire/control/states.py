"""Run, services, clients and server as the control API reports them, and the situation of a client."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from soulsgui.errors import ServerUnreachableError
from soulsgui.wire.messages.base import Finite, Keyed, Listed, Message, Moment, Whole, Words
from soulsgui.wire.messages.heartbeat import ClientProgress, Heartbeat
from soulsgui.wire.messages.metrics import Row
from soulsgui.wire.messages.node import NodePhase, TrainingProgress
from soulsgui.wire.messages.owner import Held
from soulsgui.wire.messages.server_config import Execution
from soulsgui.wire.versions import MissingRequirement

_MOST_NUMBERS = 1024  # of an action, and about actions, that are shown

RunState = Literal[
    "none", "starting", "waiting", "running", "paused", "saving", "finished", "stopped", "frozen", "failed"
]
ServiceState = Literal["stopped", "starting", "running", "stopping", "backoff", "failed"]


class ErrorCode(StrEnum):
    """Why a command was refused."""

    BAD_REQUEST = "bad_request"
    BAD_CONFIG = "bad_config"
    NOT_FOUND = "not_found"
    NOT_NOW = "not_now"
    NOT_ALLOWED = "not_allowed"
    NOT_AGREED = "not_agreed"
    NO_ANSWER = "no_answer"
    FAILED = "failed"


class ApiError(Message):
    """What went wrong, in words, and what to do.

    Attributes:
        asks: What would have to be agreed to, where that is missing.
        mistakes: What is wrong with settings, by dotted key, where they are what is wrong.
    """

    code: ErrorCode
    message: str
    remedy: str = ""
    asks: Execution | None = None
    mistakes: Keyed[str] = Field(default_factory=dict)

    def words(self, between: str = "\n") -> str:
        """Return what went wrong and, after `between`, what to do, where there is something to be done."""
        return f"{self.message}{between}{self.remedy}".strip()


class RunStatus(TrainingProgress):
    """The active run, or the last one.

    Attributes:
        agent: The agent of a family (`dqn.agent`, `sac.agent`); empty for other algorithms.
        begun_env_steps: Those of the checkpoint that it began from, which `env_steps` goes on from;
            `seconds` are its own alone.
        best_mean_return: That of the best model: over `goal_window` training episodes, or of its evaluation
            where evaluations rank the models.
        goal_window: Finished training episodes that `mean_return` is over (`stop.window`); 0 while unknown.
        goal_judged_by: Whose mean return has to reach `goal_return` (`stop.judged_by`): that of an
            evaluation (when a run has ended because one did, `mean_return` is its), that of training alone,
            where nobody can evaluate, or of both: greedy episodes confirm what training reached.
        wished_pause: Whether it should pause (`run.pause`), until `run.continue`.
        experiment: The experiment that it is a run of (`run.start` with several seeds); empty for none.
        sweep: The sweep that it is a trial of; empty for none.
    """

    id: str = ""
    name: str = ""
    experiment: str = ""
    sweep: str = ""
    dir: str = ""
    state: RunState = "none"
    env_id: str = ""
    algorithm: str = ""
    agent: str = ""
    seed: Whole = 0
    goal_return: float | None = None
    begun_env_steps: Whole = 0
    goal_env_steps: Whole | None = None
    goal_window: Whole = 0
    goal_judged_by: Literal["training", "evaluation", "both"] = "training"
    seconds: float = 0.0
    reached: Literal["", "mean_return", "env_steps", "stopped", "failed"] = ""
    checkpoint_age_s: float | None = None
    wished_pause: bool = False

    @property
    def own_env_steps(self) -> int:
        """Those that it has made itself; its trainer tells of none before it has loaded its checkpoint."""
        return max(self.env_steps - self.begun_env_steps, 0)


class ServiceStatus(Message):
    """One supervised process.

    Attributes:
        kind: `redis`, `gateway`, `trainer`, `telemetry`, `evaluator`, `sink`, `inference`,
            `worker` (of a sweep) or `client`.
        phase: A node's own phase while it runs, empty otherwise.
        outcome: How its last process ended, in words; empty while none has.
        restart_in_s: Seconds to the next try, in `backoff`, or of what was given up and is tried again.
        failures: Failures counted towards giving up.
        max_failures: Failures after which it is given up.
        last_lines: End of its log when it failed.
        allowed: As in `Status`, for the commands about this service.
    """

    name: str
    kind: str
    state: ServiceState
    phase: NodePhase | Literal[""] = ""
    detail: str = ""
    pid: Whole | None = None
    port: Whole | None = None
    uptime_s: float | None = None
    restarts: Whole = 0
    failures: Whole = 0
    max_failures: Whole = 5
    restart_in_s: Finite | None = None
    outcome: str = ""
    last_lines: Listed[str] = Field(default_factory=list)
    cpu_percent: float | None = None
    memory_bytes: Whole | None = None
    allowed: Keyed[str] = Field(default_factory=dict)


class ClientStatus(ClientProgress):
    """One client of the roster, by the server's clock; in client mode the one of this machine.

    Attributes:
        env_steps: Environment steps since its process started; in client mode those for the present run,
            also those of earlier processes. The same holds for `episodes`.
        wish: What the runner that tells this wants of it: `run`, `pause`, `finish` or `stop`; in client mode
            what its owner wants (`wire.messages.owner.OwnerState`).
        paused_until: In client mode: when the owner's pause ends, seconds since the epoch; None: not at all.
        held: In client mode: why it holds back by itself, by its owner's rules.
        held_until: In client mode: when that ends, seconds since the epoch; None where nobody can say.
        checks: In client mode: what the client has looked at, and whether it is well
            (`wire.messages.owner.ClientReport`).
        remote: In client mode: whether an inference server chooses its actions; it then has no network.
        lacks: In client mode: what the server needs and this computer has not.
        asks: In client mode: what the server wants to run here, once the owner agrees (`servers.agree`); None
            while nothing waits for that.
        unconfined: In client mode, for a server that invited: why what runs may write wherever its owner may;
            empty where it is kept to a folder.
        share: In client mode: which part of all that the trainer receives is of this computer, 0 to 1;
            None while it is unknown.
        invited: When it was invited, seconds since the epoch; None for one that was not.
        invited_again: Whether it had been invited before, too.
        allowed: As in `Status`, for the commands about this client; those that are allowed are left out.
    """

    id: str
    name: str
    host: str = ""
    local: bool = False
    state: str = "joining"
    stalled: bool = False
    age_s: float | None = None
    lag: Whole | None = None
    buffered: Whole = 0
    rejected: Keyed[Whole] = Field(default_factory=dict)
    wish: str = "run"
    paused_until: Moment | None = None
    held: Held = ""
    held_until: Moment | None = None
    version: str = ""
    error: str = ""
    checks: Keyed[bool] = Field(default_factory=dict)
    remote: bool = False
    lacks: Listed[MissingRequirement] = Field(default_factory=list)
    asks: Execution | None = None
    unconfined: str = ""
    share: float | None = None
    invited: Moment | None = None
    invited_again: bool = False
    allowed: Keyed[str] = Field(default_factory=dict)


def told_by_beat(beat: Heartbeat) -> dict[str, Any]:
    """Return those fields of a client's status that its beat tells."""
    return {name: getattr(beat, name) for name in ClientProgress.model_fields} | {
        "host": beat.instance.host,
        "buffered": beat.buffered_bytes,
        "version": beat.versions.get("soulsgui", ""),
    }


class ServerStatus(Message):
    """The Redis server and the machine.

    Attributes:
        memory_limit_bytes: Most memory it may use; 0 for no limit.
        changed_at: When it began to answer, or was found to answer no longer, seconds since the epoch; in
            client mode only.
        name: What the invitation calls it; empty for the one of this computer. In client mode only.
        round_trip_s: How long its answers take, seconds; None while there is none. In client mode only.
        error: Why it is not reached, in words: which addresses were tried, or that it does not let us in.
            With an invitation only.
    """

    url: str = ""
    version: str = ""
    memory_bytes: Whole = 0
    memory_limit_bytes: Whole = 0
    disk_free_bytes: Whole = 0
    reachable: bool = False
    changed_at: Moment | None = None
    name: str = ""
    round_trip_s: float | None = None
    error: str = ""


class QueuedRun(Message):
    """A run that waits for its turn.

    Attributes:
        number: What it is called in `run.queue.move` and `run.queue.remove`.
        experiment: The experiment that it is a run of; empty for none.
        sweep: The sweep that it is a trial of; empty for none.
        run_id: The run that is gone on with, of one that was interrupted; empty for one that is to begin.
        config_summary: Which of its settings differ from the preset, checkpoint, sweep or defaults that it is
            made from: `ppo.clip = 0.1, else as preset cartpole_ppo`; cut where it is long.
    """

    number: Whole
    name: str = ""
    experiment: str = ""
    sweep: str = ""
    env_id: str = ""
    algorithm: str = ""
    agent: str = ""
    seed: Whole = 0
    run_id: str = ""
    config_summary: Words = ""


class Status(Message):
    """Everything at one moment: `GET /v1/status` and `soulsgui status --json`.

    Attributes:
        queue: The runs that start when the active one has ended, in order.
        allowed: Why each command would be refused now, in words; empty where it would not. Parameters are as
            by default; `run.start` is one that stops the run that goes on first. Commands about one service
            or client are told there.
    """

    run: RunStatus = Field(default_factory=RunStatus)
    services: Listed[ServiceStatus] = Field(default_factory=list)
    clients: Listed[ClientStatus] = Field(default_factory=list)
    server: ServerStatus = Field(default_factory=ServerStatus)
    queue: Listed[QueuedRun] = Field(default_factory=list)
    allowed: Keyed[str] = Field(default_factory=dict)


class Numbered(Message):
    """What a runner notes.

    Attributes:
        number: Counts up from 1, without gaps, over restarts of the runner.
    """

    number: int = Field(ge=0, le=2**53)
    time: Moment


Topic = Literal["", "goal", "no_progress", "client_lost", "disk_low", "divergence", "given_up", "test"]


class Event(Numbered):
    """Something worth knowing tomorrow morning: what, why, and what to do.

    Attributes:
        service: The service it is about, whose log at `time` has details; may be empty.
        topic: What alerts know it by (`alerts.on`); empty for what is no alert.
    """

    level: Literal["info", "warning", "error"]
    what: str
    cause: str = ""
    remedy: str = ""
    service: str = ""
    run_id: str = ""
    topic: Topic = ""

    def words(self) -> str:
        """Return it in one line."""
        return ". ".join(part.rstrip(".") for part in (self.what, self.cause, self.remedy) if part)


class AuditEntry(Numbered):
    """A command that changes something: who gave it, and what became of it.

    Attributes:
        time: When it came.
        params: Its parameters, as `name=value`; secrets are left out.
        origin: What gave it, as it calls itself: `SoulsGUI window`, `SoulsGUI command line`, another program.
        peer: From which address.
        program: The process that holds that address, if the system reports it.
        outcome: `done`, `cancelled`, the code of its error, or empty before its end, which is missing if the
            runner died.
        error: Why it was refused or failed.
        seconds: How long it took.
    """

    command: str
    params: Words = ""
    origin: Words = ""
    peer: str = ""
    program: Words = ""
    outcome: str = ""
    error: Words = ""
    seconds: float = 0.0

    def words(self) -> str:
        """Return what became of it: `done`, `cancelled`, why not, or that it never ended."""
        return self.error or self.outcome or "not finished"


class LogLine(Message):
    """One line of a service's log."""

    service: str
    number: Whole
    time: Moment | None = None
    level: str = ""
    text: str


class StoredFile(Message):
    """A file of the runner, fetched by `GET /v1/files/ID`; the newest few are kept while it runs."""

    id: str
    name: str
    size_bytes: Whole


class Job(Message):
    """Work that takes longer than an answer may.

    Attributes:
        started: Seconds since the epoch.
        progress: What it does at the moment, in words.
        part: Which part of it is done, from 0 to 1; None where that is not known.
        result: Once it is done: what its command answers.
        error: Why it failed.
        files: Once it is done: the files that it made.
        cancellable: Whether `job.cancel` would end it.
    """

    id: str
    command: str
    state: Literal["running", "done", "failed", "cancelled"]
    started: Moment = 0.0
    progress: str = ""
    part: Finite | None = None
    result: Keyed[Any] = Field(default_factory=dict)
    error: ApiError | None = None
    files: Listed[StoredFile] = Field(default_factory=list)
    cancellable: bool = False


API_VERSION = 1
API_OLDEST = 1
PREFIX = "/v1"


START_ONE = "Start one: soulsgui serve (which also starts a new run; without a run: soulsgui serve --idle)"


class ControlFile(Message):
    """`control.json`: how to reach the runner of this data folder. Its file is private.

    Attributes:
        process: Identity of the runner's process, which tells it from later ones of its pid; empty: unknown.
    """

    host: str = "127.0.0.1"
    port: Whole
    token: str
    server_id: str
    pid: Whole
    process: Keyed[Any] = Field(default_factory=dict)
    api: Whole = API_VERSION

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://{self.host}:{self.port}"

    @classmethod
    def load(cls, path: Path) -> "ControlFile":
        """Read the file of a runner.

        Raises:
            ServerUnreachableError: The file is missing or damaged.
        """
        try:
            found = cls.read(path.read_bytes())
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            why = "is missing" if missing else f"can't be read: {error.strerror or error}"
            raise ServerUnreachableError(
                f"No runner is running for this data folder ({path} {why}).", START_ONE
            ) from error
        if found is None:
            raise ServerUnreachableError(
                f"{path} is damaged.", "Stop the runner and start it again: soulsgui serve"
            )
        return found


class Snapshot(Message):
    """Everything, at the beginning of a feed or after a gap."""

    type: Literal["snapshot"] = "snapshot"
    cursor: Whole
    status: Status
    events: Listed[Event] = Field(default_factory=list)


class StatusChange(Message):
    """Run, services, server and queue, whenever one changed (at most a few times a second)."""

    type: Literal["status"] = "status"
    cursor: Whole
    run: RunStatus
    services: Listed[ServiceStatus]
    server: ServerStatus
    queue: Listed[QueuedRun] = Field(default_factory=list)
    allowed: Keyed[str] = Field(default_factory=dict)


class ClientsChange(Message):
    """Clients whose status changed, of many a part; and those that were forgotten."""

    type: Literal["clients"] = "clients"
    cursor: Whole
    changed: Listed[ClientStatus]
    removed: Listed[str] = Field(default_factory=list)


class RowsChange(Message):
    """New rows of the curves of a run."""

    type: Literal["rows"] = "rows"
    cursor: Whole
    rows: Listed[Row]


class EventChange(Message):
    """A new event."""

    type: Literal["event"] = "event"
    cursor: Whole
    event: Event


class AuditChange(Message):
    """A command that changes something came, or is done."""

    type: Literal["audit"] = "audit"
    cursor: Whole
    entry: AuditEntry


class LogChange(Message):
    """New log lines."""

    type: Literal["log"] = "log"
    cursor: Whole
    lines: Listed[LogLine]


class JobChange(Message):
    """A job moved on."""

    type: Literal["job"] = "job"
    cursor: Whole
    job: Job


class Picture(Message):
    """What is seen of an evaluation before one of its steps, and once an episode has ended.

    Attributes:
        rate: How many of its steps the environment makes in a second, for who watches it.
        episode: Its number, from 0.
        step: How many steps it has made.
        return_so_far: Sum of their rewards.
        action: What the policy does now, as numbers; none at the end.
        says: What the policy says of numbered actions, if there are any; empty at the end.
        said: That, by action; null where one is not valid.
        ended: Whether the episode has ended.
        jpeg: The picture, in Base64.
    """

    rate: float = Field(30.0, ge=1.0, le=60.0)
    episode: int = Field(ge=0, lt=2**63)
    step: int = Field(ge=0, lt=2**63)
    return_so_far: float
    action: list[float] = Field(default_factory=list, max_length=_MOST_NUMBERS)
    says: Literal["", "values", "probabilities"] = ""
    said: list[float | None] = Field(default_factory=list, max_length=_MOST_NUMBERS)
    ended: bool = False
    jpeg: str = Field(max_length=2**20, repr=False)


class PictureShown(Message):
    """A picture of an evaluation, to whoever watches it; of those too many for a window, the newest.

    Attributes:
        cursor: That of the message before: a picture is not numbered, and not sent again.
        job: Id of the evaluation's job.
    """

    type: Literal["picture"] = "picture"
    cursor: Whole
    job: str
    picture: Picture


class Watch(Message):
    """What a window says to the feed: of which jobs it wants to see pictures from now on.

    Attributes:
        watch: By the id of the job of an evaluation: how fast it is to be played, as a multiple of the pace
            of its environment; 0: not before another pace is wanted.
    """

    watch: dict[Annotated[str, Field(max_length=64)], Annotated[float, Field(ge=0.0, le=16.0)]] = Field(
        max_length=4
    )


FeedMessage = Annotated[
    Snapshot
    | StatusChange
    | ClientsChange
    | RowsChange
    | EventChange
    | AuditChange
    | LogChange
    | JobChange
    | PictureShown,
    Field(discriminator="type"),
]
FEED_MESSAGE: TypeAdapter[FeedMessage] = TypeAdapter(FeedMessage, config=ConfigDict(defer_build=True))


CLIENT = "client"  # the service of client mode
GONE = ("left", "lost", "revoked")  # states of clients that play nowhere at present

_CUT_OFF = ("quarantined", "refused")


class Situation(StrEnum):
    """The situation of client mode; the first that applies, the most important to its owner first."""

    OFF = "off"
    MISFIT = "misfit"
    REVOKED = "revoked"
    FAILED = "failed"
    STOPPING = "stopping"
    PAUSED_BY_OWNER = "paused by its owner"
    HELD = "held"
    ASKED = "asked"
    RETRYING = "retrying"
    CUT_OFF = "cut off"
    SILENT = "silent"
    FINISHING = "finishing"
    AWAY = "server away"
    PAUSED_BY_SERVER = "paused by the server"
    PLAYING = "playing"
    BETWEEN_ROUNDS = "between rounds"
    WITHOUT_RUN = "without a run"
    CONNECTING = "connecting"


def situation(status: Status) -> Situation:
    """Return the situation in what a runner of client mode told last."""
    service = status.services[0] if status.services else None
    client = status.clients[0] if status.clients else None
    if service is None or service.state == "stopped":
        return Situation.OFF
    if client is not None and (found := _before_playing(service, client)) is not None:
        return found
    if service.state in _OF_SERVICE:
        return _OF_SERVICE[service.state]
    if service.state == "running" and client is not None:
        return _playing(client, status)
    return Situation.CONNECTING if status.server.reachable else Situation.AWAY


_OF_SERVICE: dict[str, Situation] = {
    "failed": Situation.FAILED,
    "stopping": Situation.STOPPING,
    "backoff": Situation.RETRYING,
}
_WITHOUT_SERVER = {
    "quarantined": Situation.CUT_OFF,
    "refused": Situation.CUT_OFF,
    "late": Situation.SILENT,
    "lost": Situation.SILENT,
    "draining": Situation.FINISHING,
}
_WITH_SERVER = {"paused": Situation.PAUSED_BY_SERVER, "online": Situation.PLAYING}


def _before_playing(service: ServiceStatus, client: ClientStatus) -> Situation | None:
    """Return the situation that takes precedence over the client's own state; None when none does."""
    if client.checks.get("version") is False:
        return Situation.MISFIT
    if client.state == "revoked":
        return Situation.REVOKED
    if service.state in ("failed", "stopping"):
        return None
    # What the owner wants holds at once, whether the client is there to say so or not.
    if client.wish == "pause" or (client.wish == "pause_after_episode" and client.state == "paused"):
        return Situation.PAUSED_BY_OWNER
    if client.held and client.state not in _CUT_OFF:
        return Situation.HELD
    return Situation.ASKED if client.asks is not None else None


def _playing(client: ClientStatus, status: Status) -> Situation:
    """Return the situation of a running client, from the state it reports."""
    if client.state in _WITHOUT_SERVER:
        return _WITHOUT_SERVER[client.state]
    if not status.server.reachable:
        return Situation.AWAY
    if client.state == "waiting":
        return Situation.BETWEEN_ROUNDS if status.run.id else Situation.WITHOUT_RUN
    return _WITH_SERVER.get(client.state, Situation.CONNECTING)


def is_paused_there(state: str, wish: str) -> bool:
    """Whether a client was paused by its own computer, seen from its server."""
    return state == "paused" and wish == "run"
