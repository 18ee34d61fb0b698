"""A whole runner for tests: a real server, quick stand-ins for the services of a run."""

import shutil
from pathlib import Path
from typing import Any

from soulsgui.config.layers import combine, defaults_layer
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import Folders
from soulsgui.config.schema import Settings
from soulsgui.runner.app import Runner
from soulsgui.runner.run.start import Probe, Told
from soulsgui.runner.server.binary import packaged_binary
from soulsgui.wire.control import COMMANDS
from tests.runner.children import until as until

FAKE_PROGRAM = Path(__file__).with_name("fake_program.py")
PROGRAMS = [
    str(path)
    for path in (packaged_binary(), shutil.which("redis-server"), shutil.which("valkey-server"))
    if path
]
"""Every server program of this machine."""


async def fake_probe(_settings: Settings, _told: Told) -> dict[str, Any]:
    """What a probe would find."""
    return {"spaces": {"observation": {}, "action": {}}}


def new_runner(
    folders: Folders, overrides: dict[str, Any] | None = None, probe: Probe = fake_probe
) -> Runner:
    base = Layer("--set", {"clients.local": 1} | (overrides or {}))
    return Runner(folders, combine([defaults_layer(), base]), base, probe=probe)


async def call(runner: Runner, command: str, /, **params: Any) -> dict[str, Any]:
    """Carry a command out as the API does."""
    result = await runner.command(command, COMMANDS[command].params.model_validate(params))
    return result.model_dump(mode="json") if result is not None else {}
