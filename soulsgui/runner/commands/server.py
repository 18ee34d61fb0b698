"""`server.*`: who this runner is, and its end."""

import os
from typing import TYPE_CHECKING, Any

from soulsgui import __version__
from soulsgui.wire.control import COMMANDS, Empty, Hello, ShutdownParams

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner


async def hello(runner: "Runner", _params: Empty) -> Hello:
    """Say who answers and what it can do."""
    return Hello(
        version=__version__,
        server_id=runner.control.server_id,
        pid=os.getpid(),
        started=runner.started,
        data_dir=str(runner.folders.data),
        config_dir=str(runner.folders.config),
        capabilities=sorted(COMMANDS),
    )


async def shutdown(runner: "Runner", params: ShutdownParams) -> dict[str, Any]:
    """End everything, after this answer."""
    runner.ask_to_close(params.save)
    return {}
