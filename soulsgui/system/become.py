"""Going on as another program."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn


def become(argv: Sequence[str], env: Mapping[str, str], platform: str = sys.platform) -> NoReturn:
    """Go on as another program, so that what stands on our own command line is seen no more.

    Windows can't do that: there it runs as a child, and we end with its exit code.

    Args:
        argv: Its command line; the first word is the path of the program.
        env: Its whole environment.
        platform: A value of `sys.platform`.

    Raises:
        OSError: It can't be started.
    """
    if platform != "win32":
        os.execve(argv[0], list(argv), dict(env))
    child = subprocess.Popen(argv, env=env)
    while True:
        try:
            sys.exit(child.wait())
        except KeyboardInterrupt:
            # The child was interrupted as well, and ends in order.
            continue
