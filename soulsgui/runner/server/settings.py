"""What may be changed about a server while it runs: where other computers come in, and its token."""

import asyncio
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from soulsgui.runner import settings_file
from soulsgui.runner.refusal import Refused
from soulsgui.wire import control
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.keys import GATEWAY

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner


async def set_server(runner: "Runner", params: control.ServerSetParams) -> control.Reach:
    """Change it now, and in the user's settings for the next start; one after another."""
    async with runner.reaching:
        return await _set_server(runner, params)


async def _set_server(runner: "Runner", params: control.ServerSetParams) -> control.Reach:
    access, server = runner.access, runner.access.server
    lan = server.lan if params.lan is None else params.lan == "on"
    public = server.public if params.public is None else params.public == "on"
    if public and not lan:
        raise Refused(
            ErrorCode.BAD_REQUEST,
            "Public addresses only work if other computers are let in at all.",
            "Switch both on: soulsgui server set --lan on --public on",
        )
    reissue: list[str] = []
    if params.port not in (None, server.address.port):
        assert params.port is not None
        server = await asyncio.to_thread(server.at_port, runner.folders.server, params.port)
        reissue = [one.client for one in access.invited if one.may_come]
    given = {"redis.lan": params.lan and lan, "redis.public": params.public and public}
    changes = {
        key: value for key, value in (given | {"redis.port": params.port}).items() if value is not None
    }
    if changes:
        told = control.ConfigSaveParams(changes=changes)
        await asyncio.to_thread(settings_file.save, runner.folders, told)
    server = replace(server, lan=lan, public=public)
    if server != access.server:
        server.address.write(runner.folders.server_address)
        access.server = server
        await runner.supervisor.remove(GATEWAY)
        await runner.start_gateway()
    if params.new_token:
        runner.renew_token(secrets.token_urlsafe(32))
    runner.look_at_clients()
    port = access.server.address.port
    return control.Reach(lan=lan, public=public, port=port, addresses=access.addresses, reissue=reissue)
