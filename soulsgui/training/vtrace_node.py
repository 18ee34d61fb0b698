"""Asynchronous actor and critic: batches are learned from as they come, corrected for their age."""

import time

import numpy as np

from soulsgui.rl.agents.vtrace import VTraceAgent
from soulsgui.rl.buffers.collecting import Arrived, SegmentQueue
from soulsgui.training import limits
from soulsgui.training.agents import make_vtrace
from soulsgui.training.asynchronous_node import AsynchronousTrainingNode
from soulsgui.training.batch import Accepted, collected


class VTraceTrainingNode(AsynchronousTrainingNode):
    """Trains a `VTraceAgent` on segments as they come. See `TrainingNode` for the arguments.

    Segments wait, oldest first, until there are `vtrace.batch_size` transitions; what has become too old
    meanwhile is dropped and counted. Each transition is learned from once (`vtrace.epochs` gradient steps).
    What waits is not part of a checkpoint: a run that goes on collects it anew.
    """

    def _make_agent(self) -> None:
        super()._make_agent()
        self._agent = make_vtrace(self.settings, self.spaces, self.device)
        self._waiting = SegmentQueue()
        self._too_old = 0  # transitions that were dropped since the last row

    @property
    def agent(self) -> VTraceAgent:
        """The learner."""
        return self._agent

    @property
    def _delays(self) -> limits.Delays:
        return self.settings.vtrace

    # --- samples -----------------------------------------------------------------------------------

    @property
    def _uncounted(self) -> int:
        return self._waiting.steps

    @property
    def _due(self) -> bool:
        """Whether an update is due; what is left at the goal makes a smaller one."""
        waiting = self._waiting.steps
        return waiting >= self.settings.vtrace.batch_size or (self._all_taken_in and waiting > 0)

    @property
    def _behind(self) -> bool:
        return self._room <= 0

    @property
    def _room(self) -> int:
        return self.settings.vtrace.buffer_size - self._waiting.steps

    @property
    def _steps_per_update(self) -> float:
        return self.settings.vtrace.batch_size

    def take_in(self, accepted: Accepted) -> None:
        """Let samples wait to be learned from, as `batch.Taker`."""
        updates = self._note_taken(accepted)
        found = collected(accepted, accepted.clients)
        self._waiting.add(Arrived(found, accepted.segments.model_id_first, updates))

    # --- learning ----------------------------------------------------------------------------------

    def _learn(self, until: float) -> int:
        self._too_old += self._waiting.drop_older(self._oldest)
        before = self.env_steps
        while self._due:
            taken = self._waiting.take(self.settings.vtrace.batch_size)
            batch, lag = taken.batch, self._lag(taken.update, taken.batch.lengths)
            moment = self.moment
            # Before the update: the reporting thread never tells of an update without its steps.
            self.env_steps += batch.steps
            self.episodes += int(np.count_nonzero(batch.terminated | batch.truncated))
            with self.monitor_timing(self._timings["update"]):
                self._agent.update(batch, moment)
            self._tally.taken_in(batch.steps, lag)
            if time.monotonic() >= until:
                break
        return self.env_steps - before

    @property
    def _steps_ahead(self) -> int:
        """Transitions on their way: at least what the next two updates take."""
        return max(super()._steps_ahead, 2 * self.settings.vtrace.batch_size)

    # --- what is told ------------------------------------------------------------------------------

    def _own_figures(self) -> dict[str, float]:
        too_old, self._too_old = self._too_old, 0
        return {"too_old_steps": float(too_old), "waiting_steps": float(self._waiting.steps)}
