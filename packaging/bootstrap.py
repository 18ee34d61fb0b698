"""From an empty folder to the running program, in one command.

    python3 packaging/bootstrap.py           set up once, then start: the window, or without a screen the demo
    python3 packaging/bootstrap.py setup     set up, start nothing
    python3 packaging/bootstrap.py test      set up with the tools of development, run the tests
    python3 packaging/bootstrap.py client X  set up what a computer needs that only plays (no torch), then
                                             join with the invitation X: a file or a link

What follows `--` goes to the program (`-- status` runs `soulsgui status`; `-- --set seed=3` is added to the
usual start) or to pytest. Standard library only. A second run starts at once, an interrupted one goes on.
What the set-up itself says goes to standard error; standard output belongs to the program.

Python 3.8 must be able to read this file, so that older versions show the message below, not a syntax error.
"""

from __future__ import annotations

import shutil
import sys

OLDEST = (3, 11)


def too_old(version: tuple[int, int], path: str, newer: list[str]) -> str:
    """The message for a Python that can't run this program, or "" for one that can.

    Args:
        version: Of the running Python.
        path: How this file was called.
        newer: Commands on this machine that start one that can.
    """
    if version >= OLDEST:
        return ""
    message = f"SoulsGUI needs Python 3.11 or newer; this is {version[0]}.{version[1]}.\n"
    if newer:
        return message + f"A newer one is on this machine. Type:  {newer[0]} {path}"
    return (
        message + "Install one from https://www.python.org/downloads/ or with your system's package manager."
    )


if __name__ == "__main__":
    found = [name for name in ("python3.11", "python3.12", "python3.13") if shutil.which(name)]
    refusal = too_old(sys.version_info[:2], sys.argv[0], found)
    if refusal:
        sys.exit(refusal)
    from first_start.main import main

    sys.exit(main(sys.argv[1:]))
