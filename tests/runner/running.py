"""A whole runner for tests: a real server, quick stand-ins for the services of a run."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import redis

from soulsgui.config.layers import combine, defaults_layer
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import Folders
from soulsgui.config.schema import Settings
from soulsgui.runner.app import Runner
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.run.start import Probe, Told
from soulsgui.runner.server.binary import packaged_binary
from soulsgui.runner.server.health import health_of
from soulsgui.runner.services.service import Health
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.control import COMMANDS
from soulsgui.wire.invitation import Invitation
from tests.runner.children import until as until

R = TypeVar("R", Runner, ClientRunner)

FAKE_PROGRAM = Path(__file__).with_name("fake_program.py")
PROGRAMS = [
    str(path)
    for path in (packaged_binary(), shutil.which("redis-server"), shutil.which("valkey-server"))
    if path
]
"""Every server program of this machine."""

ONE_CLIENT = {"clients.local": 1}
"""Settings of a run with a client on this machine; others of `new_runner` do without."""

SHORT = {"stop.env_steps": 200, "clients.local": 0}
"""Settings of a run of the stand-ins that soon ends, with as few processes as one has."""


async def fake_probe(_settings: Settings, _told: Told) -> dict[str, Any]:
    """What a probe would find."""
    return {"spaces": {"observation": {}, "action": {}}}


def new_runner(
    folders: Folders, overrides: dict[str, Any] | None = None, probe: Probe = fake_probe
) -> Runner:
    few = {"clients.local": 0, "evaluation.every_updates": 0}  # processes, each of which takes long to begin
    base = Layer("--set", few | (overrides or {}))
    return Runner(folders, combine([defaults_layer(), base]), base, probe=probe)


@asynccontextmanager
async def opened(runner: R) -> AsyncIterator[R]:
    await runner.open()
    try:
        yield runner
    finally:
        await runner.close()


@asynccontextmanager
async def following(runner: Runner | ClientRunner) -> AsyncIterator[list[str]]:
    """What a window is told, until the end of the block."""
    told: list[str] = []

    async def follow() -> None:
        async for text in runner.feed.follow(None):
            told.append(text)

    task = asyncio.create_task(follow())
    try:
        yield told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def call(runner: Runner | ClientRunner, command: str, /, **params: Any) -> dict[str, Any]:
    """Carry a command out as the API does."""
    result = await runner.command(command, COMMANDS[command].params.model_validate(params))
    return result.model_dump(mode="json") if result is not None else {}


@contextmanager
def connected(address: Address) -> Iterator[redis.Redis]:
    connection = connect(address)
    try:
        yield connection
    finally:
        connection.close()


def ping(address: Address, limit_s: float = 5.0) -> Health:
    """Ask a server whether it is there, over a connection of its own."""
    with closing(connect(address, timeout_s=limit_s)) as client:
        return health_of(client)


def can_ping(address: Address) -> bool:
    with connected(address) as connection:
        try:
            return bool(connection.ping())
        except redis.AuthenticationError:
            return False


def address_of(invitation: Invitation) -> Address:
    """Where an invitation leads first."""
    return invitation.address(*invitation.addresses[0])


def is_let_in(invitation: Invitation) -> bool:
    return can_ping(address_of(invitation))
