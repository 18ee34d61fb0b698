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

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

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
IfActive = Annotated[
    Literal["refuse", "stop"],
    Typed("", "--stop-active", "refuse while one goes on", given="stop"),
    Field(description="stop the run that goes on first"),
]


TRUST_ANY = "any"

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
    name: Annotated[str, Typed("TEXT", "--name", "date and time alone")] = optional("name of the new run", "")
    note: Annotated[str, Typed("TEXT", "--note", "none")] = optional("your own words about it", "")
    if_active: IfActive = "refuse"


class RunResumeParams(Params):
    """How a run goes on."""

    run: Annotated[Run, Typed("RUN", default="latest")] = "latest"
    checkpoint: Annotated[str, Typed("ID", "--checkpoint", "the newest")] = optional("a checkpoint of it", "")
    without_goal: Annotated[bool, Typed("", "--without-goal", "keep them")] = optional(
        "leave its goals out", False
    )
    overrides: dict[str, Any] = optional(
        "settings by dotted key that it goes on with: those whose effect is `new run or resume`", {}
    )
    trust: Annotated[str, Typed("", "--trust", "be asked", given=TRUST_ANY, help=_TRUST_HELP)] = optional(
        "digest of what may run on this computer though the run comes from elsewhere, as a refusal tells it "
        f"(`asks`); or `{TRUST_ANY}`, whatever it is",
        "",
    )
    if_active: IfActive = "refuse"


class RunsEditParams(Params):
    """Which run is called or noted otherwise."""

    run: str = Field(description="id of the run")
    name: str | None = optional("its name; null leaves it", None)
    note: str | None = optional("the words about it; null leaves them", None)


class CheckpointListParams(Params):
    """Whose checkpoints."""

    run: Run = "latest"


class CheckpointSaveParams(Params):
    """What is saved, and what is said of it."""

    note: Annotated[str, Typed("TEXT", "--note", "none")] = optional("your own words about it", "")
    buffer: Annotated[bool, Typed("", "--buffer", "without")] = optional(
        "with the replay memory, where there is one; it may be large", False
    )


class CheckpointEditParams(Params):
    """Which checkpoint is noted otherwise."""

    run: str = Field(description="id of its run")
    path: str = Field(description="its path below the run's folder")
    note: str = Field(description="the words about it")


class CheckpointVerifyParams(Params):
    """Which checkpoints are read."""

    run: Annotated[Run, Typed("RUN", default="latest")] = "latest"


NEWEST = "newest"


class CheckpointEvaluateParams(Params):
    """Which weights play, how, and who sees them."""

    checkpoint: Annotated[
        str,
        Typed(
            "CHECKPOINT",
            default="the last one saved",
            help="as `checkpoints list` shows it; best; newest: the weights that are trained at this moment",
        ),
    ] = optional(
        "its path below the run's folder; `best`; empty for the newest; "
        f"`{NEWEST}` for the weights that the run trains at this moment",
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

    text: str | None = optional("the whole text", None)
    changes: dict[str, Any] = optional("settings by dotted key", {})
    reset: list[str] = optional("keys that take the shipped value again", [])
    base_hash: str | None = optional("hash the change was made from, else `not_now`; null overwrites", None)


class HistoryQueryParams(Params):
    """Which curve."""

    run: Run = "latest"
    metric: str = optional("`return`, `length`, or a name from an update row's values", "return")
    client: str = optional("only this client's episodes; empty for all", "")
    x: Literal["episode", "env_step", "time"] = optional(
        "the axis of `start` and `end`, along which buckets are of equal width", "episode"
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
        typed: The words of the command line that are this very command; empty where it has none of its own.
        reads: Whether it changes nothing: it is left out of the audit log.
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
    typed: str = ""
    reads: bool = False
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
            "Answered when trainer and telemetry are ready.",
            long=_STARTING,
            typed="run start",
            examples=("run start --name first", "run start --preset pendulum_sac --local-clients 1"),
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
        Command("runs.list", Empty, "list every run, the newest first", results.RunList, reads=True),
        Command("runs.edit", RunsEditParams, "change name or note of a run", results.RunSummary),
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
            "checkpoint.edit", CheckpointEditParams, "change the note of a checkpoint", results.CheckpointTold
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
        Command("config.save", ConfigSaveParams, "write the user's config.yaml", results.SavedConfig),
        Command("config.presets", Empty, "list the shipped presets", results.PresetList, reads=True),
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
