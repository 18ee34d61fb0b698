"""Watches for a run that reaches its goal, offers what comes next, and does it."""

from typing import Any

from PySide6.QtCore import QObject, Signal

from soulsgui.gui.feed import Feed
from soulsgui.gui.offer import OfferBar, offer_for
from soulsgui.gui.page_stack import PageStack
from soulsgui.gui.pages import table
from soulsgui.gui.states import run_is_active

_WITHOUT_OFFER = (table.OVERVIEW, table.CLIENT)


class Offering(QObject):
    """Shows the bar that offers what comes next, and hides it when that is past.

    Signals:
        begun: What was offered is begun: the overview shows it.
        problem: It was refused; with the `ApiError`.

    Args:
        feed: The runner.
        bar: Where it is offered.
        pages: The pages: two need no offer, and one may hold changes that a new run would miss.
        parent: The window.
    """

    begun = Signal()
    problem = Signal(object)

    def __init__(self, feed: Feed, bar: OfferBar, pages: PageStack, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._bar = bar
        self._pages = pages
        self._before = feed.status.run
        feed.snapshot_taken.connect(self._snapshot_taken)
        feed.run_changed.connect(self._look)
        feed.asked.connect(self._asked)
        bar.next_wanted.connect(self._begin_next)
        bar.go_on_wanted.connect(lambda run: self._begin("run.resume", {"run": run, "without_goal": True}))

    def page_chosen(self, name: str) -> None:
        """Take the offer away when a page comes to the front that says it itself, or has nothing of it."""
        if name in _WITHOUT_OFFER:
            self._bar.hide()

    def _snapshot_taken(self) -> None:
        if self._before.id:  # what was reached before this window came is no news
            self._look()
        self._before = self._feed.status.run

    def _look(self) -> None:
        run = self._feed.status.run
        offer = offer_for(self._before, run)
        self._before = run
        if offer is not None and self._pages.shown not in _WITHOUT_OFFER:
            # The overview itself says so when it is in front; to who plays for others it says nothing.
            self._bar.make(offer)
        elif run_is_active(run.state):
            self._bar.hide()

    def _asked(self, command: str) -> None:
        if command == "run.start":
            self._bar.hide()

    def _begin_next(self, preset: str) -> None:
        def go_on(begin: bool) -> None:
            if begin:
                self._begin("run.start", {"preset": preset})

        # The next run would not use what was typed and not saved.
        self._pages.before_run(go_on)

    def _begin(self, command: str, params: dict[str, Any]) -> None:
        call = self._feed.call(command, params)
        call.failed.connect(self.problem)
        call.silent.connect(self.problem)
        self.begun.emit()
