"""The control API's commands and their parameters."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from soulsgui.wire.messages.neighbour import Rules


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
            elif isinstance(value, str) and not _is_unicode(value):
                raise ValueError(f"{ascii(value)[:80]} is no valid text")
        return values


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Empty(Params):
    """No parameters.

    `run.pause`: clients are granted nothing, nothing is learned, and everything is kept; `run.continue`: it
    goes on. Result of both: {"done": False where that is done as soon as the trainer can}.
    """


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
        without_goal: Whether to leave the run's goals out from now on; a run that has reached one goes on
            from its newest checkpoint only so, or with another goal.
        overrides: Settings by dotted key that it goes on with from now on: those whose effect is
            `new run or resume`. Others are refused, unless they are what the run has.
    """

    run: str = "latest"
    checkpoint: str = ""
    without_goal: bool = False
    overrides: dict[str, Any] = Field(default_factory=dict)
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
    """`checkpoint.save`: quicksave. Result: {"checkpoint": `CheckpointInfo`}, after it is on disk.

    Attributes:
        note: What the user says about it.
        buffer: Save the replay memory as well, where there is one.
    """

    note: str = ""
    buffer: bool = False


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
    """`history.query`: a curve, in buckets. Result: `History`.

    Attributes:
        metric: `return`, `length`, or a name from an update row's values.
        client: Only this client's episodes; empty for all.
        x: The axis that `start` and `end` are in, and along which buckets are of equal width.
        points: Most buckets to answer with (at least one for each attempt): so many rows come one by one.
        missing_ok: Whether what the run does not know has an empty curve, and is not refused.
    """

    run: str = "latest"
    metric: str = "return"
    client: str = ""
    x: Literal["episode", "env_step", "time"] = "episode"
    start: float | None = None
    end: float | None = None
    points: int = Field(default=2000, ge=1, le=200_000)
    missing_ok: bool = False


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
    """`clients.resume`, `clients.drain`, `clients.stop`, `clients.forget`. Result: {}.

    `clients.release`: let one that was cut off (quarantined) send again. Result: {}.

    `clients.revoke`: take its invitation back. Result: {"cut_off": whether its connections are closed; if
    not, they are as soon as Redis answers}.
    """

    client: str


class ClientPauseParams(ClientParams):
    """`clients.pause`. Result: {}.

    Attributes:
        after_episode: Whether it may finish the episodes it is in; in client mode only.
        for_s: After so many seconds from now it goes on by itself, None for not at all; in client mode only.
    """

    after_episode: bool = False
    for_s: float | None = Field(default=None, gt=0, le=7 * 86_400)


class RejectsParams(Params):
    """`clients.rejects`: the last chunks that were refused. Result: `RejectList`.

    Attributes:
        client: Only those of this client; empty for all.
    """

    client: str = ""


class ClientLogParams(ClientParams):
    """`clients.log`: what a client wrote last. Result: `ClientLog`.

    Attributes:
        n: How many lines.
    """

    n: int = Field(default=100, ge=1, le=1000)


class InviteParams(Params):
    """`clients.invite.create`: let another computer in. Result: `NewInvitation`, told this once.

    Attributes:
        client: Its id.
        reissue: Whether it was invited before and gets another secret; the older one ends at once.
    """

    client: str
    reissue: bool = False


class ClientRenameParams(ClientParams):
    """`clients.rename`: what a client is called on screen; its id stays. Result: {}.

    Attributes:
        name: The name; empty takes the id again.
    """

    name: str = Field(max_length=64)


class InvitationParams(Params):
    """An invitation, in client mode.

    `servers.look`: what joining would mean; changes nothing. Result: `OfferedServer`.
    `servers.join`: keep it and play for its server from now on. Result: {"server_id"}.

    Attributes:
        invitation: A link, or the text of a `.soulsgui` file.
    """

    invitation: str = Field(repr=False)


class SavedServerParams(Params):
    """`servers.choose`: play for a saved server from now on, or, not playing, at the next switching on.
    `servers.forget`: forget its invitation. Result of both: {}.

    Attributes:
        server_id: Its id; empty for the server that runs on this computer, which can't be forgotten.
    """

    server_id: str


class ServerPlaceParams(SavedServerParams):
    """`servers.change_address`: where a saved server is to be looked for first. Result: `AddressChange`.

    Attributes:
        place: Host and port, such as `192.168.1.7:6379`; without a port the known one.
        confirmed: Whether to take it although nobody, or somebody else, answers there now.
    """

    place: str = Field(max_length=300)
    confirmed: bool = False


class RulesParams(Params):
    """`rules.set`: when the client of this computer may play; in client mode. Result: `RulesState`."""

    rules: Rules


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
    "run.pause": Empty,
    "run.continue": Empty,
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
    "clients.release": ClientParams,
    "clients.rejects": RejectsParams,
    "clients.log": ClientLogParams,
    "clients.invite.create": InviteParams,
    "clients.invite.list": Empty,
    "clients.revoke": ClientParams,
    "clients.rename": ClientRenameParams,
    "servers.list": Empty,
    "servers.look": InvitationParams,
    "servers.join": InvitationParams,
    "servers.choose": SavedServerParams,
    "servers.forget": SavedServerParams,
    "servers.test": Empty,
    "servers.change_address": ServerPlaceParams,
    "rules.get": Empty,
    "rules.set": RulesParams,
}
"""Every command and its parameters; the groups `servers` and `rules` belong to the runner of client mode."""
