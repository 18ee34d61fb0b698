"""`clients.*`: what each client is wanted to do, and who may come."""

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any

from soulsgui.runner import history as past
from soulsgui.runner.bus import ANSWER_LIMIT_S
from soulsgui.runner.client_log import told_lines
from soulsgui.runner.library import LATEST
from soulsgui.runner.log_lines import read_lines
from soulsgui.runner.refusal import Refused, no_run
from soulsgui.wire.access import user_of
from soulsgui.wire.commands import NodeCommand
from soulsgui.wire.control import (
    ClientLog,
    ClientLogParams,
    ClientParams,
    ClientPauseParams,
    ClientRenameParams,
    Empty,
    ErrorCode,
    InvitationInfo,
    InvitationList,
    InviteParams,
    NewInvitation,
    RejectList,
    RejectsParams,
)
from soulsgui.wire.fleet import ClientState
from soulsgui.wire.keys import TRAINER
from soulsgui.wire.messages.rejects import Rejects
from soulsgui.wire.messages.session import Wish, WishState

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner

# How long a client of our own may take to answer before it is left as it is.
_HEAR_LIMIT_S = 5.0

_GONE = (ClientState.LOST, ClientState.LEFT, ClientState.REVOKED, ClientState.REFUSED)


async def pause(runner: "Runner", params: ClientPauseParams) -> dict[str, Any]:
    """Let a client wait until it is resumed."""
    if params.after_episode:
        raise Refused(
            ErrorCode.BAD_REQUEST,
            "A server's pause is at once: after_episode is for the owner of a client.",
            "To let it finish its episodes and stop: clients.drain",
        )
    if params.for_s is not None:
        raise Refused(
            ErrorCode.BAD_REQUEST,
            "A server's pause has no end of its own: for_s is for the owner of a client.",
            "To let it go on: clients.resume",
        )
    await _wish(runner, params.client, "pause")
    return {}


async def resume(runner: "Runner", params: ClientParams) -> dict[str, Any]:
    """Let a client go on; one of our own that was stopped, or is about to end, is started again."""
    client = params.client
    wish = await _wish(runner, client, "run")
    session = runner.run_manager.session
    if session is not None and client in session.services.clients:
        # An earlier wish may be ending it at this moment: only who answered this one stays.
        await runner.supervisor.wait_until(
            lambda: runner.supervisor.pid_of(client) is None or _answered(runner, client, wish), _HEAR_LIMIT_S
        )
        await runner.supervisor.start(runner.supervisor.spec_of(client))
    return {}


async def drain(runner: "Runner", params: ClientParams) -> dict[str, Any]:
    """Let a client finish its episodes and stop."""
    await _wish(runner, params.client, "finish")
    return {}


async def stop(runner: "Runner", params: ClientParams) -> dict[str, Any]:
    """Let a client stop at once."""
    session = runner.run_manager.session
    if session is not None and params.client in session.services.clients:
        await runner.supervisor.stop(params.client)
    else:
        await _wish(runner, params.client, "stop")
    return {}


async def forget(runner: "Runner", params: ClientParams) -> dict[str, Any]:
    """Take a client that is gone off the roster, with everything it left."""
    _known(runner, params.client)
    state = runner.roster.state(params.client, time.monotonic())
    # Of those who were invited the list itself says whether they may be forgotten.
    if state not in _GONE and not runner.roster.was_invited(params.client):
        raise Refused(
            ErrorCode.NOT_NOW,
            f"{params.client} is {state}: it would come back at once.",
            f"Stop it first: soulsgui clients stop {params.client}",
        )
    await runner.gate.forget(params.client)
    await runner.bus.call(runner.roster.forgetting(params.client))
    await asyncio.to_thread(runner.client_names.forget, params.client)
    runner.look_at_clients()
    return {}


async def rename(runner: "Runner", params: ClientRenameParams) -> dict[str, Any]:
    """Call a client something else on screen; its id stays."""
    _known(runner, params.client)
    await asyncio.to_thread(runner.client_names.set, params.client, params.name, runner.roster.ids())
    runner.look_at_clients()
    return {}


async def release(runner: "Runner", params: ClientParams) -> dict[str, Any]:
    """Let a client that was cut off send again."""
    _known(runner, params.client)
    if runner.run_manager.run is None:
        raise no_run()
    if not runner.roster.is_quarantined(params.client):
        state = runner.roster.state(params.client, time.monotonic())
        raise Refused(
            ErrorCode.NOT_NOW,
            f"{params.client} is {state}: only a client that was cut off can be released.",
            "See how they are: soulsgui clients list",
        )
    await runner.bus.ask(
        TRAINER, NodeCommand(command="release", args={"client": params.client}), ANSWER_LIMIT_S
    )
    runner.look_at_clients()
    return {}


async def rejects(runner: "Runner", params: RejectsParams) -> RejectList:
    """Return the last chunks that were refused in this run, or the one before."""
    if params.client:
        _known(runner, params.client)
    # MGET answers nil for a key of another type.
    (data,) = await runner.bus.call(lambda connection: connection.mget([runner.bus.keys.rejects]))
    found = Rejects.read(data)
    kept = found.rejects if found is not None else []
    return RejectList(rejects=[one for one in kept if params.client in ("", one.client)])


async def log(runner: "Runner", params: ClientLogParams) -> ClientLog:
    """Return what a client wrote last: one of our own into its file, another one what went wrong there."""
    client, n = params.client, params.n
    _known(runner, client)
    paths = past.log_paths(runner.folders, runner.library, LATEST)
    if client in paths and runner.roster.is_local(client):
        lines, _ = await asyncio.to_thread(read_lines, paths[client], client, None, n, "debug", "")
        return ClientLog(lines=lines, whole=True)
    keys = runner.bus.keys
    told = await runner.bus.call(lambda connection: told_lines(connection, keys, client, n))
    return ClientLog(lines=told, whole=False)


async def invite(runner: "Runner", params: InviteParams) -> NewInvitation:
    """Let another computer in."""
    runner.client_names.check_free(params.client, params.client, runner.roster.ids())
    made = await runner.gate.invite(params.client, params.reissue, runner.control.server_id)
    runner.look_at_clients()
    return NewInvitation(
        client=made.client,
        username=user_of(made.client),
        addresses=list(made.addresses),
        lan=not made.for_this_machine_only,
        secret=made.secret,
        link=made.link,
        file_text=made.file_text,
    )


async def list_invitations(runner: "Runner", _params: Empty) -> InvitationList:
    """Say who was invited, and what a new invitation would tell."""
    gate = runner.gate
    return InvitationList(
        lan=gate.lan,
        addresses=gate.addresses,
        invitations=[
            InvitationInfo(client=one.client, invited=one.invited, revoked=one.revoked)
            for one in gate.invited
        ],
    )


async def revoke(runner: "Runner", params: ClientParams) -> dict[str, Any]:
    """Take an invitation back; the client's connections are closed and nothing of it is read any more."""
    cut_off = await runner.gate.revoke(params.client)
    if cut_off:
        await runner.bus.call(runner.roster.cutting(params.client))
    runner.look_at_clients()
    return {"cut_off": cut_off}


async def _wish(runner: "Runner", client: str, state: WishState) -> Wish:
    _known(runner, client)
    if runner.roster.is_revoked(client):
        raise Refused(
            ErrorCode.NOT_NOW,
            f"{client} is revoked: there is nobody to ask.",
            f"To let it in again: soulsgui invite {client}",
        )
    wish = Wish(command_id=uuid.uuid4().hex, state=state)
    await runner.bus.call(runner.roster.wishing(client, wish))
    runner.look_at_clients()
    return wish


def _answered(runner: "Runner", client: str, wish: Wish) -> bool:
    beat = runner.roster.beat(client)
    answer = beat.answered if beat is not None else None
    return answer is not None and answer.command_id == wish.command_id


def _known(runner: "Runner", client: str) -> None:
    if client not in runner.roster:
        raise Refused(
            ErrorCode.NOT_FOUND, f"There is no client {client!r}.", "See who there is: soulsgui clients list"
        )
