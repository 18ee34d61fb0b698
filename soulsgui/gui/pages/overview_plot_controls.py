"""The controls over the live plot: metric, x, smoothing, Follow, Fit; they remember what was chosen."""

from collections.abc import Iterable

from PySide6.QtCore import QSettings, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QSizePolicy, QSlider, QWidget

from soulsgui.gui.pages.overview_metrics import (
    metric_order,
    metric_title,
    smoothing_weight,
    smoothing_words,
)
from soulsgui.gui.plotting.readout import axis_title
from soulsgui.gui.plotting.rows import RETURN, Axis
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.flow_layout import FlowLayout

_GAP_PX = 8
_SMOOTH_EVERY_MS = 60
_USUAL_SMOOTHING = 40


class PlotControls(QWidget):
    """What is drawn, and how.

    Signals:
        metric_chosen: Another metric is wanted; with its name.
        axis_chosen: x means something else; with the `Axis`.
        smoothed: The smoothing was changed; with the weight of the exponential mean.

    Args:
        settings: Where the choices are remembered.
        parent: The widget it stands in.
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
        self.metric_box.setAccessibleName(self.tr("Metric"))
        self.axis_box = QComboBox(self)
        for axis in Axis:
            self.axis_box.addItem(axis_title(axis), axis)
        self.smoothing = QSlider(Qt.Orientation.Horizontal, self)
        self.smoothing.setRange(0, 100)
        self.smoothing.setPageStep(10)
        self.smoothing.setMinimumWidth(60)
        self.smoothing.setMaximumWidth(260)
        self.smoothing.setAccessibleName(self.tr("Smoothing"))
        self._smoothing_words = QLabel(self)
        self._smoothing_words.setProperty("weight", "muted")
        self._note = QLabel(self)
        self._note.setProperty("weight", "muted")
        self.follow = QCheckBox(self.tr("&Follow"), self)
        self.follow.setChecked(True)
        self.follow.setToolTip(self.tr("Keep the newest rows in view (Space)"))
        self.fit = FittingButton(self.tr("Fit"), "fit", self)
        self.fit.explain(self.tr("Show the whole curve (Home)"))
        self._lay_out()

    def _lay_out(self) -> None:
        self._note.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        row = FlowLayout(_GAP_PX, parent=self)
        for part in (
            self.metric_box,
            self._caption(self.tr("x"), self.axis_box),
            self.axis_box,
            self._caption(self.tr("S&moothing"), self.smoothing),
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
            self.tr(
                "Over about how many values the thick line is a mean: {words}; "
                "at most over a twentieth of the curve"
            ).format(words=self._smoothing_words.text())
        )
        # The slider must not move under the mouse.
        self._smoothing_words.setMinimumWidth(self.fontMetrics().horizontalAdvance(smoothing_words(100)))

    def _smooth(self) -> None:
        self._settings.setValue("overview/smoothing", str(self.smoothing.value()))
        self.smoothed.emit(self.weight)
