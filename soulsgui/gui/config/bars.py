"""The lines over the editor: how the text stands, its preset, its mistakes, a file changed meanwhile."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from soulsgui.config.errors import Problem
from soulsgui.gui.colours import Tone
from soulsgui.gui.config.differences import differing_keys
from soulsgui.gui.config.draft import sentence
from soulsgui.gui.feed import MakeCall
from soulsgui.gui.icons import colours_of, dress
from soulsgui.gui.settings.spec import specs
from soulsgui.gui.text import plural
from soulsgui.gui.theme import GAP_M, GAP_S, GAP_XS
from soulsgui.gui.widgets.boxes import NO_MARGINS, Part, column, row
from soulsgui.gui.widgets.command_button import CommandButton, Words, allow
from soulsgui.gui.widgets.labels import (
    ElidedLabel,
    Heading,
    IconLabel,
    Label,
    caption,
    muted,
    set_property,
    set_tip,
    wrapped,
)
from soulsgui.gui.widgets.presets import PresetBox
from soulsgui.wire.control import Preset


class EditorHead(QWidget):
    """Says which configuration it is and whether it is saved."""

    def __init__(self, save: MakeCall, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._path = muted(ElidedLabel("", self))
        self.state = Label("", self)
        self.state.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.discard = QPushButton("Discard changes", self)
        dress(self.discard, "reset")
        self.save = CommandButton(Words("Save", "Saving …", "Saved"), "check", save, self)
        parts = Heading("Next run", 2, self), (self._path, 1), self.state, self.discard, self.save
        row(*parts, on=self, margins=NO_MARGINS, gap_px=GAP_S)

    def show_state(self, path: str, unsaved: bool, mistakes: int, away: str) -> None:
        """Say how things stand, and allow what makes sense."""
        tone, words = "muted", "Saved" if path else ""
        if mistakes:
            tone, words = "bad", plural(mistakes, "{n} mistake", "{n} mistakes")
        elif unsaved:
            tone, words = "warning", "Not saved yet"
        self.state.setText(words)
        set_property(self.state, "tone", tone)
        self._path.setText(f"What the next run will use: {path}" if path else "")
        reason = away or ("Fix the mistakes first." if mistakes else "")
        reason = reason or ("" if unsaved else "There is nothing to save.")
        self.save.allow(reason, "Save (Ctrl+S)")
        allow(self.discard, "" if unsaved else "There is nothing to discard.", "Back to what is saved")


class PresetRow(QWidget):
    """Chooses a preset; never touches the user's own settings unless told to.

    Signals:
        chosen: Another preset is wanted; with its name, empty for none.
        give_way: These settings of the user's own shall make way for the preset; with their keys.
    """

    chosen = Signal(str)
    give_way = Signal(list)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._presets: dict[str, Preset] = {}
        self.winning: list[str] = []  # the settings of the user's own that win over the preset
        self.box = PresetBox("None (defaults)", self)
        self.box.setAccessibleName("Preset")
        self.box.activated.connect(lambda _: self.chosen.emit(self.box.currentData() or ""))
        self.about = muted(ElidedLabel("", self))
        self.soulsai = QPushButton("&Import…", self)
        dress(self.soulsai, "load")
        set_tip(self.soulsai, "Take the settings of a SoulsAI configuration over, to look at and save")
        self.words = ElidedLabel("", self)
        self.give = QPushButton("Use the preset's values", self)
        dress(self.give, "reset")
        self.give.clicked.connect(lambda: self.give_way.emit(list(self.winning)))
        self._foot = QWidget(self)
        self._foot.hide()
        row((self.words, 1), self.give, on=self._foot, margins=NO_MARGINS)
        head = row(caption("&Preset", self.box, self), self.box, (self.about, 1), self.soulsai)
        column(head, self._foot, on=self, margins=NO_MARGINS, gap_px=GAP_XS)

    def offer(self, presets: Sequence[Preset]) -> None:
        """Offer these presets."""
        self._presets = {preset.name: preset for preset in presets}
        self.box.offer(presets)

    def values(self, name: str) -> dict[str, Any]:
        """Return what a preset sets, by dotted key; nothing for one that is not known."""
        return dict(self._presets[name].values) if name in self._presets else {}

    def show_choice(self, name: str, mine: Mapping[str, Any]) -> None:
        """Show which preset is chosen and which settings of the user's own win over it."""
        place = self.box.findData(name)
        self.box.setCurrentIndex(place)
        if place < 0:
            self.box.setPlaceholderText(name)
        preset = self._presets.get(name)
        nothing = "Your own settings replace the defaults."
        unknown = "There is no such preset."
        self.about.setText(preset.about if preset else unknown if name else nothing)
        self.winning = differing_keys(preset.values, mine) if preset else []
        self._foot.setVisible(bool(self.winning))
        theirs, known = self.values(name), specs()
        shown = [
            f"{key} = {known[key].shown(mine[key])} (preset: {known[key].shown(theirs[key])})"
            for key in self.winning
        ]
        self.words.setText(f"Your own settings win over it: {', '.join(shown)}")


_SHOWN = 4


def _fill_bar(bar: QFrame, icon: str, tone: Tone, place: Qt.AlignmentFlag, *parts: Part) -> None:
    bar.setProperty("part", "bar")
    set_property(bar, "tone", tone)
    mark = IconLabel(0, bar)
    mark.show_icon(icon, tone)
    row((mark, place), *parts, on=bar, margins=(GAP_M, GAP_XS, GAP_S, GAP_XS))
    bar.hide()


class ProblemBar(QFrame):
    """The mistakes, each a link to its place.

    Signals:
        opened: A mistake was clicked; with the `Problem`.
    """

    opened = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("problemBar")
        self.problems: list[Problem] = []
        self._words = Label(parent=self)
        self._words.setTextFormat(Qt.TextFormat.RichText)
        self._words.setWordWrap(True)
        self._words.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
        self._words.linkActivated.connect(self.open)
        _fill_bar(self, "state-bad", Tone.BAD, Qt.AlignmentFlag.AlignTop, (self._words, 1))

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Show these mistakes, or nothing."""
        self.problems = list(problems)
        self._write()
        self.setVisible(bool(self.problems))

    def _write(self) -> None:
        colour = colours_of(self).tones[Tone.BAD]
        links = [
            f'<a href="{number}" style="color: {colour}">{html.escape(sentence(problem))}</a>'
            for number, problem in enumerate(self.problems[:_SHOWN])
        ]
        if len(self.problems) > _SHOWN:
            links.append(f"… and {len(self.problems) - _SHOWN} more.")
        self._words.setText("<br>".join(links))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the colours."""
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "_words"):
            self._write()
        super().changeEvent(event)

    def open(self, link: str) -> None:
        """Follow a link: the number of a mistake."""
        self.opened.emit(self.problems[int(link)])


class ConflictBar(QFrame):
    """Somebody else changed the file while it was edited here: what becomes of both, in three buttons."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("conflictBar")
        words = wrapped("config.yaml was changed meanwhile, by hand or from another window.", self)
        self.merge_button = self._button("Keep my edits", "Puts the values you changed into the new text")
        self.reload_button = self._button("Reload", "Shows the new text; your edits are lost")
        self.overwrite_button = self._button("Overwrite", "Saves your text; the other changes are lost")
        parts = (words, 1), self.merge_button, self.reload_button, self.overwrite_button
        _fill_bar(self, "state-warning", Tone.WARNING, Qt.AlignmentFlag.AlignVCenter, *parts)

    def _button(self, words: str, tip: str) -> QPushButton:
        button = QPushButton(words, self)
        set_tip(button, tip)
        return button

    def offer(self, mergeable: bool, why: str) -> None:
        """Show it."""
        self.merge_button.setEnabled(mergeable)
        if not mergeable:
            set_tip(self.merge_button, why)
        self.show()
