"""What the control API answers to commands."""

from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import ConfigDict, Field, model_validator

from soulsgui.wire.control.states import (
    API_OLDEST,
    API_VERSION,
    AuditEntry,
    Event,
    Job,
    LogLine,
    QueuedRun,
    RunState,
)
from soulsgui.wire.manifest import CheckpointKind, ScoredBy
from soulsgui.wire.messages.base import ClientName, CurveColumn, Keyed, Listed, Message, Moment, Whole, Words
from soulsgui.wire.messages.live import LiveChange
from soulsgui.wire.messages.metrics import AttemptStart, same_length
from soulsgui.wire.messages.node import Reject
from soulsgui.wire.messages.owner import Rules
from soulsgui.wire.messages.server_config import Execution
from soulsgui.wire.versions import MissingRequirement


class Hello(Message):
    """Result of `server.hello`.

    Attributes:
        ends_with_window: Whether it ends soon after the last window that follows it is gone.
    """

    version: str
    api: Whole = API_VERSION
    api_oldest: Whole = API_OLDEST
    role: Literal["server", "client"] = "server"
    server_id: str
    pid: Whole
    started: Moment
    data_dir: str
    config_dir: str
    capabilities: Listed[str]
    ends_with_window: bool = False


class RunUsage(Message):
    """What the folder of a run takes on the disk, bytes by kind."""

    id: str
    name: str = ""
    bytes: Keyed[Whole]


class ClientUsage(Message):
    """What a client has sent, and what of it waits on the server.

    Attributes:
        sent_bytes: Samples since it connected last.
        steps_per_s: How many of its steps come in a second.
        stored_bytes: Memory that its entries take in Redis.
    """

    id: str
    sent_bytes: Whole = 0
    steps_per_s: float = 0.0
    stored_bytes: Whole = 0


class Usage(Message):
    """Result of `server.usage`.

    Attributes:
        runs: The folders of the runs, the largest first.
        bin_bytes: What runs in the bin take, until they are purged.
        server_bytes: What the server's own state takes on the disk: Redis, logs, files of jobs.
        disk_free_bytes: What is free there.
        memory_bytes: Memory of Redis.
        memory_limit_bytes: Most that it may use.
        clients: Who is there, those that take most first.
    """

    runs: Listed[RunUsage]
    bin_bytes: Whole
    server_bytes: Whole
    disk_free_bytes: Whole
    memory_bytes: Whole
    memory_limit_bytes: Whole
    clients: Listed[ClientUsage]


Port = Annotated[int, Field(ge=0, le=65_535)]


class Reach(Message):
    """Result of `server.set`: where other computers come in from now on.

    Attributes:
        addresses: The addresses in a new invitation: host and port.
        reissue: Clients whose invitations name another port: they need new ones (`clients.invite.reissue`).
    """

    lan: bool
    public: bool
    port: Port
    addresses: Listed[tuple[str, Whole]]
    reissue: Listed[str] = Field(default_factory=list)


class RunPlace(Message):
    """Which run was begun, resumed or ended, and its folder.

    Attributes:
        run_id: Empty where none was begun, because all wait.
        queued: Numbers of the runs that wait in the queue.
        experiment: The experiment that they are runs of, where there are several seeds.
    """

    run_id: str
    run_dir: str
    queued: Listed[Whole] = Field(default_factory=list)
    experiment: str = ""


class RunQueued(Message):
    """The runs that wait for their turn, in order."""

    queue: Listed[QueuedRun]


class Done(Message):
    """Whether it is done already; if not, it is as soon as the trainer can."""

    done: bool


class ClientCount(Message):
    """How many clients the server runs from now on."""

    count: Whole


ListedKind = CheckpointKind | Literal["previous"]
"""What a checkpoint is in a list: `previous` is one that the current one has replaced."""


MOST_RETURNS = 1000


class KeptEvaluation(Message):
    """An evaluation of weights that somebody asked for, as it is kept with their run.

    Attributes:
        checkpoint: Path below the run's folder; empty for weights that were played as they were trained.
        time: When it was over, in seconds since the epoch.
        std_return: As in `Evaluated`.
        returns: Of its first episodes, in the order of their seeds; none in a list of checkpoints.
        notes: Those of `Evaluated`.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    checkpoint: Words = ""
    model_id: int = Field(ge=0, lt=2**63)
    env_steps: int = Field(ge=0, lt=2**63)
    time: Moment
    episodes: int = Field(ge=1, lt=2**63)
    seed: int = Field(ge=0, lt=2**63)
    greedy: bool
    mean_return: float
    std_return: float
    min_return: float
    max_return: float
    returns: list[float] = Field(default_factory=list, max_length=MOST_RETURNS)
    notes: Words = ""


class CheckpointInfo(Message):
    """One checkpoint, as `checkpoints list --json` shows it.

    Attributes:
        id: Path below the run's folder.
        score: Mean return it was saved with; None when unknown.
        scored_by: What that is the mean of; empty when unknown, as of the best model of an older version.
        created: Seconds since the epoch.
        valid: Whether every file is there with the hash its manifest names.
        resumable: Whether training can continue from it.
        pinned: Whether it stays in the history of its run, however long that grows.
        evaluated: Of the evaluations of its weights that somebody asked for, the newest of those with most
            episodes; None without one, and of a checkpoint that stands in no list.
        memory: Whether it contains the complete replay memory.
        memory_in_file: Whether the replay memory is in it but for the observations, which lie in a file of
            the run's folder (`learner.memory_limit`): of use only if training stops where this was saved.
        allowed: As in `Status`, for going on from it (`run.resume`).
    """

    id: str
    kind: ListedKind
    path: str
    model_id: Whole
    attempt: Whole = 0
    env_steps: Whole
    updates: Whole = 0
    episodes: Whole = 0
    score: float | None = None
    scored_by: ScoredBy = ""
    evaluated: KeptEvaluation | None = None
    created: Moment
    size_bytes: Whole
    note: str = ""
    valid: bool
    resumable: bool = True
    memory: bool = False
    memory_in_file: bool = False
    pinned: bool = False
    error: str = ""
    allowed: Keyed[str] = Field(default_factory=dict)


class RunSummary(Message):
    """One run of the library.

    Attributes:
        agent: As in `RunStatus`.
        pinned: Whether it is protected from deletion.
        allowed: As in `Status`, for going on with this run (`run.resume`) once any other is stopped.
    """

    id: str
    name: str = ""
    note: str = ""
    state: RunState = "stopped"
    reached: str = ""
    env_id: str = ""
    algorithm: str = ""
    agent: str = ""
    experiment: str = ""
    sweep: str = ""
    seed: Whole = 0
    env_steps: Whole = 0
    episodes: Whole = 0
    mean_return: float | None = None
    best_mean_return: float | None = None
    evaluation_return: float | None = None
    created: Moment = 0.0
    seconds: float = 0.0
    size_bytes: Whole = 0
    pinned: bool = False
    resumable: bool = False
    error: str = ""
    allowed: Keyed[str] = Field(default_factory=dict)


class RunList(Message):
    """The runs of the library, the newest first."""

    runs: Listed[RunSummary]


class RunDetails(Message):
    """A run with its settings, by dotted key, the versions it was trained with last, its checkpoints, and the
    evaluations of them that somebody asked for, the oldest first.
    """

    run: RunSummary
    settings: Keyed[Any]
    versions: Keyed[str]
    checkpoints: Listed[CheckpointInfo]
    evaluations: Listed[KeptEvaluation] = Field(default_factory=list)


class RunComparison(Message):
    """Several runs, and the settings that differ: by dotted key the value of each run, in their order."""

    runs: Listed[RunSummary]
    settings: Keyed[Listed[Any]]


class Freed(Message):
    """How much room was made."""

    freed_bytes: Whole


class Exported(Message):
    """What was written, and how it was checked."""

    name: str
    checked: str


ScoreName = Literal["mean_return", "best_mean_return", "evaluation_return"]
"""What a run is judged by in an experiment."""

SCORES: tuple[ScoreName, ...] = get_args(ScoreName)


class Experiment(Message):
    """Runs that differ in their seed, and statistics over the scores of those that are over.

    Attributes:
        score: Which field of a run is its score.
        scored: How many runs are over and have one: what follows is of them.
        waiting: How many runs are to begin.
        deviation: Standard deviation between runs; None of a single one.
        iqm: Interquartile mean: that of the middle half of the scores.
        low: Lower end of its 95 % interval, by a stratified bootstrap over runs.
        high: Upper end.
        runs: In the order in which they began.
    """

    id: str
    env_id: str = ""
    algorithm: str = ""
    agent: str = ""
    score: ScoreName = "mean_return"
    scored: Whole = 0
    waiting: Whole = 0
    mean: float | None = None
    deviation: float | None = None
    iqm: float | None = None
    low: float | None = None
    high: float | None = None
    runs: Listed[RunSummary]


SweepState = Literal["running", "finished", "stopped", "failed"]


class SweepTrial(Message):
    """A trial of a sweep.

    Attributes:
        state: `pruned` is one that was ended because others are better, because it diverged, or by hand.
        score: What it has come to; of one that is not complete the last mean return that it told.
        values: The settings that were searched, by dotted key.
        run_id: Its run; empty before that begins.
    """

    number: Whole
    state: Literal["waiting", "running", "complete", "pruned", "failed"]
    score: float | None = None
    values: Keyed[Any]
    run_id: str = ""


class SweepStatus(Message):
    """A sweep with its trials.

    Attributes:
        score: Which field of a run is its score.
        preset: What its trials are made over, as it was started with; `overrides` likewise, by dotted key.
        wanted: How many trials there are to be.
        parallel: How many of them are trained at the same time.
        crowded: When it was started just now: that these are more than there are cores left, in words.
        space: What is searched, by dotted key: a list of choices, or `{low, high, log, step}`.
        best: The complete trial with the highest score, None before there is one.
        importance: How much each setting mattered for the score, by PED-ANOVA; their sum is 1. Empty while
            too few trials are complete.
    """

    id: str
    state: SweepState
    env_id: str = ""
    algorithm: str = ""
    sampler: str = ""
    pruner: str = ""
    score: ScoreName = "mean_return"
    preset: str = ""
    overrides: Keyed[Any] = Field(default_factory=dict)
    wanted: Whole
    parallel: Whole = 1
    crowded: str = ""
    space: Keyed[Any]
    trials: Listed[SweepTrial]
    best: SweepTrial | None = None
    importance: Keyed[float] = Field(default_factory=dict)


class Applied(Message):
    """Result of `config.apply` and `config.undo`.

    Attributes:
        change: What the trainer has taken over, and from which update on; None where it does not answer: it
            does so as soon as it can.
    """

    change: LiveChange | None = None


class ExperimentList(Message):
    """The experiments of the library, the newest first."""

    experiments: Listed[Experiment]


class Improvement(Message):
    """How probable it is that a run of one experiment scores more than one of another.

    Attributes:
        low: Lower end of its 95 % interval, by a stratified bootstrap over runs.
        high: Upper end.
    """

    better: str
    than: str
    probability: float
    low: float
    high: float


class Comparison(Message):
    """Experiments side by side, and the probability of improvement of each over each other one."""

    experiments: Listed[Experiment]
    improvements: Listed[Improvement]


class CheckpointList(Message):
    """The checkpoints of a run, the newest first."""

    checkpoints: Listed[CheckpointInfo]


class Evaluated(Message):
    """Result of `checkpoint.evaluate`: what the episodes gave, in the order of their seeds.

    Attributes:
        std_return: Standard deviation of the returns, of these episodes alone (not corrected).
        cut: How many episodes did not end, and were cut at `max_steps`.
        notes: What else there is to know, in words.
    """

    run_id: str
    checkpoint: str
    model_id: Whole
    updates: Whole
    env_steps: Whole
    algorithm: str
    agent: str
    env_id: str
    episodes: Whole
    seed: Whole
    greedy: bool
    mean_return: float
    std_return: float
    min_return: float
    max_return: float
    mean_length: float
    returns: Listed[float]
    lengths: Listed[Whole]
    seconds: float
    cut: Whole = 0
    max_steps: Whole | None = None
    notes: Listed[str] = Field(default_factory=list)


def episode_figures(returns: Sequence[float], lengths: Sequence[int]) -> dict[str, Any]:
    """Return what episodes came to, as fields of `Evaluated`."""
    return {
        "episodes": len(returns),
        "mean_return": fmean(returns),
        "std_return": pstdev(returns),
        "min_return": min(returns),
        "max_return": max(returns),
        "mean_length": fmean(lengths),
    }


class JobList(Message):
    """The running jobs, and the last ones that ended, the newest first."""

    jobs: Listed[Job]


class JobTold(Message):
    """A job."""

    job: Job


class CheckpointTold(Message):
    """The checkpoint that was saved or changed."""

    checkpoint: CheckpointInfo


class LogLines(Message):
    """Lines of logs, oldest first.

    Attributes:
        first: Number of the first line there is.
    """

    lines: Listed[LogLine]
    first: Whole


class AlertSent(Message):
    """An alert was taken: by which host, with which HTTP status."""

    place: str
    status: Whole


class EventList(Message):
    """Events, oldest first."""

    events: Listed[Event]


class AuditList(Message):
    """Commands that changed something, oldest first."""

    entries: Listed[AuditEntry]


BucketSize = Annotated[int, Field(ge=0, le=2**44)]
"""A count of rows, of which those of a whole curve can be summed in 64 bits."""


class History(Message):
    """Result of `history.query`: columns of equal length in the order of storing, a place for each bucket.

    Attributes:
        last_row: For episodes the store's last row number that this answer covers: a live tail goes
            on behind it without gap or double. For other metrics the last (attempt, update).
        row: Row number (episodes) or update count of the last row in the bucket.
        attempt: Its attempt; that of all of them.
        episode: Its place, as `env_steps` and `time` are.
        value: Mean of the bucket.
        low: Least value in it.
        high: Greatest value in it.
        count: Rows in it; 1 where the rows came one by one.
        overwritten: Whether a later attempt went back before the last row.
        update: Updates that were made by then; only along that axis (`row` has those of updates).
        clients: Those whose episodes the run has, the first 100.
        of_episodes: Whether the metric is one of episodes, as those of `telemetry.metrics` are.
    """

    run_id: str
    metric: str
    last_row: Whole
    last_update: tuple[Whole, Whole] = (0, 0)
    row: CurveColumn[Whole]
    attempt: CurveColumn[Whole]
    episode: CurveColumn[Whole]
    env_steps: CurveColumn[Whole]
    time: CurveColumn[Moment]
    value: CurveColumn[float]
    low: CurveColumn[float]
    high: CurveColumn[float]
    count: CurveColumn[BucketSize]
    overwritten: CurveColumn[bool] = Field(default_factory=list)
    update: CurveColumn[Whole] = Field(default_factory=list)
    clients: Listed[str] = Field(default_factory=list)
    attempts: Listed[AttemptStart] = Field(default_factory=list)
    metrics: Listed[str] = Field(default_factory=list)
    of_episodes: bool = False

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        columns = (self.row, self.attempt, self.episode, self.env_steps, self.time, self.value, self.low)
        same_length(*columns, self.high, self.count, self.update or self.row, self.overwritten or self.row)
        return self


class ConfigValues(Message):
    """Result of `config.get`.

    Attributes:
        defaults: Every setting's default, by dotted key.
        saved: What the user's config.yaml overrides, by dotted key.
        running: The active run's effective values, by dotted key; empty without a run.
        run: The values of the run that was asked for, by dotted key; empty when none was.
        asks: What that run has executed, where it comes from elsewhere and nobody agreed to it here.
        text: The user's config.yaml.
        hash: Hash of that text, for `config.save`.
        path: Where it is.
        preset: The preset it asks for, empty for none.
        problems: What is wrong with it.
        changes: What the run that was asked for, or else the active one, has changed by `config.apply`.
    """

    defaults: Keyed[Any]
    saved: Keyed[Any]
    running: Keyed[Any]
    run: Keyed[Any] = Field(default_factory=dict)
    changes: Listed[LiveChange] = Field(default_factory=list)
    asks: Execution | None = None
    text: str
    hash: str
    path: str
    preset: str = ""
    problems: Listed[Keyed[Any]] = Field(default_factory=list)


class ConfigProblems(Message):
    """What is wrong with a configuration: each mistake with source, line, key, value, reason, nearest."""

    problems: Listed[Keyed[Any]]


class SavedConfig(Message):
    """The user's config.yaml as it was written, and its hash."""

    hash: str
    text: str


class NewInvitation(Message):
    """Result of `clients.invite.create`. The secret is not stored: it is only sent this once.

    Attributes:
        client: Its id.
        username: Its user on the server.
        addresses: Where it is to find the server: host and port, the likeliest first.
        lan: Whether computers other than the server's own can use it.
        secret: Its password.
        link: The invitation as a link.
        file_text: What belongs into its `.soulsgui` file.
    """

    client: ClientName
    username: str
    addresses: Listed[tuple[str, Whole]]
    lan: bool
    secret: str = Field(repr=False)
    link: str = Field(repr=False)
    file_text: str = Field(repr=False)


class InvitationInfo(Message):
    """One client that was invited.

    Attributes:
        client: Its id.
        invited: When, seconds since the epoch.
        revoked: When that was taken back; None while it may come.
    """

    client: str
    invited: Moment
    revoked: Moment | None = None


class InvitationList(Message):
    """Result of `clients.invite.list`.

    Attributes:
        lan: Whether computers other than the server's own can reach it (`redis.lan`).
        public: Whether they also come in at addresses that are not private (`redis.public`).
        port: Where they come in; 0 where an older server does not tell.
        addresses: What a new invitation would tell: host and port.
        invitations: Everyone who was invited and not forgotten, in that order.
    """

    lan: bool
    public: bool = False
    port: Port = 0
    addresses: Listed[tuple[str, Whole]]
    invitations: Listed[InvitationInfo]


class CutOff(Message):
    """Whether the connections of the client are closed; if not, they are as soon as Redis answers."""

    cut_off: bool


class Purged(Message):
    """How many transitions of a client left the replay memory."""

    transitions: Whole


class JoinedServer(Message):
    """The server this computer plays for from now on."""

    server_id: str


class SavedServer(Message):
    """One server that this computer was invited to.

    Attributes:
        server_id: Its id.
        server_name: What people call it.
        client: What this computer is called there.
        addresses: Where it may be reached: host and port.
        created: When it invited, seconds since the epoch.
    """

    server_id: str
    server_name: str
    client: str
    addresses: Listed[tuple[str, Whole]] = Field(min_length=1)
    created: Moment


class SavedServers(Message):
    """Result of `servers.list`.

    Attributes:
        chosen: Id of the server this computer plays for; empty for the one that runs on it.
        servers: Everyone who invited it, by name.
    """

    chosen: str
    servers: Listed[SavedServer]


class OfferedServer(Message):
    """Result of `servers.look`: what accepting an invitation would mean.

    Attributes:
        server: Who invites.
        known: Whether it invited before: its older invitation ends.
        address: Where it lets us in, as `host:port`; empty when it does not.
        round_trip_s: How long its answer took.
        error: Why it does not let us in, in words.
        runs: What it trains, or trained last, would import, make and call here; None while nobody knows.
        agreed: Whether the owner of this computer agreed to that before.
        cores: Processor cores of this computer.
        unconfined: Why what runs here may write wherever its owner may; empty where it is kept to a folder.
    """

    server: SavedServer
    known: bool
    address: str = ""
    round_trip_s: float | None = None
    error: str = ""
    runs: Execution | None = None
    agreed: bool = False
    cores: Whole = 1
    unconfined: str = ""


class ServerTest(Message):
    """Result of `servers.test`: whether this computer can play for its server.

    Attributes:
        address: Where it lets us in, as `host:port`; empty when it does not.
        round_trip_s: How long its answer took.
        shut_out: Whether it answers and does not let us in.
        error: Why it does not let us in, in words.
        lacks: What it needs and this computer has not.
        env_id: The environment it trains, or trained last; empty while that is not known.
    """

    address: str = ""
    round_trip_s: float | None = None
    shut_out: bool = False
    error: str = ""
    lacks: Listed[MissingRequirement] = Field(default_factory=list)
    env_id: str = ""


class AddressChange(Message):
    """Result of `servers.change_address`.

    Attributes:
        taken: Whether the server is looked for there from now on.
        why: Why not, in words; it is taken all the same once it is confirmed.
        final: Whether no confirmation helps: it is certain that another server is there.
    """

    taken: bool
    why: str = ""
    final: bool = False


class RulesState(Message):
    """Result of `rules.get` and `rules.set`.

    Attributes:
        rules: When the client of this computer may play, and what it may take.
        why_not_idle: Why this system can't tell whether somebody is there; empty when it can.
        why_not_full_screen: Why it can't tell whether a full-screen program runs; empty when it can.
        why_not_one_core: Why it can't keep the client to one core; empty when it can.
        why_not_confined: Why it can't keep what a server has run here to one folder; empty when it can.
    """

    rules: Rules
    why_not_idle: str = ""
    why_not_full_screen: str = ""
    why_not_one_core: str = ""
    why_not_confined: str = ""


class RejectList(Message):
    """Result of `clients.rejects`: the last refused chunks that are kept, oldest first."""

    rejects: Listed[Reject]


class ClientLog(Message):
    """Result of `clients.log`: the newest lines, oldest first.

    Attributes:
        whole: Whether it is all that was written; a client on another computer only sends what went wrong.
    """

    lines: Listed[LogLine]
    whole: bool


class Preset(Message):
    """One preset.

    Attributes:
        name: What `--preset` takes.
        title: A short name.
        about: A line that explains it.
        seconds: How long a run of it took until it ended by itself, where that was measured; 0 for unknown.
        machine: On which machine, in words.
        values: What it sets, by dotted key.
    """

    name: Words
    title: Words
    about: Words = ""
    seconds: float = 0.0
    machine: Words = ""
    values: Keyed[Any]


class PresetList(Message):
    """The presets."""

    presets: Listed[Preset]
