"""The page of the configuration: what the next run will use."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QVBoxLayout, QWidget

from soulsgui.gui.config_editor.editor import ConfigEditor
from soulsgui.gui.feed import Feed

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell


class ConfigPage(QWidget):
    """The editor of the server's config.yaml.

    Args:
        feed: The runner.
        shell: The window.
        parent: The widget it stands in.
    """

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("configPage")
        self.editor = ConfigEditor(feed, shell, self)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 8)
        column.addWidget(self.editor)

    def show_where(self, setting: str = "", **_: Any) -> None:
        """Show a setting.

        Args:
            setting: Its dotted key; empty for no certain one.
        """
        if setting:
            self.editor.reveal(setting)

    def refresh(self) -> None:
        """Ask for the file again."""
        self.editor.refresh()

    @property
    def landing(self) -> QWidget:
        """What gets the keyboard when the page opens: the tab in front, which hands it on."""
        return self.editor.views.currentWidget()

    @property
    def unsaved(self) -> bool:
        """Whether something was typed that is not saved."""
        return self.editor.unsaved

    def before_run(self, then: Callable[[bool], None]) -> None:
        """Tell whether a run may be begun; unsaved changes, which it would not use, are asked about first."""
        self.editor.before_run(then)

    def may_leave(self, then: Callable[[bool], None]) -> None:
        """Tell whether one may leave; unsaved changes are asked about first."""
        self.editor.may_leave(then)
