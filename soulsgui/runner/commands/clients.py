"""`clients.*`: what each client is wanted to do."""

import time
from typing import TYPE_CHECKING, Any

from soulsgui.runner.refusal import Refused
from soulsgui.runner.roster import WishState
from soulsgui.wire.control import ClientParams, ClientPauseParams, ErrorCode
from soulsgui.wire.fleet import ClientState

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner

_GONE = (ClientState.LOST, ClientState.LEFT, ClientState.REVOKED, ClientState.REFUSED)


async def pause(runner: "Runner", params: ClientPauseParams) -> dict[str, Any]:
    """Let a client wait until it is resumed."""
    if params.after_episode:
        raise Refused(
            ErrorCode.BAD_REQUEST,
            "A server's pause is at once: after_episode is for the owner of a client.",
            "To let it finish its episodes and stop: clients.drain",
        )
    return await _wish(runner, params.client, "pause")


async def resume(runner: "Runner", params: ClientParams) -> dict[str, Any]:
    """Let a client go on; one of our own that was stopped is started again."""
    result = await _wish(runner, params.client, "run")
    crew = runner.conductor.crew
    if crew is not None and params.client in crew.clients:
        await runner.supervisor.start(runner.supervisor.spec_of(params.client))
    return result


async def drain(runner: "Runner", params: ClientParams) -> dict[str, Any]:
    """Let a client finish its episodes and stop."""
    return await _wish(runner, params.client, "finish")


async def stop(runner: "Runner", params: ClientParams) -> dict[str, Any]:
    """Let a client stop at once."""
    crew = runner.conductor.crew
    if crew is not None and params.client in crew.clients:
        await runner.supervisor.stop(params.client)
        return {}
    return await _wish(runner, params.client, "stop")


async def forget(runner: "Runner", params: ClientParams) -> dict[str, Any]:
    """Take a client that is gone off the roster, with everything it left."""
    _known(runner, params.client)
    state = runner.roster.state(params.client, time.monotonic())
    if state not in _GONE:
        raise Refused(
            ErrorCode.NOT_NOW,
            f"{params.client} is {state}: it would come back at once.",
            f"Stop it first: soulsgui clients stop {params.client}",
        )
    await runner.bus.call(runner.roster.forgetting(params.client))
    runner.look_at_clients()
    return {}


async def _wish(runner: "Runner", client: str, state: WishState) -> dict[str, Any]:
    _known(runner, client)
    await runner.bus.call(runner.roster.wishing(client, state))
    runner.look_at_clients()
    return {}


def _known(runner: "Runner", client: str) -> None:
    if client not in runner.roster:
        raise Refused(
            ErrorCode.NOT_FOUND, f"There is no client {client!r}.", "See who there is: soulsgui clients list"
        )
