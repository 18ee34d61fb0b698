"""A runner of client mode with a stand-in for its client, and who invites it."""

import subprocess
from pathlib import Path
from typing import Any

import redis

from soulsgui.config.paths import Folders
from soulsgui.runner.join import player
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.services.processes import Identities
from soulsgui.wire.access import secret_hash, user_of, user_words
from soulsgui.wire.connection import Address
from soulsgui.wire.control import ClientStatus, ServiceStatus
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.keys import PROTOCOL, Keys
from soulsgui.wire.messages.owner import ClientFolder, OwnerPause, OwnerWish
from soulsgui.wire.messages.server_config import ServerConfig
from tests.runner.children import until
from tests.states import invitation

FAKE_CLIENT = Path(__file__).with_name("join_client.py")
NAME = "gamer"
SECRET = "0123456789abcdef-for-tests"


def invitation_to(*places: tuple[str, int], **changes: Any) -> Invitation:
    """An invitation to a server at these addresses."""
    return invitation(**{"client": NAME, "secret": SECRET, "addresses": places} | changes)


def let_in(connection: redis.Redis, prefix: str, secret: str = SECRET) -> None:
    """Let the client with this secret in at a server."""
    words = user_words(NAME, prefix, secret_hash(secret))
    connection.execute_command("ACL", "SETUSER", user_of(NAME), *words)  # type: ignore[no-untyped-call]


def describe_run(connection: redis.Redis, prefix: str, protocol: int = PROTOCOL, **settings: Any) -> None:
    """Let a server say what it trains; `__` stands for the dot of a setting."""
    told: dict[str, Any] = {"run_id": "r", "attempt": 1, "contract": "c", "spaces": {}, "policy": {}}
    told |= {"protocol_min": protocol, "protocol_max": protocol}
    asked = {"env.id": "Toy-v0"} | {key.replace("__", "."): value for key, value in settings.items()}
    connection.set(Keys(prefix).config, ServerConfig(**told, settings=asked).to_json())


def client(runner: ClientRunner) -> ClientStatus:
    (only,) = runner.status().clients
    return only


async def comes_to_be(runner: ClientRunner, state: str) -> None:
    await until(lambda: client(runner).state == state)


def wish(runner: ClientRunner) -> str:
    return OwnerWish.read(runner.folder.wish.read_bytes()).state


def service(runner: ClientRunner) -> ServiceStatus:
    (only,) = runner.status().services
    return only


async def left_by_a_crash(folders: Folders, server: Address, wished: str) -> "subprocess.Popen[bytes]":
    """A client that plays as its owner wished, and whose runner is gone."""
    here = ClientFolder(folders.client)
    here.root.mkdir(parents=True)
    server.write(here.server_address)
    here.wish.write_text(OwnerWish.model_validate({"state": wished}).to_json())
    if wished == "pause":
        here.pause.write_text(OwnerPause().to_json())
    places = ["--server-file", str(here.server_address), "--state-dir", str(here.root)]
    argv = [*player.own_command("client"), "--name", NAME, *places]
    left = subprocess.Popen(argv, start_new_session=True)
    await until(here.state.exists)
    Identities(folders.client).write("client", argv, left.pid)
    return left
