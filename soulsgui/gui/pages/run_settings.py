"""The configuration of the run that goes on, to look at."""

from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.settings_form.form import SettingsForm
from soulsgui.gui.settings_form.spec import specs
from soulsgui.gui.shell import notify_problem
from soulsgui.wire.control import ConfigValues, RunSummary

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell


class RunSettingsTab(QWidget):
    """The settings a run works with, those of its own marked; made when it is first shown.

    Args:
        feed: The runner.
        shell: The window.
        parent: The widget it stands in.
    """

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._run = ""
        self._form: SettingsForm | None = None
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 8, 0, 0)
        about = QLabel(
            self.tr("What this run works with. Settings of its own can be told by “Modified only”.")
        )
        about.setProperty("weight", "muted")
        about.setWordWrap(True)
        self._column.addWidget(about)
        self._fetch = Fetch(self, self._ask)
        self._fetch.came.connect(self._take)
        self._fetch.failed.connect(lambda error: notify_problem(shell, error))

    def show_run(self, run: RunSummary | None) -> None:
        """Show the settings of a run."""
        name = run.id if run is not None else ""
        if name != self._run:
            self._run = name
            self._fetch.forget()
            self.refresh()

    def refresh(self) -> None:
        """Ask for the settings again."""
        self._fetch.request()

    @property
    def form(self) -> SettingsForm | None:
        """The form, once there is something in it."""
        return self._form

    def _ask(self) -> Call | None:
        if not self._run or not self._feed.connection.commands_possible:
            return None
        return self._feed.call("config.get")

    def _take(self, result: dict[str, Any]) -> None:
        values = ConfigValues.model_validate(result)
        if self._feed.status.run.id != self._run or not values.running:
            return
        if self._form is None:
            self._form = SettingsForm(self)
            self._column.addWidget(self._form, 1)
        self._form.load(values.defaults, own_values(values.running, values.defaults))
        self._form.set_read_only(True)


def own_values(running: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the values that differ from the shipped ones, by dotted key."""
    known = specs()
    return {
        key: value
        for key, value in running.items()
        if key in known and known[key].check(value)[0] != known[key].check(defaults.get(key))[0]
    }
