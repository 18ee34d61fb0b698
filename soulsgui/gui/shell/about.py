"""About SoulsGUI: versions, and what else a report needs of this window and its server, to be copied."""

import os
import platform
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from PySide6.QtCore import qVersion
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QPushButton, QWidget

from soulsgui import __version__
from soulsgui.gui import text
from soulsgui.gui.feed import Feed
from soulsgui.gui.icons import app_icon, dress, palette_colours
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.shell.update import installation
from soulsgui.gui.theme import GAP_L, fixed_font
from soulsgui.gui.widgets.boxes import column, row
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.labels import Heading, Label, muted, wrapped

_PACKAGES = ("PySide6-Essentials", "pyqtgraph", "aiohttp", "numpy", "pydantic", "redis", "torch", "gymnasium")
_CHARACTERS, _LINES = 120, 32
_LOGO_PX = 48


def diagnostics(feed: Feed, preferences: Preferences, last_error: str) -> str:
    """Return what a report needs, one fact a line; nothing of it is secret."""
    facts = [*_program(), *_desktop(preferences), *_server(feed), ("Last error here", last_error or "none")]
    return text.plain("\n".join(f"{name}: {' '.join(words.split())}" for name, words in facts))


def _program() -> Iterator[tuple[str, str]]:
    place = installation()
    came = "frozen" if place.frozen else f"from {place.checkout}" if place.checkout else "installed"
    yield "SoulsGUI", f"{__version__}, {came}"
    yield "Python", f"{platform.python_version()}, Qt {qVersion()}"
    yield "Packages", ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    # Not `platform.platform`, which asks another program.
    system = f"{platform.system()} {platform.release()}"
    yield "System", f"{system}, {platform.machine()}, {os.cpu_count()} cores"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _desktop(preferences: Preferences) -> Iterator[tuple[str, str]]:
    session = [os.environ.get(name, "") for name in ("XDG_CURRENT_DESKTOP", "XDG_SESSION_TYPE")]
    yield "Desktop", " ".join(part for part in (QGuiApplication.platformName(), *session) if part)
    for screen in QGuiApplication.screens():
        size, scale = screen.size(), screen.devicePixelRatio()
        dpi = screen.logicalDotsPerInch()
        yield "Screen", f"{size.width()}×{size.height()}, scale {scale:g}, {dpi:.0f} dots per inch"
    dark = "dark" if palette_colours(QApplication.palette()).dark else "light"
    yield "Look", f"theme {preferences.theme} ({dark}), font {preferences.font_percent} %"
    yield "Settings of this window", preferences.settings.fileName()


def _server(feed: Feed) -> Iterator[tuple[str, str]]:
    where = "by ssh" if feed.remote else "this computer"
    connection = feed.connection
    yield "Server", f"{connection.state}, {where}. {connection.detail}".strip()
    hello, status = feed.hello, feed.status
    if hello is not None:
        up = text.duration(time.time() - hello.started)
        yield "Runner", f"version {hello.version}, interface {hello.api}, process {hello.pid}, up {up}"
        yield "Data folder", hello.data_dir
        yield "Settings folder", hello.config_dir
        run = status.run
        yield "Run", f"{run.id} {run.state} {run.env_id} {run.algorithm} {run.error}"
        yield "Services", ", ".join(f"{one.name} {one.state}" for one in status.services) or "none"
        yield "Clients", ", ".join(f"{one.state} {one.version}" for one in status.clients[:20]) or "none"
    wrong = next((event for event in reversed(feed.events) if event.level == "error"), None)
    if wrong is not None:
        yield "Last error of the server", f"{wrong.what} {wrong.cause} {wrong.remedy}"


class AboutDialog(FittingDialog):
    """What the program is, and the facts to copy."""

    section = "About"

    def __init__(self, feed: Feed, preferences: Preferences, last_error: str, parent: QWidget) -> None:
        super().__init__("aboutDialog", "About SoulsGUI", parent)
        logo = Label(parent=self)
        logo.setPixmap(app_icon().pixmap(_LOGO_PX, _LOGO_PX))
        what = wrapped("One computer trains, many play, and you control all of it from here.", self)
        title = column(Heading(f"SoulsGUI {__version__}", 2, self), muted(what))
        hint = "For a report: this names folders and versions, but nothing secret."
        self.facts = QPlainTextEdit(diagnostics(feed, preferences, last_error), self)
        self.facts.setReadOnly(True)
        self.facts.setTabChangesFocus(True)
        self.facts.setProperty("role", "field")
        self.facts.setAccessibleName("Diagnostics")
        self.facts.setFont(fixed_font())
        self.copy = QPushButton("Copy &diagnostics", self)
        dress(self.copy, "copy")
        self.copy.clicked.connect(self._copy)
        head = row(logo, (title, 1), gap_px=GAP_L)
        self.arrange(head, (self.facts, 1), muted(wrapped(hint, self)), foot=self.foot(self.copy))
        metrics = self.fontMetrics()
        self.resize(metrics.averageCharWidth() * _CHARACTERS, metrics.lineSpacing() * _LINES)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.facts.toPlainText())
        self.copy.setText("Copied")
