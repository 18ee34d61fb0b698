"""Asynchronous actor and critic: batches are learned from as they come, corrected for their age."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from soulsgui.rl.agents.vtrace import VTraceAgent
from soulsgui.rl.buffers.rollout import SegmentQueue
from soulsgui.training.agents import make_agent
from soulsgui.training.attempt import TrainingRun
from soulsgui.training.intake.chunks import Accepted
from soulsgui.training.learners.asynchronous import AsynchronousLearner
from soulsgui.training.status import Stopwatch


class VTraceLearner(AsynchronousLearner):
    """Trains a `VTraceAgent` on segments as they come.

    Segments wait, oldest first, until there are `vtrace.batch_size` transitions; what has become too old
    meanwhile is dropped and counted. Each transition is learned from once (`vtrace.epochs` gradient steps).
    What waits is not part of a checkpoint: a run that goes on collects it anew.
    """

    agent: VTraceAgent

    def __init__(self, run: TrainingRun) -> None:
        super().__init__(run, run.settings.vtrace)
        self.agent = make_agent("vtrace", run.settings, run.spaces, run.device)
        self.waiting = SegmentQueue()
        self._too_old = 0  # transitions that were dropped since the last row

    def close(self, keep_memory: bool) -> None:
        """Nothing is held."""

    def weights(self, published: bool = True) -> dict[str, NDArray[Any]]:
        """Return the agent's weights."""
        return self.agent.export_weights()

    def state(self, with_memory: bool) -> tuple[dict[str, float], Mapping[str, NDArray[Any]]]:
        """Nothing but the agent is saved."""
        return {}, {}

    def load(self, pacing: Mapping[str, float], memory: Mapping[str, NDArray[Any]]) -> None:
        """Nothing but the agent is saved."""

    @property
    def uncounted(self) -> int:
        """Transitions that wait to be learned from."""
        return self.waiting.steps

    @property
    def owed(self) -> bool:
        """Whether there is enough for an update; what is left at the goal makes a smaller one."""
        least = 1 if self.all_taken_in else self.run.settings.vtrace.batch_size
        return self.waiting.steps >= least

    @property
    def behind(self) -> bool:
        """Whether the learner has to catch up before more is taken in."""
        return self.room <= 0

    @property
    def room(self) -> int:
        """Transitions that may be taken in before the learner has to catch up."""
        return self.run.settings.vtrace.buffer_size - self.waiting.steps

    @property
    def steps_per_update(self) -> float:
        """Transitions that are taken in for each update."""
        return self.run.settings.vtrace.batch_size

    def insert(self, accepted: Accepted) -> None:
        """Let samples wait to be learned from, as `chunks.SampleSink`."""
        self.waiting.add(replace(accepted.segments, update=self.note_taken(accepted)))

    def learn(self, until: float) -> int:
        """Make updates until a time, or until there is nothing to learn from."""
        self._too_old += self.waiting.drop_older(self.oldest)
        before = self.run.env_steps
        while self.due:
            batch = self.waiting.take(self.run.settings.vtrace.batch_size)
            assert batch.update is not None
            lag = self.lag_of(batch.update, batch.length)
            moment = self.run.moment
            self.run.count(batch)
            with Stopwatch(self.status.timings["update"]):
                self.agent.update(batch, moment)
            self.interval.taken_in(batch.steps, lag)
            if time.monotonic() >= until:
                break
        return self.run.env_steps - before

    @property
    def steps_ahead(self) -> int:
        """Transitions on their way: at least what the next two updates take."""
        return max(super().steps_ahead, 2 * self.run.settings.vtrace.batch_size)

    def own_figures(self, of_agent: Mapping[str, float]) -> dict[str, float]:
        """Return what a row tells besides the figures of the agent and of the interval."""
        too_old, self._too_old = self._too_old, 0
        return {"too_old_steps": float(too_old), "waiting_steps": float(self.waiting.steps)}
