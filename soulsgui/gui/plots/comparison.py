"""What is said where the runs that are drawn can't be compared."""

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.rules import reward_words
from soulsgui.gui.widgets.labels import Remark
from soulsgui.wire.control import RunComparison, RunSummary

_MOST_NAMED = 4


class ComparisonWarning(Remark):
    """Warns of runs of different environments, and of those whose rewards may be of other scales."""

    def __init__(self, feed: Feed, page: QWidget) -> None:
        super().__init__(page, "warning", selectable=True)
        self._feed = feed
        self._runs: Sequence[RunSummary] = ()
        self._asked: list[str] = []
        self._differing: tuple[str, ...] = ()  # settings that they differ in
        self._fetch = Fetch(page, self._ask, came=self._take)

    def show_runs(self, runs: Sequence[RunSummary]) -> None:
        """Compare these runs."""
        self._runs = runs
        if (names := [run.id for run in runs]) != self._asked:
            self._asked, self._differing = names, ()
            self._fetch.forget()
            self._fetch.request()
        self._warn()

    def _ask(self) -> Call | None:
        return self._feed.ask("runs.compare", {"runs": self._asked}) if len(self._asked) > 1 else None

    def _take(self, compared: RunComparison) -> None:
        self._differing = tuple(compared.settings)
        self._warn()

    def _warn(self) -> None:
        played = sorted({run.env_id for run in self._runs} - {""})
        words = reward_words(self._differing)
        if len(played) > 1:
            more = ", …" if len(played) > _MOST_NAMED else ""
            words = (
                "The runs that are drawn play different environments, so their returns can't be compared: "
                f"{', '.join(played[:_MOST_NAMED])}{more}."
            )
        self.setText(words)
