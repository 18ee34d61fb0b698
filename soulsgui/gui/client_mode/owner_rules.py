"""When this computer may play, and what that may take: the rules of a good neighbour."""

from functools import partial
from typing import cast

from PySide6.QtCore import QSignalBlocker, QTime, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QCheckBox, QFrame, QGridLayout, QTimeEdit, QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.theme import GAP_L, GAP_S, GAP_XS
from soulsgui.gui.widgets.boxes import flow, row
from soulsgui.gui.widgets.inputs import ChoiceBox, give_room, leave_wheel_to_page
from soulsgui.gui.widgets.labels import ElidedLabel, Label, caption, muted, set_tip
from soulsgui.wire.control import ApiError, RulesState
from soulsgui.wire.messages.owner import IDLE_AFTER_S, Rules

_MIDNIGHT = QTime(0, 0)
_SHARE_CHARACTERS = 14
_SHARES = {
    "like any program": "full",
    "behind all other programs": "gentle",
    "behind all others, one core at most": "one_core",
}


class RulesRow(QFrame):
    """The rules, each with its reason where this system can't follow it. A change holds at once.

    Signals:
        problem: Something could not be done; with the `ApiError`.
    """

    problem = Signal(object)

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "card")
        self._feed = feed
        self._state: RulesState | None = None
        self._sending: Call | None = None
        self._build()
        ask = partial(feed.ask, "rules.get")
        self._fetch = Fetch(self, ask, came=self._take, failed=self.problem)
        feed.connection_changed.connect(self._connection_changed)
        feed.snapshot_taken.connect(self._fetch.request)
        self._connection_changed()

    def _build(self) -> None:
        minutes = round(IDLE_AFTER_S / 60)
        self.idle = QCheckBox("&Nobody uses this computer", self)
        self._idle_tip = (
            "It waits from the first key or mouse movement on, and plays again when there was none for "
            f"{minutes} minutes. Games that are played by sending keys look like somebody, too."
        )
        self.full_screen = QCheckBox("No full-&screen program runs", self)
        self._full_screen_tip = "The game that it plays itself does not count."
        self.hours = QCheckBox("It is bet&ween", self)
        self.begin, self.end = self._time("From"), self._time("To")
        self.share = ChoiceBox("", self, _SHARES.items())
        # In a narrow window its words are cut rather than the page.
        self.share.setMinimumWidth(self.fontMetrics().averageCharWidth() * _SHARE_CHARACTERS)
        self.share.setToolTip("To take more than before, the client is restarted")
        self.share.currentIndexChanged.connect(self._changed)
        self.why_idle, self.why_full_screen = muted(ElidedLabel("", self)), muted(ElidedLabel("", self))
        self.anywhere = QCheckBox("wherever &you may, not only in its own folder", self)
        self._anywhere_tip = (
            "For games that save elsewhere, or run under Steam or Wine. The client is restarted."
        )
        self.shows = QCheckBox("a small picture of it to the server's &owner", self)
        shows = muted(Label("Shows its game", self))
        may_write = muted(Label("May write files", self))
        title = muted(Label("Plays only while", self))
        self._and = Label("and", self)
        hours = flow(self.hours, self.begin, self._and, self.end, gap_px=GAP_S)
        grid = QGridLayout(self)
        grid.setContentsMargins(GAP_L, GAP_S, GAP_L, GAP_S)
        grid.setHorizontalSpacing(GAP_L)
        grid.setVerticalSpacing(GAP_XS)
        grid.addWidget(title, 0, 0)
        grid.addLayout(row(self.idle, (self.why_idle, 1), gap_px=GAP_L), 0, 1, 1, 2)
        grid.addLayout(row(self.full_screen, (self.why_full_screen, 1), gap_px=GAP_L), 1, 1, 1, 2)
        grid.addLayout(hours, 2, 1, 1, 2)
        grid.addWidget(muted(caption("Tak&es the processor", self.share, self)), 3, 0)
        grid.addWidget(self.share, 3, 1)
        grid.addWidget(may_write, 4, 0)
        grid.addWidget(self.anywhere, 4, 1, 1, 2)
        grid.addWidget(shows, 5, 0)
        grid.addWidget(self.shows, 5, 1, 1, 2)
        grid.setColumnStretch(2, 1)
        for box in (self.idle, self.full_screen, self.hours, self.anywhere, self.shows):
            box.toggled.connect(self._changed)

    def _time(self, name: str) -> QTimeEdit:
        edit = QTimeEdit(self)
        edit.setDisplayFormat("HH:mm")
        give_room(edit)
        leave_wheel_to_page(edit)
        edit.setAccessibleName(name)
        # Told when the time is whole, not with each digit of it.
        edit.setKeyboardTracking(False)
        edit.timeChanged.connect(self._changed)
        return edit

    def _connection_changed(self) -> None:
        if self._feed.connection.live:
            self._fetch.request()
        self._allow()

    def _take(self, state: RulesState) -> None:
        self._state = state
        self._show(state.rules)
        self._allow()

    def _show(self, rules: Rules) -> None:
        for box, on in (
            (self.idle, rules.only_idle),
            (self.full_screen, rules.not_full_screen),
            (self.hours, rules.only_hours),
            (self.anywhere, rules.writes_anywhere),
            (self.shows, rules.shows_game),
        ):
            with QSignalBlocker(box):
                box.setChecked(on)
        with QSignalBlocker(self.share):
            self.share.setCurrentIndex(self.share.findData(rules.share))
        for edit, minute in ((self.begin, rules.begin), (self.end, rules.end)):
            with QSignalBlocker(edit):
                edit.setTime(_MIDNIGHT.addSecs(60 * minute))

    def _allow(self) -> None:
        state = self._state
        offline = why_not(self._feed.connection) or ("" if state is not None else "Not known yet.")
        no_idle = offline or (state.why_not_idle if state is not None else "")
        no_full_screen = offline or (state.why_not_full_screen if state is not None else "")
        no_anywhere = offline or (state.why_not_confined if state is not None else "")
        for box, why, tip in (
            (self.idle, no_idle, self._idle_tip),
            (self.full_screen, no_full_screen, self._full_screen_tip),
            (self.hours, offline, "By this computer's clock; also over midnight"),
            (self.anywhere, no_anywhere, self._anywhere_tip),
            (self.shows, offline, "For games that render as pictures. The client is restarted."),
        ):
            # What is on can always be switched off.
            box.setEnabled(not offline and (not why or box.isChecked()))
            set_tip(box, why or tip)
            box.setAccessibleDescription(why or tip)
        self.why_idle.setText("" if state is None else state.why_not_idle)
        self.why_full_screen.setText("" if state is None else state.why_not_full_screen)
        self.share.setEnabled(not offline)
        item = cast(QStandardItemModel, self.share.model()).item(self.share.findData("one_core"))
        item.setEnabled(state is None or not state.why_not_one_core)
        item.setToolTip("" if state is None else text.tip(state.why_not_one_core))
        for part in (self.begin, self._and, self.end):
            part.setEnabled(not offline and self.hours.isChecked())

    @property
    def rules(self) -> Rules:
        """The rules as they are shown."""
        return Rules(
            only_idle=self.idle.isChecked(),
            not_full_screen=self.full_screen.isChecked(),
            only_hours=self.hours.isChecked(),
            begin=_MIDNIGHT.secsTo(self.begin.time()) // 60,
            share=self.share.currentData(),
            end=_MIDNIGHT.secsTo(self.end.time()) // 60,
            writes_anywhere=self.anywhere.isChecked(),
            shows_game=self.shows.isChecked(),
        )

    def _changed(self) -> None:
        if self._sending is not None:
            # Only the answer to the last change is of interest.
            self._sending.disconnect(self)
        self._sending = call = self._feed.call("rules.set", {"rules": self.rules.model_dump()})
        call.done.connect(self._kept)
        call.tell_problem(self._refused)
        self._allow()

    def _kept(self, state: RulesState) -> None:
        self._sending = None
        self._take(state)

    def _refused(self, error: ApiError) -> None:
        self._sending = None
        self.problem.emit(error)
        if self._state is not None:
            self._show(self._state.rules)
        self._allow()
