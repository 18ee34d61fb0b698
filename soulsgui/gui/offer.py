"""What to do next, offered when a run has reached its goal."""

from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QWidget

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress, make_primary
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.labels import IconLabel
from soulsgui.wire.control import RunStatus

NEXT_PRESET = "lunarlander_ppo"
_FIRST_ENVIRONMENT = "CartPole"
_WORDS_PX = 220
"""Where the words would get less than this beside the buttons, these go on below."""


@dataclass(frozen=True)
class Offer:
    """A goal that was reached, and the next one.

    Attributes:
        run_id: The run that reached it.
        words: What was reached, and after how long.
        next_preset: Preset of the next task; empty for none.
    """

    run_id: str
    words: str
    next_preset: str = ""


def offer_for(before: RunStatus, run: RunStatus) -> Offer | None:
    """Return what to offer when a run changed; None unless it has just reached its goal.

    Args:
        before: The run as it was.
        run: The run as it is.
    """
    if run.reached not in ("mean_return", "env_steps") or (before.id == run.id and before.reached):
        return None
    if run.reached == "mean_return":
        goal = f"{run.goal_return:g}" if run.goal_return is not None else tr("the goal")
        words = tr("Reached {goal} after {time}.").format(goal=goal, time=text.duration(run.seconds))
    else:
        words = tr("{steps} environment steps are done after {time}.").format(
            steps=text.count(run.env_steps), time=text.duration(run.seconds)
        )
    first = run.env_id.startswith(_FIRST_ENVIRONMENT)
    return Offer(run.id, words, NEXT_PRESET if first else "")


class OfferBar(QFrame):
    """Says that the goal was reached, with buttons for what comes next.

    Signals:
        go_on_wanted: The run is to go on without its goal; with its id.
        next_wanted: The next task is to be trained; with the preset's name.
        run_wanted: The run is to be seen; with its id.
    """

    go_on_wanted = Signal(str)
    next_wanted = Signal(str)
    run_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("offer")
        self.setProperty("part", "banner")
        self.setProperty("tone", Tone.GOOD)
        self._offer: Offer | None = None
        mark = IconLabel(0, self)
        mark.show_icon("state-finished", Tone.GOOD)
        self.words = QLabel(self)
        self.words.setProperty("heading", "0")
        self.words.setWordWrap(True)
        self.words.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.words.setMinimumWidth(_WORDS_PX)
        self.train_next = QPushButton(self.tr("Train LunarLander"), self)
        make_primary(self.train_next)
        dress(self.train_next, "play")
        self.train_next.clicked.connect(self._train_next)
        self.go_on = QPushButton(self.tr("Go on without the goal"), self)
        self.go_on.clicked.connect(self._go_on)
        self.open_run = QPushButton(self.tr("Open run"), self)
        self.open_run.clicked.connect(self._open_run)
        self.close_button = QPushButton(self)
        self.close_button.setProperty("role", "flat")
        self.close_button.setAccessibleName(self.tr("Close this message"))
        self.close_button.setToolTip(self.tr("Close"))
        dress(self.close_button, "close")
        self.close_button.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 6, 6)
        row.setSpacing(8)
        row.addWidget(mark)
        flow = FlowLayout(8)
        for part in (self.words, self.train_next, self.go_on, self.open_run):
            flow.addWidget(part)
        row.addLayout(flow, 1)
        row.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignVCenter)
        self.hide()

    def make(self, offer: Offer) -> None:
        """Offer what comes next."""
        self._offer = offer
        self.words.setText(offer.words)
        self.train_next.setVisible(bool(offer.next_preset))
        self.setAccessibleName(offer.words)
        self.show()

    def _train_next(self) -> None:
        if self._offer is not None:
            self.next_wanted.emit(self._offer.next_preset)

    def _go_on(self) -> None:
        self.hide()
        if self._offer is not None:
            self.go_on_wanted.emit(self._offer.run_id)

    def _open_run(self) -> None:
        self.hide()
        if self._offer is not None:
            self.run_wanted.emit(self._offer.run_id)
