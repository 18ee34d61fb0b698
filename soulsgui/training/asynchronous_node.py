"""Asynchronous learning: samples come in, updates are made beside it, kept in step by limits.

What is learned from, and when an update is due, stands in a subclass.
"""

import logging
import time
from abc import abstractmethod
from typing import Any

import numpy as np
import redis
from numpy.typing import NDArray

from soulsgui.errors import ServiceError
from soulsgui.rl.agents.base import AsynchronousAgent
from soulsgui.training import limits
from soulsgui.training.batch import Accepted, Ints, Owned, Steps
from soulsgui.training.checks import CODES, GOOD, LEFT_OUT, Codes, check_segments
from soulsgui.training.evaluations import ClientEvaluations
from soulsgui.training.intake import PER_STREAM
from soulsgui.training.node import BLOCK_MS, TrainingNode
from soulsgui.training.session import Session
from soulsgui.training.tally import Tally
from soulsgui.wire.messages.chunk import Reason
from soulsgui.wire.messages.node import NodePhase
from soulsgui.wire.messages.server_config import OFF_POLICY
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)

_SLICE_S = 0.03
"""Longest time of learning before the node looks after everything else again."""

_ROW_EVERY_S = 1.0
_CHECKPOINT_EVERY_S = 5.0
_NEWEST_CHUNK = 0.1
"""Weight of the newest chunk in the mean size of chunks."""


class AsynchronousTrainingNode(TrainingNode):
    """Trains while samples come in; no client waits for another, nor for an update.

    Samples of weights that were published at most `max_model_delay` publishes ago are taken in, as many as
    `stop.env_steps` wants. New weights go out when the agent has changed, but not too often. See
    `TrainingNode` for the arguments.
    """

    family = OFF_POLICY

    # --- what a subclass provides ------------------------------------------------------------------

    @property
    @abstractmethod
    def agent(self) -> AsynchronousAgent:
        """The learner."""

    @property
    @abstractmethod
    def _delays(self) -> limits.Delays:
        """The settings of the algorithm that say how old and how many samples may be."""

    @property
    @abstractmethod
    def _due(self) -> bool:
        """Whether an update is due."""

    @property
    @abstractmethod
    def _behind(self) -> bool:
        """Whether the learner has to catch up before more is taken in."""

    @property
    @abstractmethod
    def _room(self) -> float | None:
        """Transitions that may be taken in before the learner has to catch up; None: as many as come."""

    @property
    @abstractmethod
    def _steps_per_update(self) -> float:
        """Transitions that are taken in for each update."""

    @abstractmethod
    def _learn(self, until: float) -> float:
        """Make updates until a time, or until there is nothing to learn from.

        Args:
            until: Monotonic time, seconds.

        Returns:
            Transitions that the updates made room for.
        """

    @abstractmethod
    def _own_figures(self) -> dict[str, float]:
        """Return what a row tells besides the figures of the agent and of the tally."""

    @property
    def _uncounted(self) -> int:
        """Transitions that were taken over but count as steps of the run only once they are learned from."""
        return 0

    @property
    def _oldest(self) -> int:
        """Id of the oldest weights whose samples are taken in."""
        return self.model_id - self._delays.max_model_delay

    def _takes(self, session: Session, steps: int) -> bool:
        """Return whether transitions of a client are taken; those for which it is said count as delivered."""
        return True

    @property
    def _collects_for(self) -> str:
        """What more samples are collected for while nothing is learned, in words; may be empty."""
        return ""

    def dropped_out(self, client: str, reason: str) -> None:
        """The others go on; nobody waits for anybody."""

    # --- making, beginning and end -----------------------------------------------------------------

    def _make_agent(self) -> None:
        self._pace = limits.Pace()
        self._learning = True  # whether there was enough to begin with
        self._let_in = 0  # transitions that were let in and not taken over yet
        self._chunk_steps = 1.0
        self._waited_s = 0.0
        self._remembered_ids = self._delays.max_model_delay + 1

    def _begin_attempt(self) -> None:
        now = time.monotonic()
        learner, clients = self._waits["learner"], self._waits["clients"]
        self._tally = Tally(now, self.agent.updates, self.env_steps, learner=learner, ingest=clients)
        self._published_update = self._saved_update = self.agent.updates
        self._published_at, self._next_save = now, now + _CHECKPOINT_EVERY_S
        self._evaluations = ClientEvaluations(
            self.settings,
            self.run_folder.run_id,
            self.keys,
            self._intake,
            self._publisher,
            self.attempt,
            self.agent.updates,
        )
        self._set_limits()
        super()._begin_attempt()

    def _close(self) -> None:
        try:
            self._tell_row(time.monotonic())
        except ServiceError as error:
            self._failure, self._spoilt = self._failure or str(error), True
            raise
        finally:
            super()._close()

    # --- samples -----------------------------------------------------------------------------------

    @property
    def _wanted(self) -> float:
        """Transitions that are wanted beyond those that were taken over."""
        goal = self.settings.stop.env_steps
        return float("inf") if goal is None else goal - self.env_steps - self._uncounted

    @property
    def _all_taken_in(self) -> bool:
        """Whether there are as many samples as were wanted."""
        return self._wanted <= 0

    def _read(self, connection: redis.Redis) -> None:
        """Take what came, unless the learner has to catch up; wait for it only if it has nothing to do."""
        began = time.monotonic()
        due, behind = self._due, self._behind
        self._tally.ingest.set(behind, began)
        self._tally.learner.set(self._learning and not due, began)
        self._set_limits()
        if not (behind or self._all_taken_in):
            self._intake.take(connection, 0 if due else BLOCK_MS, self._entries_to_read)
        if not due and (self._all_taken_in or self._intake.reader.idle):
            self._stop.wait(BLOCK_MS / 1000)
        now = time.monotonic()
        self._tally.learner.set(False, now)
        self._waited_s = 0.0 if due else now - began

    @property
    def _entries_to_read(self) -> int:
        """Entries of each client to read next: so many that the learner is not left behind by far."""
        room = self._room
        if room is None:
            return PER_STREAM
        return limits.entries_to_read(room, self._chunk_steps, self._intake.busy, PER_STREAM)

    def judge(self, owned: Owned) -> Codes:
        """Accept samples of weights that are not too old, as `batch.Taker`."""
        digests, newest = self._publisher.digests, self.model_id
        return check_segments(owned.segments, self.spaces, digests, self._oldest, newest, owned.num_envs)

    def admit_all(self, session: Session, steps: int) -> bool:
        """Let chunks in as long as samples are wanted, as `batch.Taker`."""
        if self._wanted - self._let_in < steps or not self._takes(session, steps):
            return False
        self._let_in += steps
        return True

    def admit(self, session: Session, lengths: Steps, model_ids: Ints, codes: Codes) -> None:
        """Let a chunk in if samples are still wanted, as `batch.Taker`."""
        if self._wanted - self._let_in <= 0:
            codes[:] = LEFT_OUT
        if not self._takes(session, int(lengths[model_ids == self.model_id].sum())):
            refused = codes == GOOD
            codes[refused] = CODES[Reason.NOT_ADMITTED] if session.plays else LEFT_OUT
            if refused.any() and not session.plays:  # on its way when its client left: no fault of it
                self._intake.sessions.count_unadmitted(session.client, Reason.NOT_ADMITTED)
        self._let_in += int(lengths[codes == GOOD].sum())

    def _note_taken(self, accepted: Accepted) -> NDArray[Any]:
        """Take note of what was taken over.

        Returns:
            Updates of the agent up to the weights of each segment, `[S]`.
        """
        segments = accepted.segments
        self._let_in = 0
        newest = 1 - (1 - _NEWEST_CHUNK) ** accepted.chunks
        self._chunk_steps += newest * (segments.steps / accepted.chunks - self._chunk_steps)
        made_with, where = np.unique(segments.model_id_last, return_inverse=True)
        return np.array([self._publisher.updates[model_id] for model_id in made_with.tolist()])[where]

    def _lag(self, updates: NDArray[Any], lengths: NDArray[Any]) -> float:
        """Return the sum over transitions of the updates since the weights they were made with.

        Args:
            updates: Updates up to the weights of each segment, `[S]`.
            lengths: Steps of each, `[S]`.
        """
        # After a resume there may be samples of weights that the resumed agent has not reached yet.
        lags = np.maximum(self.agent.updates - updates, 0)
        self.staleness.accept(lags, lengths)
        return float((lags * lengths).sum())

    # --- learning ----------------------------------------------------------------------------------

    def _advance(self, seconds: float) -> None:
        began = time.monotonic()
        if self._unpublished:
            self._publish()
        self._evaluations.look(self._link.redis, began)
        self.asks_clients = self._evaluations.asks
        slice_s = limits.quarter_lag_s(self._delays, self._pace.steps_per_s, self._steps_per_update)
        learned = self._learn(began + min(slice_s, _SLICE_S))
        now = time.monotonic()
        if learned:
            self._pace.note(learned, seconds - self._waited_s + now - began)
        self._tell_when_due(now)
        self._save_when_due(now)
        self.goal_reached = self._all_taken_in and not self._due
        self.phase, self.detail = self._doing(learned > 0)

    def _tell_when_due(self, now: float) -> None:
        """Publish the agent, and put its updates on the curves, each when it is time."""
        self._publish_when_due(now)
        if now - self._tally.began >= _ROW_EVERY_S:
            self._tell_row(now)

    def _grants_to_publish(self) -> dict[str, Grant]:
        """Return the grants that have to change: nobody waits for anybody here."""
        return self._intake.sessions.grants_due()

    def _set_limits(self) -> None:
        """Say what clients may have on their way."""
        self._intake.sessions.steps_ahead = self._steps_ahead

    @property
    def _steps_ahead(self) -> int:
        """Transitions that all clients together may have on their way."""
        least_s, pace = self._least_publish_s, self._pace.steps_per_s
        return max(limits.steps_ahead(self._delays, least_s, pace, self._steps_per_update), 1)

    @property
    def _least_publish_s(self) -> float:
        """Least time between two publishes, seconds."""
        return max(self.settings.publish.min_seconds, self._publisher.size / limits.PUBLISHED_BYTES_PER_S)

    def _publish_when_due(self, now: float) -> None:
        """Publish the agent when it has changed, but not too often."""
        if self.agent.updates == self._published_update:
            return
        interval = limits.publish_interval(
            self._delays,
            self._least_publish_s,
            self._intake.sessions.steps_outstanding,
            self._pace.steps_per_s,
            self._steps_per_update,
        )
        if now >= self._published_at + interval:
            self._publish_next(now)

    def _publish_next(self, now: float) -> None:
        """Publish the agent under the next model id."""
        self.model_id += 1
        self._prepare_weights()
        self._published_at, self._published_update = now, self.agent.updates
        self._set_limits()
        self._evaluations.publishing(self._standing(), now)
        self._publish()

    def _save_when_due(self, now: float) -> None:
        every = self.settings.checkpoint.every_updates
        if self.agent.updates // every > self._saved_update // every and now >= self._next_save:
            # What is saved is what training is taken back to: a row that has left all bounds ends it before.
            self._tell_row(now)
            self._saved_update, self._next_save = self.agent.updates, now + _CHECKPOINT_EVERY_S
            self._desk.save_current()

    def _doing(self, learned: bool) -> tuple[NodePhase, str]:
        """Return phase and detail after a turn in which something was learned, or nothing."""
        if self.goal_reached:
            return "waiting", "goal reached"
        if learned:
            return "updating", ""
        if not self._intake.sessions.playing:
            return "waiting", "no clients"
        return "collecting", self._collects_for

    # --- what is told ------------------------------------------------------------------------------

    def _tell_row(self, now: float) -> None:
        """Put the updates since the last row on the curves, if there were any.

        Raises:
            ServiceError: The agent's numbers are not finite any more.
        """
        previous = self._tally.update
        if self.agent.updates == previous:
            return
        lag = self._tally.policy_lag
        self.policy_lag = self.policy_lag if lag is None else lag
        values = self.agent.figures()
        values |= self._tally.close(now, self.agent.updates, self.env_steps)
        values |= self._own_figures()
        values |= {"policy_lag": self.policy_lag, "clients": float(self._intake.sessions.playing)}
        self._tell_update(previous, values)
        logger.info(
            "update %d: %d steps, %.0f updates and %.0f steps a second, policy lag %.1f updates",
            self.agent.updates, self.env_steps, values["updates_per_s"], values["env_steps_per_s"],
            self.policy_lag,
        )  # fmt: skip
