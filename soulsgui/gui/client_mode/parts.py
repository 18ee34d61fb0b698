"""Parts of the page of client mode: the state, the switch, the pause, the checks, and what was given."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QGridLayout,
    QLabel,
    QMenu,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QStyle,
    QWidget,
)

from soulsgui.gui import text
from soulsgui.gui.client_mode.state import ClientWords, checks, pause_refusals
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.icons import colours_of, dress, make_primary
from soulsgui.gui.theme import GAP_L, GAP_M, GAP_S, GAP_XL, GAP_XS
from soulsgui.gui.widgets.boxes import NO_MARGINS, Margins, Part, column, flow, row
from soulsgui.gui.widgets.command_button import CommandButton, Words, give_menu
from soulsgui.gui.widgets.labels import (
    Heading,
    IconLabel,
    Label,
    StateLabel,
    keep_place,
    muted,
    set_property,
    set_tip,
    wrapped,
)
from soulsgui.wire.control import ApiError, ClientStatus

_GAP = 10
_SWITCH_SCALE = 1.7


class MiddleColumn(QScrollArea):
    """Scrolls a column in the middle of its room, at most so many characters wide."""

    def __init__(self, characters: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._characters = characters
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        middle = QWidget(self)
        self.inside = QWidget(middle)
        row(None, (self.inside, 100), None, on=middle, margins=NO_MARGINS)
        self.setWidget(middle)
        self._take_font()

    def fill(self, *parts: Part, margins: Margins, gap_px: int) -> None:
        """Put what is to be seen into the column."""
        column(*parts, on=self.inside, margins=margins, gap_px=gap_px)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font."""
        if event.type() == QEvent.Type.FontChange and hasattr(self, "inside"):
            self._take_font()
        super().changeEvent(event)

    def _take_font(self) -> None:
        self.inside.setMaximumWidth(self.fontMetrics().averageCharWidth() * self._characters)


class ToggleSwitch(QAbstractButton):
    """A checkable switch with its label on the right; Space and click toggle it."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setText(text)
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def _height(self) -> int:
        return round(QFontMetrics(self.font()).height() * _SWITCH_SCALE)

    def sizeHint(self) -> QSize:
        """Room for switch and label."""
        height = self._height()
        metrics = QFontMetrics(self.font())
        label = metrics.size(Qt.TextFlag.TextShowMnemonic, self.text()).width()
        return QSize(round(height * 1.8) + label + _GAP + 4, height + 4)

    def minimumSizeHint(self) -> QSize:
        """No less than all of it."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw a track with a knob; a tick or nothing on it, so that the colour is not all."""
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            height = self._height()
            track = QRectF(2, (self.height() - height) / 2 + 1, height * 1.8, height - 2)
            on = self.isChecked()
            if not self.isEnabled():
                fill, edge, knob = colours.hover, colours.border, colours.disabled
            elif on:
                fill, edge, knob = colours.accent, colours.accent, colours.on_accent
            else:
                fill, edge, knob = colours.base, colours.edge, colours.muted
            painter.setPen(QPen(QColor(colours.text if self.hasFocus() else edge), 1.5))
            painter.setBrush(QColor(fill))
            painter.drawRoundedRect(track, track.height() / 2, track.height() / 2)
            size = track.height() - 6
            left = track.right() - size - 3 if on else track.left() + 3
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(knob))
            painter.drawEllipse(QRectF(left, track.top() + 3, size, size))
            if on:
                self._draw_tick(painter, QRectF(left, track.top() + 3, size, size), QColor(fill))
            painter.setPen(QColor(colours.text if self.isEnabled() else colours.disabled))
            words = self.rect().adjusted(round(track.right()) + _GAP, 0, 0, 0)
            underlined = self.style().styleHint(QStyle.StyleHint.SH_UnderlineShortcut, None, self)
            mnemonic = Qt.TextFlag.TextShowMnemonic if underlined else Qt.TextFlag.TextHideMnemonic
            painter.drawText(words, int(Qt.AlignmentFlag.AlignVCenter | mnemonic), self.text())

    @staticmethod
    def _draw_tick(painter: QPainter, knob: QRectF, colour: QColor) -> None:
        pen = QPen(colour, max(1.6, knob.height() / 7))
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        painter.setPen(pen)
        corners = ((0.28, 0.54), (0.44, 0.70), (0.73, 0.34))
        painter.drawPolyline(
            [knob.topLeft() + QPointF(knob.width() * x, knob.height() * y) for x, y in corners]
        )


_MARK_LINES = 2.4
_STARTING_MS = 1500


class StateHead(QFrame):
    """The state in words, large, the server it is about, and the way to an update that is needed."""

    def __init__(self, server: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "card")
        self._mark = IconLabel(round(self.fontMetrics().height() * _MARK_LINES), self)
        self._title = Heading("", 2, self)
        self._title.setWordWrap(True)
        self._detail = wrapped("", self, selectable=True)
        for label in (self._title, self._detail):
            label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        # What stands below must not move under the mouse when a line comes or goes.
        keep_place(self._detail)
        self.update_button = QPushButton("Up&date…", self)
        make_primary(self.update_button)
        dress(self.update_button, "arrow-up")
        self.update_button.hide()
        self.question_button = QPushButton("&Look at it…", self)
        make_primary(self.question_button)
        self.question_button.hide()
        words = column(self._title, self._detail, server, gap_px=GAP_XS)
        top = Qt.AlignmentFlag.AlignTop
        parts = (self._mark, top), (words, 1), (self.update_button, top), (self.question_button, top)
        row(*parts, on=self, margins=(GAP_L, GAP_M, GAP_L, GAP_M), gap_px=GAP_L)

    def show_words(self, words: ClientWords) -> None:
        """Say how this computer stands."""
        self.update_button.setVisible(words.update)
        self.question_button.setVisible(words.asked)
        self._mark.show_icon(words.look.icon, words.look.tone)
        self._title.setText(words.look.word)
        set_property(self._title, "tone", words.look.tone)
        # An empty label would be flat.
        self._detail.setText(words.detail or " ")
        self._detail.setVisible(bool(words.detail))
        self.setAccessibleName(self.words)

    @property
    def words(self) -> str:
        """What it says."""
        return f"{self._title.text()}\n{self._detail.text()}".strip()


class HelpSwitch(QWidget):
    """The one switch. It shows what is wanted at once, and what is as soon as that is known.

    Signals:
        problem: It could not be switched; with the `ApiError`.
    """

    problem = Signal(object)

    def __init__(self, ask: Callable[[bool], Call | None], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._ask = ask
        self._call: Call | None = None
        self._on = False
        self.toggle = ToggleSwitch("&Help train", self)
        self.toggle.setObjectName("helpTrain")
        font = self.toggle.font()
        font.setBold(True)
        self.toggle.setFont(font)
        self.toggle.clicked.connect(self._clicked)
        self._starting = QTimer(self, singleShot=True, interval=_STARTING_MS)
        self._starting.timeout.connect(self._settle)
        row(self.toggle, on=self, margins=NO_MARGINS)

    def show_on(self, on: bool) -> None:
        """Show whether this computer helps."""
        self._on = on
        if on == self.toggle.isChecked():
            self._starting.stop()
        elif self._call is None and not self._starting.isActive():
            self.toggle.setChecked(on)

    def _clicked(self, on: bool) -> None:
        # Whatever an earlier wish still brings is no longer of interest.
        self._forget()
        self._call = call = self._ask(on)
        if call is None:
            self._starting.start()
            return
        call.done.connect(self._settle)
        call.tell_problem(self._failed)

    def _failed(self, error: ApiError) -> None:
        self.problem.emit(error)
        self._settle()

    def _settle(self) -> None:
        self._forget()
        self.toggle.setChecked(self._on)

    def _forget(self) -> None:
        if self._call is not None:
            self._call.disconnect(self)
            self._call = None


class ChecksRow(QWidget):
    """What must be well before this computer can play."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.labels = {check.name: StateLabel(self) for check in checks(None)}
        flow(*self.labels.values(), gap_px=GAP_XL, on=self).setContentsMargins(GAP_XS, 0, GAP_XS, 0)
        self.show_client(None)

    def show_client(self, client: ClientStatus | None) -> None:
        """Show what the client has found out."""
        looks = {check.name: check.look for check in checks(client)}
        for name, label in self.labels.items():
            label.setVisible(name in looks)
            if name in looks:
                label.show_look(looks[name])


_GIVEN = (
    ("episodes", "Episodes", "Finished here for this run"),
    ("steps", "Steps", "Environment steps made here for this run"),
    ("rate", "Steps/s", "Environment steps per second"),
    ("share", "Share", "Part of all environment steps that reach the server at present"),
    ("return", "Mean return", "Over the last 20 episodes played here"),
)


class GivenRow(QFrame):
    """What this computer has given to the present run."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "card")
        self.values: dict[str, QLabel] = {}
        grid = QGridLayout(self)
        grid.setContentsMargins(GAP_L, GAP_M, GAP_L, GAP_M)
        grid.setVerticalSpacing(0)
        for place, (name, caption, tip) in enumerate(_GIVEN):
            self.values[name] = value = Heading("", 1, self)
            value.setAccessibleDescription(tip)
            for line, label in enumerate((muted(Label(caption, self)), value)):
                set_tip(label, tip)
                grid.addWidget(label, line, place)
            grid.setColumnStretch(place, 1)
        self.show_client(None)

    def show_client(self, client: ClientStatus | None) -> None:
        """Show what the client of this computer has given; None before there is one."""
        if client is None:
            shown = dict.fromkeys(self.values, text.NOTHING)
        else:
            shown = {
                "episodes": text.count(client.episodes),
                "steps": text.compact(client.env_steps),
                "rate": text.compact(client.env_steps_per_s) if client.env_steps_per_s else text.NOTHING,
                "share": text.percent(None if client.share is None else 100 * client.share),
                "return": text.value(client.mean_return),
            }
        for name, words in shown.items():
            self.values[name].setText(words)


_HALF_AN_HOUR_S = 1800.0
_AN_HOUR_S = 3600.0


class PauseRow(QWidget):
    """The buttons of the owner's pause.

    Signals:
        problem: Something could not be done; with the `ApiError`.
    """

    problem = Signal(object)

    def __init__(self, feed: Feed, client: Callable[[], str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._client = client
        self._chosen_s = _HALF_AN_HOUR_S
        now = Words("&Pause now", "Pausing …", "Paused")
        later = Words("Pause &after this episode", "Asking …", "Pauses after this episode")
        on = Words("&Resume", "Resuming …", "Resumed")
        self.now = CommandButton(now, "pause", self._pause, self)
        self.later = CommandButton(later, "state-draining", lambda: self._pause(after_episode=True), self)
        for_a_time = Words("Pa&use for", "Pausing …", "Paused")
        self.for_a_time = CommandButton(for_a_time, "pause", lambda: self._pause(for_s=self._chosen_s), self)
        menu = QMenu(self.for_a_time)
        for title, seconds in (("30 &minutes", _HALF_AN_HOUR_S), ("1 &hour", _AN_HOUR_S)):
            menu.addAction(title).triggered.connect(partial(self._pause_for, seconds))
        give_menu(self.for_a_time, menu)
        self.resume = CommandButton(on, "play", self._resume, self)
        buttons = self.now, self.later, self.for_a_time, self.resume
        flow(*buttons, gap_px=GAP_S, on=self)
        for button in buttons:
            button.problem.connect(self.problem)

    def show_words(self, words: ClientWords) -> None:
        """Allow what makes sense in this state."""
        buttons = self.now, self.later, self.for_a_time, self.resume
        for button, why in zip(buttons, pause_refusals(words), strict=True):
            button.allow(why)

    def _pause(self, after_episode: bool = False, for_s: float | None = None) -> Call:
        params = {"client": self._client(), "after_episode": after_episode}
        return self._feed.call("clients.pause", params if for_s is None else params | {"for_s": for_s})

    def _pause_for(self, seconds: float) -> None:
        self._chosen_s = seconds
        self.for_a_time.send()

    def _resume(self) -> Call:
        return self._feed.call("clients.resume", {"client": self._client()})
