"""The three views of one draft: form, text, differences."""

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtWidgets import QTabWidget, QWidget

from soulsgui.config.errors import Problem
from soulsgui.gui.config.differences import Difference, DifferencesTab
from soulsgui.gui.config.draft import FILE_NAME, Draft, by_key, by_line, line_of
from soulsgui.gui.config.yaml_edit import YamlEdit
from soulsgui.gui.settings.form import SettingsForm
from soulsgui.gui.settings.spec import specs
from soulsgui.gui.widgets.boxes import TAB_MARGINS, column
from soulsgui.gui.widgets.labels import Label, muted, wrapped

_READING = "Reading the configuration …"


class Views(QTabWidget):
    """Form, text and differences in tabs.

    Signals:
        form_edited: Something was typed in the form; it is taken with `take_form`.
        text_edited: Something was typed in the text; with all of it.
    """

    form_edited = Signal()
    text_edited = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("configTabs")
        self.setDocumentMode(True)
        self.form: SettingsForm | None = None
        self.text = YamlEdit(self)
        self.text.setAccessibleName("Text of config.yaml")
        self.differences = DifferencesTab(self)
        self._form_text: str | None = None
        self._wanted = ""  # the setting to be shown once there is a form
        self._pending = False
        self._stale = False
        self._filling = False
        self._form_page = QWidget(self)
        unreadable = "The text is not YAML at the moment, so the form can't show it. Fix it in the tab YAML."
        self._unreadable = wrapped(unreadable, self._form_page, "bad")
        self._unreadable.hide()
        self._waiting = muted(wrapped(_READING, self._form_page))
        self._waiting.setAlignment(Qt.AlignmentFlag.AlignCenter)
        parts = self._unreadable, (self._waiting, 1)
        self._form_column = column(*parts, on=self._form_page, margins=TAB_MARGINS)
        self.addTab(self._form_page, "&Form")
        self.addTab(self._text_page(), "&YAML")
        self.addTab(self.differences, "&Differences")
        self.text.textChanged.connect(self._text_changed)
        self.differences.opened.connect(self.reveal)

    def hasHeightForWidth(self) -> bool:
        """Take less than its tabs would like: what is long in them is scrolled there."""
        return False

    def _text_page(self) -> QWidget:
        page = QWidget(self)
        page.setFocusProxy(self.text)
        about = muted(Label("Only what differs from the defaults needs to be here.", page))
        column(about, (self.text, 1), on=page, margins=TAB_MARGINS)
        return page

    def say_waiting(self, why: str) -> None:
        """Say why there is no form yet: a reason, or that the file is being read."""
        self._waiting.setText(why or _READING)

    @property
    def filled(self) -> bool:
        """Whether there is something in the form."""
        return self._form_text is not None

    @property
    def typing(self) -> bool:
        """Whether something was typed in the form that is not in the text yet."""
        return self._pending

    def fill(self, draft: Draft, base: Mapping[str, Any]) -> None:
        """Write a draft into form and text."""
        self.show_text(draft.text)
        self._fill_form(draft, base)

    def fill_if_stale(self, draft: Draft, base: Mapping[str, Any]) -> None:
        """Bring the form up to date if it is in front: what was changed beside it, and what lies below."""
        if self.currentWidget() is not self._form_page:
            return
        if draft.text != self._form_text:
            self._fill_form(draft, base)
        elif self.form is not None:
            self.form.rebase(base)

    def show_text(self, text: str) -> None:
        """Show a text without telling of it."""
        self._filling = True
        self.text.take_text(text)
        self._filling = False

    def _fill_form(self, draft: Draft, base: Mapping[str, Any]) -> None:
        self._form_text, self._pending, self._stale = draft.text, False, False
        self._unreadable.setVisible(draft.layer is None)
        if self.form is None:
            self.form = SettingsForm(self._form_page)
            self.form.edited.connect(self._form_changed)
            self._waiting.hide()
            self._form_column.addWidget(self.form, 1)
            self.form.show()
            self._form_page.setFocusProxy(self.form)
        self.form.setEnabled(draft.layer is not None)
        self._filling = True
        self.form.load(base, draft.saved.values if draft.saved is not None else {})
        if draft.layer is not None:
            self.form.show_draft(draft.layer.values)
        self._filling = False
        if self._wanted:
            # Later: until it is enabled it takes no keyboard.
            QTimer.singleShot(0, self, lambda key=self._wanted: self.reveal(key))

    def take_form(self, draft: Draft, preset: str) -> bool:
        """Take what was typed in the form into a draft; False when there was nothing."""
        if not self._pending or self.form is None:
            return False
        self._pending = False
        draft.want(self.form.edits.own, preset)
        self._form_text = draft.text
        return True

    def forget(self) -> None:
        """What was typed in the form is of no interest any more."""
        self._pending = False

    def show_differences(self, found: Sequence[Difference]) -> None:
        """Fill the table of differences, and tell in its tab how many there are."""
        self.differences.show_differences(found)
        words = "&Differences"
        self.setTabText(self.indexOf(self.differences), f"{words} ({len(found)})" if found else words)

    def wrong(self) -> list[Problem]:
        """Return what the form itself knows to be wrong; nothing while the text is ahead of it."""
        if self.form is None or self._stale:
            return []
        edits = self.form.edits
        return [
            Problem(FILE_NAME, None, key, edits.value(key), words) for key, words in edits.problems.items()
        ]

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Show what the server found wrong, at the setting and at the line."""
        if self.form is not None:
            self.form.show_problems(by_key(problems))
        self.text.show_problems(by_line(problems))

    def open_problem(self, problem: Problem) -> None:
        """Go to the place of a mistake: its line, or its setting."""
        line = line_of(problem)
        if problem.key in specs() and (line is None or self.currentWidget() is self._form_page):
            self.reveal(problem.key)
        elif line is not None:
            self.setCurrentIndex(1)
            self.text.go_to(line)

    def reveal(self, key: str) -> None:
        """Show a setting in the form."""
        self.setCurrentWidget(self._form_page)
        self._wanted = key if self.form is None else ""
        if self.form is not None and key in specs():
            self.form.reveal(key)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font's size."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange) and hasattr(self, "text"):
            # Later: a new style sheet first gives the text the font back that it had before.
            QTimer.singleShot(0, self.text, self.text.take_font)

    def _form_changed(self) -> None:
        if not self._filling:
            self._pending = True
            self.form_edited.emit()

    def _text_changed(self) -> None:
        if not self._filling:
            self._stale = True
            self.text_edited.emit(self.text.toPlainText())
