"""A whole runner for tests: a real server, quick stand-ins for the services of a run."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from soulsgui.config.layers import combine, defaults_layer
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import Folders
from soulsgui.config.schema import Settings
from soulsgui.runner.app import Runner
from soulsgui.runner.run.start import Probe, Told
from soulsgui.wire.control import COMMANDS
from tests.faults.waiting import LIMIT_S

FAKE_PROGRAM = Path(__file__).with_name("fake_program.py")


async def fake_probe(_settings: Settings, _told: Told) -> dict[str, Any]:
    """What a probe would find."""
    return {"spaces": {"observation": {}, "action": {}}}


async def until(condition: Callable[[], object]) -> None:
    """Return once a condition holds; the test fails when it does not within a while."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.02)


def new_runner(
    folders: Folders, overrides: dict[str, Any] | None = None, probe: Probe = fake_probe
) -> Runner:
    base = Layer("--set", {"clients.local": 1} | (overrides or {}))
    return Runner(folders, combine([defaults_layer(), base]), base, probe=probe)


async def call(runner: Runner, command: str, /, **params: Any) -> dict[str, Any]:
    """Carry a command out as the API does."""
    result = await runner.command(command, COMMANDS[command].params.model_validate(params))
    return result.model_dump(mode="json") if result is not None else {}
