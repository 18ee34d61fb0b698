"""What this window remembers: its own preferences, and nothing of the server's."""

from enum import StrEnum
from typing import Any, TypeVar

from PySide6.QtCore import QSettings

from soulsgui import __version__
from soulsgui.config.paths import Folders
from soulsgui.gui.i18n import tr
from soulsgui.gui.theme import ThemeChoice
from soulsgui.wire.control import Hello

FONT_PERCENTS = (80, 90, 100, 110, 125, 150, 175, 200)
_FILE = "window.ini"

E = TypeVar("E", bound=StrEnum)


class Mode(StrEnum):
    """Which side of the program the window shows."""

    SERVER = "server"
    CLIENT = "client"


class AtClosing(StrEnum):
    """What becomes of a run when the window is closed."""

    ASK = "ask"
    STOP = "stop"
    KEEP = "keep"


class AtLeaving(StrEnum):
    """What closing the window means while this computer helps a server."""

    ASK = "ask"
    TRAY = "tray"
    QUIT = "quit"


class Preferences:
    """What is remembered from one start to the next, in an INI file of the configuration folder.

    Args:
        folders: The user's folders.
    """

    def __init__(self, folders: Folders) -> None:
        self.settings = QSettings(str(folders.config / _FILE), QSettings.Format.IniFormat)

    @property
    def theme(self) -> ThemeChoice:
        """Light, dark, or as the desktop."""
        return self._choice("look/theme", ThemeChoice, ThemeChoice.AUTO)

    @theme.setter
    def theme(self, choice: ThemeChoice) -> None:
        self.settings.setValue("look/theme", choice.value)

    @property
    def font_percent(self) -> int:
        """Size of the text, in percent of the system's."""
        found = self._number("look/font_percent", 100)
        return min(max(found, FONT_PERCENTS[0]), FONT_PERCENTS[-1])

    @font_percent.setter
    def font_percent(self, percent: int) -> None:
        self.settings.setValue("look/font_percent", percent)

    @property
    def at_closing(self) -> AtClosing:
        """What becomes of a run when the window is closed."""
        return self._choice("closing/run", AtClosing, AtClosing.ASK)

    @at_closing.setter
    def at_closing(self, choice: AtClosing) -> None:
        self.settings.setValue("closing/run", choice.value)

    @property
    def at_leaving(self) -> AtLeaving:
        """What closing the window means while this computer helps a server."""
        return self._choice("closing/client", AtLeaving, AtLeaving.ASK)

    @at_leaving.setter
    def at_leaving(self, choice: AtLeaving) -> None:
        self.settings.setValue("closing/client", choice.value)

    @property
    def mode(self) -> Mode:
        """Which side is shown."""
        return self._choice("window/mode", Mode, Mode.SERVER)

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self.settings.setValue("window/mode", mode.value)

    @property
    def page(self) -> str:
        """The page that was shown last in server mode; empty before the first choice."""
        return str(self.settings.value("window/page", ""))

    @page.setter
    def page(self, name: str) -> None:
        self.settings.setValue("window/page", name)

    def keep(self) -> str:
        """Write down what is remembered, and return why that can't be done; empty when it can."""
        # Something to write, or a folder that can't be written to would go unnoticed.
        self.settings.setValue("window/version", __version__)
        self.settings.sync()
        status = self.settings.status()
        if status is QSettings.Status.NoError:
            return ""
        if status is QSettings.Status.FormatError:
            return tr("{path} is damaged. Move it away.").format(path=self.settings.fileName())
        return tr("{path} can't be written. Look at its rights and at the free space of its disk.").format(
            path=self.settings.fileName()
        )

    def seen_event(self, server_id: str) -> int:
        """Return the number of the last event of a server that was seen."""
        return self._number(f"events/{server_id}", 0)

    def set_seen_event(self, server_id: str, number: int) -> None:
        """Remember that this event and all before it were seen."""
        self.settings.setValue(f"events/{server_id}", number)

    def remember_runner(self, hello: Hello) -> None:
        """Remember that a window started this runner."""
        self.settings.setValue(f"runner/{hello.server_id}", _name_of(hello))
        self.settings.sync()

    def started_by_window(self, hello: Hello) -> bool:
        """Whether a window started this runner, not somebody else."""
        return str(self.settings.value(f"runner/{hello.server_id}", "")) == _name_of(hello)

    def _choice(self, key: str, kind: type[E], default: E) -> E:
        try:
            return kind(str(self.settings.value(key, default.value)))
        except ValueError:
            return default

    def _number(self, key: str, default: int) -> int:
        found: Any = self.settings.value(key, default)
        try:
            return int(found)
        except (TypeError, ValueError):
            return default


def _name_of(hello: Hello) -> str:
    return f"{hello.pid} {hello.started:.3f}"
