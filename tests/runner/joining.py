"""A runner of client mode with a stand-in for its client, and who invites it."""

from pathlib import Path
from typing import Any

import redis

from soulsgui.runner.join.app import ClientRunner
from soulsgui.wire.access import secret_hash, user_of, user_words
from soulsgui.wire.control import COMMANDS, ClientStatus, ServiceStatus
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.messages.owner import OwnerWish

FAKE_CLIENT = Path(__file__).with_name("join_client.py")
NAME = "gamer"
SECRET = "0123456789abcdef-for-tests"


def invitation_to(*places: tuple[str, int], **changes: Any) -> Invitation:
    """An invitation to a server at these addresses."""
    fields = {"server_id": "server-1", "server_name": "atelier", "client": NAME, "secret": SECRET}
    values = fields | {"addresses": places, "prefix": "souls:", "created": 1.0} | changes
    return Invitation.model_validate(values)


def let_in(connection: redis.Redis, prefix: str, secret: str = SECRET) -> None:
    """Let the client with this secret in at a server."""
    words = user_words(NAME, prefix, secret_hash(secret))
    connection.execute_command("ACL", "SETUSER", user_of(NAME), *words)  # type: ignore[no-untyped-call]


async def call(runner: ClientRunner, command: str, /, **params: Any) -> dict[str, Any]:
    """Give a command as its control API does."""
    result = await runner.command(command, COMMANDS[command].params.model_validate(params))
    return result.model_dump(mode="json") if result is not None else {}


def client(runner: ClientRunner) -> ClientStatus:
    """State of its client."""
    (only,) = runner.status().clients
    return only


def wish(runner: ClientRunner) -> str:
    """What its client is told to do."""
    found = OwnerWish.read(runner.folder.wish.read_bytes())
    assert found is not None
    return found.state


def service(runner: ClientRunner) -> ServiceStatus:
    """State of its client's process."""
    (only,) = runner.status().services
    return only
