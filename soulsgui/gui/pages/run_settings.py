"""The configuration of the chosen run, to look at."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from soulsgui.config.declaring import Effect
from soulsgui.config.sections.agents import shipped_with
from soulsgui.gui.calls import Call
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.settings_form.form import SettingsForm
from soulsgui.gui.settings_form.spec import specs
from soulsgui.gui.widgets.labels import set_property
from soulsgui.wire.control import ApiError, ConfigValues, RunSummary

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell


class RunSettingsTab(QWidget):
    """The settings a run works or worked with; the form is made when it is first shown.

    Args:
        feed: The runner.
        shell: The window.
        parent: The widget it stands in.
    """

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._run = ""
        self.form: SettingsForm | None = None
        self._words = QLabel(self)
        self._words.setWordWrap(True)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 8, 0, 0)
        self._column.addWidget(self._words)
        self._column.addStretch(0)
        self._fetch = Fetch(self, self._ask)
        self._fetch.came.connect(self._take)
        self._fetch.failed.connect(self._failed)

    def show_run(self, run: RunSummary | None) -> None:
        """Show the settings of a run."""
        name = run.id if run is not None else ""
        if name != self._run:
            self._run = name
            self._fetch.forget()
            if self.form is not None:
                self.form.hide()
            self._say(self.tr("Reading the settings …"))
            self.refresh()

    def refresh(self) -> None:
        """Ask for the settings again."""
        self._fetch.request()

    @property
    def words(self) -> str:
        """What is said over the form."""
        return self._words.text()

    def _say(self, words: str, tone: str = "muted") -> None:
        self._words.setText(words)
        set_property(self._words, "tone", tone)

    def _ask(self) -> Call | None:
        if not self._run or not self._feed.connection.commands_possible:
            return None
        return self._feed.call("config.get", {"run": self._run})

    def _take(self, result: dict[str, Any]) -> None:
        values = ConfigValues.model_validate(result)
        if self.form is None:
            self.form = SettingsForm(self)
            self._column.addWidget(self.form, 1)
        shipped = values.defaults | shipped_with(values.run)
        self.form.load(shipped, own_values(values.run, shipped))
        self.form.set_read_only(True)
        self.form.show()
        self._say(self.tr("“Modified only” shows what differs from the shipped values."))

    def _failed(self, error: ApiError) -> None:
        if self.form is not None:
            self.form.hide()
        self._say(f"{error.message}\n{error.remedy}".strip(), "bad")


def own_values(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from the shipped ones, by dotted key."""
    known = specs()
    return {
        key: value
        for key, value in values.items()
        if key in known and known[key].check(value)[0] != known[key].check(defaults.get(key))[0]
    }


def for_a_new_run(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that make another run like this one: all but those of the server itself."""
    known = specs()
    return {
        key: value
        for key, value in values.items()
        if key in known and known[key].info.effect is not Effect.RESTART_RUNNER
    }
