"""The window's role."""

import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from soulsgui.cli.output import folders_of
from soulsgui.cli.parser import Arguments
from soulsgui.config.paths import Folders
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
    folders = folders_of(arguments)
    opened = _opened(arguments, folders) if arguments.invitation else ""
    return run_window(folders, Mode(arguments.mode) if arguments.mode else None, opened)


def _opened(arguments: Arguments, folders: Folders) -> str:
    """Return the path of the invitation that was opened; a damaged link as it is: the window says so.

    A link holds the secret, and everybody on this machine sees a command line: this process goes on under
    another one, which names a file.
    """
    from soulsgui.cli.inviting import go_on_with_file
    from soulsgui.gui.opened import opened_file
    from soulsgui.wire.invitation import Invitation, is_link

    word: str = arguments.invitation
    if not is_link(word):
        return str(Path(word).absolute())
    try:
        invitation = Invitation.parse(word)
    except UsageError:
        return word
    path = opened_file(folders)
    path.parent.mkdir(parents=True, exist_ok=True)
    invitation.save(path)
    go_on_with_file(arguments.words, word, path)
    return str(path)


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
