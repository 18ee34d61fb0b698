"""A server of another computer in tests: what stands in for `ssh`, and a window that has no other."""

import json
import shlex
import sys
from pathlib import Path
from typing import TypeVar

import psutil
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QApplication, QFileDialog, QWidget

from soulsgui.config.paths import Folders
from soulsgui.gui.shell.server_selector import AddServerDialog
from soulsgui.gui.theme import Theme
from tests.gui.shell import fake_ssh
from tests.gui.shell.driving import OpenedWindow

HOST = "me@lab"
Part = TypeVar("Part", bound=QWidget)


class Ssh:
    """What stands in the place of `ssh` on the PATH, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        line = shlex.join([sys.executable, fake_ssh.__file__, str(folder)])
        self.write("ssh", f'exec {line} "$@"')

    def write(self, name: str, line: str) -> Path:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
        return path

    def fail(self, fails: dict[str, tuple[int, str]]) -> None:
        (self.folder / "fails.json").write_text(json.dumps(fails))

    @property
    def calls(self) -> list[list[str]]:
        told = self.folder / "calls.jsonl"
        return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []

    def tunnels(self) -> list[psutil.Process]:
        return [one for one in psutil.Process().children() if "-L" in one.cmdline()]


class Far(OpenedWindow):
    """A window with a home of its own, in which no server has ever been.

    Attributes:
        saved: The files that it was told to save there.
    """

    def __init__(self, qapp: QApplication, theme: Theme, folders: Folders) -> None:
        super().__init__(qapp, theme, folders)
        self.saved: set[str] = set()

    @property
    def home(self) -> Path:
        return self.folders.config.parent

    def add(self, host: str, command: str = "") -> AddServerDialog:
        self.window.toolbar.servers.add_wanted.emit()
        dialog = self.window.findChildren(AddServerDialog)[-1]
        dialog.host.setText(host)
        dialog.command.setText(command)
        dialog.connect_it.click()
        return dialog

    def page(self, kind: type[Part], name: str) -> Part:
        """Go to a page."""
        self.window.show_page(name)
        page = self.window.pages.made(name)
        assert isinstance(page, kind)
        return page

    def do(self, what: QAbstractButton | QAction) -> None:
        """Click a button, or choose an entry of a menu, once that is allowed."""
        self.until(what.isEnabled, f"“{what.text()}” is allowed")
        what.trigger() if isinstance(what, QAction) else what.click()

    def opened(self, kind: type[Part]) -> Part:
        """Return the dialog of a kind that is open."""
        (dialog,) = (one for one in self.window.findChildren(kind) if one.isVisible())
        return dialog

    def choose_file(self, name: str) -> Path:
        """Choose a file of this computer in the dialog that asks for one."""
        dialog, path = self.opened(QFileDialog), self.home / name
        dialog.selectFile(str(path))
        dialog.accept()
        self.saved.add(name)
        return path

    def save_by(self, what: QAbstractButton | QAction, name: str) -> bytes:
        """Have what it saves saved on this computer, and return it once it is there."""
        self.do(what)
        path = self.choose_file(name)
        self.until(path.exists, f"{name} is here")
        return path.read_bytes()
