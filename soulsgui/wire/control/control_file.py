"""How a runner is reached."""

from pathlib import Path
from typing import Any

from pydantic import Field

from soulsgui.errors import ServerUnreachableError
from soulsgui.wire.messages.base import Message

API_VERSION = 1
API_OLDEST = 1
PREFIX = "/v1"


class ControlFile(Message):
    """`control.json`: how to reach the runner of this data folder. Its file is private.

    Attributes:
        process: Identity of the runner's process, which tells it from whoever is given its pid later; empty
            where it is not known.
    """

    host: str = "127.0.0.1"
    port: int
    token: str
    server_id: str
    pid: int
    process: dict[str, Any] = Field(default_factory=dict)
    api: int = API_VERSION

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://{self.host}:{self.port}"

    @classmethod
    def load(cls, path: Path) -> "ControlFile":
        """Read the file of a runner.

        Raises:
            ServerUnreachableError: There is none, or it is damaged.
        """
        try:
            found = cls.read(path.read_bytes())
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            why = "is missing" if missing else f"can't be read: {error.strerror or error}"
            raise ServerUnreachableError(
                f"No runner runs for this data folder ({path} {why}).", "Start one: soulsgui serve"
            ) from error
        if found is None:
            raise ServerUnreachableError(
                f"{path} is damaged.", "Stop the runner and start it again: soulsgui serve"
            )
        return found
