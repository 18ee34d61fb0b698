"""Where the server is that this machine plays for, and whether it answers."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from soulsgui.errors import UsageError
from soulsgui.runner.redis_server import ping
from soulsgui.wire.connection import Address
from soulsgui.wire.control import ServerStatus


class ServerWatch:
    """Follows the server of this machine: its address file is read again and again.

    Args:
        path: Where the runner of the server writes its address.
        wall_clock: Seconds since the epoch.

    Attributes:
        address: The newest address; None while there has been none.
        status: The server as windows see it.
    """

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self.address: Address | None = None
        self.status = ServerStatus(changed_at=wall_clock())
        self._path = path
        self._wall_clock = wall_clock

    def look(self) -> None:
        """Read the address and ask the server whether it is there; takes at most about half a second."""
        if self._path.exists():
            # Damaged, or just taken away: what is known stays good until there is something better.
            with contextlib.suppress(UsageError):
                self.address = Address.read(self._path)
        reachable = self.address is not None and ping(self.address).ready
        url = f"redis://{self.address.host}:{self.address.port}" if self.address is not None else ""
        changed_at = self.status.changed_at if reachable == self.status.reachable else self._wall_clock()
        self.status = ServerStatus(url=url, reachable=reachable, changed_at=changed_at)
