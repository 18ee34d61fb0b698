"""The strip below the pages that says how a run ended, and offers what next."""

from collections.abc import Iterable

from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.icons import make_primary
from soulsgui.gui.models.connection import BannerWords
from soulsgui.gui.models.rules import goal_words, window_words
from soulsgui.gui.shell.pages import CLIENT, LOGS, OVERVIEW
from soulsgui.gui.shell.protocol import Shell, notify_problem
from soulsgui.gui.states import shown_state
from soulsgui.gui.theme import GAP_M, GAP_S, GAP_XS
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, row
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.labels import Heading, IconLabel, Label, set_property
from soulsgui.gui.widgets.message_bar import close_button
from soulsgui.gui.widgets.presets import ENVIRONMENT, task_of, time_words
from soulsgui.wire.control import BEST, ClientStatus, Preset, RunStatus, RunSummary

_WORDS_CHARACTERS = 48
_BEGINS = ("run.start", "run.resume")


def end_words(run: RunStatus) -> BannerWords | None:
    """Return what to say of a run that ended by itself; None while it goes on or when it was stopped."""
    after, mean = text.duration(run.seconds), text.value(run.mean_return)
    # Of one that began from a checkpoint those that it took this time for.
    steps = text.count(run.own_env_steps) + (" more" if run.begun_env_steps else "")
    if run.state == "failed":
        return BannerWords("state-bad", Tone.BAD, "The run failed", run.error)
    if run.state != "finished":
        return None
    if run.reached == "mean_return":
        title = f"Solved: reached {goal_words(run.goal_return or 0.0)} after {after}"
        # Training goes on while an evaluation is played: the model that reached the goal is a little older.
        if run.goal_judged_by != "evaluation":
            title += f" and {steps} steps"
        detail = {
            "evaluation": f"Mean of an evaluation: {mean}. The run made {steps} steps.",
            "both": f"{window_words(run)}: {mean}; greedy episodes confirmed it.",
            "training": f"{window_words(run)}: {mean}.",
        }[run.goal_judged_by]
        return BannerWords("star", Tone.GOOD, title, detail)
    best = text.value(run.best_mean_return)
    detail = f"Mean return at its end {mean}; the highest during the run, that of its best model: {best}."
    return BannerWords("state-finished", Tone.GOOD, f"Finished: made {steps} steps in {after}", detail)


def next_preset(presets: Iterable[Preset], run: RunStatus, runs: Iterable[RunSummary]) -> Preset | None:
    """Return a preset for a task that no run has solved yet; None without any.

    One that is learned as this run was, or as shipped, comes before others.
    """
    solved = {run.env_id, *(one.env_id for one in runs if one.reached == "mean_return")}
    others = [preset for preset in presets if str(preset.values.get(ENVIRONMENT, run.env_id)) not in solved]
    algorithm = run.algorithm
    return min(others, key=lambda one: one.values.get("algorithm", algorithm) != algorithm, default=None)


def played_here(clients: Iterable[ClientStatus]) -> bool:
    """Whether no other computer has played: one that was invited may not have come."""
    return all(client.local or shown_state(client) == "invited" for client in clients)


class EndStrip(QFrame):
    """Shown from when a run has ended by itself until another begins, or it is put away.

    On the overview it says so of every such run; below other pages when that is news.
    """

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("endStrip")
        self.setProperty("part", "banner")
        self._feed = feed
        self._run = feed.status.run
        self._page = ""
        self._is_news = False
        self._gone = ""  # the run of which no more is to be said
        self._gives_way = False
        self._next: Preset | None = None
        self._mark = IconLabel(0, self)
        self._title = Heading("", 0, self)
        self._detail = Label(parent=self)
        self.watch = FittingButton("Watch it play", "watch", self)
        self.watch.explain("See its best model play")
        make_primary(self.watch)
        self.next = FittingButton("", "", self)
        self.invite = FittingButton("Invite a computer…", "page-clients", self)
        self.invite.explain("Other computers play, too: the next run takes less time")
        words = Words("Continue", "Resuming …", "Resumed")  # short: what was reached stands in two lines then
        self.go_on = CommandButton(words, "resume", self._go_on, self)
        self.go_on.explain("Continue without the goal, until the run is stopped")
        self.log = FittingButton("Trainer's log", "log", self)
        self.close_button = close_button(self)
        self._lay_out()
        self.watch.clicked.connect(lambda: shell.open_player(self._run, BEST))
        self.next.clicked.connect(lambda: shell.open_new_run(preset=self._next.name if self._next else ""))
        self.invite.clicked.connect(lambda: shell.open_invite())
        self.go_on.problem.connect(lambda error: notify_problem(shell, error))
        self.go_on.clicked.connect(lambda: shell.show_page(OVERVIEW))
        self.log.clicked.connect(lambda: shell.show_page(LOGS, service="trainer"))
        self.close_button.clicked.connect(self._put_away)
        feed.snapshot_taken.connect(self._look)
        feed.run_changed.connect(self._look)
        feed.asked.connect(self._asked)
        for listed in (feed.lists.runs, feed.lists.presets):
            listed.changed.connect(self._offer_next)
        self._show()

    def _lay_out(self) -> None:
        for label in (self._title, self._detail):
            label.setWordWrap(True)
        said = QWidget(self)
        said.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        said.setMinimumWidth(_WORDS_CHARACTERS * self.fontMetrics().averageCharWidth())
        words = column(self._title, self._detail, margins=NO_MARGINS, gap_px=0)
        row(self._mark, (words, 1), on=said, margins=NO_MARGINS, gap_px=GAP_S)
        parts = FlowLayout(GAP_S)
        for part in (said, self.watch, self.next, self.invite, self.go_on, self.log):
            parts.addWidget(part)
        row((parts, 1), self.close_button, on=self, margins=(GAP_M, GAP_XS, GAP_S, GAP_XS), gap_px=GAP_S)

    def page_chosen(self, name: str) -> None:
        """Another page is in front."""
        self._page = name
        self._show()

    def give_way(self, on: bool) -> None:
        """Leave the place below the page to a message, or take it again."""
        self._gives_way = on
        self._show()

    def _look(self) -> None:
        before, self._run = self._run, self._feed.status.run
        run = self._run
        ends = end_words(run) is not None
        if not ends:
            self._gone, self._is_news = "", False
        elif before.id and (before.id != run.id or end_words(before) is None):
            # What has ended before this window came is none, and a failure is told as an event.
            self._is_news = run.state == "finished"
        self._show()

    def _show(self) -> None:
        run, words = self._run, end_words(self._run)
        seen = self._page == OVERVIEW or (self._is_news and self._page != CLIENT)
        if words is None or run.id == self._gone or not seen or self._gives_way:
            self.hide()
            return
        self._mark.show_icon(words.icon, words.tone)
        self._title.setText(words.title)
        self._detail.setText(words.detail)
        self.setAccessibleName(words.title)
        set_property(self, "tone", words.tone)
        failed = run.state == "failed"
        for part in (self.watch, self.go_on):
            part.setVisible(not failed)
        self.invite.setVisible(not failed and played_here(self._feed.status.clients))
        self.log.setVisible(failed)
        self._feed.lists.presets.want()
        self._offer_next()
        self.show()

    def _offer_next(self) -> None:
        run, lists = self._run, self._feed.lists
        solved = run.reached == "mean_return" and not run.sweep  # after a sweep its best settings are next
        found = next_preset(lists.presets.entries, run, lists.runs.entries) if solved else None
        self._next = found
        self.next.setVisible(found is not None)
        if found is not None:
            self.next.say(f"Try {task_of(found)}…", "play")
            self.next.explain("\n".join(filter(None, (found.title, found.about, time_words(found)))))

    def _put_away(self) -> None:
        self._gone = self._run.id
        self.hide()

    def _asked(self, command: str) -> None:
        # Whatever becomes of the next one: beside its trouble the success of the last one would mislead.
        if command in _BEGINS and end_words(self._run) is not None:
            self._put_away()

    def _go_on(self) -> Call:
        return self._feed.call("run.resume", {"run": self._run.id, "without_goal": True})
