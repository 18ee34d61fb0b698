"""The runner of client mode in a terminal: `soulsgui join`."""

import asyncio
import logging

from soulsgui.config.paths import Folders
from soulsgui.process import setup_logging
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.terminal import own_terminal
from soulsgui.wire.invitation import Invitation

logger = logging.getLogger(__name__)

UNWATCHED_LIMIT_S = 15.0
"""A runner that is there for a window ends so long after the last one is gone."""


def join(
    folders: Folders, name: str, watched: bool, invitation: Invitation | None = None, idle: bool = False
) -> int:
    """Play for a server until told to end; return the exit code.

    Args:
        folders: The user's folders.
        name: What this machine's client is called.
        watched: Whether to end once no window follows any more.
        invitation: Of the server to play for; None plays for the one that runs on this machine.
        idle: Whether to wait to be told to play.

    Raises:
        SoulsGuiError: Another runner of client mode uses the data folder.
    """
    setup_logging()
    with own_terminal():
        return asyncio.run(_run(folders, name, watched, invitation, idle))


async def _run(folders: Folders, name: str, watched: bool, invitation: Invitation | None, idle: bool) -> int:
    runner = ClientRunner(folders, name, UNWATCHED_LIMIT_S if watched else None, invitation, idle)
    runner.obey_signals()
    await runner.open()
    try:
        where = f"{invitation.server_name} ({invitation.places})" if invitation else "this computer's server"
        logger.info("%s helps %s; control API at %s", name, where, runner.control.url)
        if not watched:
            logger.info("from a second terminal: soulsgui join pause, continue, status, stop")
        await runner.closing.wait()
    finally:
        await runner.close()
    return 0
