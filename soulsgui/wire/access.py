"""Where a server is, and what a client may do on it: its own streams, its own beat, what is meant for it.

Without the Redis library: the window knows addresses, too.

The rule was tried on Redis 7.0 and Valkey 9. Rights stand with each key, not beside it: with `+set` and
`+xadd` for all its keys a client could overwrite its own stream with a string, and stop everybody's ingest.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from soulsgui.errors import UsageError
from soulsgui.system import write_private
from soulsgui.wire.keys import Keys, check_client_name, is_client_name


@dataclass(frozen=True)
class Address:
    """Where the server is and how to be let in.

    Attributes:
        password: Of the server, or of the user; never printed.
        user: Who to log in as; empty for the server's own processes.
        pin: The server's certificate (`wire.connection.pin_of`); empty where nothing is encrypted: a Redis
            of one's own.
        socket: Path of the server's Unix socket, which its own processes use; empty where there is none.
    """

    host: str
    port: int
    password: str = ""
    prefix: str = "souls:"
    user: str = ""
    pin: str = ""
    socket: str = ""

    def __repr__(self) -> str:
        return f"Address({self.host}:{self.port})"

    @property
    def url(self) -> str:
        """The address as people read it, without who may come in."""
        return f"{'rediss' if self.pin else 'redis'}://{self.host}:{self.port}"

    def write(self, path: Path) -> None:
        """Write the address into a file that only its owner can read."""
        write_private(path, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, path: Path) -> "Address":
        """Read an address file.

        Raises:
            UsageError: The file is missing or damaged.
        """
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            words = {name: str(fields[name]) for name in ("host", "password", "prefix")}
            later = {name: str(fields.get(name, "")) for name in ("user", "pin", "socket")}
            return cls(port=int(fields["port"]), **words, **later)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(
                f"The server address file {path} can't be used: {error}", "Start the runner: soulsgui serve"
            ) from error


_CLIENT = "client."
_NOTHING = ("resetkeys", "resetchannels", "-@all")
_CONNECTION = ("+subscribe", "+unsubscribe", "+ping", "+client|setname")


def user_of(client: str) -> str:
    """Return the server's name for a client's user.

    Raises:
        UsageError: A client can't be called so.
    """
    return f"{_CLIENT}{check_client_name(client)}"


def client_of_user(user: str) -> str:
    """Return the client that a user of the server is; empty where it is none."""
    name = user.removeprefix(_CLIENT)
    return name if name != user and is_client_name(name) else ""


def secret_hash(secret: str) -> str:
    """Return what the server and the runner keep of a client's secret: its SHA-256, hexadecimal."""
    return hashlib.sha256(secret.encode()).hexdigest()


def client_rights(client: str, prefix: str) -> tuple[str, ...]:
    """Return the words of ACL SETUSER that give a client its rights below a prefix, and no other."""
    check_client_name(client)
    keys = Keys(prefix)
    streams = list(keys.streams(client))  # added to, never read: a word could ask for all that they hold
    told = [keys.config, keys.wish(client), keys.grant(client)]
    return (
        *_NOTHING,
        _selector(("+xadd",), "%RW~", streams),
        _selector(("+set", "+get", "+pttl"), "%RW~", [keys.beat(client)]),
        # By their names the gateway knows what is large: weights, which are read by GETRANGE alone.
        _selector(("+get",), "%R~", told),
        _selector(("+getrange", "+strlen"), "%R~", [f"{keys.weights}*"]),
        _selector(("+set",), "%W~", [keys.picture(client)]),
        _selector(("+rpush",), "%W~", [keys.requests(client)]),
        _selector(("+blpop",), "%RW~", [keys.replies(client)]),
        f"&{keys.weights_event}",
        f"&{keys.wake_up(client)}",
        *_CONNECTION,
    )


def client_commands() -> frozenset[str]:
    """Return the names of the commands that a client may use; the server allows some others to everybody."""
    words = " ".join(client_rights("any", "")).replace("(", "").split()
    return frozenset(word[1:].partition("|")[0].upper() for word in words if word.startswith("+"))


def user_words(client: str, prefix: str, hashed: str) -> tuple[str, ...]:
    """Return the words of ACL SETUSER that let a client in, whatever its user was allowed before.

    Connections that use the user already go on: to end them, delete the user first. `hashed` is the
    `secret_hash` of its secret.
    """
    return ("reset", "on", f"#{hashed}", *client_rights(client, prefix))


def user_line(client: str, prefix: str, hashed: str) -> str:
    """Return the line of the server's configuration that lets a client in, from what `user_words` takes."""
    _, *rights = user_words(client, prefix, hashed)
    return " ".join(["user", user_of(client), *rights])


def _selector(commands: tuple[str, ...], access: str, keys: list[str]) -> str:
    return "(" + " ".join([*commands, *(access + key for key in keys)]) + ")"
