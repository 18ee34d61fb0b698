"""The command line with quick stand-ins for the services of a run: `fake_serve.py serve ...`."""

import sys
from pathlib import Path

from soulsgui.cli import main
from soulsgui.runner import probe, services

FAKE_PROGRAM = Path(__file__).with_name("fake_program.py")


def fake_command(role: str) -> list[str]:
    return [sys.executable, str(FAKE_PROGRAM), role]


if __name__ == "__main__":
    services.own_command = probe.own_command = fake_command
    main()
