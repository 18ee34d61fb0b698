"""`servers.*`: the servers this computer was invited to, and which of them it plays for."""

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

from soulsgui.runner.join.server_watch import OwnServer
from soulsgui.runner.join.trial import examined, examined_place, tested, tested_here
from soulsgui.runner.refusal import Refused
from soulsgui.wire.control import (
    AddressChange,
    Empty,
    ErrorCode,
    InvitationParams,
    OfferedServer,
    SavedServer,
    SavedServerParams,
    SavedServers,
    ServerPlaceParams,
    ServerTest,
)
from soulsgui.wire.invitation import MOST_PLACES, Invitation, read_place

if TYPE_CHECKING:
    from soulsgui.runner.join.app import ClientRunner


async def list_servers(runner: "ClientRunner", _params: Empty) -> SavedServers:
    """List everyone who invited this computer."""
    chosen, found = await asyncio.to_thread(lambda: (runner.saved.chosen(), runner.saved.all()))
    return SavedServers(
        chosen=chosen.server_id if chosen is not None else "", servers=[_told(one) for one in found]
    )


async def look(runner: "ClientRunner", params: InvitationParams) -> OfferedServer:
    """Say what accepting an invitation would mean; its server is asked, nothing is changed."""
    invitation = Invitation.parse(params.invitation)
    known = await asyncio.to_thread(runner.saved.find, invitation.server_id)
    offered = OfferedServer(server=_told(invitation), known=known is not None, cores=os.cpu_count() or 1)
    stop = threading.Event()
    try:
        return await asyncio.to_thread(examined, offered, invitation, stop)
    finally:
        stop.set()


async def join(runner: "ClientRunner", params: InvitationParams) -> dict[str, Any]:
    """Keep an invitation and play for its server from now on."""
    invitation = Invitation.parse(params.invitation)
    await asyncio.to_thread(runner.saved.keep, invitation)
    runner.player.forget_pause()
    await runner.play_for(invitation, begin=True)
    return {"server_id": invitation.server_id}


async def choose(runner: "ClientRunner", params: SavedServerParams) -> dict[str, Any]:
    """Play for another of the saved servers from now on, or, not playing, at the next switching on."""
    invitation = await _saved(runner, params.server_id) if params.server_id else None
    await runner.play_for(invitation, begin=False)
    return {}


async def forget(runner: "ClientRunner", params: SavedServerParams) -> dict[str, Any]:
    """Forget an invitation; a client that plays for its server ends."""
    invitation = await _saved(runner, params.server_id)
    chosen = await asyncio.to_thread(runner.saved.chosen)
    if chosen is not None and chosen.server_id == invitation.server_id:
        await runner.player.switch_off()
        await runner.play_for(None, begin=False)
    await asyncio.to_thread(runner.saved.forget, invitation)
    return {}


async def test(runner: "ClientRunner", _params: Empty) -> ServerTest:
    """Try out the server this computer plays for; nothing is changed."""
    chosen = await asyncio.to_thread(runner.saved.chosen)
    if chosen is None:
        own = OwnServer(runner.folders.server_address)
        await asyncio.to_thread(own.look)
        return await asyncio.to_thread(tested_here, own.address)
    stop = threading.Event()
    try:
        return await asyncio.to_thread(tested, chosen, stop)
    finally:
        stop.set()


async def change_address(runner: "ClientRunner", params: ServerPlaceParams) -> AddressChange:
    """Look for the server of a kept invitation at another address from now on, once it is found there."""
    invitation = await _saved(runner, params.server_id)
    host, port = read_place(params.place, invitation.addresses[0][1])
    change = await asyncio.to_thread(examined_place, invitation, host, port)
    if not change.taken and (change.final or not params.confirmed):
        return change
    others = [place for place in invitation.addresses if place != (host, port)]
    moved = invitation.model_copy(update={"addresses": ((host, port), *others)[:MOST_PLACES]})
    await asyncio.to_thread(runner.saved.keep, moved)
    chosen = await asyncio.to_thread(runner.saved.chosen)
    if chosen is not None and chosen.server_id == moved.server_id:
        await runner.play_for(moved, begin=False)
    return AddressChange(taken=True)


async def _saved(runner: "ClientRunner", server_id: str) -> Invitation:
    found = await asyncio.to_thread(runner.saved.find, server_id)
    if found is None:
        message = f"This computer has no invitation of a server {server_id!r}."
        raise Refused(ErrorCode.NOT_FOUND, message, "Ask its owner for one.")
    return found


def _told(invitation: Invitation) -> SavedServer:
    return SavedServer(
        server_id=invitation.server_id,
        server_name=invitation.server_name,
        client=invitation.client,
        addresses=list(invitation.addresses),
        created=invitation.created,
    )
