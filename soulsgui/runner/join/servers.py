"""`servers.*`: the servers this computer was invited to, and which of them it plays for."""

import asyncio
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import redis

from soulsgui.printable import printable
from soulsgui.runner.join.finder import Finder, knock
from soulsgui.runner.refusal import Refused
from soulsgui.wire.connection import AWAY, Address, connect
from soulsgui.wire.control import (
    Empty,
    ErrorCode,
    InvitationParams,
    OfferedServer,
    SavedServer,
    SavedServerParams,
    SavedServers,
)
from soulsgui.wire.invitation import Invitation, place_words
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.server_config import ServerConfig

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
        return await asyncio.to_thread(_examined, offered, invitation, stop)
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


def _examined(offered: OfferedServer, invitation: Invitation, stop: threading.Event) -> OfferedServer:
    """Ask the server of an invitation what it trains; takes up to a second for each address."""
    finder = Finder(invitation, stop)
    if not finder.look() or finder.address is None:
        return offered.model_copy(update={"error": finder.error})
    address = finder.address
    began = time.perf_counter()
    knock(address)
    found: dict[str, Any] = {
        "address": place_words(address.host, address.port),
        "round_trip_s": time.perf_counter() - began,
    }
    settings = _settings(address)
    environment, number = settings.get("env.id"), settings.get("env.num_envs")
    if isinstance(environment, str):
        found["env_id"] = printable(environment)
    if isinstance(number, int):
        found["num_envs"] = number
    return offered.model_copy(update=found)


def _settings(address: Address) -> dict[str, Any]:
    """Return what a server tells its clients of its run; nothing while it has none."""
    connection = connect(address)
    try:
        text: Any = connection.get(Keys(address.prefix).config)
    except (*AWAY, redis.RedisError):
        text = None
    finally:
        connection.close()
    config = ServerConfig.read(text)
    return config.settings if config is not None else {}
