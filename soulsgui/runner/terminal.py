"""A terminal that may hold its output (Ctrl+S) holds nobody who writes to it."""

import contextlib
import io
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import TextIO

_CLEAR = "\r\x1b[K"
_MOST_LINES = 1000
_PATIENCE_S = 1.0


class Terminal(io.TextIOBase):
    """Writes from a thread of its own: lines that stay, and below them one that is shown in place.

    Of the line in place only the newest is kept, of lines that stay the last thousand: a terminal that goes
    on after hours shows the present. Once it is gone, what is written is dropped.

    Args:
        stream: The terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        # A descriptor of our own, without a buffer: a thread that hangs in it holds no lock that the end of
        # the process would wait for.
        self._raw = os.fdopen(os.dup(stream.fileno()), "wb", buffering=0)
        self._letters = stream.encoding or "utf-8"
        self._news = threading.Condition()
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._in_place: str | None = None
        self._shows_line = False
        self._ended = False
        self._thread = threading.Thread(target=self._keep_writing, name="terminal", daemon=True)
        self._thread.start()

    def show(self, line: str) -> None:
        """Show a line in place of the last one."""
        with self._news:
            self._in_place = line
            self._news.notify()

    def write(self, text: str) -> int:
        """Write lines that stay."""
        with self._news:
            self._lines.append(text)
            self._news.notify()
        return len(text)

    def writable(self) -> bool:
        """Whether it can be written to."""
        return True

    def end(self) -> None:
        """Write what is left, if the terminal takes it soon, and end the line that is shown in place."""
        with self._news:
            self._ended = True
            self._news.notify()
        self._thread.join(_PATIENCE_S)

    def _keep_writing(self) -> None:
        # A terminal may go away at any moment.
        with contextlib.suppress(OSError, ValueError), self._raw:
            while (text := self._next()) is not None:
                left = text.encode(self._letters, "backslashreplace")
                while left:
                    left = left[self._raw.write(left) or 0 :]

    def _next(self) -> str | None:
        """Wait for what is to be written; None at the end."""
        with self._news:
            self._news.wait_for(lambda: self._lines or self._in_place is not None or self._ended)
            text = "".join(self._lines)
            self._lines.clear()
            if self._shows_line and (text or self._in_place is not None):
                text = _CLEAR + text
            if self._in_place is not None:
                text += self._in_place
                self._shows_line, self._in_place = True, None
            elif text:
                self._shows_line = False
            if not text and self._ended:
                if not self._shows_line:
                    return None
                text, self._shows_line = "\n", False
            return text


@contextlib.contextmanager
def own_terminal() -> Iterator[Terminal | None]:
    """Send the log through a `Terminal` where standard error is one; nothing is changed elsewhere."""
    stream = sys.stderr
    if not stream.isatty():
        yield None
        return
    terminal = Terminal(stream)
    handlers = [one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler)]
    ours = [one for one in handlers if one.stream is stream]
    for handler in ours:
        handler.setStream(terminal)
    try:
        yield terminal
    finally:
        for handler in ours:
            handler.setStream(stream)
        terminal.end()
