"""The dialogs that the window opens for its toolbar, its menu and its pages."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.page_stack import PageStack
from soulsgui.gui.shell import Shell

if TYPE_CHECKING:
    from soulsgui.gui.dialogs.manual import ManualDialog


class WindowDialogs(QObject):
    """Opens dialogs; each is imported when it is first wanted, so that none delays the window.

    Signals:
        started: A run was begun by one of them.
        mended: The file of settings, for which no server could start, is whole again.

    Args:
        feed: The runner.
        pages: The pages, one of which may hold changes a new run would miss.
        shell: The window as the dialogs see it.
        window: What they open over.
    """

    started = Signal()
    mended = Signal()

    def __init__(self, feed: Feed, pages: PageStack, shell: Shell, window: QWidget) -> None:
        super().__init__(window)
        self._feed = feed
        self._pages = pages
        self._shell = shell
        self._window = window
        self._manual: ManualDialog | None = None

    def manual(self, heading: str) -> None:
        """Open the manual at what it says of a page."""
        from soulsgui.gui.dialogs.manual import ManualDialog

        if self._manual is None:
            self._manual = ManualDialog(self._window)
        self._manual.open_at(heading)

    def new_run(self, overrides: Mapping[str, Any] | None = None, preset: str = "") -> None:
        """Open the dialog that begins a run, after the page that is shown was asked for unsaved changes."""
        from soulsgui.gui.dialogs.new_run import NewRunDialog

        def go_on(begin: bool) -> None:
            if begin:
                dialog = NewRunDialog(self._feed, overrides, preset, self._window)
                dialog.started.connect(self.started)
                dialog.open()

        self._pages.before_run(go_on)

    def config(self) -> None:
        """Open the editor of the configuration; where no server can start for it, what mends that."""
        if self._feed.connection.config is not None:
            self._mend_config(self._feed.connection.config)
            return
        from soulsgui.gui.dialogs.config import ConfigDialog

        ConfigDialog(self._feed, self._shell, self._window).open()

    def _mend_config(self, path: Path) -> None:
        from soulsgui.gui.dialogs.mend_config import MendConfigDialog

        dialog = MendConfigDialog(path, self._window)
        dialog.mended.connect(self.mended)
        dialog.open()

    def invite(self) -> None:
        """Open the dialog that invites other computers."""
        from soulsgui.gui.dialogs.invite import InviteDialog

        InviteDialog(self._feed, self._shell, self._window).open()

    def update(self) -> None:
        """Open the dialog that tells how this window is brought up to its server's version."""
        from soulsgui.gui.dialogs.update import UpdateDialog
        from soulsgui.gui.models.updating import installation, update_steps

        steps = update_steps([], installation())
        if steps is not None:
            words = tr("The server's runner is newer than this window.")
            UpdateDialog(words, steps, self._window).open()
