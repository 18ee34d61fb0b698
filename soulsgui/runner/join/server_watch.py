"""Where the server is that this machine plays for, and whether it answers."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from soulsgui.errors import UsageError
from soulsgui.runner.redis_server import ping
from soulsgui.wire.connection import Address
from soulsgui.wire.control import ServerStatus


class Search(Protocol):
    """Something that knows where a server is.

    Attributes:
        address: The newest address; None while there has been none.
        error: Why it is not reached, in words, where there is more to say than that.
        revoked: Whether it answers, and has not let us in for a minute.
    """

    address: Address | None
    error: str
    revoked: bool

    def look(self) -> bool:
        """Look for the server; return whether it lets us in."""

    def is_of(self, address: Address) -> bool:
        """Whether an address from earlier may be used until there is a better one."""


class OwnServer:
    """The server that runs on this machine: its address file is read again and again.

    Args:
        path: Where the runner of the server writes its address.
    """

    def __init__(self, path: Path) -> None:
        self.address: Address | None = None
        self.error = ""
        self.revoked = False
        self._path = path

    def look(self) -> bool:
        """Read the address and ask the server whether it is there; takes at most about half a second."""
        if self._path.exists():
            # Damaged, or just taken away: what is known stays good until there is something better.
            with contextlib.suppress(UsageError):
                self.address = Address.read(self._path)
        return self.address is not None and ping(self.address).ready

    def is_of(self, address: Address) -> bool:
        """Whether an address from earlier may be used: not one of an invitation."""
        return not address.user


class ServerWatch:
    """The server of this machine's client, as windows see it.

    Args:
        search: Knows where it is.
        name: What it is called; empty for the one that runs on this machine.
        wall_clock: Seconds since the epoch.

    Attributes:
        status: The server as windows see it.
    """

    def __init__(self, search: Search, name: str = "", wall_clock: Callable[[], float] = time.time) -> None:
        self.status = ServerStatus(changed_at=wall_clock(), name=name)
        self.search = search
        self._wall_clock = wall_clock

    def look(self) -> None:
        """Look for the server once; of an invitation with many addresses that takes a second for each."""
        reachable, address = self.search.look(), self.search.address
        url = address.url if address is not None else ""
        changed_at = self.status.changed_at if reachable == self.status.reachable else self._wall_clock()
        change = {
            "url": url,
            "reachable": reachable,
            "changed_at": changed_at,
            "error": self.search.error,
        }
        self.status = self.status.model_copy(update=change)
