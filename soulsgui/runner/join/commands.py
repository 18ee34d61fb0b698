"""What each command of the control API does in client mode."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from soulsgui.runner.base import RUNNER, Handler
from soulsgui.runner.commands import history, server
from soulsgui.runner.history import log_lines
from soulsgui.runner.join import servers
from soulsgui.runner.refusal import Refused
from soulsgui.wire.control import (
    ClientParams,
    ClientPauseParams,
    Empty,
    ErrorCode,
    History,
    HistoryLogsParams,
    HistoryQueryParams,
    RulesParams,
    RulesState,
    ServiceParams,
)
from soulsgui.wire.situation import CLIENT

if TYPE_CHECKING:
    from soulsgui.runner.join.app import ClientRunner


async def start(runner: "ClientRunner", params: ServiceParams) -> dict[str, Any]:
    """Let this machine help; answered once the client runs, at once where there is no server yet."""
    _check_service(params)
    await runner.player.switch_on()
    await runner.player.until_ready()
    return {}


async def stop(runner: "ClientRunner", params: ServiceParams) -> dict[str, Any]:
    """Let this machine help no longer."""
    _check_service(params)
    await runner.player.switch_off()
    runner.player.forget_pause()
    return {}


async def restart(runner: "ClientRunner", params: ServiceParams) -> dict[str, Any]:
    """Stop the client and start it again."""
    _check_service(params)
    await runner.player.restart()
    await runner.player.until_ready()
    return {}


async def pause(runner: "ClientRunner", params: ClientPauseParams) -> dict[str, Any]:
    """Let the client wait, at once or after its episode, for a time or until it is resumed."""
    _check_client(runner, params)
    runner.player.pause(params.after_episode, params.for_s)
    return {}


async def resume(runner: "ClientRunner", params: ClientParams) -> dict[str, Any]:
    """Let the client go on."""
    _check_client(runner, params)
    runner.player.resume()
    return {}


async def get_rules(runner: "ClientRunner", _params: Empty) -> RulesState:
    """Tell when the client may play, and which rules can't be followed on this system."""
    return await asyncio.to_thread(runner.neighbour.state)


async def set_rules(runner: "ClientRunner", params: RulesParams) -> RulesState:
    """Let the client play by other rules from now on."""
    before = runner.neighbour.rules.share
    await asyncio.to_thread(runner.neighbour.keep, params.rules)
    if before != params.rules.share and before != "full" and runner.player.wanted:
        # A process that went behind the others can't come back.
        await runner.player.restart()
    await runner.follow_rules()
    return await asyncio.to_thread(runner.neighbour.state)


async def query(runner: "ClientRunner", params: HistoryQueryParams) -> History:
    """Return the curve of this machine's own episodes."""
    return runner.returns.history(params)


async def logs(runner: "ClientRunner", params: HistoryLogsParams) -> dict[str, Any]:
    """Return lines of the logs of client and runner."""
    paths = {name: runner.folder.logs / f"{name}.log" for name in (CLIENT, RUNNER)}
    lines, first = await asyncio.to_thread(log_lines, paths, params)
    return {"lines": [line.model_dump(mode="json") for line in lines], "first": first}


def _check_service(params: ServiceParams) -> None:
    if params.name != CLIENT:
        message = f"There is no service {params.name!r} in client mode."
        raise Refused(ErrorCode.NOT_FOUND, message, f"There is: {CLIENT}")


def _check_client(runner: "ClientRunner", params: ClientParams) -> None:
    if params.client != runner.name:
        message = f"There is no client {params.client!r} on this computer."
        raise Refused(ErrorCode.NOT_FOUND, message, f"There is: {runner.name}")


HANDLERS: Mapping[str, Handler] = {
    "server.hello": server.hello,
    "server.shutdown": server.shutdown,
    "service.start": start,
    "service.stop": stop,
    "service.restart": restart,
    "clients.pause": pause,
    "clients.resume": resume,
    "rules.get": get_rules,
    "rules.set": set_rules,
    "servers.list": servers.list_servers,
    "servers.look": servers.look,
    "servers.join": servers.join,
    "servers.choose": servers.choose,
    "servers.forget": servers.forget,
    "servers.test": servers.test,
    "servers.change_address": servers.change_address,
    "history.query": query,
    "history.logs": logs,
    "history.events": history.events,
}

LONG: Mapping[str, str] = {
    "service.start": "starting the client",
    "service.stop": "stopping the client",
    "service.restart": "restarting the client",
    "servers.join": "going over to that server",
    "servers.choose": "going over to that server",
    "servers.change_address": "looking for that server",
}
