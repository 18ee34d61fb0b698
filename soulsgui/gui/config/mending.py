"""The dialog that mends a config.yaml because of which no server can start."""

import time
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QKeySequence, QShortcut
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from soulsgui.config.editing import read_text, save_text, text_hash, with_values
from soulsgui.config.errors import ConfigError, Problem
from soulsgui.config.layers import file_problems, text_problems
from soulsgui.errors import SoulsGuiError
from soulsgui.gui.config.bars import ProblemBar
from soulsgui.gui.config.draft import by_line, line_of, sentence
from soulsgui.gui.config.yaml_edit import YamlEdit
from soulsgui.gui.icons import dress, make_primary
from soulsgui.gui.models.rules import Question
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.widgets.ask import Leave, LeaveWords, ask, ask_unsaved
from soulsgui.gui.widgets.boxes import flow, row
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.labels import ElidedLabel, muted, wrapped
from soulsgui.system import explained, replace


class Mending:
    """A file of settings with mistakes, and what is being done about them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = ""
        self.readable = False
        self.problems: list[Problem] = []
        self._saved = ""
        self.read()

    @property
    def changed(self) -> bool:
        """Whether something is not saved."""
        return self.text != self._saved

    def read(self) -> None:
        """Take the file as it is now; what was changed here is given up."""
        try:
            self.text, self.readable = read_text(self.path), True
        except ConfigError:
            self.text, self.readable = "", False
        self._saved = self.text
        self.problems = file_problems(self.path)

    def write(self, text: str) -> None:
        """Take another text."""
        self.text = text
        self.problems = text_problems(text, self.path.name)

    def take_out(self, key: str) -> None:
        """Take a setting out, so that the shipped value holds."""
        self.write(with_values(self.text, {}, (key,)))

    def save(self) -> None:
        """Write the file."""
        if self.problems:
            raise ConfigError(self.problems)
        base, self._saved = self._saved, read_text(self.path)
        save_text(self.path, self.text, text_hash(base))
        self._saved = self.text

    def set_aside(self, now: float) -> Path:
        """Give the file another name, so that the shipped values hold; return that."""
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(now))
        aside = self.path.with_name(f"{self.path.name}.{stamp}")
        replace(self.path, aside)
        self.read()
        return aside


_WIDTH, _HEIGHT = 820, 560
_DEBOUNCE_MS = 250


class MendConfigDialog(FittingDialog):
    """Shows every mistake with its line; lets one edit the text, take a setting out, or set the file aside.

    Signals:
        mended: The file has no mistake any more, and is written.
    """

    section = "Config"

    mended = Signal()

    def __init__(self, path: Path, parent: QWidget | None = None) -> None:
        super().__init__("mendConfigDialog", "Fix the configuration", parent)
        self.mending = Mending(path)
        self._filling = False
        self._soon = QTimer(self, singleShot=True, interval=_DEBOUNCE_MS)
        self._soon.timeout.connect(self._check)
        self._build()
        self._watcher = QFileSystemWatcher([str(path), str(path.parent)], self)
        self._watcher.fileChanged.connect(self._changed_outside)
        self._watcher.directoryChanged.connect(self._changed_outside)
        self._show()
        first = next((line for one in self.mending.problems if (line := line_of(one))), None)
        if first is not None:
            self.text.go_to(first)

    def _build(self) -> None:
        words = "The server can't start with this file as it is. Your runs are not affected."
        place = muted(ElidedLabel(str(self.mending.path), self))
        self.problem_bar = ProblemBar(self)
        self.problem_bar.opened.connect(self._open_problem)
        self.text = YamlEdit(self)
        self.text.setAccessibleName("Text of config.yaml")
        self.text.textChanged.connect(self._typed)
        self.arrange(wrapped(words, self), place, self.problem_bar, (self.text, 1), foot=self._foot())
        save = QShortcut(QKeySequence(QKeySequence.StandardKey.Save), self)
        save.activated.connect(self.try_again)
        self.resize(_WIDTH, _HEIGHT)

    def _foot(self) -> QHBoxLayout:
        self.take_out = FittingButton("Take the setting out", "reset", self)
        self.take_out.clicked.connect(self._take_out)
        self.open_file = FittingButton("Open the file", "folder", self)
        self.open_file.clicked.connect(self._open_file)
        self.aside = FittingButton("Set the file aside", "trash", self)
        self.aside.explain("Renames it; the server starts with the default settings")
        self.aside.clicked.connect(self._ask_to_set_aside)
        self.again = QPushButton(self)
        make_primary(self.again)
        dress(self.again, "check")
        self.again.clicked.connect(self.try_again)
        close = QPushButton("Close", self)
        close.clicked.connect(self.reject)
        ways = flow(self.take_out, self.open_file, self.aside, gap_px=GAP_S)
        below = Qt.AlignmentFlag.AlignBottom
        return row((ways, 1), (self.again, below), (close, below), gap_px=GAP_S)

    def _show(self) -> None:
        self._filling = True
        self.text.take_text(self.mending.text)
        self._filling = False
        self.text.setEnabled(self.mending.readable)
        self._show_problems()

    def _show_problems(self) -> None:
        problems = self.mending.problems
        self.problem_bar.show_problems(problems)
        self.text.show_problems(by_line(problems))
        key = self._key()
        nothing = "" if key else "No mistake names a setting."
        self.take_out.allow(nothing, f"{key}: its default then applies")
        changed = self.mending.changed
        self.again.setText("Save and try again" if changed else "Try again")

    def _key(self) -> str:
        """Return the setting to take out: that of the mistake in the cursor's line, else of the first."""
        line = self.text.textCursor().blockNumber() + 1
        named = [one for one in self.mending.problems if one.key and self.mending.readable]
        here = [one for one in named if line_of(one) == line]
        return next((one.key for one in (*here, *named)), "")

    def _typed(self) -> None:
        if not self._filling:
            self._soon.start()

    def _check(self) -> None:
        self._soon.stop()
        if self.mending.readable and self.text.toPlainText() != self.mending.text:
            self.mending.write(self.text.toPlainText())
        self._show_problems()

    def _open_problem(self, problem: Problem) -> None:
        line = line_of(problem)
        if line is not None:
            self.text.go_to(line)

    def _take_out(self) -> None:
        self._check()
        key = self._key()
        try:
            self.mending.take_out(key)
        except SoulsGuiError as error:
            self.wrong.setText(str(error))
        self._show()

    def _open_file(self) -> None:
        if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(self.mending.path))):
            self.wrong.setText(f"No program opens it here. It lies in: {self.mending.path}")

    def _changed_outside(self) -> None:
        path = str(self.mending.path)
        if path not in self._watcher.files() and self.mending.path.exists():
            # Many programs write a new file in place of the old one.
            self._watcher.addPath(path)
        self._check()
        if not self.mending.changed:
            self.mending.read()
            self._show()

    def _ask_to_set_aside(self) -> None:
        self._check()
        if not self.mending.changed:
            self._set_aside()
            return
        question = Question(
            "Set the file aside?",
            "It keeps the text it was saved with: what you typed since is lost.",
            "Set it aside",
        )
        ask(self, question, self._set_aside)

    def _set_aside(self) -> None:
        try:
            self.mending.set_aside(time.time())
        except OSError as error:
            self.wrong.setText("\n".join(explained(error)).strip())
            return
        self._done()

    def try_again(self) -> None:
        """Save what was changed, and let the server start if nothing is wrong any more."""
        self._check()
        if not self.mending.changed:
            self.mending.read()
            self._show()
        if self.mending.problems:
            self.wrong.setText("There are still mistakes: each line above leads to one.")
            return
        try:
            if self.mending.changed:
                self.mending.save()
        except SoulsGuiError as error:
            self.wrong.setText(str(error))
        except OSError as error:
            self.wrong.setText("\n".join(explained(error)).strip())
        else:
            self._done()

    def reject(self) -> None:
        """Close, after a question where something is unsaved."""
        self._check()
        if not self.mending.changed:
            super().reject()
            return
        words = LeaveWords.before_leaving()
        if self.mending.problems:
            words = words.with_mistake(sentence(self.mending.problems[0]))
        ask_unsaved(self, words, self._leave)

    def _leave(self, leave: Leave) -> None:
        if leave is Leave.SAVE:
            self.try_again()
        elif leave is Leave.DISCARD:
            super().reject()

    def _done(self) -> None:
        self.accept()
        self.mended.emit()
