"""The runs and experiments that can be drawn, and the curves of those that are."""

from collections.abc import Iterable, Mapping, Sequence

from soulsgui.gui import text
from soulsgui.gui.feed import Feed
from soulsgui.gui.models.rules import SCORE_TITLES, algorithm_title, run_title, short_name
from soulsgui.gui.plots.cell import Shown
from soulsgui.gui.plots.choices import Choice
from soulsgui.gui.plots.layout import Layouts, give_colour
from soulsgui.gui.plotting.rows import Axis
from soulsgui.gui.states import run_is_active, run_look
from soulsgui.wire.control import RunStatus, RunSummary

MOST_CURVES = 20
"""Curves in one plot, at most."""

EXPERIMENT = "experiment/"
"""Stands before the id of an experiment among the names of runs, in which there is no `/`."""


def members_of(runs: Sequence[RunSummary]) -> tuple[str, ...]:
    """Return the runs of an experiment that its mean is of: those that are over, or all while none is."""
    over = [run.id for run in runs if not run_is_active(run.state)]
    return tuple((over or [run.id for run in runs])[:MOST_CURVES])


class Drawable:
    """What the page can draw, by the name of the run or experiment.

    Attributes:
        runs: The runs of the library.
        experiments: The experiments, each with the runs that it is the mean of.
        clients: The clients of runs whose curves were read.
    """

    def __init__(self, feed: Feed, layouts: Layouts) -> None:
        self._feed, self._layouts, self._listed = feed, layouts, feed.lists.runs
        self.runs: dict[str, RunSummary] = {}
        self.experiments: dict[str, tuple[str, ...]] = {}
        self.clients: Mapping[str, list[str]] = {}
        self._client_colours: dict[str, int] = {}

    def take(self) -> None:
        """Take the runs of the library."""
        self._listed.want()
        self.runs = {run.id: run for run in self._listed.entries}
        groups: dict[str, list[RunSummary]] = {}
        for run in self.runs.values():
            groups.setdefault(EXPERIMENT + run.experiment, []).append(run)
        self.experiments = {
            name: members_of(found) for name, found in groups.items() if name != EXPERIMENT and found[1:]
        }

    @property
    def listed(self) -> bool:
        """Whether the library was read."""
        return self._listed.known

    @property
    def shown(self) -> tuple[str, ...]:
        """What is drawn: what was ticked, or else the run that goes on, or the newest."""
        known = self.runs.keys() | self.experiments
        chosen = tuple(run for run in self._layouts.shown.runs if run in known or not self.listed)
        newest = self._feed.status.run.id or next(iter(self.runs), "")
        return chosen or ((newest,) if newest else ())

    @property
    def compared(self) -> list[RunSummary]:
        """The runs that are drawn; of an experiment, whose runs differ in their seeds alone, one."""
        drawn = {self.experiments.get(name, (name,))[0] for name in self.shown[:MOST_CURVES]}
        return [self.runs[run] for run in sorted(drawn & self.runs.keys())]

    def find(self, name: str) -> RunStatus | RunSummary | None:
        """Return a run; None for an experiment, or one that is not known."""
        status = self._feed.status.run
        return self.runs.get(name) or (status if status.id == name else None)

    def title(self, run: str) -> str:
        """Return what a run is called."""
        known = self.find(run)
        return run_title(known) if known is not None else run

    def choices(self) -> list[Choice]:
        """Return what can be ticked: the experiments, then the runs."""
        return [
            *(self._choice_of_experiment(name) for name in self.experiments),
            *(self._choice_of(run) for run in self.runs.values()),
        ]

    def _choice_of_experiment(self, name: str) -> Choice:
        members, pinned = self.experiments[name], name in self._layouts.shown.pinned
        tip = f"The mean of these runs, with a band from the lowest to the highest of them\n{name}"
        title = f"{short_name(name.removeprefix(EXPERIMENT))} (mean of {len(members)})"
        return Choice(name, title, tip, self._layouts.colours.get(name, 0), pinned)

    def _choice_of(self, run: RunSummary) -> Choice:
        words = [run.id, run.env_id, algorithm_title(run), run_look(run.state).word.lower()]
        tip = " · ".join(word for word in words if word)
        if run.best_mean_return is not None:
            score = SCORE_TITLES["best_mean_return"].capitalize()
            tip += f"\n{score}: {text.value(run.best_mean_return)}"
        pinned = run.id in self._layouts.shown.pinned
        return Choice(run.id, run_title(run), tip, self._layouts.colours.get(run.id, 0), pinned)

    def curves(self, of_episodes: bool) -> list[Shown]:
        """Return the curves of a metric: one for each run or experiment, or for each client of a run."""
        found: list[Shown] = []
        by_client = self._layouts.shown.each_client and of_episodes
        for run in self.shown:
            if run.startswith(EXPERIMENT):
                found += self._curves_of_experiment(run)
                continue
            clients = self.clients.get(run, []) if by_client else []
            for client in clients:
                found.append(self._curve_of_client(run, client, found))
            if not clients:
                found.append(Shown(run, "", self.title(run), self._layouts.colours.get(run, 0)))
        return found

    def _curves_of_experiment(self, name: str) -> list[Shown]:
        """Return the mean of an experiment; by wall time its runs, which follow one another."""
        members, colour = self.experiments.get(name, ()), self._layouts.colours.get(name, 0)
        if self._layouts.shown.axis is Axis.TIME:
            return [Shown(run, "", self.title(run), colour) for run in members]
        called = f"{short_name(name.removeprefix(EXPERIMENT))} (mean of {len(members)})"
        return [Shown(name, "", called, colour, members)] if members else []

    def _curve_of_client(self, run: str, client: str, beside: Iterable[Shown]) -> Shown:
        name, others = f"{run}/{client}", [f"{one.run}/{one.client}" for one in beside]
        colours = self._client_colours
        colours[name] = give_colour(name, colours, others)
        alone = len(self.shown) == 1
        return Shown(run, client, client if alone else f"{self.title(run)} · {client}", colours[name])
