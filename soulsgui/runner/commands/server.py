"""`server.*`: who this runner is, and its end."""

import os
from typing import TYPE_CHECKING, Any

from soulsgui import __version__
from soulsgui.wire.control import Empty, Hello, ShutdownParams

if TYPE_CHECKING:
    from soulsgui.runner.base import BaseRunner


async def hello(runner: "BaseRunner", _params: Empty) -> Hello:
    """Say who answers and what it can do."""
    return Hello(
        version=__version__,
        role=runner.role,
        server_id=runner.control.server_id,
        pid=os.getpid(),
        started=runner.started,
        data_dir=str(runner.folders.data),
        config_dir=str(runner.folders.config),
        capabilities=sorted(runner.handlers),
        ends_with_window=runner.ends_with_window,
    )


async def shutdown(runner: "BaseRunner", params: ShutdownParams) -> dict[str, Any]:
    """End everything, after this answer."""
    runner.ask_to_close(params.save)
    return {}
