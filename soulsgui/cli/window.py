"""The window's role."""

import os
import re
import socket
import sys
from collections.abc import Mapping

from soulsgui.cli.output import folders_of
from soulsgui.cli.parser import Arguments
from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.system import has_screen

_PATIENCE_S = 3.0
_X11_PORT = 6000
_WITHOUT_WINDOW = "Start the server without a window: soulsgui serve"


def gui(arguments: Arguments) -> int:
    """`gui`: the window, until it is closed.

    Raises:
        SoulsGuiError: There is no screen, or Qt is missing.
    """
    if arguments.assignments:
        raise UsageError(
            "--set goes with the commands that start a run; the window has a page for settings.",
            "Write it down with: soulsgui config set KEY=VALUE",
        )
    refusal = without_screen(os.environ)
    if refusal:
        raise SoulsGuiError(refusal, _WITHOUT_WINDOW)
    try:
        from soulsgui.gui.app import run_window
        from soulsgui.gui.preferences import Mode
    except ImportError as error:
        raise SoulsGuiError(
            f"The window can't be loaded: {error}",
            f"Set it up with: python3 packaging/bootstrap.py\n{_WITHOUT_WINDOW}",
        ) from error
    return run_window(folders_of(arguments), Mode(arguments.mode) if arguments.mode else None)


def without_screen(env: Mapping[str, str], platform: str = sys.platform) -> str:
    """Return why no window can be shown, empty when one can. Qt itself would end the process with a crash.

    Args:
        env: The environment of the process.
        platform: A value of `sys.platform`.
    """
    if env.get("QT_QPA_PLATFORM"):
        return ""
    if not has_screen(env, platform):
        return "There is no screen here: neither DISPLAY nor WAYLAND_DISPLAY is set."
    display = env.get("DISPLAY", "")
    if platform == "linux" and not env.get("WAYLAND_DISPLAY") and not _answers(display):
        return f"There is no screen here: nothing answers at DISPLAY={display}."
    return ""


def _answers(display: str) -> bool:
    """Whether an X server listens: `:0` on this machine, `host:10.0` (SSH) over TCP."""
    found = re.fullmatch(r"(.*):(\d+)(?:\.\d+)?", display)
    if found is None:
        return False
    host, number = found[1], int(found[2])
    try:
        if host not in ("", "unix"):
            socket.create_connection((host, _X11_PORT + number), _PATIENCE_S).close()
            return True
        with socket.socket(socket.AF_UNIX) as local:
            local.connect(f"/tmp/.X11-unix/X{number}")
    except OSError:
        return False
    return True
