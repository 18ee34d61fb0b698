"""`config.*`: the user's settings."""

import asyncio
from typing import TYPE_CHECKING, Any

from soulsgui.runner import settings_file
from soulsgui.runner.library import public_values
from soulsgui.wire.control import ConfigCheckParams, ConfigGetParams, ConfigSaveParams, ConfigValues, Empty

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner


async def get(runner: "Runner", params: ConfigGetParams) -> ConfigValues:
    """Return defaults, what the user changed, what the active run uses, and what another one used."""
    session = runner.run_manager.session
    running = public_values(session.settings) if session is not None else {}
    asked = {}
    if params.run:
        run = runner.library.find(params.run)
        asked = public_values(await asyncio.to_thread(runner.library.settings, run))
    values = await asyncio.to_thread(settings_file.values, runner.folders, running)
    return values.model_copy(update={"run": asked})


async def check(runner: "Runner", params: ConfigCheckParams) -> dict[str, Any]:
    """Return every mistake, without changing anything."""
    found = await asyncio.to_thread(settings_file.problems, runner.folders, params)
    return {"problems": found}


async def save(runner: "Runner", params: ConfigSaveParams) -> dict[str, Any]:
    """Write the user's config.yaml."""
    return await asyncio.to_thread(settings_file.save, runner.folders, params)


async def presets(_runner: "Runner", _params: Empty) -> dict[str, Any]:
    """List the shipped presets."""
    found = await asyncio.to_thread(settings_file.presets)
    return {"presets": [preset.model_dump(mode="json") for preset in found]}
