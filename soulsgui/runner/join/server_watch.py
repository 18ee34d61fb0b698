"""Where the server is that this machine plays for, and whether it answers."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from soulsgui.errors import UsageError
from soulsgui.runner.join.finder import Reply, knock
from soulsgui.wire.connection import Address
from soulsgui.wire.control import ServerStatus

_SAME_WITHIN_S = 0.002


class Search(Protocol):
    """Something that knows where a server is.

    Attributes:
        address: The newest address; None while there has been none.
        error: Why it is not reached, in words, where there is more to say than that.
        revoked: Whether it answers, and has not let us in for a minute.
        round_trip_s: How long its answers take; None while there is none.
    """

    address: Address | None
    error: str
    revoked: bool
    round_trip_s: float | None

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
        self.round_trip_s: float | None = None
        self._path = path

    def look(self) -> bool:
        """Read the address and ask the server whether it is there; takes at most a second."""
        if self._path.exists():
            # Damaged, or just taken away: what is known stays good until there is something better.
            with contextlib.suppress(UsageError):
                self.address = Address.read(self._path)
        if self.address is None:
            return False
        answer = knock(self.address)
        self.round_trip_s = answer.round_trip_s
        return answer.reply is Reply.LET_IN

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
            "round_trip_s": _steady(self.status.round_trip_s, self.search.round_trip_s),
        }
        self.status = self.status.model_copy(update=change)


def _steady(before_s: float | None, now_s: float | None) -> float | None:
    """Return how long answers take, as before when it is much the same: not every flicker is told."""
    if before_s is None or now_s is None:
        return now_s
    return before_s if abs(now_s - before_s) <= max(_SAME_WITHIN_S, before_s / 2) else now_s
