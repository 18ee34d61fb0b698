"""A whole runner, for the tests of its parts that need one."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from soulsgui.config.paths import Folders
from soulsgui.config.sections.server import RedisSettings
from soulsgui.runner.app import Runner
from soulsgui.runner.join import finder, player
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.run import services
from soulsgui.system import free_port
from soulsgui.wire.access import user_of
from soulsgui.wire.connection import Address
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.keys import TRAINER
from tests.faults.waiting import LIMIT_S
from tests.runner.children import Events
from tests.runner.joining import FAKE_CLIENT, NAME, comes_to_be, invitation_to, let_in
from tests.runner.running import FAKE_PROGRAM, PROGRAMS, new_runner, opened


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "config", tmp_path / "data")


@pytest.fixture(params=PROGRAMS, ids=lambda path: Path(path).name)
def settings(request: pytest.FixtureRequest) -> RedisSettings:
    """Each server program of this machine."""
    return RedisSettings(binary=request.param)


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def fake_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """The services of a run are the stand-ins of `fake_program.py`."""
    monkeypatch.setattr(services, "own_command", lambda role: [sys.executable, str(FAKE_PROGRAM), role])
    monkeypatch.setitem(services._LIMITS[TRAINER], "grace_s", LIMIT_S)  # none is ended for being slow


@pytest.fixture
async def runner(folders: Folders, fake_services: None) -> AsyncIterator[Runner]:
    """An open runner without a run."""
    async with opened(new_runner(folders)) as made:
        yield made


@pytest.fixture
def fake_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of client mode is the stand-in of `join_client.py`."""
    monkeypatch.setattr(player, "own_command", lambda role: [sys.executable, str(FAKE_CLIENT), role])


@pytest.fixture
def address(folders: Folders, redis_address: Address) -> Address:
    folders.server.mkdir(parents=True)
    redis_address.write(folders.server_address)
    return redis_address


@pytest.fixture
def invitation(
    redis_address: Address, redis_client: redis.Redis, gateway: Address, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Invitation]:
    """One that is good at the server of this test, by its second address; at the first nobody answers."""
    monkeypatch.setattr(finder, "_TRY_LIMIT_S", LIMIT_S)  # who is only slow does answer
    let_in(redis_client, redis_address.prefix)
    places = (("127.0.0.1", free_port()), ("127.0.0.1", gateway.port))
    yield invitation_to(*places, prefix=redis_address.prefix, pin=gateway.pin)
    redis_client.acl_deluser(user_of(NAME))


@pytest.fixture
async def idle(folders: Folders, fake_client: None) -> AsyncIterator[ClientRunner]:
    """A runner of client mode that a window started: it waits to be told to play."""
    async with opened(ClientRunner(folders, "this-pc", idle=True)) as made:
        yield made


@pytest.fixture
async def playing(folders: Folders, address: Address, fake_client: None) -> AsyncIterator[ClientRunner]:
    async with opened(ClientRunner(folders, NAME)) as made:
        await comes_to_be(made, "online")
        yield made
