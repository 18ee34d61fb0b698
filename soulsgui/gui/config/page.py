"""The editor of config.yaml, as a page and as a dialog: reads it from the server, checks it, saves it."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QByteArray, Qt, QTimer
from PySide6.QtGui import QCloseEvent, QHideEvent, QKeyEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from soulsgui.config.errors import ConfigError, Problem
from soulsgui.config.schema import shipped_values
from soulsgui.config.soulsai import import_file
from soulsgui.gui.config.bars import ConflictBar, EditorHead, PresetRow, ProblemBar
from soulsgui.gui.config.differences import differences, effect_sentence
from soulsgui.gui.config.draft import Draft, changed_keys, read_problems, sentence
from soulsgui.gui.config.running import RunningTab
from soulsgui.gui.config.server import ServerTab
from soulsgui.gui.config.soulsai import KINDS, ImportedDialog
from soulsgui.gui.config.views import Views
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import Question
from soulsgui.gui.shell import notify_problem
from soulsgui.gui.widgets.ask import Leave, LeaveWords, ask, ask_unsaved
from soulsgui.gui.widgets.boxes import NO_MARGINS, PAGE_MARGINS, Margins, column
from soulsgui.gui.widgets.dialog import FittingDialog, ask_for_file
from soulsgui.gui.widgets.geometry import Memory
from soulsgui.wire.control import ApiError, ConfigProblems, ConfigValues, ErrorCode, SavedConfig

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell


_DEBOUNCE_MS = 350


class ConfigEditor(QWidget):
    """Changes what the next run will use.

    While the connection is away one can go on typing; saving waits for it.
    """

    margins: Margins = NO_MARGINS

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._shell = shell
        self._memory = Memory(shell.settings(), "config")
        self._values: ConfigValues | None = None
        self._draft = Draft()
        self._problems: list[Problem] = []
        self._told_of: dict[str, Any] = {}  # the values that were set when these were told
        self._checked_text = ""
        self._not_read = ""  # why the file could not be had, while nothing is shown yet
        self._wanted: tuple[Mapping[str, Any], str] | None = None
        self._offered: str | None = None  # what the text became by that: nothing is lost with it
        self._after_saving: Callable[[bool], None] | None = None
        self._after_asking: Callable[[bool], None] | None = None
        self._soon = QTimer(self, singleShot=True, interval=_DEBOUNCE_MS)
        self._soon.timeout.connect(self._settle)
        self._build()
        self._listen()
        self._memory.restore(self.views, self.views.differences.table, self.running.table)
        self._show_state()

    def _build(self) -> None:
        self.head = EditorHead(self._save, self)
        self.head.save.finished.connect(self._saved)
        self.head.save.problem.connect(self._not_saved)
        self.head.discard.clicked.connect(self._ask_to_discard)
        self.presets = PresetRow(self)
        self.problem_bar = ProblemBar(self)
        self.conflict_bar = ConflictBar(self)
        self.views = Views(self)
        self.running = RunningTab(self._feed, self._shell, self)
        self.views.addTab(self.running, "&Running")
        self.server = ServerTab(self._feed, self._shell, self)
        self.views.addTab(self.server, "Ser&ver")
        self._of_file = QWidget(self)
        parts = self.head, self.presets, self.conflict_bar, self.problem_bar
        column(*parts, on=self._of_file, margins=NO_MARGINS)
        column(self.views, on=self, margins=self.margins)
        self._show_in_front()

    def _listen(self) -> None:
        feed, tell = self._feed, self._tell
        self._shipped_presets = feed.lists.presets
        self._shipped_presets.changed.connect(self._take_presets)
        self.presets.offer(self._shipped_presets.entries)
        text = partial(feed.ask, "config.get")
        self._fetch = Fetch(self, text, came=self._take, failed=self._failed, late=True)
        self._fetch_check = Fetch(self, self._check, came=self._checked, failed=tell)
        # Bound methods: Qt ends their connections with this editor; a dialog's goes before the feed.
        feed.snapshot_taken.connect(self.refresh)
        feed.connection_changed.connect(self._connection_changed)
        self.presets.chosen.connect(self._choose_preset)
        self.presets.give_way.connect(self._give_way)
        self.presets.soulsai.clicked.connect(self._ask_what_to_import)
        self.problem_bar.opened.connect(self.views.open_problem)
        self.conflict_bar.merge_button.clicked.connect(self._merge)
        self.conflict_bar.reload_button.clicked.connect(self._reload)
        self.conflict_bar.overwrite_button.clicked.connect(self._overwrite)
        self.views.form_edited.connect(self._typed)
        self.views.text_edited.connect(self._text_edited)
        self.views.currentChanged.connect(self._turned)
        self.server.changed.connect(self._fetch.request)
        self.server.setting_wanted.connect(self.views.reveal)
        for keys, work in (
            (QKeySequence.StandardKey.Save, self._save_by_key),
            (QKeySequence.StandardKey.Refresh, self.refresh),
        ):
            shortcut = QShortcut(QKeySequence(keys), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(work)

    def _show_in_front(self) -> None:
        """Bring what is about the file onto the tab in front, unless that is about what runs now."""
        front = self.views.currentWidget()
        if front not in (self.running, self.server):
            layout = front.layout()
            assert isinstance(layout, QBoxLayout)
            layout.insertWidget(0, self._of_file)

    def _turned(self) -> None:
        self._show_in_front()
        self._settle()

    def begin_with(self, changes: Mapping[str, Any], preset: str) -> None:
        """Offer the file to be edited with these values, and with this preset in place of its own."""
        self._wanted = changes, preset
        self.views.setCurrentIndex(0)

    def refresh(self) -> None:
        """Ask for the file again."""
        self.running.refresh()
        self.server.refresh()
        self._fetch.request()

    def _tell(self, error: ApiError) -> None:
        notify_problem(self._shell, error)
        if error.code is ErrorCode.NO_ANSWER:
            # A server that is merely busy would leave the page empty.
            self.refresh()

    def _failed(self, error: ApiError) -> None:
        self._not_read = error.words()
        self._show_state()
        self._tell(error)

    def _take_presets(self) -> None:
        self.presets.offer(self._shipped_presets.entries)
        if self._values is not None:
            self._flush()
            self._fill()

    def _take(self, values: ConfigValues) -> None:
        first, self._values = self._values is None, values
        self._flush()
        mine = self._draft.text
        if first or not self.unsaved:
            self._show_text(values)
            if self._wanted is not None and self._draft.layer is not None:
                changes, preset = self._wanted
                self._want({**self._draft.layer.values, **changes}, preset)
                self._wanted, self._offered = None, self._draft.text
        elif values.hash == self._draft.base_hash:
            self._show_differences()
        elif values.text == mine:
            self._show_text(values)
        else:
            self.conflict_bar.offer(self._draft.mergeable, "A text is not YAML: fix it first.")
        self._show_state()

    def _show_text(self, values: ConfigValues) -> None:
        """Show the file; the same again disturbs nothing."""
        same = values.hash == self._draft.base_hash and self._draft.text == values.text
        self._draft = Draft(values.text, values.hash)
        self.conflict_bar.hide()
        self._take_problems(read_problems(values.problems))
        if same and self.views.filled:
            self._show_differences()
            self._show_problems()
        else:
            self._fill()

    @property
    def unsaved(self) -> bool:
        """Whether something was typed that is not saved."""
        return self._draft.dirty or self.views.typing

    @property
    def text(self) -> str:
        """The text as it would be saved."""
        self._flush()
        return self._draft.text

    def _fill(self) -> None:
        """Write the draft into every view."""
        if self._values is None:
            return
        self.views.fill(self._draft, self._base())
        self._show_differences()
        self._show_problems()
        self._show_state()

    def _base(self) -> dict[str, Any]:
        """Return what would be without the user's own values."""
        return self._shipped() | self.presets.values(self._preset())

    def _shipped(self) -> dict[str, Any]:
        """Return what is shipped with the algorithm and the agent of the draft."""
        assert self._values is not None
        own = self._draft.layer.values if self._draft.layer else {}
        return shipped_values(self._values.defaults, self.presets.values(self._preset()), own)

    def _preset(self) -> str:
        return self._draft.layer.preset if self._draft.layer is not None else ""

    def _show_differences(self) -> None:
        layer, values = self._draft.layer, self._values
        self.presets.setEnabled(layer is not None and values is not None)
        if layer is None or values is None:
            return
        saved: Mapping[str, Any] = self._draft.saved.values if self._draft.saved is not None else {}
        self.presets.show_choice(layer.preset, layer.values)
        preset = self.presets.values(layer.preset)
        found = differences(self._shipped(), preset, layer.preset, layer.values, saved, values.running)
        self.views.show_differences(found)

    def _take_problems(self, told: list[Problem]) -> None:
        layer = self._draft.layer
        self._problems, self._told_of = told, dict(layer.values) if layer is not None else {}

    def _drop_mended(self) -> None:
        """Forget what was told of settings that were changed since: they are checked anew soon."""
        layer = self._draft.layer
        if layer is not None:
            now, then, told = layer.values, self._told_of, self._problems
            self._problems = [one for one in told if not one.key or now.get(one.key) == then.get(one.key)]

    def _show_problems(self) -> None:
        own = self.views.wrong()
        told = {problem.key for problem in self._problems if problem.key}
        problems = [*self._problems, *(problem for problem in own if problem.key not in told)]
        self.problem_bar.show_problems(problems)
        self.views.show_problems(self._problems)

    def _show_state(self) -> None:
        path = self._values.path if self._values is not None else ""
        mistakes = len(self.problem_bar.problems)
        self.head.show_state(path, self.unsaved, mistakes, why_not(self._feed.connection))
        self.views.text.setEnabled(self._values is not None)
        self.views.say_waiting(why_not(self._feed.connection) or self._not_read)

    def _connection_changed(self) -> None:
        self._not_read = ""
        if self._feed.connection.live:
            self.refresh()
            self._soon.start()
        self._show_state()

    def _typed(self) -> None:
        self._soon.start()
        self._show_problems()
        self._show_state()

    def _text_edited(self, text: str) -> None:
        self._draft.write(text)
        self._soon.start()
        self._show_state()

    def _flush(self) -> None:
        """Take what was typed in the form into the text."""
        if self.views.take_form(self._draft, self._preset()):
            self.views.show_text(self._draft.text)
            self._drop_mended()
            self._show_problems()

    def _settle(self) -> None:
        """Bring the views together and let the server check."""
        if self._values is None:
            return
        self._flush()
        self.views.fill_if_stale(self._draft, self._base())
        self._show_differences()
        self._fetch_check.request()
        self._show_problems()
        self._show_state()

    def _check(self) -> Call | None:
        self._checked_text = self._draft.text
        return self._feed.ask("config.check", {"text": self._checked_text})

    def _checked(self, found: ConfigProblems) -> None:
        if self._checked_text == self._draft.text:
            self._take_problems(read_problems(found.problems))
            self._show_problems()
            self._show_state()

    def _want(self, own: Mapping[str, Any], preset: str) -> None:
        self._draft.want(own, preset)
        self._fill()
        self._settle()

    def _choose_preset(self, name: str) -> None:
        self._flush()
        if self._draft.layer is not None:
            self._want(self._draft.layer.values, name)

    def _give_way(self, keys: list[str]) -> None:
        self._flush()
        layer = self._draft.layer
        if layer is not None:
            self._want({key: value for key, value in layer.values.items() if key not in keys}, layer.preset)

    def _ask_what_to_import(self) -> None:
        ask_for_file("Import a SoulsAI configuration", KINDS, self.import_file, self)

    def import_file(self, path: str) -> None:
        """Offer what a SoulsAI configuration on this computer sets, to be looked at and saved."""
        try:
            found = import_file(Path(path))
        except ConfigError as error:
            self._shell.notify("error", f"Nothing was imported: {error.problems[0]}")
            return
        self._flush()
        layer = self._draft.layer
        if layer is not None:
            self._want({**layer.values, **found.values}, layer.preset)
            self.views.setCurrentWidget(self.views.differences)
            ImportedDialog(found, self).open()

    def _save_by_key(self) -> None:
        front = self.views.currentWidget()
        if isinstance(front, RunningTab | ServerTab):
            front.apply.click()
            return
        self._flush()
        self._show_state()
        if self.head.save.isEnabled():
            self.head.save.click()
        elif self.problem_bar.problems:
            self.may_leave(lambda _: None)

    def _save(self) -> Call:
        self._flush()
        draft = self._draft
        return self._feed.call("config.save", {"text": draft.text, "base_hash": draft.base_hash})

    def _saved(self, saved: SavedConfig) -> None:
        self._flush()
        before = self._draft.saved
        self._draft.rebase(saved.text, saved.hash)
        keys = changed_keys(before, self._draft.saved)
        self._shell.notify("success", "The configuration is saved", effect_sentence(keys))
        self.conflict_bar.hide()
        self._fill()
        self._fetch.request()
        self._answer(True)

    def _not_saved(self, error: ApiError) -> None:
        if error.code is ErrorCode.NOT_NOW:
            # Changed by somebody else: what stands there now decides what is offered.
            self._fetch.request()
        else:
            notify_problem(self._shell, error)
            self._soon.start()
        self._answer(False)

    def _answer(self, saved: bool) -> None:
        then, self._after_saving = self._after_saving, None
        if then is not None:
            then(saved)

    def _merge(self) -> None:
        self._flush()
        if self._values is not None and self._draft.merge(self._values.text, self._values.hash):
            self.conflict_bar.hide()
            self._fill()
            self._settle()

    def _reload(self) -> None:
        if self._values is not None:
            self.views.forget()
            self._show_text(self._values)
            self._settle()

    def _overwrite(self) -> None:
        self._flush()
        if self._values is not None:
            self._draft.rebase(self._values.text, self._values.hash)
            self.head.save.send()

    def _ask_to_discard(self) -> None:
        cost = "What you typed since the last save is lost."
        ask(self, Question("Discard your changes?", cost, "Discard"), self.discard_changes)

    def discard_changes(self) -> None:
        """Go back to what is saved."""
        self.views.forget()
        self._draft.write(self._draft.base_text)
        if self._values is not None:
            # A page that is left is not checked again.
            self._take_problems(read_problems(self._values.problems))
        self._fill()
        self._settle()

    def may_leave(self, then: Callable[[bool], None]) -> None:
        """Tell whether one may leave; unsaved changes are asked about first."""
        self._ask_about_unsaved(LeaveWords.before_leaving(), then, forget=True)

    def before_run(self, then: Callable[[bool], None]) -> None:
        """Tell whether a run may be begun with what is saved; unsaved changes are asked about first."""
        self._ask_about_unsaved(LeaveWords.before_run(), then, forget=False)

    def _ask_about_unsaved(self, words: LeaveWords, then: Callable[[bool], None], forget: bool) -> None:
        self._flush()
        if not self.unsaved or self._draft.text == self._offered:
            then(True)
            return
        self._after_asking = then
        mistakes = self.problem_bar.problems
        if mistakes:
            words = words.with_mistake(sentence(mistakes[0]))
        ask_unsaved(self, words, self._leave if forget else self._go_on)

    def _leave(self, leave: Leave) -> None:
        if leave is Leave.DISCARD:
            self.discard_changes()
        self._go_on(leave)

    def _go_on(self, leave: Leave) -> None:
        then, self._after_asking = self._after_asking, None
        if then is None:
            return
        if leave is Leave.SAVE:
            self._after_saving = then
            self.head.save.send()
            return
        then(leave is Leave.DISCARD)
        if leave is Leave.MEND and self.problem_bar.problems:
            self.problem_bar.open("0")

    def showEvent(self, event: QShowEvent) -> None:
        """Bring the file up to date."""
        super().showEvent(event)
        self._shipped_presets.want()
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        """Keep the arrangement."""
        super().hideEvent(event)
        self._memory.keep(self.views, self.views.differences.table, self.running.table)


class ConfigPage(ConfigEditor):
    """The editor as a page."""

    margins = PAGE_MARGINS

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(feed, shell, parent)
        self.setObjectName("configPage")

    def show_where(self, setting: str = "", **_: Any) -> None:
        """Show a setting."""
        if setting:
            self.views.reveal(setting)

    @property
    def landing(self) -> QWidget:
        """What gets the keyboard when the page opens: the tab in front, which hands it on."""
        return self.views.currentWidget()


_GEOMETRY = "configDialog/geometry"
_WIDTH, _HEIGHT = 1000, 680


class ConfigDialog(FittingDialog):
    """The editor of the server's config.yaml; unsaved changes are asked about when it is closed."""

    section = "Config"

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__("configDialog", "Config", parent)
        self._settings = shell.settings()
        self.editor = ConfigEditor(feed, shell, self)
        self.arrange((self.editor, 1), foot=self.foot())
        self.resize(_WIDTH, _HEIGHT)
        state = self._settings.value(_GEOMETRY)
        if isinstance(state, QByteArray):
            self.restoreGeometry(state)

    def reject(self) -> None:
        """Close, after a question where something is unsaved."""
        self.editor.may_leave(self._leave)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter in a field must not press a button."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """The same when the window's own button is used."""
        event.ignore()
        self.reject()

    def _leave(self, go: bool) -> None:
        if go:
            self._settings.setValue(_GEOMETRY, self.saveGeometry())
            super().reject()
            # Qt deletes only what it closes itself, and `closeEvent` took that over.
            self.deleteLater()
