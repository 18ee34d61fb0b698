"""The entry point: reads the command line, imports the one role or command it names, and runs it."""

import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, TextIO

from soulsgui.cli.parser import Arguments, parse
from soulsgui.errors import SoulsGuiError, printable


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its code."""
    mend_standard_streams()
    sys.exit(run(sys.argv[1:] if argv is None else list(argv)))


def run(argv: Sequence[str]) -> int:
    """Run a command and return its exit code; errors go to standard error.

    0 done, 1 failed, 2 wrong use or wrong configuration, 3 the server can't be reached, 4 not allowed.
    """
    arguments = parse(argv)
    try:
        code = _handler(arguments.handler)(arguments)
        stream: TextIO | None = sys.stdout  # None when it was closed before we began: `>&-`
        if stream is not None:
            stream.flush()
    except SoulsGuiError as error:
        sys.stderr.write(f"{printable(str(error), None, lines=True)}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 1
    except BrokenPipeError:
        # Who read our output has seen enough; Python must not complain while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if arguments.is_service:
            # In the log of a service the place matters more than the looks.
            raise
        from soulsgui.system import in_words  # late: what asks a runner needs nothing of the system

        sys.stderr.write(f"{in_words(error)}\n")
        return 1
    return code


def _handler(name: str) -> Callable[[Arguments], int]:
    module, _, function = name.partition(":")
    handler: Callable[[Arguments], int] = getattr(importlib.import_module(module), function)
    return handler


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
