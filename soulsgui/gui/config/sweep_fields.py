"""What a new sweep searches, and how: settings with ranges or choices, trials, sampler, pruner."""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, get_args

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QCompleter, QFormLayout, QLineEdit, QWidget

from soulsgui.config.schema import SECTIONS_OF_ALGORITHMS
from soulsgui.gui.models.rules import SCORE_TITLES
from soulsgui.gui.settings.spec import FieldSpec, Kind, as_yaml, specs
from soulsgui.gui.theme import GAP_S, GAP_XS
from soulsgui.gui.widgets.boxes import NO_MARGINS, Item, column, row
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.inputs import ChoiceBox, NumberBox
from soulsgui.gui.widgets.labels import Label, Remark, muted, set_property, set_tip, wrapped
from soulsgui.wire.control import SweepStartParams

STEPS = "stop.env_steps"
_MOST_SEARCHED = 50
_SETTING_CHARACTERS, _SCALE_CHARACTERS, _NUMBER_CHARACTERS = 22, 6, 13


class SearchScale(StrEnum):
    """How values of a setting are drawn."""

    LINEAR = "Linear"
    LOG = "Log"
    CHOICES = "One of"


_NUMBERS = (Kind.WHOLE, Kind.NUMBER, Kind.SCHEDULE)
# What is usually searched; as in the search spaces of RL Baselines3 Zoo.
_USUAL = {
    "learning_rate": (SearchScale.LOG, "1e-05", "0.01"),
    "gamma": (SearchScale.LINEAR, "0.9", "0.9999"),
    "gae_lambda": (SearchScale.LINEAR, "0.8", "1"),
    "clip": (SearchScale.LINEAR, "0.1", "0.4"),
    "entropy_coef": (SearchScale.LOG, "1e-05", "0.1"),
}


def suggested(spec: FieldSpec, value: Any) -> tuple[SearchScale, str, str]:
    """Return a range to begin with, or choices in place of its low end, for a setting with this value."""
    usual = _USUAL.get(spec.key.rpartition(".")[2])
    if usual is not None and spec.section in SECTIONS_OF_ALGORITHMS:
        return usual
    if spec.kind not in _NUMBERS:
        choices = ("false", "true") if spec.kind is Kind.SWITCH else spec.choices
        return SearchScale.CHOICES, ", ".join(choices or filter(None, [spec.written(value)])), ""
    if isinstance(value, Mapping) or not value or value < 0:
        return SearchScale.LINEAR, "", ""
    bounds = [getattr(part, name, None) for part in spec.metadata for name in ("le", "lt")]
    most = min((bound for bound in bounds if bound is not None), default=math.inf)
    low, high = value / 4, min(4 * value, most)
    near_one = most == 1 and value > 0.5
    if near_one:  # what counts is how far it is from 1
        low, high = max(low, 1 - 4 * (1 - value)), 1 - (1 - value) / 4
        low, high = round(low, 6), round(high, 6)
    if spec.kind is Kind.WHOLE:
        low, high = max(round(low), 1), int(high)
    low, high = (one if not spec.check(one)[1] else value for one in (low, high))
    return SearchScale.LINEAR if near_one else SearchScale.LOG, as_yaml(low), as_yaml(high)


def searchable(algorithm: str) -> list[str]:
    """Return the settings of what learns: those first that are usually searched, then by section."""
    usual = [key for name in _USUAL if (key := f"{algorithm}.{name}") in specs()]
    sections = (algorithm, "network", "normalize")
    found = [key for section in sections for key, spec in specs().items() if spec.section == section]
    return list(dict.fromkeys([*usual, *found]))


class SearchedSetting(QWidget):
    """One setting that is searched.

    Signals:
        changed: The user wants something else of it.
    """

    changed = Signal()

    def __init__(
        self, keys: list[str], value_of: Callable[[str], Any], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._value_of = value_of
        self.setting = ChoiceBox("Setting", self, characters=_SETTING_CHARACTERS)
        self.setting.setEditable(True)
        self.setting.setInsertPolicy(ChoiceBox.InsertPolicy.NoInsert)
        self.setting.addItems(keys)
        completer = QCompleter(keys, self.setting)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        self.setting.setCompleter(completer)
        self.scale = ChoiceBox("How its values are sampled", self, characters=_SCALE_CHARACTERS)
        self.low, self.high = (self._line(name) for name in ("From", "To"))
        self.remove = FittingButton("Remove", "close", self)
        self.remove.show_icon_only(True)
        self.remove.setProperty("role", "flat")
        self.remove.setAutoDefault(False)
        self._wrong = Remark(self, selectable=True)
        line = row((self.setting, 3), self.scale, (self.low, 2), (self.high, 2), self.remove, gap_px=GAP_S)
        column(line, self._wrong, on=self, margins=NO_MARGINS, gap_px=GAP_XS)
        self.setting.currentTextChanged.connect(self._setting_chosen)
        self.scale.currentIndexChanged.connect(self._scale_chosen)
        self._setting_chosen()

    def _line(self, name: str) -> QLineEdit:
        line = QLineEdit(self)
        line.setAccessibleName(name)
        line.setMinimumWidth(_NUMBER_CHARACTERS * self.fontMetrics().averageCharWidth())
        line.setPlaceholderText(name.lower())
        line.textEdited.connect(self._edited)
        return line

    @property
    def key(self) -> str:
        """The dotted key."""
        return self.setting.currentText().strip()

    @property
    def asked(self) -> Any:
        """What is searched of it, as the command takes it."""
        if self._scale is SearchScale.CHOICES:
            return f"[{self.low.text()}]"
        return {"low": self.low.text(), "high": self.high.text(), "log": self._scale is SearchScale.LOG}

    @property
    def _scale(self) -> SearchScale:
        return SearchScale(self.scale.currentData())  # Qt keeps the word alone

    def _setting_chosen(self) -> None:
        spec = specs().get(self.key)
        scales = tuple(SearchScale) if spec is None or spec.kind in _NUMBERS else (SearchScale.CHOICES,)
        scale, low, high = suggested(spec, self._value_of(self.key)) if spec else (SearchScale.LINEAR, "", "")
        self.scale.offer([(one.value, one) for one in scales], scale)
        self.low.setText(low)
        self.high.setText(high)
        limits = f"\nRange: {spec.limits}." if spec is not None and spec.limits else ""
        set_tip(self.setting, f"{spec.info.description}{limits}" if spec is not None else "")
        self._scale_chosen()

    def _scale_chosen(self) -> None:
        choices = self._scale is SearchScale.CHOICES
        self.high.setVisible(not choices)
        self.low.setAccessibleName("Choices" if choices else "From")
        self.low.setPlaceholderText("such as 16, 32, 64" if choices else "from")
        self._edited()

    def _edited(self) -> None:
        self.say_wrong("")
        self.changed.emit()

    def say_wrong(self, words: str) -> None:
        """Say what is wrong with it; empty for nothing."""
        self._wrong.setText(words)
        for line in (self.low, self.high):
            set_property(line, "wrong", "true" if words else "false")


class SweepFields(QObject):
    """The lines of a form that make a sweep of a run.

    Signals:
        changed: The user wants something else.
        left_out: A setting is no longer searched.
    """

    changed = Signal()
    left_out = Signal()

    def __init__(self, form: QFormLayout, value_of: Callable[[str], Any], parent: QWidget) -> None:
        super().__init__(parent)
        self._form, self._value_of, self._parent = form, value_of, parent
        self._algorithm = ""
        self.steps = QLineEdit(parent)
        self.steps.setPlaceholderText("such as 50000")
        self.steps.textChanged.connect(self._steps_changed)
        self._wrong_steps = wrapped("", parent, "bad", selectable=True)
        self.trials, self.parallel = self._number("trials", 1000), self._number("parallel", 64)
        self.sampler, self.pruner, self.score = map(self._box, ("sampler", "pruner", "score"))
        self.searched: list[SearchedSetting] = []
        self._lines = QWidget(parent)
        self._column = column(on=self._lines, margins=NO_MARGINS, gap_px=GAP_S)
        self.add = FittingButton("A&dd a setting", "add", parent)
        self.add.setAutoDefault(False)
        self.add.clicked.connect(self.add_setting)
        about = muted(Label("Searched, each trial with other values:", parent))
        adding = row(self.add, None)
        drawn = (self.steps, self.trials, self.parallel, self.sampler, self.pruner, self.score)
        self._parts: tuple[Item, ...] = (*drawn, about, self._lines, adding)
        form.addRow("Steps o&f each trial", self.steps)
        form.addRow("", self._wrong_steps)
        form.addRow("&Trials", self.trials)
        form.addRow("Trials at a t&ime", self.parallel)
        form.addRow("Sa&mpler", self.sampler)
        form.addRow("P&runer", self.pruner)
        form.addRow("&Judged by the", self.score)
        form.addRow(about)
        form.addRow(self._lines)
        form.addRow(adding)

    def _number(self, name: str, most: int) -> NumberBox:
        """Return a box of a number that the command takes."""
        box, field = NumberBox(1, most, self._parent), SweepStartParams.model_fields[name]
        box.setValue(field.default)
        told = field.description or ""
        set_tip(box, told[:1].upper() + told[1:])
        return box

    def _box(self, name: str) -> ChoiceBox:
        """Return a box of what a parameter of the command may be."""
        box, field = ChoiceBox("", self._parent), SweepStartParams.model_fields[name]
        box.offer([(SCORE_TITLES.get(one, one), one) for one in get_args(field.annotation)], field.default)
        told = field.description or ""
        set_tip(box, told[:1].upper() + told[1:])
        return box

    def show(self, on: bool) -> None:
        """Show these lines, or none of them."""
        for part in self._parts:
            self._form.setRowVisible(part, on)
        self._form.setRowVisible(self._wrong_steps, on and bool(self._wrong_steps.text()))

    def take_values(self) -> None:
        """The settings of the run are others: what the user chose stays where it still means something."""
        if not self.steps.isModified():
            self.steps.setText(as_yaml(self._value_of(STEPS)) if self._value_of(STEPS) else "")
        algorithm = str(self._value_of("algorithm"))
        if algorithm != self._algorithm:
            self._algorithm = algorithm
            for line in list(self.searched):
                self._leave_out(line)
            self.add_setting()

    def add_setting(self) -> None:
        """Search one more setting."""
        keys = searchable(self._algorithm)
        line = SearchedSetting(keys, self._value_of, self._lines)
        taken = {one.key for one in self.searched}
        line.setting.setCurrentText(next((key for key in keys if key not in taken), ""))
        line.changed.connect(self._changed)
        line.remove.clicked.connect(partial(self._leave_out, line))
        before: QWidget = self.searched[-1].remove if self.searched else self.score
        for part in (line.setting, line.scale, line.low, line.high, line.remove):
            QWidget.setTabOrder(before, part)
            before = part
        self.searched.append(line)
        self._column.addWidget(line)
        line.show()  # at once, so that the dialog makes room
        self._changed()

    def _leave_out(self, line: SearchedSetting) -> None:
        self.searched.remove(line)
        line.hide()
        line.deleteLater()
        self._column.activate()  # at once, so that the dialog can give up the room
        self._changed()
        self.left_out.emit()

    def _changed(self) -> None:
        self.add.setEnabled(len(self.searched) < _MOST_SEARCHED)
        self.changed.emit()

    def _steps_changed(self) -> None:
        self._say_steps("")
        self.changed.emit()

    def _say_steps(self, words: str) -> None:
        self._wrong_steps.setText(words)
        self._form.setRowVisible(self._wrong_steps, bool(words))
        set_property(self.steps, "wrong", "true" if words else "false")

    @property
    def steps_wanted(self) -> Any:
        """How many steps each trial makes; what is no number, the server refuses."""
        return specs()[STEPS].read(self.steps.text())[0]

    @property
    def why_not(self) -> str:
        """Why it can't begin as it stands; empty where nothing is missing."""
        keys = [line.key for line in self.searched]
        if not self.steps.text().strip():
            return "Say how many steps each trial makes: trials of one length are compared."
        twice = next((key for key in keys if keys.count(key) > 1), "")
        return f"{twice} is searched twice." if twice else "" if keys else "Add a setting to search."

    def params(self) -> dict[str, Any]:
        """Return what the command takes beside preset, name and overrides."""
        boxes = {"sampler": self.sampler, "pruner": self.pruner, "score": self.score}
        return {
            "space": {line.key: line.asked for line in self.searched},
            "trials": self.trials.value(),
            "parallel": self.parallel.value(),
            **{name: box.currentData() for name, box in boxes.items()},
        }

    def show_mistakes(self, mistakes: Mapping[str, str]) -> bool:
        """Show what is wrong beside what it is wrong with, and return whether all of it has such a place."""
        lines = {line.key: line.say_wrong for line in self.searched} | {STEPS: self._say_steps}
        for key, words in mistakes.items():
            if key in lines:
                lines[key](f"{words[:1].upper()}{words[1:]}".rstrip(".") + ".")
        return bool(mistakes) and mistakes.keys() <= lines.keys()
