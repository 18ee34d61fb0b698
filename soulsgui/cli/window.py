"""The window's role."""

import os

from soulsgui.cli.output import folders_of
from soulsgui.cli.parser import Arguments
from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.system import has_screen


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
    if not (has_screen(os.environ) or os.environ.get("QT_QPA_PLATFORM")):
        raise SoulsGuiError(
            "There is no screen here: neither DISPLAY nor WAYLAND_DISPLAY is set.",
            "Start the server without a window: soulsgui serve",
        )
    try:
        from soulsgui.gui.app import run_window
        from soulsgui.gui.preferences import Mode
    except ImportError as error:
        raise SoulsGuiError(
            f"The window can't be loaded: {error}",
            "Set it up with: python3 packaging/bootstrap.py; or start without a window: soulsgui serve",
        ) from error
    return run_window(folders_of(arguments), Mode(arguments.mode) if arguments.mode else None)
