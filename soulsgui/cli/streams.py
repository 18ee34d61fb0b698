"""The standard streams as we find them: closed, or for fewer letters than we write."""

import io
import os
import sys
from typing import TextIO

_NAMES = ("stdin", "stdout", "stderr")


def mend_standard_streams() -> None:
    """Open closed standard streams to nowhere, and let letters that a stream doesn't know become escapes.

    A closed one is dangerous: the next file that is opened gets its number, and with it what a child or the
    interpreter prints. To be called first of all.
    """
    for number, name in enumerate(_NAMES):
        if not _is_open(number):
            _open_to_nowhere(number)
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            mode = "w" if number else "r"
            made = os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)
            setattr(sys, name, made)
        elif number and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _open_to_nowhere(number: int) -> None:
    opened = os.open(os.devnull, os.O_RDWR)
    if opened == number:
        os.set_inheritable(number, True)
        return
    os.dup2(opened, number)
    os.close(opened)
