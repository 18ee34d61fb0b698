"""Where the commands of a client begin in what it sends, and where the server's replies end.

Pure, but for the clock that ids of entries are compared with.
"""

import re
import time
from collections.abc import Callable

LONGEST_WORD = 1024
"""Bytes of a word that is no payload, such as a key or a name."""

_PAYLOAD = {b"SET": 2, b"RPUSH": 2}
"""The commands that carry one, and how many of their words come before it; of XADD all up to the id."""

# Behind the highest id no entry fits any more. Clocks that were wrong for a while are no hindrance.
_MOST_AHEAD_S = 100 * 365 * 86_400
_ENTRY_ID = re.compile(
    rb"(?:NOMKSTREAM )?(?:MAXLEN (?:[=~] )?\d+ )?(?:\*|(\d{1,20})-\d{1,20})", re.IGNORECASE
)
_BEFORE_ID = re.compile(rb"(?:NOMKSTREAM ?)?(?:MAXLEN(?: [=~])?(?: \d+)?)?", re.IGNORECASE)

_COMMAND = re.compile(rb"\*([1-9]\d{0,8})\r\n\$(\d{1,2})\r\n")
_WORD = re.compile(rb"\$(\d{1,9})\r\n")
_BEGINNING = re.compile(rb"\*(([1-9]\d{0,8})?\r?|[1-9]\d{0,8}\r\n(\$\d{0,2}\r?)?)\Z")
_BEGINNING_OF_WORD = re.compile(rb"\$\d{0,9}\r?\Z")
_REPLY = re.compile(rb"([^\r\n])([^\r\n]*)\r\n")


class CommandError(ValueError):
    """What came is no command as our clients write it."""


class Commands:
    """Reads the commands of one connection, which arrive in pieces.

    A command is an array of strings with their lengths. Lines that the server would read otherwise than it
    (`PING` without lengths, say) are refused: behind them commands could hide. So are long words where none
    belong: the server remembers names, keys and what it refused, and counts that as nobody's. And so are ids
    of entries far in the future, which would use those of a stream up.
    """

    def __init__(self) -> None:
        self.words = 0  # that began so far
        self.largest_value = 0  # bytes of the longest word of a SET
        self._name = b""
        self._to_come = 0  # words of the present command
        self._before_payload = 0  # of these
        self._inside = 0  # bytes of the present word
        self._before_id: list[bytes] | None = None  # words of an XADD, up to its id

    def read(self, data: bytes, may: Callable[[bytes], bool]) -> int:
        """Read on, each command that `may` be by its name; return how far.

        What is behind that place is to be given again, with what follows it.

        Raises:
            CommandError: It is no command.
        """
        at = 0
        while True:
            step = min(self._inside, len(data) - at)
            self._inside -= step
            at += step
            if at == len(data):
                return at
            header = (_WORD if self._to_come else _COMMAND).match(data, at)
            if header is None:
                if not (_BEGINNING_OF_WORD if self._to_come else _BEGINNING).match(data, at):
                    raise CommandError
                return at
            if self._to_come:
                size = int(header[1])
                if size > LONGEST_WORD and (self._before_payload > 1 or self._before_id is not None):
                    raise CommandError
                if self._before_id is not None:
                    if header.end() + size > len(data):
                        return at
                    self._read_before_payload(self._before_id, data[header.end() : header.end() + size])
                self._to_come -= 1
                self._before_payload -= 1
                if self._name == b"SET":
                    self.largest_value = max(self.largest_value, size)
                self.words += 1
                self._inside, at = size + 2, header.end()
            else:
                end = header.end() + int(header[2]) + 2
                name = data[header.end() : end - 2].upper()
                if end > len(data) or not may(name):
                    return at
                self._name, self._to_come = name, int(header[1]) - 1
                self._before_id = [] if name == b"XADD" else None
                self._before_payload = _PAYLOAD.get(name, 0 if name == b"XADD" else self._to_come + 1)
                self.words += 2
                at = end

    def _read_before_payload(self, words: list[bytes], word: bytes) -> None:
        """Read the key of an XADD, an option or its id, behind which its payload begins."""
        words.append(word)
        said = b" ".join(words[1:])
        found = _ENTRY_ID.fullmatch(said)
        if b" " in word or not (found or _BEFORE_ID.fullmatch(said)):
            raise CommandError
        if found:
            if found[1] and int(found[1]) > 1000 * (time.time() + _MOST_AHEAD_S):
                raise CommandError
            self._before_id = None


class Replies:
    """Counts the replies of the server, as they come to their end."""

    def __init__(self) -> None:
        self._to_come = 1  # parts of the present reply
        self._inside = 0  # bytes of the present part
        self._part = b""

    def count(self, data: bytes) -> int:
        """Return how many have come to their end with what came now."""
        data, self._part = self._part + data, b""
        whole, at = 0, 0
        while True:
            step = min(self._inside, len(data) - at)
            self._inside -= step
            at += step
            if not self._inside and not self._to_come:
                whole, self._to_come = whole + 1, 1
            if at == len(data):
                return whole
            header = _REPLY.match(data, at)
            if header is None:
                self._part = data[at:]
                return whole
            kind, at = header[1], header.end()
            self._to_come -= 1
            if kind in b"*~%":
                self._to_come += max(0, int(header[2])) * (2 if kind == b"%" else 1)
            elif kind in b"$=!" and not header[2].startswith(b"-"):
                self._inside = int(header[2]) + 2
