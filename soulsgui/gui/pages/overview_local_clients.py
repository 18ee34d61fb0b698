"""The card of all clients that run on the server itself: how they are, one more, one less."""

import time
from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.i18n import tr
from soulsgui.gui.pages.overview_service_card import SendCommand, kept_together
from soulsgui.gui.pages.overview_service_rules import GroupWords, group_words
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.fitting_button import FittingButton, fit
from soulsgui.gui.widgets.labels import Heading, IconLabel, set_property
from soulsgui.wire.control import ServiceStatus

_MARGIN_PX = 12
_GAP_PX = 6


class LocalClientsCard(QFrame):
    """All local clients as one.

    Signals:
        log_asked: The log of one of them is to be shown; with its name.
        problem: A command failed; with the `ApiError`.
        expanded: The single ones are to be shown, or no longer.

    Args:
        send: Sends a command.
        parent: The widget it stands in.
        clock: Monotonic time, seconds.
    """

    log_asked = Signal(str)
    problem = Signal(object)
    expanded = Signal(bool)

    def __init__(
        self,
        send: SendCommand,
        parent: QWidget | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("service-clients")
        self.setProperty("part", "card")
        self._send = send
        self._clock = clock
        self._clients: list[ServiceStatus] = []
        self._came = clock()
        self._connected = False
        self._why_not = ""
        self._speaker = ""
        self._build()

    def _build(self) -> None:
        self._mark = IconLabel(0, self)
        self._title = Heading("", 0, self)
        self._title.setWordWrap(True)
        self._state = QLabel(self)
        self._state.setWordWrap(True)
        self._usage = QLabel(self)
        self._usage.setWordWrap(True)
        self._usage.setProperty("weight", "muted")
        self._sentence = QLabel(self)
        self._sentence.setWordWrap(True)
        head = QHBoxLayout()
        head.setSpacing(_GAP_PX)
        head.addWidget(self._mark)
        head.addWidget(self._title, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(_MARGIN_PX, 9, _MARGIN_PX, 9)
        column.setSpacing(3)
        column.addLayout(head)
        column.addWidget(self._state)
        column.addWidget(self._usage)
        column.addWidget(self._sentence)
        column.addStretch(1)
        column.addSpacing(4)
        column.addLayout(self._buttons())
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)

    def _buttons(self) -> QHBoxLayout:
        fewer = Words(self.tr("One less"), self.tr("Stopping …"), self.tr("Stopped"))
        more = Words(self.tr("One more"), self.tr("Starting …"), self.tr("Started"))
        self.fewer = CommandButton(fewer, "remove", lambda: self._set_count(-1), self)
        self.more = CommandButton(more, "add", lambda: self._set_count(+1), self)
        self.each = FittingButton(self.tr("Each"), "arrow-right", self)
        self.each.setCheckable(True)
        self.each.explain(self.tr("Show the clients one by one"))
        self.each.show_icon_only(True)
        self.each.toggled.connect(self._expand)
        self.log = FittingButton(self.tr("Log"), "log", self)
        self.log.clicked.connect(lambda: self.log_asked.emit(self._speaker))
        row = QHBoxLayout()
        row.setSpacing(_GAP_PX)
        for command in (self.fewer, self.more):
            command.problem.connect(self.problem)
            command.show_icon_only(True)
            row.addWidget(command)
        row.addWidget(self.each)
        row.addWidget(self.log)
        row.addStretch(1)
        return row

    def _set_count(self, change: int) -> Call:
        return self._send("service.local_clients", {"count": max(len(self._clients) + change, 0)})

    def _expand(self, on: bool) -> None:
        self.each.say(self.tr("Each"), "arrow-down" if on else "arrow-right")
        self.expanded.emit(on)

    # --- what is shown ---

    def show_clients(self, clients: Sequence[ServiceStatus]) -> None:
        """Show these services."""
        self._clients = list(clients)
        self._came = self._clock()
        self._arrange_buttons()
        self.tick()

    def tick(self) -> None:
        """Let a countdown go on; the owner calls it once a second."""
        self._write(group_words(self._clients, self._clock() - self._came if self._connected else 0.0))

    def connect_commands(self, connected: bool, why_not: str = "") -> None:
        """Grey what is no longer the present.

        Args:
            connected: Whether commands reach the server.
            why_not: Why clients can't be added or taken away, for that or another reason; empty when they
                can.
        """
        self._connected, self._why_not = connected, why_not
        for widget in (self._mark, self._title, self._state, self._usage, self._sentence):
            widget.setEnabled(connected)
        self._arrange_buttons()

    def _write(self, words: GroupWords) -> None:
        self._speaker = words.speaker
        self._mark.show_icon(words.look.icon, words.look.tone)
        self._title.setText(words.title)
        for label, said in (
            (self._state, words.state),
            (self._usage, kept_together(words.usage)),
            (self._sentence, words.sentence),
        ):
            label.setText(said)
            label.setVisible(bool(said))
        set_property(self._state, "tone", words.look.tone)
        set_property(self._sentence, "tone", words.tone)
        self.setAccessibleName(f"{words.title}: {words.state}. {words.sentence}")

    def _arrange_buttons(self) -> None:
        possible = self._connected and not self._why_not
        count = len(self._clients)
        fewer = self._why_not or tr("One client less on the server itself")
        self.fewer.allow(possible and count > 0, fewer if count else tr("There is none."))
        self.more.allow(possible, self._why_not or tr("One client more on the server itself"))
        self.each.setEnabled(count > 0)
        self.log.setEnabled(count > 0)

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
        signs = sum(button.sizeHint().width() + _GAP_PX for button in (self.fewer, self.more, self.each))
        fit((self.log,), self.width() - 2 * _MARGIN_PX - signs, _GAP_PX)

    @property
    def words(self) -> str:
        """All it says."""
        labels = (self._title, self._state, self._usage, self._sentence)
        return "\n".join(label.text() for label in labels if label.text())
