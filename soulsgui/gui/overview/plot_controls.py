"""The controls over the live plot: metric, x, smoothing, Follow, Fit; they remember what was chosen."""

import math
from collections.abc import Iterable

from PySide6.QtCore import QSettings, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QSizePolicy, QSlider, QWidget

from soulsgui.gui.plotting.legend import axis_title
from soulsgui.gui.plotting.rows import LENGTH, RETURN, Axis
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.wire.control import RunStatus
from soulsgui.wire.messages.metrics import EVALUATION_RETURN

_GAP_PX = 8
_SMOOTH_EVERY_MS = 60
_USUAL_SMOOTHING = 40

MEAN_RETURN = "mean_return"
"""Mean return over the last episodes (`stop.window`)."""

_ABBREVIATIONS = {"kl": "KL", "q": "Q", "td": "TD", "s": "(s)"}


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
    words = [_ABBREVIATIONS.get(word, word) for word in metric.split("_")]
    return " ".join([words[0][:1].upper() + words[0][1:], *words[1:]])


def metric_order(metrics: Iterable[str]) -> list[str]:
    """Return metrics as they are offered: evaluations and those of episodes first, the others by name."""
    offered = set(metrics)
    judged = [EVALUATION_RETURN] if EVALUATION_RETURN in offered else []
    first = [*judged, RETURN, LENGTH, MEAN_RETURN]
    others = sorted(offered - set(first), key=lambda metric: metric_title(metric).casefold())
    return [*first, *others]


def goal_metrics(run: RunStatus) -> tuple[str, ...]:
    """Return the metrics that the goal of a run is a value of; none where it has no such goal."""
    if run.goal_return is None:
        return ()
    return (EVALUATION_RETURN,) if run.goal_judged_by == "evaluation" else (RETURN, MEAN_RETURN)


def opening_metric(run: RunStatus) -> str:
    """Return the metric that the curves of a run open with: what judges it."""
    return EVALUATION_RETURN if run.goal_judged_by == "evaluation" else RETURN


def beside(metric: str) -> str:
    """Return the metric drawn beside another one: an evaluation means little without its training."""
    return RETURN if metric == EVALUATION_RETURN else ""


def smoothing_weight(position: int) -> float:
    """Return the weight of the exponential mean, 0 to 0.999, for a position of the slider, 0 to 100."""
    share = min(max(position, 0), 100) / 100
    return 1.0 - math.pow(10.0, -3.0 * share)


def smoothing_words(position: int) -> str:
    """Return what a position of the slider means: over about how many values it smooths."""
    if position <= 0:
        return "off"
    return f"up to {round(1 / (1 - smoothing_weight(position))):,} values"


class PlotControls(QWidget):
    """What is drawn, and how.

    Signals:
        metric_chosen: Another metric is wanted; with its name.
        axis_chosen: x means something else; with the `Axis`.
        smoothed: The smoothing was changed; with the weight of the exponential mean.
    """

    metric_chosen = Signal(str)
    axis_chosen = Signal(object)
    smoothed = Signal(float)

    def __init__(self, settings: QSettings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self._chosen = str(settings.value("overview/metric") or "")
        self._opening = RETURN
        self._build()
        self._restore()
        self._smooth_soon = Throttle(self, self._smooth, _SMOOTH_EVERY_MS)
        self.metric_box.activated.connect(self._choose_metric)
        self.axis_box.activated.connect(self._choose_axis)
        self.smoothing.valueChanged.connect(self._smoothing_moved)

    def _build(self) -> None:
        self.metric_box = QComboBox(self)
        self.metric_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.metric_box.setAccessibleName("Metric")
        self.axis_box = QComboBox(self)
        for axis in Axis:
            self.axis_box.addItem(axis_title(axis), axis)
        self.smoothing = QSlider(Qt.Orientation.Horizontal, self)
        self.smoothing.setRange(0, 100)
        self.smoothing.setPageStep(10)
        self.smoothing.setMinimumWidth(60)
        self.smoothing.setMaximumWidth(260)
        self.smoothing.setAccessibleName("Smoothing")
        self._smoothing_words = QLabel(self)
        self._smoothing_words.setProperty("weight", "muted")
        self._note = QLabel(self)
        self._note.setProperty("weight", "muted")
        self.follow = QCheckBox("&Follow", self)
        self.follow.setChecked(True)
        self.follow.setToolTip("Keep the newest rows in view (Space)")
        self.fit = FittingButton("Fit", "fit", self)
        self.fit.explain("Show the whole curve (Home)")
        self._lay_out()

    def _lay_out(self) -> None:
        self._note.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        row = FlowLayout(_GAP_PX, parent=self)
        for part in (
            self.metric_box,
            self._caption("x", self.axis_box),
            self.axis_box,
            self._caption("S&moothing", self.smoothing),
            self.smoothing,
            self._smoothing_words,
            self._note,
            self.follow,
            self.fit,
        ):
            row.addWidget(part)

    def _caption(self, words: str, buddy: QWidget) -> QLabel:
        caption = QLabel(words, self)
        caption.setBuddy(buddy)
        return caption

    def _restore(self) -> None:
        # Over environment steps, as papers show curves, before the first choice.
        self.axis_box.setCurrentIndex(max(self.axis_box.findData(str(self._settings.value("overview/x"))), 0))
        stored = str(self._settings.value("overview/smoothing"))
        self.smoothing.setValue(int(stored) if stored.isdecimal() else _USUAL_SMOOTHING)
        self._say_smoothing()
        self.offer(())

    # --- what is chosen ---

    @property
    def wanted(self) -> str:
        """The metric that is wanted, whether there are rows of it or not."""
        return self._chosen or self._opening

    def open_with(self, metric: str) -> None:
        """Want this metric as long as the user has not chosen another one."""
        if metric != self._opening:
            self._opening = metric
            self.offer(self._offered)

    @property
    def chosen_axis(self) -> Axis:
        """What x means."""
        return Axis(self.axis_box.currentData())

    @property
    def weight(self) -> float:
        """Weight of the exponential mean."""
        return smoothing_weight(self.smoothing.value())

    def offer(self, metrics: Iterable[str]) -> None:
        """Offer these metrics of updates beside those of episodes."""
        self._offered = tuple(metrics)
        offered = metric_order([*self._offered, self.wanted])
        with QSignalBlocker(self.metric_box):
            if offered != [self.metric_box.itemData(place) for place in range(self.metric_box.count())]:
                self.metric_box.clear()
                for metric in offered:
                    self.metric_box.addItem(metric_title(metric), metric)
            self.metric_box.setCurrentIndex(self.metric_box.findData(self.wanted))

    def note(self, words: str) -> None:
        """Say what is to be known of the curve; empty for nothing."""
        self._note.setText(words)

    # --- what the user does ---

    def _choose_metric(self) -> None:
        metric = str(self.metric_box.currentData())
        # What opens by itself is no choice: a run that is judged otherwise opens with what judges that one.
        self._chosen = "" if metric == self._opening else metric
        self._settings.setValue("overview/metric", self._chosen)
        self.metric_chosen.emit(metric)

    def _choose_axis(self) -> None:
        self._settings.setValue("overview/x", self.chosen_axis.value)
        self.axis_chosen.emit(self.chosen_axis)

    def _smoothing_moved(self) -> None:
        self._say_smoothing()
        self._smooth_soon.request()

    def _say_smoothing(self) -> None:
        self._smoothing_words.setText(smoothing_words(self.smoothing.value()))
        self.smoothing.setToolTip(
            f"Over about how many values the thick line is a mean: {self._smoothing_words.text()}; "
            "at most over a twentieth of the curve"
        )
        # The slider must not move under the mouse.
        self._smoothing_words.setMinimumWidth(self.fontMetrics().horizontalAdvance(smoothing_words(100)))

    def _smooth(self) -> None:
        self._settings.setValue("overview/smoothing", str(self.smoothing.value()))
        self.smoothed.emit(self.weight)
