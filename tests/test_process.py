"""A terminal that holds its output, goes away, or comes back after a while."""

import io
import logging
import os
import select
import sys
import time
from collections.abc import Iterator
from typing import TextIO

import pytest

from soulsgui.process import CountingHandler, Terminal, own_terminal, setup_logging
from tests.faults.waiting import LIMIT_S

termios = pytest.importorskip("termios", reason="terminals of Windows can't be held")


class Screen:
    """The other end of a terminal."""

    def __init__(self) -> None:
        self.end, inner = os.openpty()
        self.stream: TextIO = os.fdopen(inner, "w", encoding="utf-8")
        self.seen = b""

    def until(self, words: bytes) -> bytes:
        """Read until some words were written; return all that was."""
        deadline = time.monotonic() + LIMIT_S
        while words not in self.seen:
            left = deadline - time.monotonic()
            assert select.select([self.end], [], [], max(left, 0))[0], f"only {self.seen!r}"
            self.seen += os.read(self.end, 65536)
        return self.seen

    def hold(self) -> None:
        """As Ctrl+S does, but when this returns."""
        termios.tcflow(self.stream.fileno(), termios.TCOOFF)

    def go_on(self) -> None:
        termios.tcflow(self.stream.fileno(), termios.TCOON)

    def close(self) -> None:
        """The terminal is closed."""
        os.close(self.end)


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    made.stream.close()


@pytest.fixture
def terminal(screen: Screen) -> Iterator[Terminal]:
    made = Terminal(screen.stream)
    yield made
    made.end()


def test_lines_stay_and_the_line_below_them_is_shown_in_place(screen: Screen, terminal: Terminal) -> None:
    terminal.show("12 steps")
    screen.until(b"12 steps")
    terminal.write("WARNING trouble\n")
    assert screen.until(b"trouble\r\n").endswith(b"12 steps\r\x1b[KWARNING trouble\r\n")
    terminal.show("24 steps")
    screen.until(b"24 steps")
    terminal.end()
    assert screen.until(b"24 steps\r\n")
    screen.close()


def test_a_held_terminal_holds_nobody_and_shows_the_present(screen: Screen, terminal: Terminal) -> None:
    terminal.show("the first")
    screen.until(b"the first")
    screen.hold()
    for number in range(5000):
        terminal.show(f"line {number};")
    terminal.write("WARNING said meanwhile\n")
    screen.go_on()
    seen = screen.until(b"line 4999;")
    assert b"said meanwhile" in seen
    assert b"line 2500;" not in seen
    screen.close()


def test_a_terminal_that_is_held_to_the_end_keeps_no_process(screen: Screen, terminal: Terminal) -> None:
    terminal.show("the first")
    screen.until(b"the first")
    screen.hold()
    terminal.show("never seen")
    terminal.end()
    assert b"never seen" not in screen.seen
    screen.go_on()
    screen.until(b"never seen")
    screen.close()


def test_a_terminal_that_is_gone_is_no_error(screen: Screen, terminal: Terminal) -> None:
    terminal.show("the first")
    screen.until(b"the first")
    screen.close()
    terminal.write("nobody reads it\n")
    terminal._thread.join(LIMIT_S)
    assert not terminal._thread.is_alive(), "it writes no more, though nobody has ended it"
    terminal.end()


def test_the_log_goes_through_it_and_comes_back(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen.stream)
    setup_logging()
    with own_terminal() as terminal:
        assert terminal is not None
        screen.hold()
        logging.getLogger("a").info("held")
        logging.getLogger("a").info("held, too")
        screen.go_on()
        screen.until(b"held, too")
    logging.getLogger("a").info("afterwards")
    screen.until(b"afterwards")
    screen.close()


def test_what_is_no_terminal_is_left_alone() -> None:
    with own_terminal() as terminal:
        assert terminal is None


class _CountedLog:
    """What is written of lines that are logged at given seconds."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.handler = CountingHandler(self._stream)

    def log(self, at: float, *texts: str) -> None:
        for text in texts:
            record = logging.makeLogRecord(
                {"name": "x", "levelno": logging.ERROR, "msg": text, "created": at}
            )
            self.handler.handle(record)

    @property
    def lines(self) -> list[str]:
        return self._stream.getvalue().splitlines()


def test_equal_lines_of_a_minute_are_counted_and_not_repeated() -> None:
    written = _CountedLog()
    written.log(0.0, *["no descriptors left"] * 150_000, "another", "another")
    assert written.lines == ["no descriptors left"] * 5 + ["another"] * 2
    written.log(61.0, "later")
    assert written.lines[7:] == ["no descriptors left (counted, not repeated: 149,995 more)", "later"]
    written.log(62.0, *["no descriptors left"] * 6)
    assert written.lines[9:] == ["no descriptors left"] * 5, "it is told anew"
    written.handler.close()
    assert written.lines[14:] == ["no descriptors left (counted, not repeated: 1 more)"]


def test_lines_that_all_differ_are_all_written_and_few_are_remembered() -> None:
    written = _CountedLog()
    written.log(0.0, *["the same"] * 7, *map(str, range(1000)), "the same")
    assert len(written.lines) == 5 + 1000 + 1 + 1
    assert written.lines.index("the same (counted, not repeated: 2 more)") == 5 + 256
