"""The dialog that begins a run, or a sweep: preset, own settings, which of them win, name, clients, goal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from PySide6.QtCore import QLocale, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QDoubleValidator, QKeyEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)

from soulsgui.config.errors import shortened
from soulsgui.config.schema import is_idle, shipped_values
from soulsgui.gui import text
from soulsgui.gui.config.differences import differing_keys
from soulsgui.gui.config.page import ConfigDialog
from soulsgui.gui.config.sweep_fields import STEPS, SweepFields
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.icons import make_primary
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import run_title
from soulsgui.gui.settings.spec import as_yaml, specs
from soulsgui.gui.states import run_is_active
from soulsgui.gui.theme import GAP_M
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, row
from soulsgui.gui.widgets.command_button import CommandButton, Stage, Words
from soulsgui.gui.widgets.dialog import FormDialog
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.inputs import ChoiceBox, NumberBox
from soulsgui.gui.widgets.labels import Label, Remark, muted, set_tip, wrapped
from soulsgui.gui.widgets.presets import ENVIRONMENT, PresetBox, picture_of, time_words
from soulsgui.wire.control import ApiError, ConfigValues, Preset, RunPlace, SweepStatus

ALGORITHM, CLIENTS, GOAL, SEED = "algorithm", "clients.local", "stop.mean_return", "seed"


@dataclass(frozen=True)
class RunSettings:
    """The settings a run would begin with: defaults < preset < the user's own < overrides."""

    config: ConfigValues  # the user's settings and the defaults
    preset: Preset | None = None  # chosen here or in config.yaml
    overrides: Mapping[str, Any] = field(default_factory=dict)  # what wins over everything, by dotted key
    from_checkpoint: bool = False  # whether it begins with the settings of a run's checkpoint instead

    @property
    def _layers(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """What it is made from, and the user's own."""
        if self.from_checkpoint:
            return self.config.run, {}
        return self.preset.values if self.preset is not None else {}, self.config.saved

    def _over_shipped(self, *layers: Mapping[str, Any]) -> dict[str, Any]:
        values = shipped_values(self.config.defaults, *layers)
        for layer in layers:
            values |= layer
        return values

    def value(self, key: str) -> Any:
        """Return the value a setting would have; None where that is none: who begins the run is told why."""
        found = self._over_shipped(*self._layers, self.overrides).get(key)
        return None if specs()[key].check(found)[1] else found

    def changes(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Return the overrides to begin with, when the user wants these values."""
        changed = {key: value for key, value in wanted.items() if value != self.value(key)}
        return {**self.overrides, **changed}

    def different(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Return what differs from the preset, the checkpoint or the defaults, when these are wanted."""
        made_from, own = self._layers
        values = self._over_shipped(made_from, own, self.changes(wanted))
        keys = differing_keys(self._over_shipped(made_from), values)
        return {key: values[key] for key in keys if not specs()[key].info.effect.of_server}

    @property
    def for_file(self) -> dict[str, Any]:
        """What config.yaml has to set otherwise, beside the preset, for a run with these settings."""
        kept = self.config.saved.keys() | self.different({}).keys()
        return {key: value for key, value in self.overrides.items() if key in kept}


_CURRENT = "Current settings"
_MOST_CLIENTS = 64
_MOST_SEEDS = 100
_NOTE_LINES = 3
_PICTURE_PX = 89  # how high a picture of `picture_of` is
_CHARACTERS = 62
_WEIGHTS_CHARACTERS = 30
_MOST_OFFERED = 50  # runs


class NewRunDialog(FormDialog):
    """Asks what is to be trained, and begins it; stays open with the reason when it is refused.

    Signals:
        started: The run, or the sweep, has begun; with the `RunPlace` or `SweepStatus`.
    """

    section = "New run"

    started = Signal(object)

    def __init__(
        self,
        feed: Feed,
        overrides: Mapping[str, Any] | None = None,
        preset: str = "",
        checkpoint: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("newRunDialog", "New run", parent)
        self._checkpoint = checkpoint  # it begins from: `RUN/PATH`, or `RUN` for the newest; empty for none
        self._given = checkpoint  # that was chosen elsewhere
        self._feed = feed
        self._overrides = dict(overrides or {})
        self._wanted_preset = preset
        self._shipped = feed.lists.presets
        self._presets: dict[str, Preset] = {}
        self._config: ConfigValues | None = None
        self._typed: set[QWidget] = set()
        self._begins_when_possible = False
        self._make_fields()
        self._build()
        self._shipped.changed.connect(self._offer_presets)
        self._shipped.failed.connect(self._not_had)
        self._listed = feed.lists.runs
        self._listed.changed.connect(self._offer_checkpoints)
        self._fetch_config = Fetch(self, self._ask_config, came=self._config_came, failed=self._not_had)
        feed.run_changed.connect(self._update)
        feed.queue_changed.connect(self._update)
        feed.connection_changed.connect(self._connection_changed)
        self._offer_presets()
        self._offer_checkpoints()
        self._listed.want()
        self._ask()

    def _make_fields(self) -> None:
        none = "Settings of the chosen run" if self._overrides else _CURRENT
        self.preset = PresetBox(none, self)
        self.preset.currentIndexChanged.connect(self._show_choice)
        self.picture = Label(parent=self)
        self.picture.hide()
        self.weights = ChoiceBox("", self, characters=_WEIGHTS_CHARACTERS)
        self.weights.setToolTip("A run from other checkpoints: choose one on the page Runs, then More")
        self.weights.activated.connect(self._weights_chosen)
        self.name = QLineEdit(self)
        self.name.setMaxLength(100)
        self.name.setPlaceholderText("such as: bigger network")
        self.note = QPlainTextEdit(self)
        self.note.setProperty("role", "field")
        self.note.setTabChangesFocus(True)
        self.note.setFixedHeight(self.fontMetrics().lineSpacing() * _NOTE_LINES + 20)
        self.seeds = NumberBox(1, _MOST_SEEDS, self)
        self.seeds.valueChanged.connect(self._show_choice)
        self.seeds.setToolTip("Runs that differ in their seed alone, one after another: an experiment")
        self.as_sweep = QCheckBox("As a s&weep: trials that search for the best settings", self)
        self.as_sweep.toggled.connect(self._show_choice)
        self.as_sweep.toggled.connect(self.shrink)
        no_number = "That is not a number. Leave it empty for no goal."
        self.no_goal = wrapped(no_number, self, "bad", selectable=True)
        self.hint = muted(wrapped("", self, selectable=True))
        self.differs = wrapped("", self, selectable=True)
        self.config = FittingButton("Config…", "page-config", self)
        self.config.setAutoDefault(False)
        self.config.clicked.connect(self._open_config)
        self.active = wrapped("", self, "warning", selectable=True)
        self._task = QWidget(self)
        row((self.picture, Qt.AlignmentFlag.AlignTop), (self.hint, 1), on=self._task, margins=NO_MARGINS)
        self._settings = QWidget(self)
        row((self.differs, 1), self.config, on=self._settings, margins=NO_MARGINS)
        # So that nothing moves once they are known.
        self._task.setMinimumHeight(_PICTURE_PX)
        for line in (self._settings, self.active):
            # The buttons below stay where they are while the words change.
            line.setMinimumHeight(2 * self.fontMetrics().lineSpacing())
        for line in (self.no_goal, self.active):
            line.hide()

    def _make_last_fields(self) -> None:
        self.clients = NumberBox(0, _MOST_CLIENTS, self)
        self.clients.valueChanged.connect(partial(self._field_typed, self.clients))
        self.clients.setToolTip("How many clients play on the server's own machine")
        self.goal = QLineEdit(self)
        validator = QDoubleValidator(self.goal)
        validator.setLocale(QLocale.c())
        self.goal.setValidator(validator)
        self.goal.textChanged.connect(partial(self._field_typed, self.goal))
        self.goal.setPlaceholderText("none: until it is stopped")
        self.goal.setToolTip("The run ends when the mean return of its last episodes reaches this")

    def _make_buttons(self) -> None:
        self._start_words = Words("&Start", "Starting …", "Started")
        self._stop_words = Words("&Stop it and start", "Stopping, then starting …", "Started")
        self._sweep_words = Words("&Start the sweep", "Starting …", "Started")
        self.start = self.make_main(self._start_words, self._send, "play")
        self.start.setObjectName("startRun")
        self.start.finished.connect(self._started)
        words = Words("Into the &queue", "Putting it in …", "It waits")
        self.queue = CommandButton(words, "add", partial(self._send, "queue"), self)
        self.queue.finished.connect(self._started)
        self.queue.problem.connect(self.show_problem)
        self.again = QPushButton("Try &again", self)
        self.again.clicked.connect(self._ask)
        self.again.hide()

    def _build(self) -> None:
        form = QFormLayout()
        form.setVerticalSpacing(GAP_M)
        form.addRow("&Preset", self.preset)
        form.addRow("", self._task)
        form.addRow("&Begin with", self.weights)
        form.addRow("Settings", self._settings)
        form.addRow("&Name", self.name)
        form.addRow("N&ote", self.note)
        form.addRow("S&eeds", self.seeds)
        form.addRow("", self.as_sweep)
        self.sweep = SweepFields(form, self._value, self)
        self.sweep.changed.connect(self._update)
        self.sweep.left_out.connect(self.shrink)
        self._form = form
        self._show_rows()
        self.sweep.show(False)
        self._make_last_fields()  # after those above them: so Tab goes through them
        form.addRow("&Local clients", self.clients)
        form.addRow("&Goal (mean return)", self.goal)
        form.addRow("", self.no_goal)
        form.addRow(self.active)
        self._make_buttons()
        self.missing = Remark(self, "warning", selectable=True)
        buttons = self.foot(self.again, main=(self.start, self.queue), leave="&Cancel")
        foot = column(self.missing, buttons, gap_px=GAP_M)
        self.arrange(form, foot=foot, characters=_CHARACTERS)
        self.name.setFocus()

    def _ask(self) -> None:
        """Ask for what is not here yet."""
        if self._config is None or not self._shipped.known:
            self.again.hide()
            self.wrong.hide()
            if self._waiting_words:
                self.hint.setText(self._waiting_words)
        self._shipped.want()
        if self._config is None and not self._fetch_config.waiting:
            self._fetch_config.request()

    def _not_had(self, error: ApiError) -> None:
        self._begins_when_possible = False
        if self._waiting_words:
            self.hint.clear()
        self.show_problem(error)
        self.again.show()

    def _connection_changed(self) -> None:
        if self._feed.connection.live:
            self._ask()
        self._update()

    def _ask_config(self) -> Call | None:
        return self._feed.ask("config.get", {"run": self._run} if self._checkpoint else {})

    @property
    def _run(self) -> str:
        """The run of the checkpoint that it begins from."""
        return self._checkpoint.partition("/")[0]

    def _offer_checkpoints(self) -> None:
        """Offer the newest one of each run, and the one that was chosen elsewhere."""
        runs = [run for run in self._listed.entries if run.resumable][:_MOST_OFFERED]
        newest = [(f"The newest of “{run_title(run)}”", run.id) for run in runs]
        listed = {"", *(run.id for run in runs)}
        others = dict.fromkeys(one for one in (self._given, self._checkpoint) if one not in listed)
        self.weights.offer([("New weights", ""), *((one, one) for one in others), *newest], self._checkpoint)

    def _weights_chosen(self) -> None:
        """Begin with other weights, and with the settings that they were saved with."""
        self._checkpoint = str(self.weights.currentData())
        self._show_rows()
        self._config = None
        self.differs.clear()
        self._fetch_config.forget()
        self._ask()
        self._update()
        self.shrink()

    def _show_rows(self) -> None:
        """A checkpoint brings its settings; a sweep begins with new weights."""
        for part in (self.preset, self.as_sweep):
            self._form.setRowVisible(part, not self._checkpoint)
        self.config.setVisible(not self._checkpoint)

    def _offer_presets(self) -> None:
        self._presets = {preset.name: preset for preset in self._shipped.entries}
        self.preset.offer(self._shipped.entries)
        if self._wanted_preset in self._presets:
            self.preset.setCurrentIndex(self.preset.findData(self._wanted_preset))
            self._wanted_preset = ""  # another may be chosen from now on
        self._show_choice()

    def _config_came(self, values: ConfigValues) -> None:
        self._config = values
        self._show_choice()

    def _choice(self) -> RunSettings | None:
        if self._config is None:
            return None
        if self._checkpoint:
            return RunSettings(self._config, None, from_checkpoint=True)
        preset = self.preset.currentData() or self._config.preset
        return RunSettings(self._config, self._presets.get(preset), self._overrides)

    def _value(self, key: str) -> Any:
        choice = self._choice()
        return choice.value(key) if choice is not None else None

    def _show_choice(self) -> None:
        sweep = self.as_sweep.isChecked()
        # What goes is hidden first: the dialog would make room for both, and keep it.
        if not sweep:
            self.sweep.show(False)
        for of_one_run in (self.weights, self.note, self.seeds):
            self._form.setRowVisible(of_one_run, not sweep)
        if sweep:
            self.sweep.show(True)
        choice = self._choice()
        if choice is None or self._waiting_words:
            self._update()
            return
        if sweep:
            self.sweep.take_values()
        goal = choice.value(GOAL)
        # What the user typed stays.
        if self.clients not in self._typed:
            with QSignalBlocker(self.clients):
                self.clients.setValue(int(choice.value(CLIENTS) or 0))
        if self.goal not in self._typed:
            with QSignalBlocker(self.goal):
                self.goal.setText("" if goal is None else f"{float(goal):g}")
        self._explain(choice)
        self._update()

    def _field_typed(self, field: QWidget, *_: object) -> None:
        self._typed.add(field)
        self._show_choice()

    @property
    def _wanted(self) -> dict[str, Any]:
        """The settings that have a field here."""
        goal = float(self.goal.text()) if self.goal.hasAcceptableInput() else None
        return {CLIENTS: self.clients.value(), GOAL: goal}

    def _open_config(self) -> None:
        """Open the editor with these settings; the run begins with those that are saved there."""
        choice = self._choice()
        if choice is None:
            return
        dialog = ConfigDialog(self._feed, self.around("open_config"), self)
        dialog.editor.begin_with(choice.for_file, self.preset.currentData() or choice.config.preset)
        dialog.editor.head.save.finished.connect(self._config_saved)
        dialog.open()

    def _config_saved(self) -> None:
        self._overrides = {}
        self.preset.setItemText(0, _CURRENT)
        self.preset.setCurrentIndex(0)
        self._fetch_config.request()

    def _explain(self, choice: RunSettings) -> None:
        parts = [f"Trains {choice.value(ENVIRONMENT)}."]
        if self._checkpoint:
            which = f"checkpoint {self._checkpoint}" if "/" in self._checkpoint else "newest checkpoint"
            parts.append(f"It begins from the {which}.")
        if self.as_sweep.isChecked():
            parts.append("Each trial is a run of the queue, with values that the search samples.")
        elif self.seeds.value() > 1:
            seed = int(choice.value(SEED) or 0)
            last = seed + self.seeds.value() - 1
            parts.append(f"{self.seeds.value()} runs one after another, with the seeds {seed} to {last}.")
        if (preset := choice.preset) is not None:
            parts += [preset.about, text.sentence(f"Took {time_words(preset)}" if preset.seconds else "")]
        self.hint.setText(" ".join(parts))
        picture = picture_of(str(choice.value(ENVIRONMENT)))
        self.picture.setPixmap(picture)
        self.picture.setVisible(not picture.isNull())
        base = f"the preset {preset.title}" if preset is not None else "the defaults"
        base = "the checkpoint" if self._checkpoint else base
        algorithm = str(choice.value(ALGORITHM))
        different = choice.different(self._wanted).items()
        named = [f"{key} = {as_yaml(value)}" for key, value in different if not is_idle(key, algorithm)]
        set_tip(self.differs, "\n".join(named))
        self.differs.setText(f"{shortened(', '.join(named))}, else as {base}" if named else f"As {base}")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter that is pressed before the settings are here begins the run as soon as they are."""
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        self._begins_when_possible = enter and bool(self._waiting_words)
        super().keyPressEvent(event)

    @property
    def _waiting_words(self) -> str:
        """What is asked for still without which the wrong run would begin; empty for nothing."""
        preset = self._wanted_preset or (self._config.preset if self._config is not None else "")
        waits = self._config is None or (preset and not self._shipped.known)
        return "Asking for the settings …" if waits else ""

    def _send(self, if_active: str = "") -> Call:
        self.wrong.hide()
        self._update()
        choice = self._choice()
        wanted = self._wanted
        if self.as_sweep.isChecked():
            wanted[STEPS] = self.sweep.steps_wanted
            told = {"preset": self.preset.currentData(), "name": self.name.text().strip()}
            overrides = choice.changes(wanted) if choice is not None else {}
            return self._feed.call("sweep.start", {**told, "overrides": overrides, **self.sweep.params()})
        active = run_is_active(self._feed.status.run.state)
        begins = {"from": self._checkpoint} if self._checkpoint else {"preset": self.preset.currentData()}
        several = {"seeds": self.seeds.value()} if self.seeds.value() > 1 else {}
        return self._feed.call(
            "run.start",
            {
                **begins,
                "overrides": choice.changes(wanted) if choice is not None else {},
                "name": self.name.text().strip(),
                "note": self.note.toPlainText().strip(),
                **several,
                "if_active": if_active or ("stop" if active else "refuse"),
            },
        )

    def show_problem(self, error: ApiError) -> None:
        """Say why it was not done, beside the fields that it is about where there are such."""
        if self.as_sweep.isChecked() and self.sweep.show_mistakes(error.mistakes):
            self.say_wrong("The search does not fit the settings: fix what is marked.")
        else:
            super().show_problem(error)
        self._update()

    def _started(self, result: RunPlace | SweepStatus) -> None:
        self.started.emit(result)
        self.accept()

    def _update(self) -> None:
        begun = [button for button in (self.start, self.queue) if button.stage is Stage.RUNNING]
        self.leave.setText("&Close" if begun else "&Cancel")  # which does not take back what was sent
        if begun:
            # What goes on now may be the very run that is being begun.
            for button in (self.start, self.queue, self.config):
                if button not in begun:
                    button.allow("The run is being begun")
            return
        run = self._feed.status.run
        active, sweep = run_is_active(run.state), self.as_sweep.isChecked()
        words = self._stop_words if active else self._start_words
        self.start.set_words(self._sweep_words if sweep else words, "play", self._send)
        if sweep and active:
            self.active.setText(f"“{run_title(run)}” is active. The trials begin when it has ended.")
        elif active:
            cost = f"“{run_title(run)}” is active. It is saved and ended first, or this one waits."
            if run.goal_return is None and run.goal_env_steps is None:
                cost += " It has no goal: it only ends when you stop it."
            if run.checkpoint_age_s is not None:
                cost += f" Its last checkpoint is {text.about(run.checkpoint_age_s)} old."
            self.active.setText(cost)
        elif waiting := len(self._feed.status.queue):
            self.active.setText(f"{text.plural(waiting, 'One run waits', '{n} runs wait')} in the queue.")
        self.active.setVisible(active or bool(self._feed.status.queue))
        refusal = why_not(self._feed.connection)
        unknown = refusal or self._waiting_words
        self.config.allow(unknown, "See and change all of them; what you save there, this run takes")
        is_wrong = self.goal.text() and not self.goal.hasAcceptableInput()
        wrong = self.no_goal.text() if is_wrong else ""
        self.no_goal.setVisible(bool(wrong))
        missing = self.sweep.why_not if sweep and not self._waiting_words else ""
        self.missing.setText(missing)
        reason = unknown or wrong or missing
        self.start.allow(reason)
        self.queue.setVisible(not sweep and (active or bool(self._feed.status.queue)))
        self.queue.allow(reason, "It begins when the runs before it have ended")
        by_enter = self.queue if active and not sweep else self.start  # which ends no run
        by_enter.setDefault(True)
        for button in (self.start, self.queue):
            make_primary(button, button is by_enter)
        begins = self._begins_when_possible and not self._waiting_words
        self._begins_when_possible &= not refusal and not begins
        if begins:
            by_enter.click()
