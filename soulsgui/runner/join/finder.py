"""Finding the server of an invitation: its addresses in turn, until one lets us in."""

import contextlib
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import redis

from soulsgui.errors import UsageError
from soulsgui.wire.connection import (
    AWAY,
    NOT_LET_IN,
    REVOKED,
    Address,
    ShutOut,
    WrongServer,
    connect,
    disk_full,
)
from soulsgui.wire.control import ServerStatus
from soulsgui.wire.invitation import Invitation, place_words

logger = logging.getLogger(__name__)

_TRY_LIMIT_S = 1.0
_LET_IN_EVERY_S = 2.0
_SILENT_EVERY_S = 1.0
# A server that is busy for a moment is not looked for elsewhere.
_FAITHFUL_S = 5.0
_LOOK_EVERY_S = 0.5


class Reply(Enum):
    """What came of trying an address."""

    LET_IN = "let in"
    SHUT_OUT = "not let in"
    SILENT = "no answer"
    ANOTHER = "another server"


@dataclass(frozen=True)
class TryResult:
    """One try at one address."""

    reply: Reply  # What came of it
    why: str = ""  # Why it was silent or another one, in words
    # How long an answer takes once the connection stands; None when it lets nobody in.
    round_trip_s: float | None = field(default=None, compare=False)


def try_address(address: Address) -> TryResult:
    """Ask a server whether it is there and lets us in; takes at most a second, and what its name takes."""
    connection = connect(address, timeout_s=_TRY_LIMIT_S)
    try:
        connection.ping()
        began = time.perf_counter()
        connection.ping()
        round_trip_s = time.perf_counter() - began
    except redis.AuthenticationError:
        return TryResult(Reply.SHUT_OUT)
    except WrongServer:
        return TryResult(
            Reply.ANOTHER, "another server answers: its certificate is not that of the invitation"
        )
    except redis.BusyLoadingError:
        return TryResult(Reply.SILENT, "it is loading its data")
    except AWAY as error:
        return TryResult(Reply.SILENT, _why(error))
    except UnicodeError:
        return TryResult(Reply.SILENT, "not a computer name")
    except redis.ResponseError as error:
        # A full disk keeps nobody out.
        return TryResult(Reply.LET_IN) if disk_full(error) else TryResult(Reply.SHUT_OUT)
    except redis.RedisError:
        return TryResult(Reply.SILENT, "another program answers")
    finally:
        connection.close()
    return TryResult(Reply.LET_IN, round_trip_s=round_trip_s)


def _why(error: BaseException) -> str:
    """Return the system's own words for why nobody answered, or what it means."""
    if isinstance(error, (redis.TimeoutError, TimeoutError)):
        return "no answer in time"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return "it does not encrypt as the invitation says"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return "it closed the connection"


class Finder:
    """Follows one server over its addresses. Used by one thread."""

    def __init__(
        self,
        invitation: Invitation,
        stop: threading.Event | None = None,
        trying: Callable[[Address], TryResult] = try_address,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address: Address | None = None  # Where it let us in last; None before it did
        self.reachable = False  # Whether it let us in at the last look
        # Whether it does not let us in any more, or has answered for a minute without doing so.
        self.revoked = False
        self.shut_out = False  # Whether it answered at the last look, and did not let us in
        self.error = ""  # Why it is not reached, in words; empty when it is
        self.round_trip_s: float | None = None  # How long its answers take; None while there is none
        self._all = tuple(invitation.address(host, port) for host, port in invitation.addresses)
        self._stop = stop or threading.Event()
        self._try = trying
        self._clock = clock
        self._shut_out = ShutOut()
        self._away_since: float | None = None
        self._next = 0.0

    def is_of(self, address: Address) -> bool:
        """Whether an address is one of this server, with the present secret."""
        return address in self._all

    def look(self) -> bool:
        """Look for the server, unless that was done a moment ago; return whether it lets us in."""
        now = self._clock()
        if now < self._next:
            return self.reachable
        tried: dict[Address, TryResult] = {}
        for address in self._in_turn(now):
            if self._stop.is_set():
                return self.reachable
            tried[address] = self._try(address)
            if tried[address].reply is Reply.LET_IN:
                self._found(address, tried[address].round_trip_s)
                return True
        self._not_found(tried, now)
        return False

    def _in_turn(self, now: float) -> Iterator[Address]:
        known = self.address
        if known is not None:
            yield known
            if self._away_since is None or now - self._away_since < _FAITHFUL_S:
                return
        yield from (address for address in self._all if address != known)

    def _found(self, address: Address, round_trip_s: float | None) -> None:
        self.round_trip_s, self.shut_out = round_trip_s, False
        self.address, self.reachable, self.revoked, self.error = address, True, False, ""
        self._shut_out.over()
        self._away_since = None
        self._next = self._clock() + _LET_IN_EVERY_S

    def _not_found(self, tried: dict[Address, TryResult], now: float) -> None:
        self.reachable, self.round_trip_s = False, None
        if self._away_since is None:
            self._away_since = now
        closed = [address for address, result in tried.items() if result.reply is Reply.SHUT_OUT]
        self.shut_out = bool(closed)
        if closed:
            self._next = self._clock() + self._shut_out.again(now)
            # Who let us in before is no server that has only just begun.
            self.revoked = self._shut_out.revoked(now) or self.address in closed
            why = REVOKED if self.revoked else NOT_LET_IN
            self.error = f"The server at {place_words(closed[0].host, closed[0].port)} {why}"
        else:
            self._shut_out.over()
            self._next = self._clock() + _SILENT_EVERY_S
            self.revoked = False
            said = (f"{place_words(one.host, one.port)} ({result.why})" for one, result in tried.items())
            self.error = f"No answer from {', '.join(said)}."


def find_server(invitation: Invitation, stop: threading.Event) -> Address | None:
    """Look for the server of an invitation until it lets us in, and return where; None if `stop` is set."""
    finder = Finder(invitation, stop)
    said = ""
    while not stop.is_set():
        if finder.look():
            return finder.address
        if finder.error != said:
            said = finder.error
            logger.warning("%s It is tried again.", said)
        stop.wait(_LOOK_EVERY_S)
    return None


_SAME_WITHIN_S = 0.002


class OwnServer:
    """The server of this machine, whose address file is read again and again, in place of a `Finder`."""

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
        answer = try_address(self.address)
        self.round_trip_s = answer.round_trip_s
        return answer.reply is Reply.LET_IN

    def is_of(self, address: Address) -> bool:
        """Whether an address from earlier may be used: not one of an invitation."""
        return not address.user


class ServerWatch:
    """The server of this machine's client, as windows see it."""

    def __init__(
        self, search: Finder | OwnServer, name: str = "", wall_clock: Callable[[], float] = time.time
    ) -> None:
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
    """Return the round-trip time, unchanged while it differs little: small jitter is not shown."""
    if before_s is None or now_s is None:
        return now_s
    return before_s if abs(now_s - before_s) <= max(_SAME_WITHIN_S, before_s / 2) else now_s
