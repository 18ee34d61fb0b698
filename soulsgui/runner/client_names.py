"""What the owner of the server calls its clients: names beside their ids, in one file."""

from collections.abc import Collection
from pathlib import Path

from soulsgui.printable import printable
from soulsgui.runner.refusal import Refused
from soulsgui.system import write_private
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.messages.base import Message

_LONGEST = 64


class _File(Message):
    names: dict[str, str]


class ClientNames:
    """The names, in memory and in their file. Every change is on the disk before it counts.

    Args:
        path: The file; its folder must exist before the first change.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        found = _File.read(path.read_bytes()) if path.exists() else None
        self._names = dict(found.names) if found is not None else {}

    def of(self, client: str) -> str:
        """Return what a client is called: its id where nothing else was said."""
        return self._names.get(client, client)

    def check_free(self, client: str, name: str, ids: Collection[str]) -> None:
        """Make sure that a client may be called so: no two look alike on screen.

        Args:
            client: Its id; it may be a new one.
            name: As it would stand on screen.
            ids: Of all clients.

        Raises:
            Refused: It is the id of another client, or another one is called so already.
        """
        if name != client and name in ids:
            raise Refused(ErrorCode.NOT_NOW, f"{name} is the id of another client.", "Choose another name.")
        if any(called == name for known, called in self._names.items() if known != client):
            raise Refused(
                ErrorCode.NOT_NOW, f"Another client is called {name!r} already.", "Choose another name."
            )

    def set(self, client: str, name: str, ids: Collection[str]) -> None:
        """Call a client something else.

        Args:
            client: Its id.
            name: The name; empty, or the id itself, takes the id again.
            ids: Of all clients.

        Raises:
            Refused: As `check_free`.
            OSError: The file can't be written.
        """
        name = " ".join(printable(name, _LONGEST).split())
        names = {known: called for known, called in self._names.items() if known != client}
        if name:
            self.check_free(client, name, ids)
        if name and name != client:
            names[client] = name
        self._keep(names)

    def forget(self, client: str) -> None:
        """Know no name of a client any more.

        Raises:
            OSError: The file can't be written.
        """
        self._keep({known: called for known, called in self._names.items() if known != client})

    def _keep(self, names: dict[str, str]) -> None:
        if names != self._names:
            write_private(self._path, _File(names=names).model_dump_json(indent=1).encode())
            self._names = names
