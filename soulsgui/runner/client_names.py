"""What the owner of the server calls its clients: names beside their ids, in one file."""

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

    def set(self, client: str, name: str) -> None:
        """Call a client something else.

        Args:
            client: Its id.
            name: The name; empty, or the id itself, takes the id again.

        Raises:
            Refused: Another client is called so already.
            OSError: The file can't be written.
        """
        name = " ".join(printable(name, _LONGEST).split())
        names = {known: called for known, called in self._names.items() if known != client}
        if name and name in names.values():
            raise Refused(ErrorCode.NOT_NOW, f"Another client is called {name!r} already.")
        if name and name != client:
            names[client] = name
        if names != self._names:
            write_private(self._path, _File(names=names).model_dump_json(indent=1).encode())
            self._names = names
