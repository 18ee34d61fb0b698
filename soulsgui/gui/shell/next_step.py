"""What to do next, offered when a run has reached its goal."""

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QWidget

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Feed
from soulsgui.gui.icons import dress, make_primary
from soulsgui.gui.shell.pages import CLIENT, OVERVIEW, PageStack
from soulsgui.gui.states import run_is_active
from soulsgui.gui.theme import GAP_M, GAP_S
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.labels import IconLabel, Label
from soulsgui.gui.widgets.message_bar import close_button
from soulsgui.wire.control import RunStatus

NEXT_PRESET = "lunarlander_ppo"
_FIRST_ENVIRONMENT = "CartPole"
_WITHOUT_OFFER = (OVERVIEW, CLIENT)
"""The overview itself says so when it is in front; to who plays for others it says nothing."""
_WORDS_PX = 220
"""Where the words would get less than this beside the buttons, these go on below."""


@dataclass(frozen=True)
class Offer:
    """A goal that a run has reached, and the preset of the next task; empty for none."""

    run_id: str
    words: str
    next_preset: str = ""


def offer_for(before: RunStatus, run: RunStatus) -> Offer | None:
    """Return what to offer when a run changed; None unless it has just reached its goal."""
    if run.reached not in ("mean_return", "env_steps") or (before.id == run.id and before.reached):
        return None
    if run.reached == "mean_return":
        goal = f"{run.goal_return:g}" if run.goal_return is not None else "the goal"
        words = f"Reached {goal} after {text.duration(run.seconds)}."
    else:
        words = f"Made {text.count(run.env_steps)} environment steps in {text.duration(run.seconds)}."
    first = run.env_id.startswith(_FIRST_ENVIRONMENT) and not run.sweep  # after a sweep its best is wanted
    return Offer(run.id, words, NEXT_PRESET if first else "")


class OfferBar(QFrame):
    """Says that the goal was reached, with buttons for what comes next, until that is past.

    Signals:
        begun: What was offered is begun: the overview shows it.
        problem: It was refused; with the `ApiError`.
        run_wanted: The run is to be seen; with its id.
    """

    begun = Signal()
    problem = Signal(object)
    run_wanted = Signal(str)

    def __init__(self, feed: Feed, pages: PageStack, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("offer")
        self.setProperty("part", "banner")
        self.setProperty("tone", Tone.GOOD)
        self._feed = feed
        # The next step is offered over these: two need no offer, and one may hold unsaved changes.
        self._pages = pages
        self._before = feed.status.run
        self._offer = Offer("", "")
        mark = IconLabel(0, self)
        mark.show_icon("state-finished", Tone.GOOD)
        self.words = Label(parent=self)
        self.words.setProperty("heading", "0")
        self.words.setWordWrap(True)
        self.words.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.words.setMinimumWidth(_WORDS_PX)
        self.train_next = QPushButton("Train LunarLander", self)
        make_primary(self.train_next)
        dress(self.train_next, "play")
        self.train_next.clicked.connect(self._train_next)
        self.go_on = QPushButton("Continue without the goal", self)
        self.go_on.clicked.connect(self._go_on)
        self.open_run = QPushButton("Open run", self)
        self.open_run.clicked.connect(self._open_run)
        self.close_button = close_button(self)
        self.close_button.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(GAP_M, GAP_S, GAP_S, GAP_S)
        row.setSpacing(GAP_S)
        row.addWidget(mark)
        flow = FlowLayout(GAP_S)
        for part in (self.words, self.train_next, self.go_on, self.open_run):
            flow.addWidget(part)
        row.addLayout(flow, 1)
        row.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignVCenter)
        self.hide()
        feed.snapshot_taken.connect(self._snapshot_taken)
        feed.run_changed.connect(self._look)
        feed.asked.connect(self._asked)

    def make(self, offer: Offer) -> None:
        """Offer what comes next."""
        self._offer = offer
        self.words.setText(offer.words)
        self.train_next.setVisible(bool(offer.next_preset))
        self.setAccessibleName(offer.words)
        self.show()

    def page_chosen(self, name: str) -> None:
        """Go when a page comes to the front that says it itself, or has nothing of it."""
        if name in _WITHOUT_OFFER:
            self.hide()

    def _snapshot_taken(self) -> None:
        if self._before.id:  # what was reached before this window came is no news
            self._look()
        self._before = self._feed.status.run

    def _look(self) -> None:
        run = self._feed.status.run
        offer = offer_for(self._before, run)
        self._before = run
        if offer is not None and self._pages.shown not in _WITHOUT_OFFER:
            self.make(offer)
        elif run_is_active(run.state):
            self.hide()

    def _asked(self, command: str) -> None:
        if command == "run.start":
            self.hide()

    def _train_next(self) -> None:
        def go_on(begin: bool) -> None:
            if begin:
                self._begin("run.start", {"preset": self._offer.next_preset})

        # The next run would not use what was typed and not saved.
        self._pages.ask("before_run", go_on)

    def _go_on(self) -> None:
        self.hide()
        self._begin("run.resume", {"run": self._offer.run_id, "without_goal": True})

    def _open_run(self) -> None:
        self.hide()
        self.run_wanted.emit(self._offer.run_id)

    def _begin(self, command: str, params: dict[str, Any]) -> None:
        call = self._feed.call(command, params)
        call.tell_problem(self.problem)
        self.begun.emit()
