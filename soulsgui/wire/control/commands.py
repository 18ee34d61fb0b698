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
                raise ValueError(f"{ascii(value)[:80]} is not valid text")
        return values


def optional(description: str, default: Any, **constraints: Any) -> Any:
    """Declare a parameter that may be left out: what it is, its default, and what else pydantic checks."""
    return Field(default=default, description=description, **constraints)


Run = Annotated[str, Field(description="id of the run, or the start of it")]
_STOP_ACTIVE = Typed(
    "", "--stop-active", "refuse while a run is active", given="stop", help="stop the active run first"
)
IfActive = Annotated[Literal["refuse", "stop"], _STOP_ACTIVE, Field(description="stop the active run first")]


TRUST_ANY = "any"
LONGEST_NAME, LONGEST_NOTE = 200, 10_000  # characters of what somebody calls a run, or says of it
BEST, NEWEST = "best", "newest"  # checkpoints that every command knows by these names

_TRUST_HELP = "run what it names, even if it comes from another computer"


class Empty(Params):
    """No parameters."""


class ServiceParams(Params):
    """Which service."""

    name: str = Field(description="name of the service, such as `trainer` or `client-1`")


class LocalClientsParams(Params):
    """How many clients run on the server."""

    count: int = Field(ge=0, le=1024, description="how many clients there should be")


class RunStartParams(Params):
    """What a new run begins with."""

    preset: Annotated[str, Typed("NAME", "--preset", "none")] = optional(
        "preset to use; your own settings win over it", ""
    )
    overrides: dict[str, Any] = optional("settings by dotted key; they win over everything else", {})
    from_checkpoint: Annotated[str, Typed("CHECKPOINT", "--from", "new weights")] = optional(
        "checkpoint to start from, with the settings it was saved with instead of your own: `RUN` (its "
        "newest), `RUN/best`, or `RUN/` and its path",
        "",
        alias="from",
    )
    trust: Annotated[str, Typed("", "--trust", "ask", given=TRUST_ANY, help=_TRUST_HELP)] = optional(
        "as for `run.resume`, if the checkpoint comes from another computer", ""
    )
    name: Annotated[str, Typed("TEXT", "--name", "date and time only")] = optional(
        "name of the new run", "", max_length=LONGEST_NAME
    )
    note: Annotated[str, Typed("TEXT", "--note", "none")] = optional(
        "a note about it", "", max_length=LONGEST_NOTE
    )
    seeds: Annotated[int, Typed("N", "--seeds", "1")] = optional(
        "number of seeds, counted up from `seed`; several make an experiment, one run after another",
        1,
        ge=1,
        le=100,
    )
    if_active: Annotated[
        Literal["refuse", "stop", "queue"],
        _STOP_ACTIVE,
        Typed(
            "",
            "--queue",
            "do not wait",
            given="queue",
            help="wait in the queue, and start when the earlier runs have ended",
        ),
    ] = optional(
        "what to do if a run is active: `refuse`; `stop` ends it first; `queue` starts the new run when "
        "that one and all in the queue have ended",
        "refuse",
    )


class QueueMoveParams(Params):
    """Which run of the queue begins earlier or later."""

    number: Annotated[int, Typed("NUMBER")] = Field(description="its number in the queue")
    place: Annotated[int, Typed("PLACE")] = Field(
        ge=1, le=1_000_000, description="its new place, 1 for the next run to start"
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
        f"checkpoint of the run: its path in the run's folder, `{BEST}` or `{NEWEST}`", ""
    )
    without_goal: Annotated[bool, Typed("", "--without-goal", "keep the goals")] = optional(
        "continue without its goals", False
    )
    overrides: dict[str, Any] = optional(
        "new values of settings, by dotted key: those whose effect is `new run or resume`, `now` or "
        "`next round`",
        {},
    )
    trust: Annotated[str, Typed("", "--trust", "ask", given=TRUST_ANY, help=_TRUST_HELP)] = optional(
        "digest of what may run on this computer although the run comes from another one, as "
        f"given in a refusal (`asks`); or `{TRUST_ANY}` for all of it",
        "",
    )
    if_active: IfActive = "refuse"


Score = Annotated[results.ScoreName, Field(description="how runs are scored")]


class ExperimentsParams(Params):
    """By what experiments are judged."""

    score: Score = "mean_return"


class ExperimentParams(ExperimentsParams):
    """Which experiment."""

    experiment: str = optional("its id, the start of the id, the name in it, or `latest`", "latest")


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
    trials: int = optional("number of trials", 20, ge=1, le=1000)
    parallel: int = optional("number of trials that are trained at the same time", 1, ge=1, le=64)
    sampler: Literal["tpe", "random", "grid"] = optional(
        "how values are sampled; `grid` takes choices only", "tpe"
    )
    pruner: Literal["median", "hyperband", "halving", "none"] = optional(
        "how trials are pruned: by comparing mean returns at the same fraction of the steps",
        "median",
    )
    name: str = optional("name of the sweep", "", max_length=LONGEST_NAME)
    preset: str = optional("preset to use; your own settings win over it", "")
    overrides: dict[str, Any] = optional(
        "settings by dotted key; they win over everything but what is searched", {}
    )


class SweepParams(Params):
    """Which sweep."""

    sweep: str = optional("its id, the start of the id, the name in it, or `latest`", "latest")


class RunParams(Params):
    """Which run."""

    run: Annotated[Run, Typed("RUN", default="latest")] = "latest"


class OneRunParams(Params):
    """Which run."""

    run: Annotated[str, Typed("RUN")] = Field(description="id of the run, or the start of it")


class WholeRunParams(Params):
    """Which run: no beginning will do."""

    run: Annotated[str, Typed("RUN")] = Field(description="id of the run, or its name")


class RunsListParams(Params):
    """Which runs."""

    trashed: bool = optional("list the bin instead", False)


class RunsCompareParams(Params):
    """Which runs."""

    runs: Annotated[list[str], Typed("RUN")] = Field(
        description="ids of the runs, or the start of each", min_length=2, max_length=50
    )


class RunsEditParams(OneRunParams):
    """Which run is called, noted or pinned otherwise."""

    name: Annotated[str | None, Typed("TEXT", "--name", "no change")] = optional(
        "new name; null: no change", None, max_length=LONGEST_NAME
    )
    note: Annotated[str | None, Typed("TEXT", "--note", "no change")] = optional(
        "new note; null: no change", None, max_length=LONGEST_NOTE
    )
    pin: Annotated[bool | None, Typed("yes|no", "--pin", "no change")] = optional(
        "whether it is protected from deletion; null: no change", None
    )


class RunsPurgeParams(Params):
    """Which run of the bin."""

    run: Annotated[str, Typed("RUN", default="all in the bin")] = optional(
        "id of the run, or its name; empty for all", ""
    )


class RunsImportParams(Params):
    """What is imported, and as what."""

    file: str = Field(description="id of the `.soulsrun` file, as answered by `POST /v1/files`")
    name: str = optional("name of the new run; empty: the old name", "", max_length=LONGEST_NAME)


class CheckpointListParams(Params):
    """Whose checkpoints."""

    run: Run = "latest"
    trashed: bool = optional("list its bin instead", False)


_OfRun = Annotated[Run, Typed("RUN", "--run", "latest")]
_NAMES = f"`{BEST}`, `{NEWEST}` (the newest valid one); of another run: `RUN/{BEST}`"
_NAMED = f"its path in the run's folder; {_NAMES}"
_Which = Annotated[str, Typed("CHECKPOINT", help=f"its id in `checkpoints list`; {_NAMES}")]


class CheckpointVerifyParams(Params):
    """What is read anew."""

    run: Annotated[str, Typed("RUN", default="latest")] = optional(
        f"id of the run, or the start of it; for one checkpoint of it: `RUN/{BEST}`, or `{BEST}` for the "
        "latest run",
        "latest",
    )


class CheckpointParams(Params):
    """Which checkpoint."""

    path: _Which = Field(description=_NAMED)
    run: _OfRun = "latest"


class CheckpointExportParams(CheckpointParams):
    """Which checkpoint is written as what."""

    format: Annotated[Literal["onnx", "safetensors"], Typed("onnx|safetensors", "--format", "onnx")] = (
        optional("`onnx`: the policy as a graph; `safetensors`: its weights, with the normalisers", "onnx")
    )


class CheckpointPurgeParams(Params):
    """Which checkpoint of the bin."""

    path: Annotated[str, Typed("CHECKPOINT", default="all of this run")] = optional(
        f"{_NAMED}; empty for all", ""
    )
    run: _OfRun = "latest"


class CheckpointSaveParams(Params):
    """What is saved, and what is said of it."""

    note: Annotated[str, Typed("TEXT", "--note", "none")] = optional(
        "a note about it", "", max_length=LONGEST_NOTE
    )
    buffer: Annotated[bool, Typed("", "--buffer", "without")] = optional(
        "include the replay memory, if there is one; it may be large", False
    )


class CheckpointEditParams(CheckpointParams):
    """Which checkpoint is noted or pinned otherwise."""

    note: Annotated[str | None, Typed("TEXT", "--note", "no change")] = optional(
        "new note; null: no change", None, max_length=LONGEST_NOTE
    )
    pin: Annotated[bool | None, Typed("yes|no", "--pin", "no change")] = optional(
        "whether it is protected from deletion; of a checkpoint that newer ones replace, a copy in the "
        "history is pinned; null: no change",
        None,
    )


class CheckpointEvaluateParams(Params):
    """Which weights play, how, and who sees them."""

    checkpoint: Annotated[
        str,
        Typed(
            "CHECKPOINT",
            default="the last one saved",
            help=f"its id in `checkpoints list`; {_NAMES}; `{NEWEST}` of the active run means its current "
            "weights",
        ),
    ] = optional(
        f"{_NAMED}; `{NEWEST}` of the active run means its current weights; empty for the last one saved",
        "",
    )
    run: Annotated[Run, Typed("RUN", "--run", "latest")] = "latest"
    model_id: Annotated[int | None, Typed("N", "--model", "none")] = optional(
        "instead of a checkpoint: recent weights of the active run, by model id", None, ge=0
    )
    episodes: Annotated[int, Typed("N", "--episodes", "20")] = optional(
        "number of episodes", 20, ge=1, le=10_000
    )
    seed: Annotated[int, Typed("S", "--seed", "0")] = optional(
        "seed of the first episode; each further one takes the next seed", 0, ge=0, lt=2**31
    )
    stochastic: Annotated[bool, Typed("", "--stochastic", "take the best ones")] = optional(
        "sample actions from the policy", False
    )
    overrides: dict[str, Any] = optional(
        "settings by dotted key, which win over those of the checkpoint, such as `env.kwargs`", {}
    )
    frames: bool = optional(
        "send pictures to windows that watch the job, and play at the pace of the environment while they do",
        False,
    )
    video: Literal["", "mp4", "gif", "any"] = optional(
        "save a video of all episodes as a file of the job; `any`: mp4 if possible, otherwise gif", ""
    )
    trust: Annotated[str, Typed("", "--trust", "ask", given=TRUST_ANY, help=_TRUST_HELP)] = optional(
        "as in `run.resume`", ""
    )


class JobParams(Params):
    """Which job."""

    job: Annotated[str, Typed("ID", help="its id in `soulsgui jobs list`")] = Field(description="its id")


class ConfigGetParams(Params):
    """Whose values are asked for, too."""

    run: str = optional("id of a run whose values to include", "")


class ConfigCheckParams(Params):
    """What is looked at."""

    text: str | None = optional("text of a config.yaml; null checks the saved file", None)
    overrides: dict[str, Any] = optional("settings by dotted key, which win over it", {})
    preset: str = optional("preset to use; the text wins over it", "")


class ConfigSaveParams(Params):
    """Either the text whole, or changes by key."""

    text: str | None = optional("the complete text", None, repr=False)  # secrets may stand in it
    changes: dict[str, Any] = optional("settings by dotted key", {})
    reset: list[str] = optional("keys to set back to their defaults", [])
    base_hash: str | None = optional(
        "hash of the text that was edited; if the file has changed since, `not_now` is answered; null "
        "overwrites",
        None,
    )


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
    client: str = optional("only the episodes of this client; empty for all", "")
    x: Literal["episode", "env_step", "update", "time"] = optional(
        "axis of `start` and `end`, which is divided into buckets of equal width (for `update`: by env_step)",
        "episode",
    )
    start: float | None = optional("start of the range on that axis", None)
    end: float | None = optional("end of the range on that axis", None)
    points: int = optional(
        "largest number of buckets (at least one for each attempt); up to so many rows are returned as "
        "they are",
        2000,
        ge=1,
        le=200_000,
    )
    missing_ok: bool = optional(
        "return an empty curve for a metric that the run does not have, instead of an error", False
    )


class HistoryLogsParams(Params):
    """Which lines."""

    service: str = optional("name of the service; empty for all of the run, sorted by time", "")
    run: Run = "latest"
    before: int | None = optional("only lines before this number; null for the newest", None)
    n: int = optional("number of lines", 200, ge=1, le=5000)
    level: Literal["debug", "info", "warning", "error"] = optional("lowest level", "debug")
    filter: str = optional("only lines that contain this text, in upper or lower case", "")


class HistoryEventsParams(Params):
    """Which events."""

    since: int = optional("only entries after this number", 0)


class HistoryAuditParams(Params):
    """Which commands."""

    since: int = optional("only entries after this number", 0)
    limit: int = optional("at most so many, the newest", 500, ge=1, le=2000)


class ClientParams(Params):
    """Which client."""

    client: Annotated[str, Typed("NAME", help="its id or name in `soulsgui clients list`")] = Field(
        description="its id"
    )


class ClientPauseParams(ClientParams):
    """Which client waits, and for how long."""

    after_episode: bool = optional("let it finish its episodes first; in client mode only", False)
    for_s: float | None = optional(
        "seconds after which it continues by itself, null for never; in client mode only",
        None,
        gt=0,
        le=7 * 86_400,
    )


class RejectsParams(Params):
    """Whose chunks."""

    client: Annotated[str, Typed("NAME", default="all clients")] = optional("only those of this client", "")


class ClientLogParams(ClientParams):
    """Which client, and how much of it."""

    n: Annotated[int, Typed("LINES", "-n", "50", implied=50)] = optional(
        "number of lines", 100, ge=1, le=1000
    )


class InviteParams(Params):
    """Who is invited."""

    client: str = Field(description="id of the client, such as gamer-01")


class ClientRenameParams(ClientParams):
    """Which client is called something else."""

    name: Annotated[str, Typed("TEXT", default="its id", implied="")] = Field(
        max_length=64, description="new name"
    )


class InvitationParams(Params):
    """An invitation."""

    invitation: str = Field(repr=False, description="a link, or the text of a `.soulsgui` file")


Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


class AgreeParams(Params):
    """What this computer may run for the server that it plays for."""

    server_id: str = Field(description="its id")
    digest: Digest = Field("", description="digest of the `asks` that was agreed to; empty for none")
    always: bool = Field(False, description="agree to whatever the server names, also later")


class JoinParams(InvitationParams):
    """An invitation, and what may run for its server."""

    digest: Digest = Field("", description="digest of the `runs` that was agreed to; empty for none")
    always: bool | None = Field(
        None, description="agree to whatever the server names, also later; null: as before"
    )


class SavedServerParams(Params):
    """Which saved server."""

    server_id: str = Field(
        description="its id; empty for the server on this computer, which can't be forgotten"
    )


class ServerPlaceParams(SavedServerParams):
    """Where a saved server is."""

    place: str = Field(
        max_length=300, description="host and port, such as `192.168.1.7:6379`; without a port, the known one"
    )
    confirmed: bool = optional("save it even if no server, or another server, answers there now", False)


class RulesParams(Params):
    """When the client of this computer may play."""

    rules: Rules = Field(description="the rules")


class ServerSetParams(Params):
    """What is otherwise from now on, and after the next start; what is null stays."""

    lan: Annotated[
        Literal["on", "off"] | None,
        Typed("on|off", "--lan", "no change", help="let other computers in at private addresses"),
    ] = optional("let other computers in at the private addresses of this machine (`redis.lan`)", None)
    public: Annotated[
        Literal["on", "off"] | None,
        Typed("on|off", "--public", "no change", help="let them in at public addresses, too"),
    ] = optional("let them in at its public addresses, too (`redis.public`)", None)
    port: Annotated[int | None, Typed("PORT", "--port", "no change")] = optional(
        "port for other computers (`redis.port`)", None, ge=1, le=65_535
    )
    new_token: Annotated[bool, Typed("", "--new-token", "keep the token")] = optional(
        "make a new token for the control API; the old one ends at once", False
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
_GOING_OVER: Mapping[Role, str] = {"client": "changing to that server"}

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command(
            "server.hello",
            Empty,
            "return who answers and what it can do",
            results.Hello,
            roles=_BOTH,
            reads=True,
        ),
        Command(
            "server.usage",
            Empty,
            "show the use of disk, Redis memory and network",
            results.Usage,
            typed="usage",
            reads=True,
            as_json=True,
        ),
        Command(
            "server.set",
            ServerSetParams,
            "change the addresses for other computers, or the token of the control API, while the server "
            "runs",
            results.Reach,
            "The run continues. With a new token every window and program has to read `control.json` "
            "again. A client gets a new secret by `clients.invite.reissue`. The password of the server "
            "only works for those who can open its socket; if its file is missing at a start, a new one is "
            "made.",
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
            "start or stop local clients of the server until there are so many",
            results.ClientCount,
        ),
        Command(
            "run.start",
            RunStartParams,
            "start a new run",
            results.RunPlace,
            "Answered when trainer and telemetry are ready, or when it waits in the queue. With several "
            "seeds, the first run starts and the others wait. A queued run keeps the settings it was "
            "queued with.",
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
            "resume a run, as a new attempt",
            results.RunPlace,
            "Answered when trainer and telemetry are ready. A run that has reached its goal resumes from "
            "its newest checkpoint only with another goal, or without one.",
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
            "pause the run and keep everything",
            results.Done,
            "Clients get no more credits, and nothing is learned.",
            typed="run pause",
        ),
        Command("run.continue", Empty, "continue a paused run", results.Done, typed="run continue"),
        Command(
            "run.queue.list",
            Empty,
            "list the runs in the queue",
            results.RunQueued,
            typed="run queue list",
            reads=True,
            as_json=True,
        ),
        Command(
            "run.queue.move",
            QueueMoveParams,
            "move a run to another place in the queue",
            results.RunQueued,
            typed="run queue move",
        ),
        Command(
            "run.queue.remove",
            QueueRemoveParams,
            "remove runs from the queue; their settings are discarded",
            results.RunQueued,
            typed="run queue remove",
        ),
        Command("runs.list", RunsListParams, "list every run, the newest first", results.RunList, reads=True),
        Command(
            "runs.show",
            RunParams,
            "show a run with its settings, versions and checkpoints",
            results.RunDetails,
            typed="runs show",
            reads=True,
            as_json=True,
        ),
        Command(
            "runs.compare",
            RunsCompareParams,
            "show what differs between runs",
            results.RunComparison,
            typed="runs compare",
            reads=True,
            as_json=True,
        ),
        Command(
            "runs.edit",
            RunsEditParams,
            "change the name or note of a run, or pin it",
            results.RunSummary,
            typed="runs edit",
            examples=("runs edit 2026-11-20_10-00-00 --name first --pin yes",),
        ),
        Command(
            "runs.trash", WholeRunParams, "move a run to the bin", results.RunSummary, typed="runs trash"
        ),
        Command(
            "runs.restore",
            OneRunParams,
            "restore a run from the bin",
            results.RunSummary,
            typed="runs restore",
        ),
        Command(
            "runs.purge",
            RunsPurgeParams,
            "delete runs from the bin for good, and report the space freed",
            results.Freed,
            typed="runs purge",
        ),
        Command(
            "runs.export",
            RunParams,
            "export a run as one file: settings, versions, curves, models and a report",
            results.Exported,
            "The file (`.soulsrun`, a zip) opens on any server: `runs.import`.",
            job="writing the run into a file",
            file=True,
            typed="runs export",
        ),
        Command(
            "runs.import",
            RunsImportParams,
            "import a run from a file into the library",
            results.RunSummary,
            "Nothing of it is executed. Whoever resumes it is asked first, as with every run from "
            "another computer.",
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
            "compare experiments, with the probability of improvement for each pair",
            results.Comparison,
            reads=True,
        ),
        Command(
            "sweep.start",
            SweepStartParams,
            "search for the settings with which a run does best",
            results.SweepStatus,
            "Each trial is a run of the queue; further ones at the same time are trained by workers, and "
            "their runs join the library when they are over. Optuna keeps the sweep in "
            "`sweeps.sqlite3` of the data folder. One sweep at a time; it continues when the server is "
            "restarted.",
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
            "stop the active sweep, and the runs of its trials",
            results.SweepStatus,
            long={"server": "ending the trial"},
        ),
        Command(
            "history.query",
            HistoryQueryParams,
            "return a curve, averaged in buckets",
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
            "return the events",
            results.EventList,
            roles=_BOTH,
            reads=True,
        ),
        Command(
            "history.audit",
            HistoryAuditParams,
            "return the commands that changed something, who gave them, and their outcome",
            results.AuditList,
            roles=_BOTH,
            reads=True,
        ),
        Command(
            "checkpoint.list",
            CheckpointListParams,
            "verify and list the checkpoints of a run, the newest first",
            results.CheckpointList,
            reads=True,
        ),
        Command(
            "checkpoint.save",
            CheckpointSaveParams,
            "save a checkpoint now",
            results.CheckpointTold,
            "Answered when it is on disk.",
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
            "continue the active run from a checkpoint, of its own or of another run",
            results.CheckpointTold,
            "It is saved first, and continues as a new attempt: clients stay connected, and model ids "
            "never go back.",
            job="saving, then loading",
            typed="checkpoints load",
        ),
        Command(
            "checkpoint.export",
            CheckpointExportParams,
            "export a checkpoint as a file for other programs",
            results.Exported,
            "An ONNX graph is compared with the policy before the job is done.",
            job="reading the checkpoint",
            file=True,
            typed="checkpoints export",
            examples=("checkpoints export best --format onnx",),
        ),
        Command(
            "checkpoint.trash", CheckpointParams, "move a checkpoint to the bin", typed="checkpoints trash"
        ),
        Command(
            "checkpoint.restore",
            CheckpointParams,
            "restore a checkpoint from the bin",
            results.CheckpointTold,
            typed="checkpoints restore",
        ),
        Command(
            "checkpoint.purge",
            CheckpointPurgeParams,
            "delete checkpoints from the bin for good, and report the space freed",
            results.Freed,
            typed="checkpoints purge",
        ),
        Command(
            "checkpoint.verify",
            CheckpointVerifyParams,
            "read every file of the checkpoints of a run again, and check its hash",
            results.CheckpointList,
            job="reading the checkpoints",
            typed="checkpoints verify",
            reads=True,
            as_json=True,
        ),
        Command(
            "checkpoint.evaluate",
            CheckpointEvaluateParams,
            "play episodes with the weights of a run, in the background",
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
            "Answered when it has ended, also if it had ended before.",
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
            "return all mistakes, without changing anything",
            results.ConfigProblems,
            reads=True,
        ),
        Command(
            "config.apply",
            ConfigApplyParams,
            "change live settings of the active run",
            results.Applied,
            "They are saved in the run's folder and used from a known update on, also after a resume. "
            "Clients don't learn of them.",
        ),
        Command(
            "config.undo",
            Empty,
            "undo the last change of live settings; repeated, the one before it",
            results.Applied,
            typed="hyper undo",
        ),
        Command("config.save", ConfigSaveParams, "write the user's config.yaml", results.SavedConfig),
        Command("config.presets", Empty, "list the presets", results.PresetList, reads=True),
        Command(
            "alerts.test",
            Empty,
            "send an alert to the webhook now",
            results.AlertSent,
            "Answered when the webhook has accepted it.",
            typed="alerts test",
        ),
        Command("clients.pause", ClientPauseParams, "pause a client", roles=_BOTH, typed="clients pause"),
        Command(
            "clients.resume",
            ClientParams,
            "continue a client",
            more="A local client of the server that was stopped is started again.",
            roles=_BOTH,
            typed="clients resume",
        ),
        Command(
            "clients.drain",
            ClientParams,
            "let a client finish its episodes, then stop it",
            typed="clients drain",
        ),
        Command("clients.stop", ClientParams, "stop a client at once", typed="clients stop"),
        Command(
            "clients.rename",
            ClientRenameParams,
            "change the name of a client on screen",
            more="Its id stays.",
            typed="clients rename",
        ),
        Command(
            "clients.forget",
            ClientParams,
            "remove a client that has left from the list",
            typed="clients forget",
        ),
        Command(
            "clients.log",
            ClientLogParams,
            "show the last log lines of a client",
            results.ClientLog,
            typed="clients log",
            reads=True,
            as_json=True,
        ),
        Command(
            "clients.look",
            ClientParams,
            "return a small picture of a client's game",
            GamePicture,
            more="Its owner has to allow it in the rules on that computer; for local clients of the server, "
            "`client.shown` has to be set. Each call asks the client for one picture.",
            repeated=True,
        ),
        Command(
            "clients.release",
            ClientParams,
            "release a client that was cut off, so that it may send again",
            typed="clients release",
        ),
        Command(
            "clients.purge",
            ClientParams,
            "stop the run from learning from what a client has sent so far",
            results.Purged,
            more="Its samples are removed from the replay memory, if the algorithm has one; what was "
            "learned from them stays.",
            typed="clients purge",
        ),
        Command(
            "clients.rejects",
            RejectsParams,
            "show the last samples that were refused, and why",
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
            "give an invited client a new secret; the old one ends at once",
            results.NewInvitation,
        ),
        Command(
            "clients.invite.list",
            Empty,
            "return who was invited, and the addresses of a new invitation",
            results.InvitationList,
            reads=True,
        ),
        Command(
            "clients.revoke",
            ClientParams,
            "revoke an invitation and cut off its computer",
            results.CutOff,
            typed="revoke",
        ),
        Command(
            "servers.list",
            Empty,
            "list the servers that invited this computer",
            results.SavedServers,
            roles=_CLIENT,
            reads=True,
        ),
        Command(
            "servers.look",
            InvitationParams,
            "return what accepting an invitation would mean",
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
            "allow the server that this computer plays for to run what it asks for",
            roles=_CLIENT,
        ),
        Command(
            "servers.choose",
            SavedServerParams,
            "play for a saved server from now on, or from the next start if not playing now",
            roles=_CLIENT,
            long=_GOING_OVER,
        ),
        Command(
            "servers.forget",
            SavedServerParams,
            "forget an invitation; a client that plays for its server is stopped",
            roles=_CLIENT,
        ),
        Command(
            "servers.test",
            Empty,
            "test the connection to the server that this computer plays for",
            results.ServerTest,
            roles=_CLIENT,
            reads=True,
        ),
        Command(
            "servers.change_address",
            ServerPlaceParams,
            "change the address of a saved server, if it is found there",
            results.AddressChange,
            roles=_CLIENT,
            long={"client": "looking for that server"},
        ),
        Command(
            "rules.get",
            Empty,
            "return when the client may play, and which rules don't work on this system",
            results.RulesState,
            roles=_CLIENT,
            reads=True,
        ),
        Command(
            "rules.set",
            RulesParams,
            "change the rules of the client",
            results.RulesState,
            roles=_CLIENT,
        ),
    )
}
"""Every command, by name."""
