"""What this window remembers: its own preferences, and nothing of the server's."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QSettings

from soulsgui import __version__
from soulsgui.config.paths import Folders
from soulsgui.errors import UsageError
from soulsgui.gui.models.connection import RemoteServer
from soulsgui.gui.theme import ThemeChoice
from soulsgui.wire.control import Hello

FONT_PERCENTS = (80, 90, 100, 110, 125, 150, 175, 200)
_FILE = "window.ini"
_MOST_DIGITS = 18  # of a number: more have been written by nobody

T = TypeVar("T")


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


class _Kept(Generic[T]):
    """A preference under its key; what can't be read counts as never set."""

    def __init__(self, key: str, default: T, read: Callable[[Any], T]) -> None:
        self._key = key
        self._default = default
        self._read = read

    def __get__(self, owner: "Preferences", kind: type) -> T:
        try:
            return self._read(owner.settings.value(self._key, self._default))
        except (TypeError, ValueError):
            return self._default

    def __set__(self, owner: "Preferences", value: T) -> None:
        owner.settings.setValue(self._key, str(value))


class Preferences:
    """What is remembered from one start to the next, in an INI file of the configuration folder."""

    theme = _Kept("look/theme", ThemeChoice.AUTO, ThemeChoice)
    font_percent = _Kept(
        "look/font_percent", 100, lambda found: min(max(int(found), FONT_PERCENTS[0]), FONT_PERCENTS[-1])
    )
    at_closing = _Kept("closing/run", AtClosing.ASK, AtClosing)
    at_leaving = _Kept("closing/client", AtLeaving.ASK, AtLeaving)
    mode = _Kept("window/mode", Mode.SERVER, Mode)
    notifies = _Kept("window/notifies", True, lambda found: str(found).lower() == "true")
    page = _Kept("window/page", "", str)
    _last_shown_server = _Kept("servers/shown", "", str)

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.settings = QSettings(str(folders.config / _FILE), QSettings.Format.IniFormat)
        # Read once: a window of another data folder may show another one, and write that here.
        self._shown_server = self._last_shown_server

    def keep(self) -> str:
        """Write down what is remembered, and return why that can't be done; empty when it can."""
        # Something to write, or a folder that can't be written to would go unnoticed.
        self.settings.setValue("window/version", __version__)
        self.settings.sync()
        status, path = self.settings.status(), self.settings.fileName()
        if status is QSettings.Status.NoError:
            return ""
        if status is QSettings.Status.FormatError:
            return f"{path} is damaged. Move it away."
        return f"{path} can't be written. Check its permissions and the free space of its disk."

    @property
    def shown_server(self) -> str:
        """The host whose server this window shows; empty for this computer."""
        return self._shown_server

    @shown_server.setter
    def shown_server(self, host: str) -> None:
        self._shown_server = self._last_shown_server = host

    @property
    def servers(self) -> list[RemoteServer]:
        """The saved servers of other computers; without any secret, for there is none to save."""
        self.settings.sync()  # a window of another data folder may have saved one
        found: list[RemoteServer] = []
        with suppress(ValueError, TypeError, RecursionError, UsageError):
            for host, command in json.loads(str(self.settings.value("servers/saved", "[]"))):
                found.append(RemoteServer(str(host), str(command)))
        return found

    def keep_servers(self, servers: Sequence[RemoteServer]) -> None:
        """Save these, and no others."""
        saved = json.dumps([(server.host, server.command) for server in servers])
        self.settings.setValue("servers/saved", saved)

    def server_to_show(self) -> RemoteServer | None:
        """Return the server that the window shows; None for that of this computer."""
        return next((server for server in self.servers if server.host == self.shown_server), None)

    def seen_event(self, server_id: str) -> int:
        """Return the number of the last event of a server that was seen."""
        found = str(self.settings.value(f"events/{server_id}"))[:_MOST_DIGITS]
        return int(found) if found.isdecimal() else 0

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


def _name_of(hello: Hello) -> str:
    return f"{hello.pid} {hello.started:.3f}"
