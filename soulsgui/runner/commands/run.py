"""`run.*`: the run of this server. Each answers when it is done, within a minute."""

from typing import TYPE_CHECKING, Any

from soulsgui.config.paths import RunFolder
from soulsgui.wire.control import Empty, RunResumeParams, RunStartParams

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner


async def start(runner: "Runner", params: RunStartParams) -> dict[str, Any]:
    """Begin a new run; answered when trainer and telemetry are ready."""
    return _named(await runner.run_manager.start(params))


async def resume(runner: "Runner", params: RunResumeParams) -> dict[str, Any]:
    """Go on with a run; answered when trainer and telemetry are ready."""
    return _named(await runner.run_manager.resume(params))


async def stop(runner: "Runner", _params: Empty) -> dict[str, Any]:
    """Save and end the run; answered when its services have ended."""
    return _named(await runner.run_manager.stop())


async def pause(runner: "Runner", _params: Empty) -> dict[str, Any]:
    """Let the run rest with everything kept; answered when it rests, or will as soon as the trainer can."""
    return {"done": await runner.run_manager.pause()}


async def go_on(runner: "Runner", _params: Empty) -> dict[str, Any]:
    """Let a paused run go on; answered as `pause`."""
    return {"done": await runner.run_manager.go_on()}


def _named(run: RunFolder) -> dict[str, Any]:
    return {"run_id": run.run_id, "run_dir": str(run.root)}
