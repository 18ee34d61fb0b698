"""The control API's commands, each declared once.

What a command is called, takes, answers and does, whether it takes long, and how it is typed stand here
alone: the runner's API, its reference page (`docs/api.md`) and the command line are made from it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from soulsgui.wire.control import results
from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.owner import Rules
from soulsgui.wire.messages.session import GamePicture

Role = Literal["server", "client"]
"""Which runner carries a command out: that of a server, or that of client mode."""


@dataclass(frozen=True)
class Typed:
    """How a parameter is typed at the command line.

    Attributes:
        word: What stands for it in the help; empty for a flag.
        option: Its option; empty for one that is told by its place.
        default: What is done without it, in words; empty where it must be there.
        implied: What it is when it is not typed; None takes the default of the parameter.
        given: What a flag means; None means True.
        help: What it is, where that is more than its description says.
    """

    word: str = ""
    option: str = ""
    default: str = ""
    implied: Any = None
    given: Any = None
    help: str = ""


class Params(BaseModel):
    """Parameters of a command; unknown ones are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _can_be_written(cls, values: Any) -> Any:
        """Refuse text that no file could hold: halves of surrogate pairs, which JSON lets through."""
        waiting = [values]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                waiting += [*value, *value.values()]
            elif isinstance(value, list | tuple):
                waiting += value
            elif isinstance(value, str) and re.search("[\ud800-\udfff]", value):
                raise ValueError(f"{ascii(value)[:80]} is no valid text")
        return values


def optional(description: str, default: Any, **constraints: Any) -> Any:
    """Declare a parameter that may be left out: what it is, its default, and what else pydantic checks."""
    return Field(default=default, description=description, **constraints)


Run = Annotated[str, Field(description="id of the run, or how it begins")]
_STOP_ACTIVE = Typed(
    "", "--stop-active", "refuse while one goes on", given="stop", help="stop the run that goes on first"
)
IfActive = Annotated[
    Literal["refuse", "stop"], _STOP_ACTIVE, Field(description="stop the run that goes on first")
]


TRUST_ANY = "any"
LONGEST_NAME, LONGEST_NOTE = 200, 10_000  # characters of what somebody calls a run, or says of it
BEST, NEWEST = "best", "newest"  # checkpoints that every command knows by these names

_TRUST_HELP = "run what it names on this computer, though it comes from elsewhere"


class Empty(Params):
    """No parameters."""


class ServiceParams(Params):
    """Which service."""

    name: str = Field(description="its name, such as `trainer` or `client-1`")


class LocalClientsParams(Params):
    """How many clients run on the server."""

    count: int = Field(ge=0, le=1024, description="how many there are to be")


class RunStartParams(Params):
    """What a new run begins with."""

    preset: Annotated[str, Typed("NAME", "--preset", "none")] = optional(
        "a preset below your own settings", ""
    )
    overrides: dict[str, Any] = optional("settings by dotted key, above everything else", {})
    from_checkpoint: Annotated[str, Typed("CHECKPOINT", "--from", "new weights")] = optional(
        "a checkpoint to begin from, with the settings that it was saved with in place of your own: a run "
        "(its newest), `RUN/best`, or `RUN/` and its path",
        "",
        alias="from",
    )
    trust: Annotated[str, Typed("", "--trust", "be asked", given=TRUST_ANY, help=_TRUST_HELP)] = optional(
        "as of `run.resume`, where that checkpoint comes from elsewhere", ""
    )
    name: Annotated[str, Typed("TEXT", "--name", "date and time alone")] = optional(
        "name of the new run", "", max_length=LONGEST_NAME
    )
    note: Annotated[str, Typed("TEXT", "--note", "none")] = optional(
        "your own words about it", "", max_length=LONGEST_NOTE
    )
    seeds: Annotated[int, Typed("N", "--seeds", "1")] = optional(
        "runs with so many seeds, from `seed` on, one after another: an experiment", 1, ge=1, le=100
    )
    if_active: Annotated[
        Literal["refuse", "stop", "queue"],
        _STOP_ACTIVE,
        Typed("", "--queue", "do not wait", given="queue", help="begin when the runs before it have ended"),
    ] = optional(
        "what becomes of a run that goes on: `stop` ends it first; `queue` begins when it, and those that "
        "wait already, have ended, however they did",
        "refuse",
    )


class QueueMoveParams(Params):
    """Which run of the queue begins earlier or later."""

    number: Annotated[int, Typed("NUMBER")] = Field(description="its number")
    place: Annotated[int, Typed("PLACE")] = Field(
        ge=1, le=1_000_000, description="its place from now on, 1 for the next"
    )


class QueueRemoveParams(Params):
    """Which runs are taken out of the queue."""

    which: Annotated[str, Typed("NUMBER")] = Field(
        min_length=1, max_length=300, description="number of a run, id of an experiment, or `all`"
    )


class RunResumeParams(Params):
    """How a run goes on."""

    run: Annotated[Run, Typed("RUN", default="latest")] = "latest"
    checkpoint: Annotated[str, Typed("ID", "--checkpoint", "the newest")] = optional(
        f"a checkpoint of it: its path below the run's folder, `{BEST}` or `{NEWEST}`", ""
    )
    without_goal: Annotated[bool, Typed("", "--without-goal", "keep them")] = optional(
        "leave its goals out", False
    )
    overrides: dict[str, Any] = optional(
        "settings by dotted key that it goes on with: those whose effect is `new run or resume`, `now` or "
        "`next round`",
        {},
    )
    trust: Annotated[str, Typed("", "--trust", "be asked", given=TRUST_ANY, help=_TRUST_HELP)] = optional(
        "digest of what may run on this computer though the run comes from elsewhere, as a refusal tells it "
        f"(`asks`); or `{TRUST_ANY}`, whatever it is",
        "",
    )
    if_active: IfActive = "refuse"


Score = Annotated[results.ScoreName, Field(description="what a run is judged by")]


class ExperimentsParams(Params):
    """By what experiments are judged."""

    score: Score = "mean_return"


class ExperimentParams(ExperimentsParams):
    """Which experiment."""

    experiment: str = optional("its id, how it begins, the name in it, or `latest`", "latest")


class CompareParams(ExperimentsParams):
    """Which experiments."""

    experiments: list[str] = Field(min_length=2, max_length=20, description="each as in `experiments.show`")


class SweepStartParams(ExperimentsParams):
    """What a sweep searches, and how."""

    space: dict[str, Any] = Field(
        min_length=1,
        max_length=50,
        description="what is searched, by dotted key: `0.0001..0.01:log`, a list of choices, or "
        "`{low, high, log, step}`",
    )
    trials: int = optional("how many runs", 20, ge=1, le=1000)
    sampler: Literal["tpe", "random", "grid"] = optional(
        "how values are drawn; `grid` takes choices alone", "tpe"
    )
    pruner: Literal["median", "hyperband", "halving", "none"] = optional(
        "by what a trial is given up early: its mean return at the same part of its steps is compared",
        "median",
    )
    name: str = optional("name of the sweep", "", max_length=LONGEST_NAME)
    preset: str = optional("a preset below your own settings", "")
    overrides: dict[str, Any] = optional(
        "settings by dotted key, above everything else but what is searched", {}
    )


class SweepParams(Params):
    """Which sweep."""

    sweep: str = optional("its id, how it begins, the name in it, or `latest`", "latest")


class RunParams(Params):
    """Which run."""

    run: Annotated[Run, Typed("RUN", default="latest")] = "latest"


class OneRunParams(Params):
    """Which run."""

    run: Annotated[str, Typed("RUN")] = Field(description="id of the run, or how it begins")


class WholeRunParams(Params):
    """Which run: no beginning will do."""

    run: Annotated[str, Typed("RUN")] = Field(description="id of the run, or its name")


class RunsListParams(Params):
    """Which runs."""

    trashed: bool = optional("those in the bin instead", False)


class RunsCompareParams(Params):
    """Which runs."""

    runs: Annotated[list[str], Typed("RUN")] = Field(
        description="ids of the runs, or how they begin", min_length=2, max_length=50
    )


class RunsEditParams(OneRunParams):
    """Which run is called, noted or pinned otherwise."""

    name: Annotated[str | None, Typed("TEXT", "--name", "leave it")] = optional(
        "its name; null leaves it", None, max_length=LONGEST_NAME
    )
    note: Annotated[str | None, Typed("TEXT", "--note", "leave it")] = optional(
        "the words about it; null leaves them", None, max_length=LONGEST_NOTE
    )
    pin: Annotated[bool | None, Typed("yes|no", "--pin", "leave it")] = optional(
        "whether it is kept from being thrown away; null leaves it", None
    )


class RunsPurgeParams(Params):
    """Which run of the bin."""

    run: Annotated[str, Typed("RUN", default="all that are in the bin")] = optional(
        "id of the run, or its name; empty for all", ""
    )


class RunsImportParams(Params):
    """What is imported, and as what."""

    file: str = Field(description="id of the `.soulsrun` file, brought by `POST /v1/files`")
    name: str = optional("name of the new run; empty: the one it had", "", max_length=LONGEST_NAME)


class CheckpointListParams(Params):
    """Whose checkpoints."""

    run: Run = "latest"
    trashed: bool = optional("those of it in the bin instead", False)


_OfRun = Annotated[Run, Typed("RUN", "--run", "latest")]
_NAMES = f"`{BEST}`, `{NEWEST}` for the newest whole one; behind another run: `RUN/{BEST}`"
_NAMED = f"its path below the run's folder; {_NAMES}"
_Which = Annotated[str, Typed("CHECKPOINT", help=f"as `checkpoints list` shows it; {_NAMES}")]


class CheckpointVerifyParams(Params):
    """What is read anew."""

    run: Annotated[str, Typed("RUN", default="latest")] = optional(
        f"id of the run, or how it begins; one checkpoint of it: `RUN/{BEST}`, of the latest run `{BEST}`",
        "latest",
    )


class CheckpointParams(Params):
    """Which checkpoint."""

    path: _Which = Field(description=_NAMED)
    run: _OfRun = "latest"


class CheckpointExportParams(CheckpointParams):
    """Which checkpoint is written as what."""

    format: Annotated[Literal["onnx", "safetensors"], Typed("onnx|safetensors", "--format", "onnx")] = (
        optional("how: the policy as a graph (ONNX), or its weights with the normalisers", "onnx")
    )


class CheckpointPurgeParams(Params):
    """Which checkpoint of the bin."""

    path: Annotated[str, Typed("CHECKPOINT", default="all of the run")] = optional(
        f"{_NAMED}; empty for all", ""
    )
    run: _OfRun = "latest"


class CheckpointSaveParams(Params):
    """What is saved, and what is said of it."""

    note: Annotated[str, Typed("TEXT", "--note", "none")] = optional(
        "your own words about it", "", max_length=LONGEST_NOTE
    )
    buffer: Annotated[bool, Typed("", "--buffer", "without")] = optional(
        "with the replay memory, where there is one; it may be large", False
    )


class CheckpointEditParams(CheckpointParams):
    """Which checkpoint is noted or pinned otherwise."""

    note: Annotated[str | None, Typed("TEXT", "--note", "leave it")] = optional(
        "the words about it; null leaves them", None, max_length=LONGEST_NOTE
    )
    pin: Annotated[bool | None, Typed("yes|no", "--pin", "leave it")] = optional(
        "whether the history keeps it however long that grows; of one that newer ones replace, a copy in the "
        "history is pinned; null leaves it",
        None,
    )


class CheckpointEvaluateParams(Params):
    """Which weights play, how, and who sees them."""

    checkpoint: Annotated[
        str,
        Typed(
            "CHECKPOINT",
            default="the last one saved",
            help=f"as `checkpoints list` shows it; {_NAMES}; `{NEWEST}` of a run that goes on is what it "
            "trains at this moment",
        ),
    ] = optional(
        f"{_NAMED}; `{NEWEST}` of a run that goes on is what it trains at this moment; empty for the last "
        "one saved",
        "",
    )
    run: Annotated[Run, Typed("RUN", "--run", "latest")] = "latest"
    model_id: Annotated[int | None, Typed("N", "--model", "none")] = optional(
        "in its place: weights of the run that goes on, of which the trainer holds the last ones", None, ge=0
    )
    episodes: Annotated[int, Typed("N", "--episodes", "20")] = optional(
        "how many are played", 20, ge=1, le=10_000
    )
    seed: Annotated[int, Typed("S", "--seed", "0")] = optional(
        "of the first of them; each further one has the next", 0, ge=0, lt=2**31
    )
    stochastic: Annotated[bool, Typed("", "--stochastic", "take the best ones")] = optional(
        "draw actions from what the policy says", False
    )
    overrides: dict[str, Any] = optional(
        "settings by dotted key, above those of the checkpoint, such as `env.kwargs`", {}
    )
    frames: bool = optional(
        "send pictures to windows that watch the job, and play at the pace of the environment meanwhile",
        False,
    )
    video: Literal["", "mp4", "gif", "any"] = optional(
        "film all of it, into a file of the job; `any`: as mp4 where that can be made, else as gif", ""
    )
    trust: Annotated[str, Typed("", "--trust", "be asked", given=TRUST_ANY, help=_TRUST_HELP)] = optional(
        "as in `run.resume`", ""
    )


class JobParams(Params):
    """Which job."""

    job: Annotated[str, Typed("ID", help="its id, as `soulsgui jobs list` shows it")] = Field(
        description="its id"
    )


class ConfigGetParams(Params):
    """Whose values are asked for, too."""

    run: str = optional("id of a run, to have its values as well", "")


class ConfigCheckParams(Params):
    """What is looked at."""

    text: str | None = optional("text of a config.yaml; null checks the saved one", None)
    overrides: dict[str, Any] = optional("settings above it, by dotted key", {})
    preset: str = optional("a preset below it", "")


class ConfigSaveParams(Params):
    """Either the text whole, or changes by key."""

    text: str | None = optional("the whole text", None, repr=False)  # secrets may stand in it
    changes: dict[str, Any] = optional("settings by dotted key", {})
    reset: list[str] = optional("keys that take the shipped value again", [])
    base_hash: str | None = optional("hash the change was made from, else `not_now`; null overwrites", None)


class ConfigApplyParams(Params):
    """What the run that goes on has other values of."""

    keys: dict[str, Any] = Field(
        min_length=1,
        max_length=50,
        description="settings by dotted key, whose effect is `now` or `next round`",
    )


class HistoryQueryParams(Params):
    """Which curve."""

    run: Run = "latest"
    metric: str = optional("`return`, `length`, or a name from an update row's values", "return")
    client: str = optional("only this client's episodes; empty for all", "")
    x: Literal["episode", "env_step", "update", "time"] = optional(
        "the axis of `start` and `end`, along which buckets are of equal width; for `update` along env_step",
        "episode",
    )
    start: float | None = optional("where it begins on that axis", None)
    end: float | None = optional("where it ends on that axis", None)
    points: int = optional(
        "most buckets to answer with (at least one for each attempt): so many rows come singly",
        2000,
        ge=1,
        le=200_000,
    )
    missing_ok: bool = optional("what the run does not know has an empty curve, and is not refused", False)


class HistoryLogsParams(Params):
    """Which lines."""

    service: str = optional("name of the service; empty for all of the run, by time", "")
    run: Run = "latest"
    before: int | None = optional("only lines with smaller numbers; null for the newest", None)
    n: int = optional("how many lines", 200, ge=1, le=5000)
    level: Literal["debug", "info", "warning", "error"] = optional("least level", "debug")
    filter: str = optional("only lines that contain this text, whatever its case", "")


class HistoryEventsParams(Params):
    """Which events."""

    since: int = optional("those after this number", 0)


class HistoryAuditParams(Params):
    """Which commands."""

    since: int = optional("those after this number", 0)
    limit: int = optional("the newest of these, so many", 500, ge=1, le=2000)


class ClientParams(Params):
    """Which client."""

    client: Annotated[
        str, Typed("NAME", help="its id or its name, as `soulsgui clients list` shows them")
    ] = Field(description="its id")


class ClientPauseParams(ClientParams):
    """Which client waits, and for how long."""

    after_episode: bool = optional("it may finish the episodes it is in; in client mode only", False)
    for_s: float | None = optional(
        "seconds after which it goes on by itself, null for not at all; in client mode only",
        None,
        gt=0,
        le=7 * 86_400,
    )


class RejectsParams(Params):
    """Whose chunks."""

    client: Annotated[str, Typed("NAME", default="of all")] = optional("only those of this client", "")


class ClientLogParams(ClientParams):
    """Which client, and how much of it."""

    n: Annotated[int, Typed("LINES", "-n", "50", implied=50)] = optional("how many lines", 100, ge=1, le=1000)


class InviteParams(Params):
    """Who is invited."""

    client: str = Field(description="its id, such as gamer-01")


class ClientRenameParams(ClientParams):
    """Which client is called something else."""

    name: Annotated[str, Typed("TEXT", default="its id again", implied="")] = Field(
        max_length=64, description="the name"
    )


class InvitationParams(Params):
    """An invitation."""

    invitation: str = Field(repr=False, description="a link, or the text of a `.soulsgui` file")


Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


class AgreeParams(Params):
    """What this computer may run for the server that it plays for."""

    server_id: str = Field(description="its id")
    digest: Digest = Field("", description="of the `asks` that was agreed to; empty: of none")
    always: bool = Field(False, description="whatever the server names, also later")


class JoinParams(InvitationParams):
    """An invitation, and what may run for its server."""

    digest: Digest = Field("", description="of the `runs` that was agreed to; empty: of none")
    always: bool | None = Field(
        None, description="whatever the server names, also later; null: as it was agreed before"
    )


class SavedServerParams(Params):
    """Which saved server."""

    server_id: str = Field(
        description="its id; empty for the server that runs on this computer, which can't be forgotten"
    )


class ServerPlaceParams(SavedServerParams):
    """Where a saved server is."""

    place: str = Field(
        max_length=300, description="host and port, such as `192.168.1.7:6379`; without a port the known one"
    )
    confirmed: bool = optional("take it although nobody, or somebody else, answers there now", False)


class RulesParams(Params):
    """When the client of this computer may play."""

    rules: Rules = Field(description="the rules")


class ServerSetParams(Params):
    """What is otherwise from now on, and after the next start; what is null stays."""

    lan: Annotated[
        Literal["on", "off"] | None,
        Typed("on|off", "--lan", "leave it", help="whether other computers come in at private addresses"),
    ] = optional("whether other computers come in at this machine's private addresses (`redis.lan`)", None)
    public: Annotated[
        Literal["on", "off"] | None,
        Typed("on|off", "--public", "leave it", help="whether also at those that are not private"),
    ] = optional("whether they also come in at those that are not private (`redis.public`)", None)
    port: Annotated[int | None, Typed("PORT", "--port", "leave it")] = optional(
        "the port where they come in (`redis.port`)", None, ge=1, le=65_535
    )
    new_token: Annotated[bool, Typed("", "--new-token", "keep it")] = optional(
        "another token of the control API; the older one ends at once", False
    )


class ShutdownParams(Params):
    """How everything ends."""

    save: bool = optional("save the run first", True)


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: What it is called, GROUP.COMMAND.
        params: Its parameters.
        help: What it does, as the reference and the command line say it.
        result: What it answers; None for nothing but that it is done.
        more: What else there is to know of it.
        roles: Who carries it out.
        long: What it does meanwhile, by role, where every window is shown that it goes on: as a job.
        job: What it does first, where it is answered at once with its `Job`, whose result is `result`.
        file: Whether it makes a file, which the command line fetches.
        typed: The words of the command line that are this very command; empty where it has none of its own.
        reads: Whether it changes nothing: it is left out of the audit log.
        repeated: Whether it is left out, too, though it asks something of a client: for a window that asks
            twice a second.
        as_json: Whether its result can be asked for in JSON there.
        examples: Command lines for its help, without the program's name.
    """

    name: str
    params: type[Params]
    help: str
    result: type[Message] | None = None
    more: str = ""
    roles: tuple[Role, ...] = ("server",)
    long: Mapping[Role, str] = field(default_factory=dict)
    job: str = ""
    file: bool = False
    typed: str = ""
    reads: bool = False
    repeated: bool = False
    as_json: bool = False
    examples: tuple[str, ...] = ()


_BOTH: tuple[Role, ...] = ("server", "client")
_CLIENT: tuple[Role, ...] = ("client",)
_STARTING: Mapping[Role, str] = {"server": "starting the services"}
_GOING_OVER: Mapping[Role, str] = {"client": "going over to that server"}

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command(
            "server.hello",
            Empty,
            "say who answers and what it can do",
            results.Hello,
            roles=_BOTH,
            reads=True,
        ),
        Command(
            "server.usage",
            Empty,
            "say what takes the disk, the memory of Redis, and the network",
            results.Usage,
            typed="usage",
            reads=True,
            as_json=True,
        ),
        Command(
            "server.set",
            ServerSetParams,
            "change where other computers come in, or the token of the control API, while it runs",
            results.Reach,
            "The run goes on. With a new token every window and program has to read `control.json` anew. A "
            "client gets another secret by `clients.invite.reissue`; the password of the server is good for "
            "who can open its socket alone, and is made anew at a start that finds no file of it.",
            typed="server set",
            examples=("server set --lan on", "server set --port 6380", "server set --new-token"),
        ),
        Command("server.shutdown", ShutdownParams, "end everything, after this answer", roles=_BOTH),
        Command(
            "service.start",
            ServiceParams,
            "start a service that was stopped or has failed, and wait until it is ready",
            more="In client mode: let this machine help; answered at once where there is no server yet.",
            roles=_BOTH,
            long={"client": "starting the client"},
        ),
        Command(
            "service.stop",
            ServiceParams,
            "stop a service; it is not started again by itself",
            roles=_BOTH,
            long={"server": "stopping", "client": "stopping the client"},
        ),
        Command(
            "service.restart",
            ServiceParams,
            "stop a service and start it again, and wait until it is ready",
            roles=_BOTH,
            long={"server": "restarting", "client": "restarting the client"},
        ),
        Command(
            "service.local_clients",
            LocalClientsParams,
            "start or stop clients of the server's own until there are so many",
            results.ClientCount,
        ),
        Command(
            "run.start",
            RunStartParams,
            "begin a new run",
            results.RunPlace,
            "Answered when trainer and telemetry are ready, or when it waits in the queue. With several "
            "seeds the first begins and the others wait. A run of the queue has the settings of the moment "
            "in which it was asked for.",
            long=_STARTING,
            typed="run start",
            examples=(
                "run start --name first",
                "run start --preset pendulum_sac --local-clients 1",
                "run start --name compared --seeds 5 --queue",
            ),
        ),
        Command(
            "run.resume",
            RunResumeParams,
            "go on with a run as a new attempt",
            results.RunPlace,
            "Answered when trainer and telemetry are ready. A run that has reached a goal goes on from its "
            "newest checkpoint only with another goal, or without one.",
            long=_STARTING,
            typed="run resume",
            examples=("run resume", "run resume 2026-11-20_10-00-00_first --set stop.env_steps=2000000"),
        ),
        Command(
            "run.stop",
            Empty,
            "save and end the run",
            results.RunPlace,
            "Answered when its services have ended.",
            long={"server": "saving and ending the services"},
            typed="run stop",
        ),
        Command(
            "run.pause",
            Empty,
            "let the run rest, with everything kept",
            results.Done,
            "Clients are granted nothing and nothing is learned.",
            typed="run pause",
        ),
        Command("run.continue", Empty, "let a paused run go on", results.Done, typed="run continue"),
        Command(
            "run.queue.list",
            Empty,
            "list the runs that wait for their turn",
            results.RunQueued,
            typed="run queue list",
            reads=True,
            as_json=True,
        ),
        Command(
            "run.queue.move",
            QueueMoveParams,
            "let a run of the queue begin earlier or later",
            results.RunQueued,
            typed="run queue move",
        ),
        Command(
            "run.queue.remove",
            QueueRemoveParams,
            "take runs out of the queue; what they were to begin with is gone",
            results.RunQueued,
            typed="run queue remove",
        ),
        Command("runs.list", RunsListParams, "list every run, the newest first", results.RunList, reads=True),
        Command(
            "runs.show",
            RunParams,
            "tell a run with its settings, versions and checkpoints",
            results.RunDetails,
            typed="runs show",
            reads=True,
            as_json=True,
        ),
        Command(
            "runs.compare",
            RunsCompareParams,
            "tell what differs between runs",
            results.RunComparison,
            typed="runs compare",
            reads=True,
            as_json=True,
        ),
        Command(
            "runs.edit",
            RunsEditParams,
            "change name or note of a run, or pin it",
            results.RunSummary,
            typed="runs edit",
            examples=("runs edit 2026-11-20_10-00-00 --name first --pin yes",),
        ),
        Command(
            "runs.trash", WholeRunParams, "throw a run into the bin", results.RunSummary, typed="runs trash"
        ),
        Command(
            "runs.restore",
            OneRunParams,
            "put a run of the bin back",
            results.RunSummary,
            typed="runs restore",
        ),
        Command(
            "runs.purge",
            RunsPurgeParams,
            "remove runs of the bin for good, and tell how much room that makes",
            results.Freed,
            typed="runs purge",
        ),
        Command(
            "runs.export",
            RunParams,
            "write a run into one file: settings, versions, curves, models, a report to read",
            results.Exported,
            "The file (`.soulsrun`, a zip) opens on any server: `runs.import`.",
            job="writing the run into a file",
            file=True,
            typed="runs export",
        ),
        Command(
            "runs.import",
            RunsImportParams,
            "take a run from a file into the library",
            results.RunSummary,
            "Nothing of it is executed; whoever goes on with it is asked first, as with every run from "
            "elsewhere.",
            job="reading the file",
        ),
        Command(
            "experiments.list",
            ExperimentsParams,
            "list the experiments (`run.start` with several seeds), the newest first",
            results.ExperimentList,
            reads=True,
        ),
        Command(
            "experiments.show",
            ExperimentParams,
            "return an experiment, its runs, and statistics over them",
            results.Experiment,
            reads=True,
        ),
        Command(
            "experiments.compare",
            CompareParams,
            "return experiments side by side, with the probability of improvement between each two",
            results.Comparison,
            reads=True,
        ),
        Command(
            "sweep.start",
            SweepStartParams,
            "search values of settings with which a run does best",
            results.SweepStatus,
            "Each trial is a run of the queue. Needs Optuna, which keeps the sweep in `sweeps.sqlite3` of "
            "the data folder. One sweep at a time; it goes on when the server is back.",
        ),
        Command(
            "sweep.status",
            SweepParams,
            "return a sweep with its trials, the best of them, and which settings mattered",
            results.SweepStatus,
            reads=True,
        ),
        Command(
            "sweep.stop",
            Empty,
            "end the sweep that goes on, and the run of its trial",
            results.SweepStatus,
            long={"server": "ending the trial"},
        ),
        Command(
            "history.query",
            HistoryQueryParams,
            "return a curve, in buckets",
            results.History,
            roles=_BOTH,
            reads=True,
        ),
        Command(
            "history.logs",
            HistoryLogsParams,
            "return lines of logs",
            results.LogLines,
            roles=_BOTH,
            reads=True,
        ),
        Command(
            "history.events",
            HistoryEventsParams,
            "return what has happened",
            results.EventList,
            roles=_BOTH,
            reads=True,
        ),
        Command(
            "history.audit",
            HistoryAuditParams,
            "return the commands that changed something, who gave them, and what became of them",
            results.AuditList,
            roles=_BOTH,
            reads=True,
        ),
        Command(
            "checkpoint.list",
            CheckpointListParams,
            "list the checkpoints of a run, verified, the newest first",
            results.CheckpointList,
            reads=True,
        ),
        Command(
            "checkpoint.save",
            CheckpointSaveParams,
            "save a checkpoint now",
            results.CheckpointTold,
            "Answered when it is on the disk.",
            long={"server": "saving"},
            typed="quicksave",
            as_json=True,
        ),
        Command(
            "checkpoint.edit",
            CheckpointEditParams,
            "change the note of a checkpoint, or pin it",
            results.CheckpointTold,
            typed="checkpoints edit",
        ),
        Command(
            "checkpoint.load",
            CheckpointParams,
            "let the run that goes on continue from a checkpoint, of it or of another run",
            results.CheckpointTold,
            "It is saved first, and goes on as a new attempt: clients stay, model ids never go back.",
            job="saving, then loading",
            typed="checkpoints load",
        ),
        Command(
            "checkpoint.export",
            CheckpointExportParams,
            "write a checkpoint as a file for other programs",
            results.Exported,
            "An ONNX graph is compared with the policy before it is called done.",
            job="reading the checkpoint",
            file=True,
            typed="checkpoints export",
            examples=("checkpoints export best --format onnx",),
        ),
        Command(
            "checkpoint.trash", CheckpointParams, "throw a checkpoint into the bin", typed="checkpoints trash"
        ),
        Command(
            "checkpoint.restore",
            CheckpointParams,
            "put a checkpoint of the bin back",
            results.CheckpointTold,
            typed="checkpoints restore",
        ),
        Command(
            "checkpoint.purge",
            CheckpointPurgeParams,
            "remove checkpoints of the bin for good, and tell how much room that makes",
            results.Freed,
            typed="checkpoints purge",
        ),
        Command(
            "checkpoint.verify",
            CheckpointVerifyParams,
            "read every file of the checkpoints of a run anew, and check it by its hash",
            results.CheckpointList,
            job="reading the checkpoints",
            typed="checkpoints verify",
            reads=True,
            as_json=True,
        ),
        Command(
            "checkpoint.evaluate",
            CheckpointEvaluateParams,
            "play episodes with weights of a run, in the background",
            results.Evaluated,
            job="waiting for the weights",
        ),
        Command(
            "job.list",
            Empty,
            "list the jobs, the newest first",
            results.JobList,
            typed="jobs list",
            reads=True,
            as_json=True,
        ),
        Command(
            "job.cancel",
            JobParams,
            "cancel a job",
            results.JobTold,
            "Answered when it has ended, which it may have done before.",
            typed="jobs cancel",
        ),
        Command(
            "config.get",
            ConfigGetParams,
            "return defaults, what the user changed, what the active run uses, and what another one used",
            results.ConfigValues,
            reads=True,
        ),
        Command(
            "config.check",
            ConfigCheckParams,
            "return every mistake, without changing anything",
            results.ConfigProblems,
            reads=True,
        ),
        Command(
            "config.apply",
            ConfigApplyParams,
            "let the run that goes on have other values of live settings",
            results.Applied,
            "They are noted in the run's folder and used from a known update on, also when it is resumed. No "
            "client is told of them.",
        ),
        Command(
            "config.undo",
            Empty,
            "take the last `config.apply` back; given again, the one before it",
            results.Applied,
            typed="hyper undo",
        ),
        Command("config.save", ConfigSaveParams, "write the user's config.yaml", results.SavedConfig),
        Command("config.presets", Empty, "list the shipped presets", results.PresetList, reads=True),
        Command(
            "alerts.test",
            Empty,
            "send an alert to the webhook now",
            results.AlertSent,
            "Answered when it was taken.",
            typed="alerts test",
        ),
        Command("clients.pause", ClientPauseParams, "let a client wait", roles=_BOTH, typed="clients pause"),
        Command(
            "clients.resume",
            ClientParams,
            "let a client go on",
            more="One of the server's own that was stopped is started again.",
            roles=_BOTH,
            typed="clients resume",
        ),
        Command(
            "clients.drain", ClientParams, "let a client finish its episodes and stop", typed="clients drain"
        ),
        Command("clients.stop", ClientParams, "let a client stop at once", typed="clients stop"),
        Command(
            "clients.rename",
            ClientRenameParams,
            "call a client something else on screen",
            more="Its id stays.",
            typed="clients rename",
        ),
        Command(
            "clients.forget", ClientParams, "take a client that is gone off the list", typed="clients forget"
        ),
        Command(
            "clients.log",
            ClientLogParams,
            "what a client wrote last",
            results.ClientLog,
            typed="clients log",
            reads=True,
            as_json=True,
        ),
        Command(
            "clients.look",
            ClientParams,
            "a small picture of what a client's game shows now",
            GamePicture,
            more="Its owner allows it, by the rules on that computer; for the server's own clients "
            "`client.shown` does. Each call leaves a wish for one picture with the client.",
            repeated=True,
        ),
        Command(
            "clients.release",
            ClientParams,
            "let a client that was cut off send again",
            typed="clients release",
        ),
        Command(
            "clients.purge",
            ClientParams,
            "let the run learn no more from what a client has sent so far",
            results.Purged,
            more="It leaves the replay memory, where the algorithm has one; what was learned from it stays.",
            typed="clients purge",
        ),
        Command(
            "clients.rejects",
            RejectsParams,
            "the last samples that were refused, and why",
            results.RejectList,
            typed="clients rejects",
            reads=True,
            as_json=True,
        ),
        Command(
            "clients.invite.create",
            InviteParams,
            "let another computer play for this server",
            results.NewInvitation,
        ),
        Command(
            "clients.invite.reissue",
            InviteParams,
            "give a client that was invited before another secret; the older one ends at once",
            results.NewInvitation,
        ),
        Command(
            "clients.invite.list",
            Empty,
            "say who was invited, and what a new invitation would tell",
            results.InvitationList,
            reads=True,
        ),
        Command(
            "clients.revoke",
            ClientParams,
            "take an invitation back and cut its computer off",
            results.CutOff,
            typed="revoke",
        ),
        Command(
            "servers.list",
            Empty,
            "list everyone who invited this computer",
            results.SavedServers,
            roles=_CLIENT,
            reads=True,
        ),
        Command(
            "servers.look",
            InvitationParams,
            "say what accepting an invitation would mean; changes nothing",
            results.OfferedServer,
            roles=_CLIENT,
            reads=True,
        ),
        Command(
            "servers.join",
            JoinParams,
            "keep an invitation and play for its server from now on",
            results.JoinedServer,
            roles=_CLIENT,
            long=_GOING_OVER,
        ),
        Command(
            "servers.agree",
            AgreeParams,
            "let the server this computer plays for run here what it asks for",
            roles=_CLIENT,
        ),
        Command(
            "servers.choose",
            SavedServerParams,
            "play for a saved server from now on, or, not playing, at the next switching on",
            roles=_CLIENT,
            long=_GOING_OVER,
        ),
        Command(
            "servers.forget",
            SavedServerParams,
            "forget an invitation; a client that plays for its server ends",
            roles=_CLIENT,
        ),
        Command(
            "servers.test",
            Empty,
            "try out the server this computer plays for; changes nothing",
            results.ServerTest,
            roles=_CLIENT,
            reads=True,
        ),
        Command(
            "servers.change_address",
            ServerPlaceParams,
            "look for a saved server at another address first, once it is found there",
            results.AddressChange,
            roles=_CLIENT,
            long={"client": "looking for that server"},
        ),
        Command(
            "rules.get",
            Empty,
            "tell when the client may play, and which rules can't be followed on this system",
            results.RulesState,
            roles=_CLIENT,
            reads=True,
        ),
        Command(
            "rules.set",
            RulesParams,
            "let the client play by other rules from now on",
            results.RulesState,
            roles=_CLIENT,
        ),
    )
}
"""Every command, by name."""
