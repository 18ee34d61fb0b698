"""The jobs that go on, in one line: what the newest does, how far it is, and a button that cancels it."""

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import DOWNLOAD, Call, Feed
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.widgets.boxes import row
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.labels import ElidedLabel
from soulsgui.wire.control import Job

_TITLES = {
    "checkpoint.evaluate": "Playing",
    "checkpoint.export": "Export",
    "checkpoint.load": "Load",
    "checkpoint.verify": "Verification",
    "runs.export": "Export",
    "runs.import": "Import",
}
_WORDS_CHARACTERS, _BAR_CHARACTERS = 70, 12
_WHOLE = 1000


class JobStrip(QWidget):
    """Shown while jobs go on that can be cancelled, whoever asked for them, or files are on their way."""

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("jobStrip")
        self._feed = feed
        self._job: Job | None = None
        self._transfer: Call | None = None
        self._told = ""
        self.words = ElidedLabel("", self)
        self.bar = QProgressBar(self)
        self.bar.setAccessibleName("Progress of the job")
        self.bar.setTextVisible(False)
        self.cancel = CommandButton(Words("Cancel", "Cancelling …", "Cancelled"), "close", self._cancel, self)
        self.cancel.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        row((self.words, 1), self.bar, self.cancel, on=self, margins=(0, 0, GAP_S, 0), gap_px=GAP_S)
        feed.job_changed.connect(self._show)
        feed.jobs_listed.connect(self._show)
        feed.connection_changed.connect(self._show)
        feed.transfer_began.connect(self._follow)
        self._show()

    def _follow(self, call: Call) -> None:
        self._told = ""
        call.progressed.connect(self._progressed)
        for over in (call.done, call.failed, call.dropped):
            over.connect(self._show)
        self._show()

    def _progressed(self, words: str) -> None:
        self._told = words
        self._show()

    def _show(self, *_: object) -> None:
        jobs = [job for job in self._feed.jobs.values() if job.state == "running" and job.cancellable]
        transfers = [call for call in self._feed.transfers if not call.over]
        self._transfer = transfers[-1] if transfers else None
        self._job = jobs[-1] if jobs and not transfers else None
        self.setVisible(bool(jobs or transfers))
        others = len(jobs) + len(transfers) - 1
        more = text.plural(others, " (and another job)", " (and {n} other jobs)") if others > 0 else ""
        if self._transfer is not None:
            title = "Download" if self._transfer.command == DOWNLOAD else "Upload"
            self._say(f"{title}: {self._told or 'begins'}{more}", None)
        elif self._job is not None:
            title = _TITLES.get(self._job.command, self._job.command)
            self._say(f"{title}: {self._job.progress}{more}", self._job.part)
        self.cancel.allow("" if self._feed.connection.live else "The server can't be reached now.")

    def showEvent(self, event: QShowEvent) -> None:
        """Take as much room as its letters need."""
        super().showEvent(event)
        character = self.fontMetrics().averageCharWidth()
        self.words.setFixedWidth(character * _WORDS_CHARACTERS)
        self.bar.setFixedWidth(character * _BAR_CHARACTERS)

    def _say(self, words: str, part: float | None) -> None:
        self.words.setText(words)
        self.bar.setRange(0, 0 if part is None else _WHOLE)
        if part is not None:
            self.bar.setValue(round(min(max(part, 0.0), 1.0) * _WHOLE))

    def _cancel(self) -> Call | None:
        if self._transfer is not None:
            self._transfer.drop()
            return None
        return self._feed.call("job.cancel", {"job": self._job.id}) if self._job is not None else None
