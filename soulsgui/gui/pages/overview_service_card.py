"""A card per service: its state in icon, word and colour, its numbers, how it ended, and its buttons."""

import time
from collections.abc import Callable

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.dialogs.asking_button import AskingButton
from soulsgui.gui.models.service_words import CardWords, card_words
from soulsgui.gui.question import Question
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.fitting_button import FittingButton, fit
from soulsgui.gui.widgets.labels import Heading, IconLabel, set_property, set_tip
from soulsgui.wire.control import ServiceStatus

SendCommand = Callable[[str, dict[str, object]], Call]
"""Sends a command by name with its parameters."""

_MARGIN_PX = 12
_NO_BREAK = "\N{NO-BREAK SPACE}"
_BUTTON_GAP_PX = 6


class ServiceCard(QFrame):
    """One service.

    Signals:
        log_asked: Its log is to be shown; with its name.
        problem: A command failed; with the `ApiError`.

    Args:
        name: Name of the service.
        send: Sends a command.
        parent: The widget it stands in.
        clock: Monotonic time, seconds.
    """

    log_asked = Signal(str)
    problem = Signal(object)

    def __init__(
        self,
        name: str,
        send: SendCommand,
        parent: QWidget | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parent)
        self.setObjectName(f"service-{name}")
        self.setProperty("part", "card")
        self._name = name
        self._send = send
        self._clock = clock
        self._status: ServiceStatus | None = None
        self._came = clock()
        self._connected = True
        self._why_not = ""
        self._forbidden: dict[str, str] = {}
        self._stop_question: Callable[[str], Question | None] = lambda name: None
        self._build()

    def _build(self) -> None:
        self._mark = IconLabel(0, self)
        self._title = Heading("", 0, self)
        self._state = QLabel(self)
        self._facts = QLabel(self)
        self._usage = QLabel(self)
        self._sentence = QLabel(self)
        for label in (self._state, self._facts, self._usage, self._sentence):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
        for label in (self._facts, self._usage):
            label.setProperty("weight", "muted")
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(self._mark)
        head.addWidget(self._title, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(_MARGIN_PX, 9, _MARGIN_PX, 9)
        column.setSpacing(3)
        column.addLayout(head)
        column.addWidget(self._state)
        column.addWidget(self._facts)
        column.addWidget(self._usage)
        column.addWidget(self._sentence)
        column.addStretch(1)
        column.addSpacing(4)
        column.addLayout(self._buttons())
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)

    def _buttons(self) -> QHBoxLayout:
        start = Words(self.tr("Start"), self.tr("Starting …"), self.tr("Started"))
        stop = Words(self.tr("Stop"), self.tr("Stopping …"), self.tr("Stopped"))
        again = Words(self.tr("Restart"), self.tr("Restarting …"), self.tr("Restarted"))
        self.start = CommandButton(start, "play", lambda: self._call("service.start"), self)
        self.stop = AskingButton(
            stop, "stop", lambda: self._call("service.stop"), lambda: self._stop_question(self._name), self
        )
        self.restart = CommandButton(again, "restart", lambda: self._call("service.restart"), self)
        self.log = FittingButton(self.tr("Log"), "log", self)
        self.log.clicked.connect(lambda: self.log_asked.emit(self._name))
        row = QHBoxLayout()
        row.setSpacing(_BUTTON_GAP_PX)
        for button in (self.start, self.stop, self.restart):
            button.problem.connect(self.problem)
            row.addWidget(button)
        row.addWidget(self.log)
        row.addStretch(1)
        return row

    def _call(self, command: str) -> Call:
        return self._send(command, {"name": self._name})

    def ask_before_stop(self, question: Callable[[str], Question | None]) -> None:
        """Ask before it is stopped.

        Args:
            question: Returns the question, given the service's name; None when nothing is lost.
        """
        self._stop_question = question

    def forbid(self, reasons: dict[str, str]) -> None:
        """Switch buttons off.

        Args:
            reasons: `start`, `stop` or `restart`, and why it can't be done now; the others are on.
        """
        if reasons != self._forbidden:
            self._forbidden = reasons
            self._arrange_buttons()

    # --- what is shown ---

    def show_status(self, status: ServiceStatus) -> None:
        """Show the service as the server tells of it."""
        self._status = status
        self._came = self._clock()
        self._arrange_buttons()
        self.tick()

    def tick(self) -> None:
        """Let uptime and countdown go on; the owner calls it once a second."""
        if self._status is not None:
            self._write(card_words(self._status, self._clock() - self._came if self._connected else 0.0))

    def connect_commands(self, connected: bool, why_not: str = "") -> None:
        """Allow commands, or not with a reason; what is no longer the present is greyed."""
        self._connected, self._why_not = connected, why_not
        for widget in (self._mark, self._title, self._state, self._facts, self._usage, self._sentence):
            widget.setEnabled(connected)
        self._arrange_buttons()

    def _write(self, words: CardWords) -> None:
        self._mark.show_icon(words.look.icon, words.look.tone)
        self._title.setText(words.title)
        self._state.setText(words.state)
        set_tip(self._state, words.tip)
        for label, said in (
            (self._facts, kept_together(words.facts)),
            (self._usage, kept_together(words.usage)),
            (self._sentence, words.sentence),
        ):
            label.setText(said)
            label.setVisible(bool(said))
        set_property(self._state, "tone", words.look.tone)
        set_property(self._sentence, "tone", words.tone)
        self.setAccessibleName(f"{words.title}: {words.state}. {words.sentence}")

    def _arrange_buttons(self) -> None:
        state = self._status.state if self._status else "stopped"
        up = state in ("running", "starting", "stopping")
        self.start.setVisible(state in ("stopped", "failed"))
        self.stop.setVisible(up or state == "backoff")
        self.restart.setVisible(up or state == "backoff")
        for name, button in (("start", self.start), ("stop", self.stop), ("restart", self.restart)):
            why = self._why_not or self._forbidden.get(name, "")
            button.allow(self._connected and state != "stopping" and not why, why)

    # --- room ---

    def minimumSizeHint(self) -> QSize:
        """Let it become as narrow as its buttons without their words."""
        return QSize(self.fontMetrics().averageCharWidth() * 18, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave the words of the buttons out where there is no room for them."""
        super().resizeEvent(event)
        self._fit_buttons()

    def event(self, event: QEvent) -> bool:
        """Do the same when a button says something else."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit_buttons()
        return super().event(event)

    def _fit_buttons(self) -> None:
        buttons = (self.start, self.stop, self.restart, self.log)
        shown = [button for button in buttons if not button.isHidden()]
        fit(shown, self.width() - 2 * _MARGIN_PX, _BUTTON_GAP_PX)

    @property
    def words(self) -> str:
        """All it says."""
        labels = (self._title, self._state, self._facts, self._usage, self._sentence)
        return "\n".join(label.text() for label in labels if label.text()).replace(_NO_BREAK, " ")


def kept_together(facts: str) -> str:
    """Return facts so that a line breaks between two of them, never within one."""
    return facts.replace(" ", _NO_BREAK).replace(f"{_NO_BREAK}·{_NO_BREAK}", f"{_NO_BREAK}· ")
