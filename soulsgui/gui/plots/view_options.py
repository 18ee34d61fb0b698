"""Above the plots: how they are drawn, what is marked and measured, what is saved of them."""

from collections.abc import Iterable
from functools import partial

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QCheckBox, QMenu, QWidget

from soulsgui.gui import text
from soulsgui.gui.plots.layout import PlotLayout
from soulsgui.gui.plotting.controls import CurveControls
from soulsgui.gui.plotting.marks import MARK_KINDS
from soulsgui.gui.plotting.rows import UNITS, Axis
from soulsgui.gui.plotting.scale import ScaleKind
from soulsgui.gui.widgets.command_button import give_menu
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.inputs import ChoiceBox

_SCALES = {"Linear": ScaleKind.LINEAR, "Log": ScaleKind.LOG, "Symlog": ScaleKind.SYMLOG}
_COUNTS = (100, 1_000, 10_000, 100_000, 1_000_000)
_SPANS_S = (600, 3_600, 21_600, 86_400)
_EXPORTS = {
    "csv": "Values in view as &CSV…",
    "png": "Picture as &PNG…",
    "svg": "Picture as &SVG…",
    "copy_values": "Copy &values in view",
    "copy_picture": "Copy p&icture",
}


class ViewOptions(CurveControls):
    """How the plots are drawn.

    Signals:
        changed: Something else is wanted; with the fields of `PlotLayout` that change.
        export_wanted: Something is to be saved or copied; with its name in `_EXPORTS`.
        save_wanted: What is shown is to be saved as a layout.
        layout_wanted: A saved layout is to be shown; with its name.
        remove_wanted: A saved layout is to be forgotten; with its name.
    """

    changed = Signal(object)
    export_wanted = Signal(str)
    save_wanted = Signal()
    layout_wanted = Signal(str)
    remove_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scale_box = ChoiceBox("Scale of y", self, _SCALES.items())
        self.scale_box.setToolTip("Symlog is a logarithm on both sides of 0, and linear close to it")
        self.last_box = ChoiceBox("Part of x that is followed", self)
        self.each_client = QCheckBox("Each &client", self)
        self.each_client.setToolTip("A curve for each client, for metrics of episodes")
        self.marks = self._menu_button("Marks", "pin")
        self.cursors = FittingButton("Measure", "compare", self)
        self.cursors.setCheckable(True)
        self.cursors.explain(
            "Two lines, to be dragged, or moved by Shift+← → (A) and Ctrl+← → (B): "
            "what lies between them is shown above each plot"
        )
        self.export = self._menu_button("Export", "export")
        self.layouts = self._menu_button("Layouts", "save")
        for place, box in enumerate((self.last_box, self.scale_box), 2):
            self.row.insert_widget(place, box)
        for part in (self.each_client, self.marks, self.cursors, self.export, self.layouts):
            self.row.addWidget(part)
        self._kinds = {kind: self.marks.menu().addAction(words) for kind, words in MARK_KINDS.items()}
        for action in self._kinds.values():
            action.setCheckable(True)
            action.toggled.connect(self._marks_chosen)
        for name, words in _EXPORTS.items():
            self.export.menu().addAction(words).triggered.connect(partial(self.export_wanted.emit, name))
        self.axis_chosen.connect(lambda axis: self.changed.emit({"axis": axis, "last": 0.0}))
        # Qt keeps the word alone, as it would of a signal that is a dictionary.
        self.scale_box.activated.connect(
            lambda: self.changed.emit({"scale": ScaleKind(self.scale_box.currentData())})
        )
        self.last_box.activated.connect(lambda: self.changed.emit({"last": self.last_box.currentData()}))
        self.each_client.toggled.connect(lambda on: self.changed.emit({"each_client": on}))

    def _menu_button(self, words: str, icon: str) -> FittingButton:
        button = FittingButton(words, icon, self)
        give_menu(button, QMenu(button))
        return button

    def show_layout(self, layout: PlotLayout, saved: Iterable[str]) -> None:
        """Show what is chosen, and offer what was saved."""
        self.show_choice(layout.axis, layout.smoothing)
        with QSignalBlocker(self.each_client):
            self.each_client.setChecked(layout.each_client)
        self.scale_box.setCurrentIndex(self.scale_box.findData(layout.scale))
        for kind, action in self._kinds.items():
            with QSignalBlocker(action):
                action.setChecked(kind in layout.marks)
        self.last_box.offer(_parts_of(layout.axis), layout.last)
        menu = self.layouts.menu()
        menu.clear()
        menu.addAction("&Save this layout…").triggered.connect(self.save_wanted)
        names = list(saved)
        if names:
            menu.addSeparator()
            remove = QMenu("&Remove", menu)
            for name in names:
                words = text.plain(name).replace("&", "&&")
                menu.addAction(words).triggered.connect(partial(self.layout_wanted.emit, name))
                remove.addAction(words).triggered.connect(partial(self.remove_wanted.emit, name))
            menu.addSeparator()
            menu.addMenu(remove)

    def _marks_chosen(self) -> None:
        self.changed.emit({"marks": tuple(kind for kind, one in self._kinds.items() if one.isChecked())})


def _parts_of(axis: Axis) -> list[tuple[str, float]]:
    """Return the parts of x that can be followed: words, and how wide each is."""
    unit, everything = UNITS.get(axis), ("All of it", 0.0)
    if unit is None:
        return [everything, *((f"Last {text.duration(one)}", float(one)) for one in _SPANS_S)]
    return [everything, *((f"Last {text.compact(one)} {unit}", float(one)) for one in _COUNTS)]
