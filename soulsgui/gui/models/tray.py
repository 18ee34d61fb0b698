"""What closing the window means while this computer helps, and what the tray says meanwhile. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from soulsgui.gui.connection_state import Connection, why_not
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.client_mode import ClientWords, why_not_pause, why_not_resume
from soulsgui.gui.preferences import AtLeaving


class Leaving(StrEnum):
    """What becomes of the window."""

    ASK = "ask"
    TRAY = "tray"
    CLOSE = "close"


def leaving(playing: bool, has_tray: bool, remembered: AtLeaving) -> Leaving:
    """Return what becomes of a window that is closed.

    Args:
        playing: Whether this computer helps a server.
        has_tray: Whether the desktop has a tray.
        remembered: What its owner wants.
    """
    if not playing or not has_tray or remembered is AtLeaving.QUIT:
        return Leaving.CLOSE
    return Leaving.TRAY if remembered is AtLeaving.TRAY else Leaving.ASK


def why_no_tray(has_tray: bool) -> str:
    """Return why the window can't stay in the tray; empty when it can."""
    return "" if has_tray else tr("This desktop has no tray: closing the window ends the help it began.")


@dataclass(frozen=True)
class TrayWords:
    """What the tray says and offers.

    Attributes:
        tip: The state in words, with the program's name.
        no_pause: Why the help can't be paused; empty when it can.
        no_resume: Why it can't go on; empty when it can.
        no_stop: Why it can't be stopped; empty when it can.
    """

    tip: str
    no_pause: str
    no_resume: str
    no_stop: str


def tray_words(words: ClientWords, connection: Connection) -> TrayWords:
    """Return what the tray says and offers.

    Args:
        words: The state of client mode.
        connection: How the window stands with the runner of client mode.
    """
    cut = why_not(connection)
    off = "" if words.on else tr("This computer does not help at present.")
    return TrayWords(
        tip=tr("SoulsGUI: {state}").format(state=words.look.word),
        no_pause=cut or why_not_pause(words),
        no_resume=cut or why_not_resume(words),
        no_stop=cut or off,
    )
