"""What is seen of a set-up: pip's wall of text as one line."""

import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from first_start.plan import Pin, is_there, normalised

_LARGE_MB = 5.0
_FOUND = re.compile(
    r"(?:Collecting |Requirement already satisfied: |Processing .*/(?=\S+\.whl))"
    r"(\w[\w.]*(?:-[A-Za-z][\w.]*)*)"
)
_INSTALLING = re.compile(r"Installing collected packages: (.+)")
_DOWNLOADING = re.compile(r"\s*Downloading (?:\S+/)?([\w.]+?)-\d\S* \(([\d.]+) (kB|MB|GB)\)")


class Progress:
    """Reads along what pip writes, and counts what it has installed: of that it writes nothing for minutes.

    Args:
        pins: What is needed, for the count.
        text: What to say before the first line.
        installed: Returns the version by normalised name of what is installed at this moment.
    """

    def __init__(
        self,
        pins: Sequence[Pin],
        text: str = "asking the package index",
        installed: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.total = len(pins)
        self.seen = 0
        self.text = text
        self._pins = {pin.name: pin for pin in pins}
        self._installed = installed
        self._in_turn: list[str] = []

    def feed(self, line: str) -> bool:
        """Take a line in and bring `text` up to date; an empty one where pip wrote nothing meanwhile.

        Returns:
            Whether `text` is now worth a line of its own (where lines can't be overwritten).
        """
        before = self.text
        if found := _FOUND.match(line):
            self.seen = min(self.seen + 1, self.total)
            self.text = f"{self.seen} of {self.total} · looking for {found[1]}"
            return False
        if found := _DOWNLOADING.match(line):
            self.text = f"{self.seen} of {self.total} · downloading {found[1]} ({found[2]} {found[3]})"
            return found[3] == "GB" or (found[3] == "MB" and float(found[2]) >= _LARGE_MB)
        if found := _INSTALLING.match(line):
            names = [normalised(name.strip()) for name in found[1].split(",")]
            # Without a pin, as of this project itself, nobody sees when it is done.
            self._in_turn = [name for name in names if name in self._pins] or names
        if self._in_turn:
            return self._count_installed()
        if "Retrying (Retry(" in line:
            self.text = "the package index does not answer, trying again"
        return self.text != before

    def _count_installed(self) -> bool:
        """Say which package pip is at; it takes them in the order in which it named them."""
        there = self._installed()
        done = [name for name, pin in self._pins.items() if is_there(pin, there)]
        at = max((place + 1 for place, name in enumerate(self._in_turn) if name in done), default=0)
        name = self._in_turn[min(at, len(self._in_turn) - 1)]
        before = self.text
        self.text = f"installing {min(len(done) + 1, self.total)} of {self.total}: {name}"
        large = name in self._pins and self._pins[name].size_mb >= _LARGE_MB
        return self.text != before and (large or not before.startswith("installing "))


class Console:
    """Where the set-up speaks: a line that is overwritten on a terminal, else a line for what is worth one.

    Args:
        stream: Standard error.
        clock: Seconds; passed in for tests.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._start_s = clock()
        self._line_open = False

    def say(self, text: str) -> None:
        """Write a line that stays."""
        if self._line_open:
            self._write("\n")
            self._line_open = False
        self._write(text + "\n")

    def show(self, text: str, *, notable: bool) -> None:
        """Show the state of things at this moment."""
        line = f"  [{self._clock() - self._start_s:3.0f} s] {text}"
        if self._stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            self._write("\r" + line[:width].ljust(width))
            self._line_open = True
        elif notable:
            self._write(line + "\n")

    def _write(self, text: str) -> None:
        # A Windows console or the C locale may lack a character; that must not end a set-up.
        encoding = self._stream.encoding or "ascii"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()
