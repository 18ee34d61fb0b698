"""The jobs that go on, in one line: what the newest does, how far it is, and a button that cancels it."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QProgressBar, QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.widgets.boxes import NO_MARGINS, row
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.labels import ElidedLabel
from soulsgui.wire.control import COMMANDS, Job

_TITLES = {
    "checkpoint.evaluate": "Evaluation",
    "checkpoint.export": "Export",
    "checkpoint.load": "Load",
    "checkpoint.verify": "Verification",
    "runs.export": "Export",
    "runs.import": "Import",
}
_WORDS_CHARACTERS, _BAR_CHARACTERS = 46, 12
_WHOLE = 1000


class JobStrip(QWidget):
    """Shown while jobs go on that can be cancelled, whoever asked for them.

    Signals:
        problem: One could not be cancelled; with the `ApiError`.
    """

    problem = Signal(object)

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("jobStrip")
        self._feed = feed
        self._job: Job | None = None
        character = self.fontMetrics().averageCharWidth()
        self.words = ElidedLabel("", self)
        self.words.setFixedWidth(character * _WORDS_CHARACTERS)
        self.bar = QProgressBar(self)
        self.bar.setAccessibleName("Progress of the job")
        self.bar.setFixedWidth(character * _BAR_CHARACTERS)
        self.bar.setTextVisible(False)
        self.cancel = CommandButton(Words("Cancel", "Cancelling …", "Cancelled"), "close", self._cancel, self)
        self.cancel.problem.connect(self.problem)
        row(self.words, self.bar, self.cancel, on=self, margins=NO_MARGINS, gap_px=8)
        feed.job_changed.connect(self._show)
        feed.jobs_listed.connect(self._show)
        feed.connection_changed.connect(self._show)
        self._show()

    def _show(self, *_: object) -> None:
        going = [job for job in self._feed.jobs.values() if job.state == "running" and job.cancellable]
        self._job = going[-1] if going else None
        self.setVisible(self._job is not None)
        if self._job is None:
            return
        job, others = self._job, len(going) - 1
        title = _TITLES.get(job.command) or text.plain(COMMANDS[job.command].help if job.command in COMMANDS else job.command)
        more = text.plural(others, " (and another job)", " (and {n} other jobs)") if others else ""
        self.words.setText(f"{title}: {job.progress}{more}")
        self.bar.setRange(0, 0 if job.part is None else _WHOLE)
        if job.part is not None:
            self.bar.setValue(round(job.part * _WHOLE))
        live = self._feed.connection.live
        self.cancel.allow(live, "" if live else "Nobody would hear of it now.")

    def _cancel(self) -> Call | None:
        return self._feed.call("job.cancel", {"job": self._job.id}) if self._job is not None else None
