"""Where the next run differs from what is shipped and from the run that goes on, as a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from soulsgui.config.declaring import Effect
from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.config.draft import same
from soulsgui.gui.models.records import Column, RecordsModel
from soulsgui.gui.settings.row import effect_words
from soulsgui.gui.settings.spec import FieldSpec, specs
from soulsgui.gui.states import Look
from soulsgui.gui.widgets.boxes import NO_MARGINS, TAB_MARGINS, column, stack
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.labels import Label, muted
from soulsgui.gui.widgets.table import Table


@dataclass(frozen=True)
class Difference:
    """One setting that is not the same everywhere."""

    spec: FieldSpec  # the setting
    shipped: Any  # its shipped value
    planned: Any  # what the next run would use, with what is not saved yet
    running: Any  # what the run uses that goes on; None without a run
    has_running: bool
    origin: str  # where the planned value is written: `yours`, a preset's name, or empty for shipped
    unsaved: bool  # whether the planned value is not saved yet

    @property
    def running_differs(self) -> bool:
        """Whether the run that goes on uses another value than the next one would."""
        return self.has_running and not same(self.spec.key, self.running, self.planned)


YOURS = "yours"


def differences(
    shipped: Mapping[str, Any],
    preset: Mapping[str, Any],
    preset_name: str,
    mine: Mapping[str, Any],
    saved: Mapping[str, Any],
    running: Mapping[str, Any],
) -> list[Difference]:
    """Return every setting that is not the same everywhere, in the order of the file."""
    found = []
    for key, spec in specs().items():
        base = shipped.get(key, spec.info.default)
        below = preset.get(key, base)
        planned = mine.get(key, below)
        one = Difference(
            spec,
            base,
            planned,
            running.get(key),
            key in running,
            YOURS if key in mine else preset_name if key in preset else "",
            not same(key, planned, saved.get(key, below)),
        )
        if not same(key, planned, base) or one.running_differs or one.unsaved:
            found.append(one)
    return found


def differing_keys(below: Mapping[str, Any], above: Mapping[str, Any]) -> list[str]:
    """Return the settings that both have, with another value above."""
    known = specs()
    return [key for key in below if key in above and key in known and not same(key, below[key], above[key])]


def _planned(one: Difference) -> str:
    words = one.spec.shown(one.planned)
    return f"{words} (not saved)" if one.unsaved else words


def _origin(one: Difference) -> str:
    if one.origin == YOURS:
        return "yours"
    return f"preset {one.origin}" if one.origin else "default"


COLUMNS: tuple[Column[Difference], ...] = (
    Column("key", "Setting", lambda one: one.spec.key, tip=lambda one: one.spec.info.description, width=28),
    Column("shipped", "Default", lambda one: one.spec.shown(one.shipped), width=18),
    Column(
        "planned",
        "Next run",
        _planned,
        look=lambda one: Look("", Tone.WARNING if one.unsaved else Tone.TEXT, ""),
        width=20,
    ),
    Column("origin", "Comes from", _origin, width=24),
    Column(
        "running",
        "Running",
        lambda one: one.spec.shown(one.running) if one.has_running else text.NOTHING,
        look=lambda one: (
            Look("state-info", Tone.BUSY, "") if one.running_differs else Look("", Tone.TEXT, "")
        ),
        width=18,
        about="What the current run uses",
    ),
    Column("effect", "Takes effect", lambda one: effect_words(one.spec.info.effect)[0], width=18),
)


_WHEN = {
    Effect.NEW_RUN: "with a new run",
    Effect.SAVED: "now",
    Effect.RESTART_RUNNER: "with a server restart",
}


def effect_sentence(keys: Iterable[str]) -> str:
    """Return when saved changes take effect, in words."""
    told = [specs()[key].info for key in keys if key in specs()]
    effects: dict[str, list[str]] = {}
    for info in told:
        # What is saved here a run that is resumed does not look at.
        effect = info.effect if info.effect.of_server else Effect.NEW_RUN
        effects.setdefault(_WHEN[effect], []).append(info.key)
    sentences = [f"Takes effect {when}: {', '.join(names)}." for when, names in effects.items()]
    for how, keys in (
        ("`soulsgui run resume --set`", [info.key for info in told if info.effect is Effect.RESUME]),
        ("the tab Running", [info.key for info in told if info.effect.live]),
    ):
        if keys:
            sentences.append(f"To change the current run, use {how}: {', '.join(keys)}.")
    return " ".join(sentences)


class DifferencesTab(QWidget):
    """Every setting that is not the same everywhere.

    Signals:
        opened: A setting was double-clicked; with its key.
    """

    opened = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model: RecordsModel[Difference] = RecordsModel(COLUMNS, lambda one: one.spec.key, parent=self)
        self.table = Table("differencesTable", "Differences", self)
        self.table.setModel(self.model)
        self.table.setSelectionMode(Table.SelectionMode.SingleSelection)
        self.table.row_opened.connect(self._open)
        about = muted(Label("A double click on a row leads to the setting in the form.", self))
        self._empty = EmptyState(
            "compare",
            "Everything has its default value",
            "What you change appears here, and so does what the current run uses instead.",
            parent=self,
        )
        page = QWidget(self)
        column(about, (self.table, 1), on=page, margins=NO_MARGINS)
        self._stack = stack(page, self._empty)
        column(self._stack, on=self, margins=TAB_MARGINS)

    def show_differences(self, found: Sequence[Difference]) -> None:
        """Show these and no others."""
        self.model.replace(found)
        self._stack.setCurrentIndex(0 if found else 1)
        self.setFocusProxy(self.table if found else self._empty)

    def _open(self, *_: object) -> None:
        one = self.model.at(self.table.currentIndex().row())
        if one is not None:
            self.opened.emit(one.spec.key)
