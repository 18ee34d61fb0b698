"""The entry point: reads the command line, imports the one role or command it names, and runs it."""

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, TextIO

from soulsgui.cli.parser import Arguments, parse
from soulsgui.cli.streams import mend_standard_streams
from soulsgui.errors import SoulsGuiError
from soulsgui.printable import printable


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its code.

    Args:
        argv: The command line without the program's name; None takes that of the process.
    """
    mend_standard_streams()
    sys.exit(run(sys.argv[1:] if argv is None else list(argv)))


def run(argv: Sequence[str]) -> int:
    """Run a command and return its exit code; what it can't do is said on standard error.

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
