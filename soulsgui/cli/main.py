"""The entry point: reads the command line, imports the one role or command it names, and runs it."""

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, TextIO

from soulsgui.cli.parser import parse
from soulsgui.errors import SoulsGuiError, printable

_LIMITS = "End other programs, or raise its limits (ulimit -v, ulimit -u; MemoryMax, TasksMax of a service)."


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its code."""
    _mend_standard_streams()
    # Who else may write what this program makes decides what runs here, whatever its terminal allows.
    os.umask(os.umask(0o077) | 0o022)
    sys.exit(run(sys.argv[1:] if argv is None else list(argv)))


def run(argv: Sequence[str]) -> int:
    """Run a command and return its exit code; errors go to standard error.

    0 done, 1 failed, 2 wrong use or wrong configuration, 3 the server can't be reached, 4 not allowed.
    """
    arguments = parse(argv)
    module, _, function = arguments.handler.partition(":")
    try:
        code: int = getattr(importlib.import_module(module), function)(arguments)
        stream: TextIO | None = sys.stdout  # None when it was closed before we began: `>&-`
        if stream is not None:
            stream.flush()
    except SoulsGuiError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 1
    except BrokenPipeError:
        # Who read our output has seen enough; Python must not complain while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (MemoryError, RuntimeError) as error:
        no_thread = "start new thread" in str(error)
        if arguments.is_service or not (no_thread or isinstance(error, MemoryError)):
            raise
        _complain(f"The system gives this process no more {'threads' if no_thread else 'memory'}.\n{_LIMITS}")
        return 1
    except OSError as error:
        if arguments.is_service:
            # In the log of a service the place matters more than the looks.
            raise
        from soulsgui.system import in_words  # late: what asks a runner needs nothing of the system

        _complain(in_words(error))
        return 1
    return code


def _complain(words: str) -> None:
    sys.stderr.write(f"{printable(words, None, lines=True)}\n")


def _mend_standard_streams() -> None:
    """Open closed standard streams to nowhere, and let letters that a stream doesn't know become escapes.

    A closed one is dangerous: the next file that is opened gets its number, and with it what a child or the
    interpreter prints. To be called first of all.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # Those before it are open, so that it is the lowest free number, which is the one we get.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            mode = "w" if number else "r"
            made = os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)
            setattr(sys, name, made)
        elif number and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
