"""What is seen of a set-up: pip's wall of text as one line."""

import re
import shutil
import time
from collections.abc import Callable, Sized
from typing import TextIO

_LARGE_MB = 5.0
_FOUND = re.compile(
    r"(?:Collecting |Requirement already satisfied: |Processing .*/(?=\S+\.whl))"
    r"(\w[\w.]*(?:-[A-Za-z][\w.]*)*)"
)
_DOWNLOADING = re.compile(r"\s*Downloading (?:\S+/)?([\w.]+?)-\d\S* \(([\d.]+) (kB|MB|GB)\)")


class Progress:
    """Reads along what pip writes.

    Args:
        pins: What is needed, for the count.
        text: What to say before the first line.
    """

    def __init__(self, pins: Sized, text: str = "asking the package index") -> None:
        self.total = len(pins)
        self.seen = 0
        self.text = text

    def feed(self, line: str) -> bool:
        """Take a line in and bring `text` up to date.

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
        if line.startswith("Installing collected packages: "):
            self.text = f"installing {line.count(',') + 1} packages (the longest part)"
        elif "Retrying (Retry(" in line:
            self.text = "the package index does not answer, trying again"
        return self.text != before


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
