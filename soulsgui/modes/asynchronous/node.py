"""The training node of the asynchronous trainer; with it comes torch, which actors do not need."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.modes.asynchronous.own_agent import OwnAlgorithm
from soulsgui.modes.asynchronous.sync_model import SyncModel
from soulsgui.policies.exploration import Moment
from soulsgui.training.attempt import TrainingRun
from soulsgui.training.intake.sessions import Exploration
from soulsgui.training.learners.replay import DeepQ, OffPolicy, ReplayLearner, SoftActorCritic
from soulsgui.training.trainer import TrainingNode
from soulsgui.wire.access import Address


class _IntervalLearner(ReplayLearner):
    """Stops learning at given numbers of updates, and calls a function there before it goes on."""

    newest_figures: dict[str, float]

    def call_at(self, next_one: Callable[[int], int], call: Callable[[int, float], None]) -> None:
        """Call at the next number of updates, again and again."""
        self._next_one, self._call = next_one, call
        self._next = next_one(self.agent.updates)
        self.newest_figures = {}

    @property
    def owed(self) -> bool:
        """Whether an update is wanted before the next call."""
        return self.agent.updates < self._next and super().owed

    def tell_when_due(self, now: float) -> None:
        """Call the function where it is due; weights are published there alone."""
        if self.agent.updates >= self._next:
            self._call(self.agent.updates, now)
            self._next = self._next_one(self.agent.updates)

    def own_figures(self, of_agent: Mapping[str, float]) -> dict[str, float]:
        """Keep what the agent tells."""
        self.newest_figures = dict(of_agent)
        return super().own_figures(of_agent)


class _ExploringActors(DeepQ):
    def __init__(self, run: TrainingRun, rates: Mapping[str, float]) -> None:
        super().__init__(run)
        self._rates = rates

    def exploration(self, moment: Moment) -> Exploration:
        """Return how clients are to explore, those with a rate of their own by it."""
        return replace(super().exploration(moment), own=self._rates)


class IntervalNode(TrainingNode):
    """Trains with an agent of one's own, or with one of the program's."""

    learner: _IntervalLearner

    def __init__(
        self,
        settings: Settings,
        run: RunFolder,
        address: Address,
        stop: threading.Event,
        own: SyncModel | None,
        rates: Mapping[str, float],
        n_step: int,
    ) -> None:
        self._own, self._rates, self._n_step = own, rates, n_step
        super().__init__(settings, run, address, stop)

    def make_learner(self, run: TrainingRun) -> _IntervalLearner:
        """Make a learner with the agent."""
        algorithm: OffPolicy
        if self._own is not None:
            algorithm = OwnAlgorithm(run, self._own, self._n_step)
        elif run.settings.algorithm == "sac":
            algorithm = SoftActorCritic(run)
        else:
            algorithm = _ExploringActors(run, self._rates)
        return _IntervalLearner(run, algorithm)
