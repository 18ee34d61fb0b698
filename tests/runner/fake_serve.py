"""The command line with quick stand-ins for the services of a run: `fake_serve.py serve ...`."""

import os
import sys
from pathlib import Path

from soulsgui.cli import main
from soulsgui.runner.run import manager, services, start, workers
from soulsgui.wire.keys import TRAINER

READY_LIMIT = "FAKE_READY_LIMIT"
"""This variable says how long services are waited for at the start of a run, seconds."""

FAKE_PROGRAM = Path(__file__).with_name("fake_program.py")


def fake_command(role: str) -> list[str]:
    return [sys.executable, str(FAKE_PROGRAM), role]


if __name__ == "__main__":
    services.own_command = start.own_command = fake_command
    workers.own_command = lambda role: [sys.executable, __file__, role]  # such a server, too
    services._LIMITS[TRAINER]["grace_s"] = 600.0  # who need not wait for it does not
    limit_s = float(os.environ.get(READY_LIMIT, services.READY_LIMIT_S))
    services.READY_LIMIT_S = manager.OPEN_LIMIT_S = limit_s
    main()
