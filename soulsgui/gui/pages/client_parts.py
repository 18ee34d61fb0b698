"""Parts of the page of client mode: the state, the switch, the checks, and what this computer has given."""

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from soulsgui.gui import text
from soulsgui.gui.calls import Call
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress, make_primary
from soulsgui.gui.models.client_mode import ClientWords, checks
from soulsgui.gui.widgets.labels import Heading, IconLabel, StateLabel, keep_place, set_property
from soulsgui.gui.widgets.toggle import ToggleSwitch
from soulsgui.wire.control import ApiError, ClientStatus

_MARK_LINES = 2.4
_SWITCH_SCALE = 1.7
_STARTING_MS = 1500


class StateHead(QFrame):
    """The state in words, large, the server it is about, and the way to an update that is needed.

    Signals:
        update_wanted: It is to be told how this computer is updated.

    Args:
        server: Says how the server is.
        parent: The widget it stands in.
    """

    update_wanted = Signal()

    def __init__(self, server: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "card")
        self._mark = IconLabel(round(self.fontMetrics().height() * _MARK_LINES), self)
        self._title = Heading("", 2, self)
        self._title.setWordWrap(True)
        self._detail = QLabel(self)
        self._detail.setWordWrap(True)
        for label in (self._title, self._detail):
            label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._detail.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        # What stands below must not move under the mouse when a line comes or goes.
        keep_place(self._detail)
        self.update_button = QPushButton(tr("Up&date…"), self)
        make_primary(self.update_button)
        dress(self.update_button, "arrow-up")
        self.update_button.clicked.connect(self.update_wanted)
        self.update_button.hide()
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self._title)
        words.addWidget(self._detail)
        words.addWidget(server)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 12, 16, 12)
        row.setSpacing(14)
        row.addWidget(self._mark, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(words, 1)
        row.addWidget(self.update_button, 0, Qt.AlignmentFlag.AlignTop)

    def show_words(self, words: ClientWords) -> None:
        """Say how this computer stands."""
        self.update_button.setVisible(words.update)
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

    Args:
        ask: Switches on or off; None when there is nobody to ask yet.
        parent: The widget it stands in.
    """

    problem = Signal(object)

    def __init__(self, ask: Callable[[bool], Call | None], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._ask = ask
        self._call: Call | None = None
        self._on = False
        self.toggle = ToggleSwitch(tr("&Help train"), self, scale=_SWITCH_SCALE)
        self.toggle.setObjectName("helpTrain")
        font = self.toggle.font()
        font.setBold(True)
        self.toggle.setFont(font)
        self.toggle.clicked.connect(self._clicked)
        self._starting = QTimer(self, singleShot=True, interval=_STARTING_MS)
        self._starting.timeout.connect(self._settle)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.toggle)

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
        call.failed.connect(self._failed)
        call.silent.connect(self._failed)

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
        self._labels: dict[str, StateLabel] = {}
        row = QHBoxLayout(self)
        row.setContentsMargins(4, 0, 4, 0)
        row.setSpacing(20)
        for check in checks(None):
            self._labels[check.name] = StateLabel(self)
            row.addWidget(self._labels[check.name])
        row.addStretch(1)
        self.show_client(None)

    def show_client(self, client: ClientStatus | None) -> None:
        """Show what the client has found out."""
        for check in checks(client):
            self._labels[check.name].show_look(check.look)

    @property
    def words(self) -> list[str]:
        """What it says."""
        return [label.word for label in self._labels.values()]


class GivenRow(QFrame):
    """What this computer has given to the present run."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "card")
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(16, 10, 16, 10)
        self._grid.setVerticalSpacing(0)
        self._values: dict[str, QLabel] = {}
        for name, caption, tip in (
            ("episodes", tr("Episodes"), tr("Finished here for this run")),
            ("steps", tr("Steps"), tr("Environment steps made here for this run")),
            ("rate", tr("Steps/s"), tr("Environment steps per second")),
            ("share", tr("Share"), tr("Part of all environment steps that reach the server at present")),
            ("return", tr("Mean return"), tr("Over the last 20 episodes played here")),
        ):
            self._add(name, caption, tip)
        self.show_client(None)

    def _add(self, name: str, caption: str, tip: str) -> None:
        column = self._grid.columnCount() if self._values else 0
        title = QLabel(caption, self)
        title.setProperty("weight", "muted")
        value = Heading("", 1, self)
        for row, label in enumerate((title, value)):
            label.setToolTip(tip)
            self._grid.addWidget(label, row, column)
        self._grid.setColumnStretch(column, 1)
        value.setAccessibleDescription(tip)
        self._values[name] = value

    def show_client(self, client: ClientStatus | None) -> None:
        """Show what the client of this computer has given; None before there is one."""
        if client is None:
            shown = dict.fromkeys(self._values, text.NOTHING)
        else:
            shown = {
                "episodes": text.count(client.episodes),
                "steps": text.compact(client.env_steps),
                "rate": text.compact(client.env_steps_per_s) if client.env_steps_per_s else text.NOTHING,
                "share": text.percent(None if client.share is None else 100 * client.share),
                "return": text.value(client.mean_return),
            }
        for name, words in shown.items():
            self._values[name].setText(words)

    def value(self, name: str) -> str:
        """Return what it says of `episodes`, `steps`, `rate`, `share` or `return`."""
        return self._values[name].text()
