"""How curves are drawn: the names of their metrics, what x means, smoothing, Follow."""

import math
from collections.abc import Iterable

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QSizePolicy, QSlider, QWidget

from soulsgui.gui import text
from soulsgui.gui.plotting.rows import LENGTH, MEAN_RETURN, RETURN, Axis, axis_title
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.inputs import ChoiceBox, leave_wheel_to_page
from soulsgui.gui.widgets.labels import Label, caption, muted, set_tip
from soulsgui.wire.messages.metrics import EVALUATION_RETURN, RESOURCE_PREFIX

_SMOOTH_EVERY_MS = 60

USUAL_SMOOTHING = 40
"""Position of the slider before it is moved, 0 to 100."""

_ABBREVIATIONS = {"kl": "KL", "q": "Q", "td": "TD", "s": "(s)", "cpu": "CPU", "gpu": "GPU"}
_ABBREVIATIONS |= {"percent": "(%)", "bytes": "(bytes)", "bytes/s": "(bytes/s)"}


def metric_title(metric: str) -> str:
    """Return a metric's name in words: `approx_kl` becomes `Approx KL`."""
    titles = {
        RETURN: "Return",
        LENGTH: "Episode length",
        MEAN_RETURN: "Mean return",
        "env_steps_per_s": "Steps/s",
        "lr": "Learning rate",
        "grad_norm": "Gradient norm",
    }
    if metric in titles:
        return titles[metric]
    name = metric.removeprefix(RESOURCE_PREFIX).replace("bytes_per_s", "bytes/s")
    words = [_ABBREVIATIONS.get(word, word) for word in name.split("_")]
    return text.plain(" ".join([words[0][:1].upper() + words[0][1:], *words[1:]]))


def metric_order(metrics: Iterable[str]) -> list[str]:
    """Return metrics as they are offered: of evaluations and episodes first, then by name, resources last."""
    offered = set(metrics)
    judged = [EVALUATION_RETURN] if EVALUATION_RETURN in offered else []
    first = [*judged, RETURN, LENGTH, MEAN_RETURN]
    titles = {metric: metric_title(metric).casefold() for metric in offered - set(first)}
    return [*first, *sorted(titles, key=lambda one: (one.startswith(RESOURCE_PREFIX), titles[one]))]


def smoothing_weight(position: int) -> float:
    """Return the weight of the exponential mean, 0 to 0.999, for a position of the slider, 0 to 100."""
    return 1.0 - math.pow(10.0, -3.0 * position / 100)


def smoothing_words(position: int) -> str:
    """Return what a position of the slider means: over about how many values it smooths."""
    if position <= 0:
        return "off"
    return f"up to {round(1 / (1 - smoothing_weight(position))):,} values"


class CurveControls(QWidget):
    """What x means, how much is smoothed, and what part of x is in view; the page remembers what is chosen.

    Signals:
        axis_chosen: x means something else; with the `Axis`.
        smoothed: The smoothing was changed; with the weight of the exponential mean.
    """

    axis_chosen = Signal(object)
    smoothed = Signal(float)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._build()
        self._smooth_soon = Throttle(self, lambda: self.smoothed.emit(self.weight), _SMOOTH_EVERY_MS)
        self.axis_box.activated.connect(lambda: self.axis_chosen.emit(self.chosen_axis))
        self.smoothing.valueChanged.connect(self._smoothing_moved)

    def _build(self) -> None:
        self.axis_box = ChoiceBox("", self, [(axis_title(axis), axis) for axis in Axis])
        self.smoothing = QSlider(Qt.Orientation.Horizontal, self)
        self.smoothing.setRange(0, 100)
        self.smoothing.setPageStep(10)
        self.smoothing.setMinimumWidth(60)
        self.smoothing.setMaximumWidth(260)
        self.smoothing.setAccessibleName("Smoothing")
        leave_wheel_to_page(self.smoothing)
        self._smoothing_words, self._note = muted(Label(parent=self)), muted(Label(parent=self))
        self.follow = QCheckBox("&Follow", self)
        self.follow.setChecked(True)
        self.follow.setToolTip("Keep the newest rows in view; Space comes back to them")
        self.fit = FittingButton("Fit", "fit", self)
        self.fit.explain("Show the whole curve (Home)")
        self._note.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.row = FlowLayout(GAP_S, parent=self)
        for part in (
            caption("x axis", self.axis_box, self),
            self.axis_box,
            caption("S&moothing", self.smoothing, self),
            self.smoothing,
            self._smoothing_words,
            self._note,
            self.follow,
            self.fit,
        ):
            self.row.addWidget(part)

    def show_choice(self, axis: Axis, smoothing: int) -> None:
        """Show what is chosen: what x means, and the position of the slider."""
        self.axis_box.setCurrentIndex(self.axis_box.findData(axis))
        with QSignalBlocker(self.smoothing):
            self.smoothing.setValue(smoothing)
        self._say_smoothing()

    @property
    def chosen_axis(self) -> Axis:
        """What x means."""
        return Axis(self.axis_box.currentData())

    @property
    def weight(self) -> float:
        """Weight of the exponential mean."""
        return smoothing_weight(self.smoothing.value())

    def note(self, words: str) -> None:
        """Say what is to be known of the curve; empty for nothing."""
        self._note.setText(words)

    def _smoothing_moved(self) -> None:
        self._say_smoothing()
        self._smooth_soon.request()

    def _say_smoothing(self) -> None:
        self._smoothing_words.setText(smoothing_words(self.smoothing.value()))
        set_tip(
            self.smoothing,
            f"Over about how many values the thick line is a mean: {self._smoothing_words.text()}; "
            "at most over a twentieth of the curve",
        )
        # The slider must not move under the mouse.
        self._smoothing_words.setMinimumWidth(self.fontMetrics().horizontalAdvance(smoothing_words(100)))
