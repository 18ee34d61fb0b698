"""Starts SoulsGUI on Windows by double click, without a console window.

The first start, and the first one after an update, sets it up in a console window that shows how far it is.
"""

import subprocess
import sys
from pathlib import Path

PACKAGING = Path(__file__).resolve().parents[1]
CREATE_NEW_CONSOLE = 0x10


def start_command(root: Path, python: Path, ready: bool, opened: str = "") -> tuple[list[str], int]:
    """Return what to run, and the flags to create its process with.

    Args:
        root: The folder of `pyproject.toml`.
        python: The Python that runs this file; by double click the one without a console (pythonw.exe).
        ready: Whether everything is set up.
        opened: An invitation that the program is started with.
    """
    program = ["gui", opened] if opened else []
    if ready:
        return [str(root / ".venv" / "Scripts" / "pythonw.exe"), "-P", "-m", "soulsgui", *program], 0
    set_up = [str(python.with_name("python.exe")), str(root / "packaging" / "bootstrap.py")]
    return [*set_up, *(["--", *program] if program else [])], CREATE_NEW_CONSOLE


def main() -> None:
    """Start the program, or its set-up, and leave it to itself."""
    sys.path.insert(0, str(PACKAGING))
    from first_start.plan import RUN_EXTRAS
    from first_start.set_up import is_ready
    from first_start.venv import Venv

    root = PACKAGING.parent
    ready = is_ready(Venv(root), RUN_EXTRAS)
    # Windows puts a link between quotes. One that has quotes itself would come apart into options of ours.
    opened = " ".join(sys.argv[1:])
    command, flags = start_command(root, Path(sys.executable), ready, opened)
    subprocess.Popen(command, cwd=root, creationflags=flags)


if __name__ == "__main__":
    main()
