"""What a client may do on the server: its own streams, its own beat, and reading what is meant for it.

The rule was tried on Redis 7.0 and Valkey 9. Rights stand with each key, not beside it: with `+set` and
`+xadd` for all its keys a client could overwrite its own stream with a string, and stop everybody's ingest.
"""

import hashlib

from soulsgui.wire.keys import Keys, check_client_name

_NOTHING = ("resetkeys", "resetchannels", "-@all")
_CONNECTION = ("+subscribe", "+unsubscribe", "+hello", "+auth", "+ping", "+client|setname", "+client|id")


def user_of(client: str) -> str:
    """Return the server's name for a client's user.

    Raises:
        UsageError: A client can't be called so.
    """
    return f"client.{check_client_name(client)}"


def client_of(user: str) -> str | None:
    """Return the client whose user this is, None for a user of another kind."""
    return user.removeprefix("client.") if user.startswith("client.") else None


def secret_hash(secret: str) -> str:
    """Return what the server and the runner keep of a client's secret: its SHA-256, hexadecimal."""
    return hashlib.sha256(secret.encode()).hexdigest()


def client_rights(client: str, prefix: str) -> tuple[str, ...]:
    """Return the words of ACL SETUSER that give a client its rights, and no other.

    Args:
        client: The client's id.
        prefix: First part of every key.

    Raises:
        UsageError: A client can't be called so.
    """
    check_client_name(client)
    keys = Keys(prefix)
    streams = list(keys.streams(client))
    read = [f"{keys.weights}*", keys.config, keys.wish(client), keys.grant(client)]
    return (
        *_NOTHING,
        _selector(("+xadd", "+xlen", "+xinfo|stream"), "%RW~", streams),
        _selector(("+set", "+get", "+pttl"), "%RW~", [keys.beat(client)]),
        _selector(("+get", "+getrange", "+strlen"), "%R~", read),
        f"&{keys.weights_event}",
        f"&{keys.wake_up(client)}",
        *_CONNECTION,
    )


def user_words(client: str, prefix: str, hashed: str) -> tuple[str, ...]:
    """Return the words of ACL SETUSER that let a client in, whatever its user was allowed before.

    Connections that use the user already go on: to end them, delete the user first.

    Args:
        client: The client's id.
        prefix: First part of every key.
        hashed: `secret_hash` of its secret.
    """
    return ("reset", "on", f"#{hashed}", *client_rights(client, prefix))


def user_line(client: str, prefix: str, hashed: str) -> str:
    """Return the line of the server's configuration that lets a client in.

    Args:
        client: The client's id.
        prefix: First part of every key.
        hashed: `secret_hash` of its secret.
    """
    _, *rights = user_words(client, prefix, hashed)
    return " ".join(["user", user_of(client), *rights])


def _selector(commands: tuple[str, ...], access: str, keys: list[str]) -> str:
    return "(" + " ".join([*commands, *(access + key for key in keys)]) + ")"
