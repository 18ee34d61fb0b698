"""`service.*`: single services, and how many clients run on the server."""

from typing import TYPE_CHECKING, Any

from soulsgui.errors import ServiceError
from soulsgui.runner.redis_server import REDIS
from soulsgui.runner.refusal import Refused, no_run
from soulsgui.runner.service import ServiceSpec
from soulsgui.wire.control import ErrorCode, LocalClientsParams, ServiceParams

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner

_READY_LIMIT_S = 50.0


async def start(runner: "Runner", params: ServiceParams) -> dict[str, Any]:
    """Start a service that was stopped or has failed, and wait until it is ready."""
    if params.name != REDIS:
        _refuse_at_the_end(runner)
    await runner.supervisor.start(_spec(runner, params.name))
    await _ready(runner, params.name)
    return {}


async def stop(runner: "Runner", params: ServiceParams) -> dict[str, Any]:
    """Stop a service; it is not started again by itself."""
    spec = _spec(runner, params.name)
    if spec.name == REDIS and runner.run_manager.run is not None:
        raise Refused(
            ErrorCode.NOT_NOW, "Nothing can go on without Redis.", "Stop the run first: soulsgui run stop"
        )
    await runner.supervisor.stop(spec.name)
    return {}


async def restart(runner: "Runner", params: ServiceParams) -> dict[str, Any]:
    """Stop a service and start it again, and wait until it is ready."""
    _spec(runner, params.name)
    _refuse_at_the_end(runner)
    await runner.supervisor.restart(params.name)
    await _ready(runner, params.name)
    return {}


async def local_clients(runner: "Runner", params: LocalClientsParams) -> dict[str, Any]:
    """Start or stop clients of the server's own until there are so many."""
    await runner.run_manager.set_clients(params.count)
    return {"count": params.count}


def _spec(runner: "Runner", name: str) -> ServiceSpec:
    try:
        spec = runner.supervisor.spec_of(name)
    except ServiceError as error:
        raise Refused(ErrorCode.NOT_FOUND, error.message, error.remedy) from error
    if name != REDIS and runner.run_manager.session is None:
        raise no_run()
    return spec


def _refuse_at_the_end(runner: "Runner") -> None:
    if runner.run_manager.ending:
        raise Refused(ErrorCode.NOT_NOW, "The run is being ended.", "Wait for that: soulsgui status")


async def _ready(runner: "Runner", name: str) -> None:
    if not await runner.supervisor.wait_ready(name, _READY_LIMIT_S):
        raise Refused(
            ErrorCode.NO_ANSWER,
            f"{name} is not ready after {_READY_LIMIT_S:.0f} s.",
            f"Look at its log: soulsgui logs {name}",
        )
