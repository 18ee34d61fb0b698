"""The videos of the chosen run: films of its episodes, made and kept by the server while it runs."""

import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError
from PySide6.QtWidgets import QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Feed
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.records import Column, RecordsModel, number
from soulsgui.gui.runs.evaluate import EvaluateDialog
from soulsgui.gui.runs.models import evaluated_words
from soulsgui.gui.shell import Shell, carry_out
from soulsgui.gui.widgets.boxes import TAB_MARGINS, column, row, stack
from soulsgui.gui.widgets.dialog import ask_where_to_save
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.labels import muted, wrapped
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import Evaluated, Job, RunSummary, StoredFile
from soulsgui.wire.messages.base import Message, Moment


class Film(Message):
    """A video that a job has made, and what was played in it."""

    made: Moment
    file: StoredFile
    played: Evaluated


def films(jobs: Iterable[Job], run: str) -> list[Film]:
    """Return the videos of a run."""
    found = []
    for job in jobs:
        if job.command == "checkpoint.evaluate" and job.state == "done" and job.files:
            with suppress(ValidationError):  # it is a server of another version
                made = {"made": job.started, "file": job.files[0], "played": job.result}
                found.append(Film.model_validate(made))
    return [film for film in found if film.played.run_id == run]


FILM_COLUMNS: tuple[Column[Film], ...] = (
    number(
        "updates", "Update", lambda film: text.count(film.played.updates), lambda film: film.played.updates
    ),
    number(
        "episodes",
        "Episodes",
        lambda film: text.count(film.played.episodes),
        lambda film: film.played.episodes,
    ),
    number(
        "mean",
        "Return",
        lambda film: evaluated_words(film.played),
        lambda film: film.played.mean_return,
        width=14,
    ),
    number("size", "Size", lambda film: text.size(film.file.size_bytes), lambda film: film.file.size_bytes),
    number(
        "made", "Filmed", lambda film: text.clock(film.made, time.time()), lambda film: film.made, width=19
    ),
    Column("file", "Video", lambda film: film.file.name, width=22),
)


class VideosTab(QWidget):
    """Films episodes of one run, lists the films and saves them."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._shell = shell
        self._run: RunSummary | None = None
        self.film = FittingButton("Film…", "play", self)
        self.film.clicked.connect(self._ask)
        self.save = FittingButton("Save video…", "save", self)
        self.save.clicked.connect(self._ask_path)
        self.model = RecordsModel(FILM_COLUMNS, lambda film: film.file.id, parent=self)
        self.table = Table("videosTable", "Videos of the run", self)
        self.table.setModel(self.model)
        self.table.setSelectionMode(Table.SelectionMode.SingleSelection)
        self.table.sort_by(self.model.column_number("made"), downwards=True)
        self.table.row_opened.connect(lambda _: self.save.click())
        self.table.selectionModel().currentRowChanged.connect(self.show_connection)
        self.table.offer(lambda: [self.save])
        hint = "Film a few episodes of its newest checkpoint here, or of any one from its menu."
        self._empty = EmptyState("play", "No video yet", hint, parent=self)
        self._stack = stack(self.table, self._empty)
        about = muted(
            wrapped("The server keeps the newest few while it runs: save what you want to keep.", self)
        )
        column((self._stack, 1), row((about, 1), self.film, self.save), on=self, margins=TAB_MARGINS)
        feed.job_changed.connect(self.refresh)
        feed.jobs_listed.connect(self.refresh)

    def show_run(self, run: RunSummary | None) -> None:
        """Show the videos of a run."""
        self._run = run
        self.refresh()

    def refresh(self, *_: object) -> None:
        """List those that there are."""
        found = films(self._feed.jobs.values(), self._run.id) if self._run is not None else []
        self.model.replace(found)
        self._stack.setCurrentIndex(0 if found else 1)
        if found and self.chosen is None:
            self.table.selectRow(0)
        self.show_connection()

    def show_connection(self, *_: object) -> None:
        """Allow what the connection allows."""
        away = why_not(self._feed.connection)
        self.film.allow(away)
        self.save.allow(away or ("" if self.chosen else "Choose a video first."))

    @property
    def chosen(self) -> Film | None:
        """The video in the current row."""
        return self.model.at(self.table.currentIndex().row())

    def _ask(self) -> None:
        if self._run is not None:
            dialog = EvaluateDialog("The newest checkpoint", film=True, parent=self)
            dialog.wanted.connect(partial(self._film, self._run.id))
            dialog.open()

    def _film(self, run: str, how: dict[str, Any]) -> None:
        call = self._feed.job("checkpoint.evaluate", {"run": run} | how)
        carry_out(self._shell, call, self._filmed)

    def _filmed(self, played: Evaluated) -> None:
        self._shell.notify("success", "The video is made", " ".join(played.notes))

    def _ask_path(self) -> None:
        film = self.chosen
        if film is None or self._run is None:
            return
        # Of a name that the server tells only the last part is of interest.
        name = f"{self._run.id}_{PurePath(film.file.name).name}"
        ask_where_to_save("Save the video", name, "", partial(self._save, film.file), self)

    def _save(self, file: StoredFile, path: str) -> None:
        carry_out(self._shell, self._feed.download(file, path), partial(self._saved, path))

    def _saved(self, path: str, _: object) -> None:
        self._shell.notify("success", f"Saved as {path}")
