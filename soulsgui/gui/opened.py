"""An invitation that was opened with this program: from the desktop, or by a second start."""

from pathlib import Path

from soulsgui.config.paths import Folders
from soulsgui.wire.invitation import Invitation, read_invitation

_FILE = "opened.soulsgui"


def opened_file(folders: Folders) -> Path:
    """Return where the invitation of a link waits for the window, private, to be taken out at once."""
    return folders.data / "window" / _FILE


def take_opened(word: str, folders: Folders) -> Invitation:
    """Read what was opened; what only waited for the window is removed.

    Args:
        word: Path of a file, or a link.
        folders: The user's folders.

    Raises:
        UsageError: It is no invitation, or damaged.
    """
    waiting = opened_file(folders)
    try:
        return read_invitation(word)
    finally:
        if word == str(waiting):
            waiting.unlink(missing_ok=True)
