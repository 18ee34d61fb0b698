"""The form of all settings: search, modified only, per-field reset, checked while one types."""

import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QKeySequence, QPaintEvent, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QScrollArea,
    QWidget,
)

from soulsgui.gui.icons import dress
from soulsgui.gui.settings.row import SettingRow
from soulsgui.gui.settings.spec import FieldSpec, section_titles, specs, title_of
from soulsgui.gui.theme import GAP_L, GAP_M, GAP_S, GAP_XS
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, row
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.gui.widgets.labels import Heading, Label, WrappedLabel, muted


class Edits:
    """Values on screen over the saved ones over the shipped ones."""

    def __init__(self, base: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
        self.rebase(base)
        self._saved = {key: specs()[key].check(value)[0] for key, value in saved.items() if key in specs()}
        self._typed: dict[str, Any] = {}
        self._reset: set[str] = set()
        self._wrong: dict[str, str] = {}

    def rebase(self, base: Mapping[str, Any]) -> None:
        """Take other values without the user's own: those shipped with another algorithm, say."""
        self._base = {key: spec.check(base.get(key, spec.info.default))[0] for key, spec in specs().items()}

    def value(self, key: str) -> Any:
        """Return the value on screen."""
        if key in self._typed:
            return self._typed[key]
        return self._saved[key] if self._keeps(key) else self._base[key]

    def base(self, key: str) -> Any:
        """Return the value it would have without the user's own."""
        return self._base[key]

    def _keeps(self, key: str) -> bool:
        return key in self._saved and key not in self._reset

    def type(self, key: str, value: Any, problem: str = "") -> None:
        """Take what the user typed."""
        self._wrong.pop(key, None)
        self._typed.pop(key, None)
        self._reset.discard(key)
        if problem:
            self._wrong[key] = problem
            self._typed[key] = value
        elif value == self._base[key] and key in self._saved and value != self._saved[key]:
            # Typed back to what it would be anyway: no entry of one's own is needed.
            self._reset.add(key)
        elif value != self.value(key):
            self._typed[key] = value

    def take(self, own: Mapping[str, Any]) -> None:
        """Take the user's own values as they shall be, all at once: those of a text edited by hand."""
        self._typed, self._wrong = {}, {}
        self._reset = {key for key in self._saved if key not in own}
        for key, written in own.items():
            if key in specs():
                value, problem = specs()[key].check(written)
                if problem or key not in self._saved or value != self._saved[key]:
                    self._typed[key] = value
                if problem:
                    self._wrong[key] = problem

    def reset(self, key: str) -> None:
        """Give the setting back its shipped value."""
        self._wrong.pop(key, None)
        self._typed.pop(key, None)
        if key in self._saved:
            self._reset.add(key)

    def modified(self, key: str) -> bool:
        """Whether the user has a value of their own, saved or not."""
        return key in self._typed or self._keeps(key)

    def unsaved(self, key: str) -> bool:
        """Whether it was changed since it was saved."""
        return key in self._typed or key in self._reset

    @property
    def problems(self) -> Mapping[str, str]:
        """What is wrong, by dotted key."""
        return self._wrong

    @property
    def own(self) -> dict[str, Any]:
        """Every value of the user's own, saved or not, wrong or not."""
        return {key: self.value(key) for key in specs() if self.modified(key)}


_ALGORITHM = "algorithm"
_LINE_CHARACTERS = 75
_LEAST_LINES = 9
_ABOVE_PX = 60
_MOMENT_S = 0.02


class _Place(QWidget):
    """Where the row of a setting will stand, about as high as that.

    Signals:
        seen: It came into view.
        reached: The keyboard came to it.
    """

    seen = Signal()
    reached = Signal()

    def __init__(self, spec: FieldSpec, parent: QWidget) -> None:
        super().__init__(parent)
        self._lines = 3 + len(spec.info.description) // _LINE_CHARACTERS
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(spec.title)
        self._take_font()

    def _take_font(self) -> None:
        self.setFixedHeight(self._lines * self.fontMetrics().lineSpacing() + 2 * GAP_S)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font's size."""
        if event.type() == QEvent.Type.FontChange:
            self._take_font()
        super().changeEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Tell that it is seen; there is nothing to paint."""
        self.seen.emit()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Tell that the keyboard is here."""
        self.reached.emit()


class SettingsForm(QWidget):
    """Every setting, or those of these keys, in its section, to be changed or only read.

    It knows what was changed, and saves nothing itself.

    A row is made when it comes into view: all of them at once would stop the window for a second, and as
    long again with each change of the theme.

    Signals:
        edited: Something was changed, reset or loaded.
    """

    edited = Signal()

    def __init__(
        self, parent: QWidget | None = None, keys: Collection[str] | None = None, read_only: bool = False
    ) -> None:
        super().__init__(parent)
        self.setObjectName("settingsForm")
        self._keys = specs().keys() if keys is None else keys
        self._unfolded: set[str] = set()  # sections of algorithms not chosen that are shown all the same
        self._unfold: dict[str, QPushButton] = {}
        self.edits = Edits({}, {})
        self._server_problems: dict[str, str] = {}
        self._places: dict[str, _Place | SettingRow] = {}
        self._rows: dict[str, SettingRow] = {}
        self._due: dict[str, None] = {}  # rows that are seen and not made yet, in the order they came in view
        self._making = QTimer(self, singleShot=True, interval=0)
        self._making.timeout.connect(self._make_some)
        self._revealed: SettingRow | None = None
        self._read_only = read_only
        self._sections: dict[str, QFrame] = {}
        self._build()
        self._show_all()

    def _build(self) -> None:
        self._words = FilterEdit("Search names, keys and explanations", self)
        self._words.textChanged.connect(self._narrow)
        self.setFocusProxy(self._words)
        self._modified_only = QCheckBox("&Modified only", self)
        self._modified_only.toggled.connect(self._narrow)
        self._index = QListWidget(self)
        self._index.setProperty("part", "navigation")
        self._index.setAccessibleName("Sections")
        self._index.itemClicked.connect(self._jump)
        self._index.itemActivated.connect(self._jump)
        self._area = QScrollArea(self)
        self._area.setWidgetResizable(True)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._settings = self._page()
        self._area.setWidget(self._settings)
        self._nothing = muted(Label("No setting matches. Clear the search to see all.", self))
        self._nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._nothing.hide()
        head = row((self._words, 1), self._modified_only)
        body = row(self._index, (self._area, 1), gap_px=GAP_S)
        column(head, self._nothing, (body, 1), on=self, margins=NO_MARGINS)
        find = QShortcut(QKeySequence.StandardKey.Find, self)
        find.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        find.activated.connect(self._words.setFocus)

    def _page(self) -> QWidget:
        page = QWidget()
        sections = []
        shown = {specs()[key].section for key in self._keys}
        for name, description in section_titles().items():
            if name not in shown:
                continue
            sections.append(self._section(name, description, page))
            item = QListWidgetItem(title_of(name) if name else "General", self._index)
            item.setData(Qt.ItemDataRole.UserRole, name)
        column(*sections, None, on=page, margins=(GAP_XS, 0, GAP_M, 0), gap_px=GAP_M)
        return page

    def _section(self, name: str, description: str, parent: QWidget) -> QFrame:
        frame = QFrame(parent)
        frame.setProperty("part", "card")
        heading = Heading(title_of(name) if name else "General", 1, frame)
        parts: list[QWidget] = [heading, muted(WrappedLabel(description, frame))]
        if name in specs()[_ALGORITHM].choices:
            self._unfold[name] = button = QPushButton(f"Show the settings of {title_of(name)}", frame)
            button.setProperty("role", "flat")
            dress(button, "arrow-down")
            button.clicked.connect(partial(self._unfold_section, name))
            parts.append(button)
        for key, spec in specs().items():
            if spec.section == name and key in self._keys:
                self._places[key] = place = _Place(spec, frame)
                place.seen.connect(partial(self._make_soon, key))
                place.reached.connect(partial(self._reach, key))
                parts.append(place)
        column(*parts, on=frame, margins=(GAP_L, GAP_M, GAP_L, GAP_M), gap_px=0)
        self._sections[name] = frame
        return frame

    def _make_soon(self, key: str) -> None:
        self._due[key] = None
        self._making.start()

    def _make_some(self) -> None:
        """Make rows that are seen, for a moment at most: what the user does comes in between."""
        end = time.monotonic() + _MOMENT_S
        while self._due and time.monotonic() < end:
            key = next(iter(self._due))
            del self._due[key]
            self.row(key)
        if self._due:
            self._making.start()
        elif self._revealed is not None:
            # Rows above it may be higher than their places were.
            show = partial(self._area.ensureWidgetVisible, self._revealed, 0, _ABOVE_PX)
            QTimer.singleShot(0, self._revealed, show)
            self._revealed = None

    def _make(self, key: str) -> SettingRow:
        place, frame = self._places[key], self._sections[specs()[key].section]
        made = SettingRow(specs()[key], frame, self._read_only)
        made.typed.connect(self._typed)
        made.reset_asked.connect(self._reset)
        around = frame.layout()
        assert around is not None
        around.replaceWidget(place, made)
        made.setGeometry(place.geometry())  # until it is laid out: who has the keyboard is scrolled to
        made.setVisible(not place.isHidden())
        QWidget.setTabOrder(place, made.editor.field)
        QWidget.setTabOrder(made.editor.field, made.reset)
        if place.hasFocus():
            made.editor.field.setFocus(Qt.FocusReason.TabFocusReason)
        place.hide()
        place.deleteLater()
        self._places[key] = self._rows[key] = made
        self._show_value(key)
        return made

    def _reach(self, key: str) -> None:
        self._revealed = self.row(key)
        self._making.start()

    def load(self, base: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
        """Show values; what was changed and not saved is forgotten."""
        self.edits = Edits(base, saved)
        self._server_problems = {}
        self._show_all()
        self.edited.emit()

    def rebase(self, base: Mapping[str, Any]) -> None:
        """Show other values without the user's own, whose own ones stay."""
        before = {key: self.edits.base(key) for key in self._rows}
        self.edits.rebase(base)
        for key in [key for key in before if before[key] != self.edits.base(key)]:
            if self.edits.modified(key):
                self._show_row(key)
            else:
                self._show_value(key)

    def show_draft(self, own: Mapping[str, Any]) -> None:
        """Show the user's own values as they shall be, changed elsewhere and not saved yet."""
        self.edits.take(own)
        self._server_problems = {}
        self._show_all()
        self.edited.emit()

    def show_problems(self, problems: Mapping[str, str]) -> None:
        """Show what the server found wrong, by dotted key: rules between settings, for example."""
        before = self._server_problems.keys()
        self._server_problems = {key: problem for key, problem in problems.items() if key in self._places}
        for key in {*before, *self._server_problems}:
            self._show_row(key)
        self._narrow()

    def row(self, key: str) -> SettingRow:
        """Return the row of a setting, which is made if nobody has seen it yet."""
        return self._rows[key] if key in self._rows else self._make(key)

    def reveal(self, key: str) -> None:
        """Scroll to a setting and put the keyboard there."""
        self._words.clear()
        self._modified_only.setChecked(False)
        self._unfold_section(specs()[key].section)
        self._reach(key)
        self._rows[key].editor.field.setFocus()

    def _typed(self, key: str, value: object, problem: str) -> None:
        self.edits.type(key, value, problem)
        self._server_problems.pop(key, None)
        self._show_row(key)
        if key == _ALGORITHM:
            self._narrow()
        self.edited.emit()

    def _reset(self, key: str) -> None:
        self.edits.reset(key)
        self._server_problems.pop(key, None)
        self._show_value(key)
        self._rows[key].editor.field.setFocus()
        self.edited.emit()

    def _show_all(self) -> None:
        for key in self._rows:
            self._show_value(key)
        self._narrow()

    def _show_value(self, key: str) -> None:
        self._rows[key].editor.show_value(self.edits.value(key))
        self._show_row(key)

    def _show_row(self, key: str) -> None:
        if key not in self._rows:
            return  # it takes its state when it is made
        edits = self.edits
        problem = edits.problems.get(key) or self._server_problems.get(key, "")
        self._rows[key].show_state(edits.modified(key), edits.unsaved(key), edits.base(key), problem)

    def _unfold_section(self, name: str) -> None:
        self._unfolded.add(name)
        self._narrow()

    def _folded(self) -> set[str]:
        """Return the sections of algorithms that are not chosen, unless one asked for them."""
        if _ALGORITHM not in self._keys or self._words.text():
            return set()
        return self._unfold.keys() - self._unfolded - {str(self.edits.value(_ALGORITHM))}

    def _narrow(self) -> None:
        words, only = self._words.text(), self._modified_only.isChecked()
        folded = self._folded()
        matching = {
            key
            for key in self._places
            if specs()[key].matches(words) and (not only or self.edits.modified(key))
        }
        wrong = {*self.edits.problems, *self._server_problems}
        shown = {
            key
            for key in matching
            if specs()[key].section not in folded or self.edits.modified(key) or key in wrong
        }
        for name, button in self._unfold.items():
            button.setVisible(name in folded)
        for key, each in self._places.items():
            if each.isHidden() is (key in shown):
                each.setVisible(key in shown)
        sections = {specs()[key].section for key in matching}
        for number in range(self._index.count()):
            item = self._index.item(number)
            name = item.data(Qt.ItemDataRole.UserRole)
            self._sections[name].setVisible(name in sections)
            item.setHidden(name not in sections)
        self._nothing.setVisible(not shown)

    def _jump(self, item: QListWidgetItem) -> None:
        frame = self._sections[item.data(Qt.ItemDataRole.UserRole)]
        self._unfold_section(item.data(Qt.ItemDataRole.UserRole))
        self._area.verticalScrollBar().setValue(frame.y())

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font's size."""
        if event.type() == QEvent.Type.FontChange:
            # The list inside has its new font only after this.
            QTimer.singleShot(0, self, self._fit)
        super().changeEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the list of sections in, or leave it out."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Size the list of sections by its letters, and leave it out where the settings need its room."""
        metrics = self.fontMetrics()
        bar = self._index.verticalScrollBar().sizeHint().width()
        self._index.setFixedWidth(self._index.sizeHintForColumn(0) + bar + 30)
        self._area.setMinimumHeight(_LEAST_LINES * metrics.height())
        least = max(self._settings.minimumSizeHint().width(), _LINE_CHARACTERS * metrics.averageCharWidth())
        self._index.setVisible(self.width() >= least + bar + self._index.maximumWidth() + GAP_S)
        around = self.layout()
        assert around is not None
        # Now: until Qt does it by itself the settings would stand beside the room of a hidden list.
        around.activate()
