"""What is passed on between an invited client and the server, over all connections of the client.

As fast as the other side reads, within the client's allowance; and what it asks for only while the answers
that are still to come are few: the server keeps each whole until it is read.
"""

import asyncio
import re
import socket
from collections import deque
from collections.abc import Callable
from typing import cast

from soulsgui.runner.server.allowance import Allowance
from soulsgui.runner.server.protocol import CommandError, Commands, Replies
from soulsgui.system import read_bytes
from soulsgui.wire.access import client_commands

ROOM_BYTES = 16 * 2**20
"""So many bytes of answers may be on their way to one client, beside the weights."""

_UNREAD_BYTES = 256 * 1024
_LONGEST_LOGIN = 1024
_LAST_WORDS_S = 1.0
_PAUSE_S = 0.005
_FREED_S = 1.0
_RECORD_BYTES = 22  # of a record of TLS 1.3, beside what it holds
_NO_COMMAND = b"-ERR Protocol error: no command of a client, as an array of strings with their lengths\r\n"
_COMMANDS = frozenset(name.encode() for name in client_commands())
_UNREAD, _SPENT = "the other side reads slowly", "its allowance is used up"
_ASKED = "answers are on their way"
# An answer counts as at least so much; of GETRANGE, which reads weights, as their size is known late.
_LEAST_BYTES = {b"GET": 128 * 1024, b"GETRANGE": 2**20}
_SUBSCRIBE = b"SUBSCRIBE"
_MOST_UNANSWERED = 4096  # commands of a connection


class Side(asyncio.Protocol):
    """One side of a connection: what comes in is kept until there is another side."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.early = b""  # what came before there was another side
        self.lost = False
        self.on_lost: Callable[[], None] = lambda: None
        self._other: Side | None = None
        self._pass_on: Callable[[bytes], None] | None = None
        self._held: set[str] = set()  # why nothing is read of it now
        self._news = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note where to write."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(_UNREAD_BYTES)

    def data_received(self, data: bytes) -> None:
        """Pass on what came, or keep it."""
        if self._pass_on is not None:
            self._pass_on(data)
            return
        self.early += data
        if len(self.early) > _LONGEST_LOGIN:
            self.transport.pause_reading()
        self._news.set()

    def pause_writing(self) -> None:
        """Read nothing of the other side while this one reads slowly."""
        if self._other is not None:
            self._other.hold(_UNREAD)

    def resume_writing(self) -> None:
        """Read of the other side again."""
        if self._other is not None:
            self._other.go_on(_UNREAD)

    def hold(self, why: str) -> None:
        """Read nothing of it, until everything that holds it back has gone."""
        self._held.add(why)
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def go_on(self, why: str) -> None:
        """End one cause of `hold`."""
        self._held.discard(why)
        if not self._held and not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        """End the other side, too."""
        self.lost = True
        self._news.set()
        self.on_lost()
        if self._other is not None:
            self._other.end()
        # The two hold each other: with their buffers they would stay until the next search for such rings.
        self._other = self._pass_on = None
        self.on_lost = lambda: None

    async def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Wait until what it has said early begins so; None when it never will."""
        while (found := pattern.match(self.early)) is None:
            if self.lost or len(self.early) > _LONGEST_LOGIN:
                return None
            self._news.clear()
            await self._news.wait()
        return found

    def join(self, other: "Side", pass_on: Callable[[bytes], None]) -> None:
        """Have what it says passed on to another side, what it has said early, too."""
        self._other, self._pass_on = other, pass_on
        early, self.early = self.early, b""
        pass_on(early)
        if not self._held and not self.transport.is_closing():
            self.transport.resume_reading()
        if self.lost:
            other.end()

    def end(self, words: bytes = b"") -> None:
        """Close it, after these words and what is still to be written, if that is soon read."""
        if not self.lost:
            self.transport.write(words)
            self.transport.close()
            asyncio.get_running_loop().call_later(_LAST_WORDS_S, self.transport.abort)


class Throughput:
    """What the connections of one client share: who has used its allowance up is held back a while."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._connections: dict[Passing, None] = {}
        self._held = False
        self._asked_bytes = 0
        self.allowance = Allowance(self._loop.time())
        self.weights_bytes = 0

    def join(self, one: "Passing") -> None:
        """Take in a connection."""
        self._connections[one] = None
        if self._held:
            one.hold(_SPENT)

    def part(self, one: "Passing") -> None:
        """Forget a connection that has ended."""
        del self._connections[one]

    def ask(self, asking: "Passing", size: int) -> bool:
        """Note that so many bytes are asked for; return False where other answers are to come first.

        Older connections that such are on their way to are ended: a client needs one large answer at a time,
        and comes anew when its network was away.
        """
        for one in list(self._connections):  # the oldest first
            if one is asking or self._has_room(size):
                break
            one.drop_if_asked()
        if room := self._has_room(size):
            self._asked_bytes += size
        return room

    def _has_room(self, size: int) -> bool:
        asked = self._asked_bytes
        return not size or not asked or asked + size <= self.weights_bytes + ROOM_BYTES

    def answered(self, size: int) -> None:
        """Note that so much was answered: there may be room for more."""
        if size:
            self._asked_bytes -= size
            self._loop.call_soon(self._pass_on)  # one of them may be reading just now

    def given_up(self, size: int) -> None:
        """Note that so much will not be read: the server frees it soon after the end of a connection."""
        self._loop.call_later(_FREED_S, self.answered, size)

    def _pass_on(self) -> None:
        for one in list(self._connections):
            one.pass_on()

    def look(self) -> None:
        """Count the records of the encryption as words: they cost as much, however little they hold."""
        if records := sum(one.new_records() for one in self._connections):
            self.spend(0, records)

    def spend(self, size: int, words: int) -> None:
        """Count what was passed on."""
        now = self._loop.time()
        self.allowance.spend(size, words, now)
        if not self._held and self.allowance.wait_s(now):
            self._held = True
            for one in self._connections:
                one.hold(_SPENT)
            self._loop.call_later(self.allowance.wait_s(now), self._go_on)

    def _go_on(self) -> None:
        if wait_s := self.allowance.wait_s(self._loop.time()):
            self._loop.call_later(wait_s + _PAUSE_S, self._go_on)
            return
        self._held = False
        for one in self._connections:
            one.go_on(_SPENT)


class Passing:
    """A connection: a client, the server's side, and what the client has asked for there."""

    def __init__(self, line: socket.socket, client: Side, server: Side, its: Throughput) -> None:
        self._line = line
        self._client, self._server, self._its = client, server, its
        self._commands, self._replies = Commands(), Replies()
        self._waiting = b""  # what the client has said, and may not say yet
        self._asked: deque[int] = deque()  # bytes of answers to come, of each command
        self._received = 0  # bytes that came from the client, decrypted
        self._records = 0  # in which they came, at most
        self._listens = False  # to channels: what comes then is no reply to anything
        self._waits = False  # for answers
        before = client.on_lost

        def on_lost() -> None:
            before()
            its.part(self)
            self._give_up()

        client.on_lost = on_lost
        its.join(self)
        server.join(client, self._from_server)
        client.join(server, self._from_client)

    def hold(self, why: str) -> None:
        """Read nothing of either side."""
        self._client.hold(why)
        self._server.hold(why)

    def go_on(self, why: str) -> None:
        """End one cause of `hold`."""
        self._client.go_on(why)
        self._server.go_on(why)

    def new_records(self) -> int:
        """Return how many records of the encryption came since the last look, as far as the system tells."""
        line_bytes = read_bytes(self._line)
        records = 0 if line_bytes is None else (line_bytes - self._received) // _RECORD_BYTES
        new, self._records = max(0, records - self._records), max(records, self._records)
        return new

    def drop_if_asked(self) -> None:
        """End it, where large answers are on their way."""
        if any(self._asked):
            self._client.transport.abort()
            self._server.transport.abort()
            self._give_up()

    def _give_up(self) -> None:
        self._waiting, asked, self._asked = b"", self._asked, deque()
        self._its.given_up(sum(asked))

    def pass_on(self) -> None:
        """Tell the server what the client has said, as far as it may ask for so much now."""
        if not self._waiting:
            return
        words, self._waits = self._commands.words, False
        try:
            end = self._commands.read(self._waiting, self._ask)
        except CommandError:
            self._waiting = b""
            self._client.end(_NO_COMMAND)
            return
        passed, self._waiting = self._waiting[:end], self._waiting[end:]
        (self._client.hold if self._waits else self._client.go_on)(_ASKED)
        if passed:
            self._server.transport.write(passed)
            self._its.spend(len(passed), self._commands.words - words)

    def _ask(self, name: bytes) -> bool:
        """Note what a command asks for; return False where other answers are to come first."""
        if name not in _COMMANDS:
            raise CommandError
        least = _LEAST_BYTES.get(name)
        if self._listens or name.endswith(_SUBSCRIBE):
            if least is not None:  # its answer could not be told from what comes by itself
                raise CommandError
            self._listens = True
            return True
        size = 0
        if least is not None:
            largest = self._its.weights_bytes if name == b"GETRANGE" else self._commands.largest_value
            size = max(least, largest)
        self._waits = len(self._asked) >= _MOST_UNANSWERED or not self._its.ask(self, size)
        if not self._waits:
            self._asked.append(size)
        return not self._waits

    def _from_client(self, data: bytes) -> None:
        self._received += len(data)
        self._waiting += data
        self.pass_on()

    def _from_server(self, data: bytes) -> None:
        self._client.transport.write(data)
        self._its.spend(len(data), 0)
        if self._asked:
            replies = min(self._replies.count(data), len(self._asked))
            answered = sum(self._asked.popleft() for _ in range(replies))
            if replies:
                self.pass_on()
            self._its.answered(answered)
