"""Handlers of `clients.*` (see `wire.control.commands`): what each is wanted to do, and who may come."""

import asyncio
import logging
import time
import uuid
from typing import TYPE_CHECKING, cast

import redis

from soulsgui.runner.api.server import Check, Handler
from soulsgui.runner.refusal import Refused, no_run
from soulsgui.runner.run.history import log_paths
from soulsgui.runner.run.library import LATEST
from soulsgui.runner.server.bus import ANSWER_LIMIT_S
from soulsgui.runner.server.memory_guard import MOST_LOG_BYTES
from soulsgui.runner.services.logs import read_lines
from soulsgui.wire import control
from soulsgui.wire.access import user_of
from soulsgui.wire.beats import ClientState
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.control.states import GONE
from soulsgui.wire.keys import TRAINER, Keys
from soulsgui.wire.messages.node import Rejects
from soulsgui.wire.messages.session import (
    KEPT_LINES,
    LINE_FIELD,
    MOST_PICTURE_BYTES,
    GamePicture,
    SentLine,
    Wish,
    WishState,
)
from soulsgui.wire.node_commands import NodeCommand

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner

logger = logging.getLogger(__name__)

Entries = list[tuple[bytes, dict[bytes, bytes]]]

# How long a client of our own may take to answer before it is left as it is.
_HEAR_LIMIT_S = 5.0
_PICTURE_LIMIT_S = 5.0
_PICTURE_EVERY_S = 0.05


async def _pause(runner: "Runner", params: control.ClientPauseParams) -> None:
    await _wish(runner, params.client, "pause")


async def _resume(runner: "Runner", params: control.ClientParams) -> None:
    client = params.client
    wish = await _wish(runner, client, "run")
    if _is_own(runner, client):
        # An earlier wish may be ending it at this moment: only who answered this one stays.
        await runner.supervisor.wait_until(
            lambda: runner.supervisor.pid_of(client) is None or _answered(runner, client, wish), _HEAR_LIMIT_S
        )
        await runner.supervisor.start(runner.supervisor.spec_of(client))


async def _drain(runner: "Runner", params: control.ClientParams) -> None:
    await _wish(runner, params.client, "finish")


async def _stop(runner: "Runner", params: control.ClientParams) -> None:
    if _is_own(runner, params.client):
        await runner.supervisor.stop(params.client)
    else:
        await _wish(runner, params.client, "stop")


async def _forget(runner: "Runner", params: control.ClientParams) -> None:
    await runner.access.forget(params.client)
    await runner.bus.call(runner.roster.forgetting(params.client))
    await asyncio.to_thread(runner.client_names.forget, params.client)
    runner.look_at_clients()


async def _rename(runner: "Runner", params: control.ClientRenameParams) -> None:
    await asyncio.to_thread(runner.client_names.set, params.client, params.name, runner.roster.ids())
    runner.look_at_clients()


async def _release(runner: "Runner", params: control.ClientParams) -> None:
    await runner.bus.ask(
        TRAINER, NodeCommand(command="release", args={"client": params.client}), ANSWER_LIMIT_S
    )
    runner.access.let_in_again(params.client)
    runner.look_at_clients()


async def _purge(runner: "Runner", params: control.ClientParams) -> control.Purged:
    command = NodeCommand(command="purge", args={"client": params.client})
    answer = await runner.bus.ask(TRAINER, command, ANSWER_LIMIT_S)
    return control.Purged(**answer.result)


async def _rejects(runner: "Runner", params: control.RejectsParams) -> control.RejectList:
    if params.client:
        _check_known(runner, control.ClientParams(client=params.client))
    # MGET answers nil for a key of another type.
    (data,) = await runner.bus.call(lambda connection: connection.mget([runner.bus.keys.rejects]))
    found = Rejects.read(data)
    kept = found.rejects if found is not None else []
    return control.RejectList(rejects=[one for one in kept if params.client in ("", one.client)])


async def _log(runner: "Runner", params: control.ClientLogParams) -> control.ClientLog:
    client, n = params.client, params.n
    paths = log_paths(runner.folders, runner.library, LATEST)
    if client in paths and runner.roster.is_local(client):
        lines, _ = await asyncio.to_thread(read_lines, paths[client], client, None, n, "debug", "")
        return control.ClientLog(lines=lines, whole=True)
    keys = runner.bus.keys
    told = await runner.bus.call(lambda connection: told_lines(connection, keys, client, n))
    return control.ClientLog(lines=told, whole=False)


async def _look(runner: "Runner", params: control.ClientParams) -> GamePicture:
    """Ask for a picture until there is a newer one than before."""
    client, number = params.client, time.time_ns() // 1_000_000
    key = runner.bus.keys.picture(client)
    await runner.bus.call(runner.roster.looking(client, number))
    until = time.monotonic() + _PICTURE_LIMIT_S
    while time.monotonic() < until:
        found = await runner.bus.call(lambda redis: redis.getrange(key, 0, MOST_PICTURE_BYTES))
        picture = GamePicture.read(cast("bytes", found))
        if picture is not None and picture.look >= number:
            return picture
        await asyncio.sleep(_PICTURE_EVERY_S)
    raise Refused(
        ErrorCode.NOT_NOW,
        f"No picture of {client} came within {_PICTURE_LIMIT_S:.0f} s.",
        "It sends one between two steps of its game, while it plays.",
    )


async def _invite(
    runner: "Runner", params: control.InviteParams, reissue: bool = False
) -> control.NewInvitation:
    runner.client_names.check_free(params.client, params.client, runner.roster.ids())
    made = await runner.access.invite(params.client, reissue, runner.control.server_id)
    async with runner.reaching:
        await runner.start_gateway()
    runner.look_at_clients()
    return control.NewInvitation(
        client=made.client,
        username=user_of(made.client),
        addresses=list(made.addresses),
        lan=not made.for_this_machine_only,
        secret=made.secret,
        link=made.link,
        file_text=made.file_text,
    )


async def _reissue(runner: "Runner", params: control.InviteParams) -> control.NewInvitation:
    return await _invite(runner, params, reissue=True)


async def _list_invitations(runner: "Runner", _params: control.Empty) -> control.InvitationList:
    access = runner.access
    return control.InvitationList(
        lan=access.lan,
        public=access.server.public,
        port=access.server.address.port,
        addresses=access.addresses,
        invitations=[
            control.InvitationInfo(client=one.client, invited=one.invited, revoked=one.revoked)
            for one in access.invited
        ],
    )


async def _revoke(runner: "Runner", params: control.ClientParams) -> control.CutOff:
    cut_off = await runner.access.revoke(params.client)
    if cut_off:
        await runner.bus.call(runner.roster.forgetting(params.client, beats=False))
    runner.look_at_clients()
    return control.CutOff(cut_off=cut_off)


def _is_own(runner: "Runner", client: str) -> bool:
    """Whether a client is one that the server runs itself at present."""
    session = runner.run_manager.session
    return session is not None and client in session.services.clients


async def _wish(runner: "Runner", client: str, state: WishState) -> Wish:
    wish = Wish(command_id=uuid.uuid4().hex, state=state)
    await runner.bus.call(runner.roster.wishing(client, wish))
    runner.look_at_clients()
    return wish


def _answered(runner: "Runner", client: str, wish: Wish) -> bool:
    beat = runner.roster.beat(client)
    answer = beat.answered if beat is not None else None
    return answer is not None and answer.command_id == wish.command_id


def told_lines(connection: redis.Redis, keys: Keys, client: str, n: int) -> list[control.LogLine]:
    """Return the newest lines that a client has told, oldest first, with times of the server's clock."""
    key = keys.log(client)
    # A stream that its client does not trim may be of any size: looked at before it is read.
    size = connection.memory_usage(key, samples=0) or 0
    found: Entries | None = None
    if size <= MOST_LOG_BYTES:
        try:
            found = cast("Entries", connection.xrevrange(key, count=min(n, KEPT_LINES)))
        except redis.ResponseError as error:
            logger.warning("the log of %s can't be read: %s", client, error)  # a key of another type
    if found is None:
        connection.delete(key)
        raise Refused(
            ErrorCode.FAILED,
            f"What {client} has stored as its log on the server is not a log: it was removed.",
            f"If that happens again, cut it off: soulsgui revoke {client}",
        )
    lines: list[control.LogLine] = []
    for entry, fields in reversed(found):
        line = SentLine.read(fields.get(LINE_FIELD))
        if line is not None:
            time_s = int(entry.partition(b"-")[0]) / 1000
            lines.append(
                control.LogLine(
                    service=client, number=len(lines) + 1, time=time_s, level=line.level, text=line.text
                )
            )
    return lines


def _check_known(runner: "Runner", params: control.ClientParams) -> None:
    if params.client not in runner.roster:
        raise Refused(
            ErrorCode.NOT_FOUND,
            f"There is no client “{params.client}”.",
            "See who there is: soulsgui clients list",
        )


def _check_look(runner: "Runner", params: control.ClientParams) -> None:
    _check_wish(runner, params)
    beat = runner.roster.beat(params.client)
    if beat is None or not beat.shown:
        own = "Set client.shown, and resume the run." if _is_own(runner, params.client) else ""
        raise Refused(
            ErrorCode.NOT_NOW,
            f"{params.client} does not show its game: it is not allowed to, it can't, or it is not playing "
            "now.",
            own or "Its owner allows it by the rules in the window there: Shows its game.",
        )


def _check_wish(runner: "Runner", params: control.ClientParams) -> None:
    _check_known(runner, params)
    if runner.roster.is_revoked(params.client):
        raise Refused(
            ErrorCode.NOT_NOW,
            f"{params.client} is revoked, so it can't be asked.",
            f"To let it in again: soulsgui invite {params.client}",
        )


def _check_pause(runner: "Runner", params: control.ClientParams) -> None:
    why = remedy = ""
    if isinstance(params, control.ClientPauseParams) and params.after_episode:
        why, remedy = (
            "takes effect at once: after_episode",
            "To let it finish its episodes and stop: clients.drain",
        )
    elif isinstance(params, control.ClientPauseParams) and params.for_s is not None:
        why, remedy = "has no time limit: for_s", "To let it continue: clients.resume"
    if why:
        message = f"A server's pause {why} is for the owner of a client."
        raise Refused(ErrorCode.BAD_REQUEST, message, remedy)
    _check_wish(runner, params)


def _check_stop(runner: "Runner", params: control.ClientParams) -> None:
    if not _is_own(runner, params.client):
        _check_wish(runner, params)


def _check_forget(runner: "Runner", params: control.ClientParams) -> None:
    client = params.client
    _check_known(runner, params)
    if client in runner.access.invitations.clients:
        runner.access.invitations.check_forget(client)
        return
    name, state = _name_and_state(runner, client)
    if state not in (*GONE, ClientState.REFUSED):
        raise Refused(
            ErrorCode.NOT_NOW,
            f"{name} is {state}: it would come back at once.",
            f"Stop it first: soulsgui clients stop {client}",
        )


def _name_and_state(runner: "Runner", client: str) -> tuple[str, ClientState]:
    return runner.client_names.of(client), runner.roster.state(client, time.monotonic())


def _check_purge(runner: "Runner", params: control.ClientParams) -> None:
    _check_known(runner, params)
    if runner.run_manager.run is None:
        raise no_run()


def _check_release(runner: "Runner", params: control.ClientParams) -> None:
    _check_purge(runner, params)
    if not runner.roster.is_quarantined(params.client):
        name, state = _name_and_state(runner, params.client)
        raise Refused(
            ErrorCode.NOT_NOW,
            f"{name} is {state}: only a client that was cut off can be released.",
            "See how they are: soulsgui clients list",
        )


HANDLERS: dict[str, Handler] = {
    "clients.pause": _pause,
    "clients.resume": _resume,
    "clients.drain": _drain,
    "clients.stop": _stop,
    "clients.forget": _forget,
    "clients.release": _release,
    "clients.purge": _purge,
    "clients.rejects": _rejects,
    "clients.log": _log,
    "clients.look": _look,
    "clients.invite.create": _invite,
    "clients.invite.reissue": _reissue,
    "clients.invite.list": _list_invitations,
    "clients.revoke": _revoke,
    "clients.rename": _rename,
}
CHECKS: dict[str, Check] = {
    "clients.pause": _check_pause,
    "clients.resume": _check_wish,
    "clients.drain": _check_wish,
    "clients.stop": _check_stop,
    "clients.forget": _check_forget,
    "clients.release": _check_release,
    "clients.purge": _check_purge,
    "clients.log": _check_known,
    "clients.look": _check_look,
    "clients.revoke": lambda runner, params: runner.access.invitations.known(params.client),
    "clients.rename": _check_known,
}
