"""Every page of the window: its name, its place in the navigation, and where its code is."""

import importlib
from dataclasses import dataclass
from typing import Any

from PySide6.QtWidgets import QWidget

from soulsgui.gui.i18n import tr
from soulsgui.gui.preferences import Mode

WELCOME, OVERVIEW, CLIENTS, RUNS = "welcome", "overview", "clients", "runs"
CONFIG, LOGS, CLIENT = "config", "logs", "client"


@dataclass(frozen=True)
class PageEntry:
    """One page.

    Attributes:
        name: Its stable name.
        title: Its name on screen.
        icon: Its icon.
        code: `module:class`, imported when it is first shown.
        mode: The mode it belongs to; None for both.
        listed: Whether it stands in the navigation.
        alone: Whether it is of use without a server.
    """

    name: str
    title: str
    icon: str
    code: str
    mode: Mode | None = Mode.SERVER
    listed: bool = True
    alone: bool = False

    def load(self) -> type[Any]:
        """Import the page's class: a widget made with `(feed, shell, parent)`.

        It may have `landing`, what gets the keyboard when the page opens (its table or plot, where it has
        neither its search, never a button), `show_where(**where)` to show a certain place, `may_leave(then)`
        to ask before it is left, `before_run(then)` to ask before a run is begun, `unsaved`, which keeps it
        in sight when the server is gone, and `refresh()` to ask for its lists again.

        Raises:
            ImportError: Its module is missing or damaged.
        """
        module, _, name = self.code.partition(":")
        page: type[QWidget] = getattr(importlib.import_module(module), name)
        return page


def pages() -> dict[str, PageEntry]:
    """Return all pages by name, in the order of the navigation."""
    here = "soulsgui.gui.pages"
    entries = (
        PageEntry(WELCOME, tr("Welcome"), "star", f"{here}.welcome:WelcomePage", None, False, alone=True),
        PageEntry(OVERVIEW, tr("Overview"), "page-overview", f"{here}.overview:OverviewPage"),
        PageEntry(CLIENTS, tr("Clients"), "page-clients", f"{here}.clients:ClientsPage"),
        PageEntry(RUNS, tr("Runs"), "page-runs", f"{here}.runs:RunsPage"),
        PageEntry(CONFIG, tr("Config"), "page-config", f"{here}.config:ConfigPage"),
        PageEntry(LOGS, tr("Logs"), "page-logs", f"{here}.logs:LogsPage", alone=True),
        PageEntry(
            CLIENT, tr("Client"), "service-client", f"{here}.client:ClientPage", Mode.CLIENT, False, True
        ),
    )
    return {entry.name: entry for entry in entries}
