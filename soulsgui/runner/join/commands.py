"""The commands of the control API in client mode; what they do says `wire.control.commands`."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from soulsgui.runner.api.run_commands import audit, events, hello, shutdown
from soulsgui.runner.api.server import Check, Handler
from soulsgui.runner.base import RUNNER
from soulsgui.runner.join.finder import OwnServer
from soulsgui.runner.join.player import unconfined
from soulsgui.runner.join.servers import examined, examined_place, tested, tested_here
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.history import log_lines
from soulsgui.wire import control
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.control.states import CLIENT, Situation, situation
from soulsgui.wire.invitation import Invitation

if TYPE_CHECKING:
    from soulsgui.runner.join.app import ClientRunner

T = TypeVar("T")


async def _start(runner: "ClientRunner", params: control.ServiceParams) -> None:
    await runner.player.switch_on()
    await runner.player.until_ready()


async def _stop(runner: "ClientRunner", params: control.ServiceParams) -> None:
    await runner.player.switch_off()
    runner.player.kept.end()


async def _restart(runner: "ClientRunner", params: control.ServiceParams) -> None:
    await runner.player.restart()
    await runner.player.until_ready()


async def _pause(runner: "ClientRunner", params: control.ClientPauseParams) -> None:
    runner.player.pause(params.after_episode, params.for_s)


async def _resume(runner: "ClientRunner", params: control.ClientParams) -> None:
    runner.player.resume()


async def _get_rules(runner: "ClientRunner", _params: control.Empty) -> control.RulesState:
    return await asyncio.to_thread(runner.owner_rules.state)


async def _set_rules(runner: "ClientRunner", params: control.RulesParams) -> control.RulesState:
    before, now = runner.owner_rules.rules, params.rules
    await asyncio.to_thread(runner.owner_rules.keep, now)
    fixed = ("writes_anywhere", "shows_game")
    other = any(getattr(before, name) != getattr(now, name) for name in fixed)
    if (other or before.share not in ("full", now.share)) and runner.player.wanted:
        # A process that went behind the others can't come back, nor can one that is confined get out; and its
        # environments are made to be shown, or not.
        await runner.player.restart()
    await runner.follow_rules()
    return await asyncio.to_thread(runner.owner_rules.state)


async def _query(runner: "ClientRunner", params: control.HistoryQueryParams) -> control.History:
    return runner.returns.history(params)


async def _logs(runner: "ClientRunner", params: control.HistoryLogsParams) -> control.LogLines:
    paths = {name: runner.folder.logs / f"{name}.log" for name in (CLIENT, RUNNER)}
    lines, first = await asyncio.to_thread(log_lines, paths, params)
    return control.LogLines(lines=lines, first=first)


def _check_service(_runner: "ClientRunner", params: control.ServiceParams) -> None:
    if params.name != CLIENT:
        message = f"There is no service “{params.name}” in client mode."
        raise Refused(ErrorCode.NOT_FOUND, message, f"There is: {CLIENT}")


def _check_client(runner: "ClientRunner", params: control.ClientParams) -> None:
    if params.client != runner.name:
        message = f"There is no client “{params.client}” on this computer."
        raise Refused(ErrorCode.NOT_FOUND, message, f"There is: {runner.name}")
    runner.player.check_wanted()


async def _list_servers(runner: "ClientRunner", _params: control.Empty) -> control.SavedServers:
    chosen, found = await asyncio.to_thread(lambda: (runner.saved.chosen(), runner.saved.all()))
    return control.SavedServers(
        chosen=chosen.server_id if chosen is not None else "", servers=[_told(one) for one in found]
    )


async def _look(runner: "ClientRunner", params: control.InvitationParams) -> control.OfferedServer:
    invitation = Invitation.parse(params.invitation)
    known = await asyncio.to_thread(runner.saved.find, invitation.server_id)
    offered = control.OfferedServer(
        server=_told(invitation),
        known=known is not None,
        cores=os.cpu_count() or 1,
        unconfined=unconfined(runner.owner_rules.rules),
    )
    agreement = await asyncio.to_thread(runner.saved.agreement, invitation)
    return await _in_thread(examined, offered, invitation, agreement)


async def _join(runner: "ClientRunner", params: control.JoinParams) -> control.JoinedServer:
    invitation = Invitation.parse(params.invitation)
    await asyncio.to_thread(runner.saved.keep, invitation)
    if params.always is not None:
        await asyncio.to_thread(runner.saved.agree, invitation, params.digest, params.always)
    runner.player.kept.end()
    # One that has only just begun is left alone too.
    plays = (Situation.PLAYING, Situation.BETWEEN_ROUNDS, Situation.CONNECTING)
    if situation(runner.status()) not in plays or invitation != runner.invitation:
        await runner.play_for(invitation, begin=True)
    return control.JoinedServer(server_id=invitation.server_id)


async def _agree(runner: "ClientRunner", params: control.AgreeParams) -> None:
    invitation = runner.invitation
    if invitation is None or invitation.server_id != params.server_id:
        raise Refused(ErrorCode.NOT_NOW, f"This computer does not play for “{params.server_id}” now.")
    await asyncio.to_thread(runner.saved.agree, invitation, params.digest, params.always)


async def _choose(runner: "ClientRunner", params: control.SavedServerParams) -> None:
    invitation = await _saved(runner, params.server_id) if params.server_id else None
    await runner.play_for(invitation, begin=False)


async def _forget(runner: "ClientRunner", params: control.SavedServerParams) -> None:
    invitation = await _saved(runner, params.server_id)
    chosen = await asyncio.to_thread(runner.saved.chosen)
    if chosen is not None and chosen.server_id == invitation.server_id:
        await runner.player.switch_off()
        await runner.play_for(None, begin=False)
    await asyncio.to_thread(runner.saved.forget, invitation)


async def _test(runner: "ClientRunner", _params: control.Empty) -> control.ServerTest:
    chosen = await asyncio.to_thread(runner.saved.chosen)
    if chosen is None:
        own = OwnServer(runner.folders.server_address)
        await asyncio.to_thread(own.look)
        return await asyncio.to_thread(tested_here, own.address)
    return await _in_thread(tested, chosen)


async def _change_address(runner: "ClientRunner", params: control.ServerPlaceParams) -> control.AddressChange:
    invitation = await _saved(runner, params.server_id)
    moved = invitation.found_at(params.place)
    host, port = moved.addresses[0]
    change = await asyncio.to_thread(examined_place, invitation, host, port)
    if not change.taken and (change.final or not params.confirmed):
        return change
    await asyncio.to_thread(runner.saved.keep, moved)
    chosen = await asyncio.to_thread(runner.saved.chosen)
    if chosen is not None and chosen.server_id == moved.server_id:
        await runner.play_for(moved, begin=False)
    return control.AddressChange(taken=True)


async def _in_thread(ask: Callable[..., T], *words: object) -> T:
    """Ask a server in a thread, which ends soon where nobody waits for it any more."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(ask, *words, stop)
    finally:
        stop.set()


async def _saved(runner: "ClientRunner", server_id: str) -> Invitation:
    found = await asyncio.to_thread(runner.saved.find, server_id)
    if found is None:
        message = f"This computer has no invitation of a server “{server_id}”."
        raise Refused(ErrorCode.NOT_FOUND, message, "Ask its owner for one.")
    return found


def _told(invitation: Invitation) -> control.SavedServer:
    return control.SavedServer.model_validate(invitation.model_dump())


HANDLERS: Mapping[str, Handler] = {
    "server.hello": hello,
    "server.shutdown": shutdown,
    "service.start": _start,
    "service.stop": _stop,
    "service.restart": _restart,
    "clients.pause": _pause,
    "clients.resume": _resume,
    "rules.get": _get_rules,
    "rules.set": _set_rules,
    "servers.list": _list_servers,
    "servers.look": _look,
    "servers.join": _join,
    "servers.agree": _agree,
    "servers.choose": _choose,
    "servers.forget": _forget,
    "servers.test": _test,
    "servers.change_address": _change_address,
    "history.query": _query,
    "history.logs": _logs,
    "history.events": events,
    "history.audit": audit,
}
CHECKS: Mapping[str, Check] = {
    "service.start": _check_service,
    "service.stop": _check_service,
    "service.restart": _check_service,
    "clients.pause": _check_client,
    "clients.resume": _check_client,
}
