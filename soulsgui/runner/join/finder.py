"""Finding the server of an invitation: its addresses in turn, until one lets us in."""

import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

import redis

from soulsgui.wire.connection import AWAY, NOT_LET_IN, REVOKED, Address, ShutOut, connect, disk_full
from soulsgui.wire.invitation import Invitation, place_words
from soulsgui.wire.tls import WrongServer

logger = logging.getLogger(__name__)

_KNOCK_LIMIT_S = 1.0
_LET_IN_EVERY_S = 2.0
_SILENT_EVERY_S = 1.0
# A server that is busy for a moment is not looked for elsewhere.
_FAITHFUL_S = 5.0
_LOOK_EVERY_S = 0.5
# A server that has begun to encrypt since hangs up on who speaks in plain.
_HUNG_UP_IN_PLAIN = "it hung up; if it encrypts by now, ask for a new invitation"


class Reply(Enum):
    """What came of a knock."""

    LET_IN = "let in"
    SHUT_OUT = "not let in"
    SILENT = "no answer"
    ANOTHER = "another server"


@dataclass(frozen=True)
class Knock:
    """One try at one address.

    Attributes:
        reply: What came of it.
        why: Why it was silent or another one, in words.
        round_trip_s: How long an answer takes once the connection stands; None when it lets nobody in.
    """

    reply: Reply
    why: str = ""
    round_trip_s: float | None = field(default=None, compare=False)


def knock(address: Address) -> Knock:
    """Ask a server whether it is there and lets us in; takes at most a second, and what its name takes."""
    connection = connect(address, timeout_s=_KNOCK_LIMIT_S)
    try:
        connection.ping()
        began = time.perf_counter()
        connection.ping()
        round_trip_s = time.perf_counter() - began
    except redis.AuthenticationError:
        return Knock(Reply.SHUT_OUT)
    except WrongServer:
        return Knock(Reply.ANOTHER, "another server answers: its certificate is not that of the invitation")
    except redis.BusyLoadingError:
        return Knock(Reply.SILENT, "it is loading its data")
    except AWAY as error:
        return Knock(Reply.SILENT, _why(error, encrypted=bool(address.pin)))
    except UnicodeError:
        return Knock(Reply.SILENT, "no name of a computer")
    except redis.ResponseError as error:
        # A full disk keeps nobody out.
        return Knock(Reply.LET_IN) if disk_full(error) else Knock(Reply.SHUT_OUT)
    except redis.RedisError:
        return Knock(Reply.SILENT, "another program answers")
    finally:
        connection.close()
    return Knock(Reply.LET_IN, round_trip_s=round_trip_s)


def _why(error: BaseException, encrypted: bool) -> str:
    """Return the system's own words for why nobody answered, or what it means."""
    if isinstance(error, (redis.TimeoutError, TimeoutError)):
        return "no answer in time"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return "it does not encrypt as the invitation says"
        if isinstance(cause, ConnectionResetError) and not encrypted:
            return _HUNG_UP_IN_PLAIN
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return "it hung up" if encrypted else _HUNG_UP_IN_PLAIN


class Finder:
    """Follows one server over its addresses. Used by one thread.

    Args:
        invitation: What it was invited with.
        stop: Set when nobody waits for an answer any more.
        knocking: Tries one address.
        clock: Monotonic time, seconds.

    Attributes:
        address: Where it let us in last; None before it did.
        reachable: Whether it let us in at the last look.
        revoked: Whether it has answered for a minute without letting us in.
        error: Why it is not reached, in words; empty when it is.
        shut_out: Whether it answered at the last look, and did not let us in.
        round_trip_s: How long its answers take; None while there is none.
    """

    def __init__(
        self,
        invitation: Invitation,
        stop: threading.Event | None = None,
        knocking: Callable[[Address], Knock] = knock,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address: Address | None = None
        self.reachable = False
        self.revoked = False
        self.shut_out = False
        self.error = ""
        self.round_trip_s: float | None = None
        self._all = tuple(invitation.address(host, port) for host, port in invitation.addresses)
        self._stop = stop or threading.Event()
        self._knock = knocking
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
        tried: dict[Address, Knock] = {}
        for address in self._in_turn(now):
            if self._stop.is_set():
                return self.reachable
            tried[address] = self._knock(address)
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

    def _not_found(self, tried: dict[Address, Knock], now: float) -> None:
        self.reachable, self.round_trip_s = False, None
        if self._away_since is None:
            self._away_since = now
        closed = [address for address, knock in tried.items() if knock.reply is Reply.SHUT_OUT]
        self.shut_out = bool(closed)
        if closed:
            self._next = self._clock() + self._shut_out.again(now)
            self.revoked = self._shut_out.revoked(now)
            why = REVOKED if self.revoked else NOT_LET_IN
            self.error = f"The server at {_words(closed[0])} {why}"
        else:
            self._shut_out.over()
            self._next = self._clock() + _SILENT_EVERY_S
            self.revoked = False
            said = ", ".join(f"{_words(address)} ({knock.why})" for address, knock in tried.items())
            self.error = f"No answer from {said}."


def find_server(invitation: Invitation, stop: threading.Event) -> Address | None:
    """Look for the server of an invitation until it lets us in; say which addresses were tried in vain.

    Args:
        invitation: What it was invited with.
        stop: Set when the process should stop.

    Returns:
        Where it let us in; None when `stop` was set before.
    """
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


def _words(address: Address) -> str:
    return place_words(address.host, address.port)
