"""Where a server is, and how to be let in. Without the Redis library: the window knows addresses, too."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from soulsgui.errors import UsageError
from soulsgui.system import write_private


@dataclass(frozen=True)
class Address:
    """Where the server is and how to be let in.

    Attributes:
        host: Name or address.
        port: TCP port.
        password: The password of the server, or of the user; never printed.
        prefix: First part of every key.
        user: Who to log in as; empty for the server's own processes.
        pin: The server's certificate (`tls.pin_of`); empty where nothing is encrypted.
    """

    host: str
    port: int
    password: str = ""
    prefix: str = "souls:"
    user: str = ""
    pin: str = ""

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
            return cls(
                str(fields["host"]),
                int(fields["port"]),
                str(fields["password"]),
                str(fields["prefix"]),
                str(fields.get("user", "")),
                str(fields.get("pin", "")),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"The server address file {path} can't be used: {error}", "Start the runner: soulsgui serve"
            ) from error
