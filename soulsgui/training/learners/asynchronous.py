"""Asynchronous learning: samples come in, updates are made beside it, kept in step by limits.

What is learned from, and when an update is due, stands in a subclass.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import redis
from numpy.typing import NDArray

from soulsgui.config.schema import Settings
from soulsgui.experience.segments import Ints
from soulsgui.rl.agents.base import AsynchronousAgent
from soulsgui.training.attempt import BLOCK_MS, Attempt, TrainingRun
from soulsgui.training.evaluations import ClientEvaluations
from soulsgui.training.intake.checks import CODES, GOOD, LEFT_OUT, Codes, check_segments
from soulsgui.training.intake.chunks import Accepted, Owned, Steps
from soulsgui.training.intake.reader import PER_STREAM
from soulsgui.training.intake.sessions import Session
from soulsgui.training.learners import limits
from soulsgui.wire.messages.chunk import Reason
from soulsgui.wire.messages.server_config import OFF_POLICY
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)

_SLICE_S = 0.03  # longest time of learning before the trainer looks after everything else again

_ROW_EVERY_S = 1.0
_CHECKPOINT_EVERY_S = 5.0
_NEWEST_CHUNK = 0.1  # weight of the newest chunk in the mean size of chunks


class AsynchronousLearner(ABC):
    """Trains while samples come in; no client waits for another, nor for an update.

    Samples of weights that were published at most `max_model_delay` publishes ago are taken in, as many as
    `stop.env_steps` wants. New weights go out when the agent has changed, but not too often.
    """

    family = OFF_POLICY
    agent: AsynchronousAgent
    attempt: Attempt
    interval: limits.IntervalStats

    def __init__(self, run: TrainingRun, delays: limits.Delays) -> None:
        self.run, self.status, self.delays = run, run.status, delays
        self.remembered_ids = delays.max_model_delay + 1
        self.learning = True
        self._pace = limits.Pace()
        self._let_in = 0  # transitions that were let in and not taken over yet
        self._chunk_steps = 1.0
        self._waited_s = 0.0

    @property
    @abstractmethod
    def owed(self) -> bool:
        """Whether there is something to learn from that was not learned from yet."""

    @property
    def due(self) -> bool:
        """Whether an update may be made now."""
        return self.owed

    @property
    @abstractmethod
    def behind(self) -> bool:
        """Whether the learner has to catch up before more is taken in."""

    @property
    @abstractmethod
    def room(self) -> float | None:
        """Transitions that may be taken in before the learner has to catch up; None: as many as come."""

    @property
    @abstractmethod
    def steps_per_update(self) -> float:
        """Transitions that are taken in for each update."""

    @abstractmethod
    def learn(self, until: float) -> float:
        """Make updates until a time (monotonic seconds); return transitions that they made room for."""

    @abstractmethod
    def own_figures(self, of_agent: Mapping[str, float]) -> dict[str, float]:
        """Return what a row tells besides the figures of the agent and of the interval."""

    @abstractmethod
    def weights(self, published: bool = True) -> dict[str, NDArray[Any]]:
        """Return the weights that clients and the evaluator get, or else those that a checkpoint holds."""

    @property
    def uncounted(self) -> int:
        """Transitions that were taken over but count as steps of the run only once they are learned from."""
        return 0

    @property
    def collects_for(self) -> str:
        """What more samples are collected for while nothing is learned, in words; may be empty."""
        return ""

    @property
    def oldest(self) -> int:
        """Id of the oldest weights whose samples are taken in."""
        return self.run.model_id - self.delays.max_model_delay

    def takes(self, session: Session, steps: int) -> bool:
        """Return whether transitions of a client are taken; those for which it is said count as delivered."""
        return True

    def lost(self, client: str, reason: str) -> None:  # noqa: B027 - nothing is to be done
        """The others go on; nobody waits for anybody."""

    def evaluate(self, command_id: str, episodes: int) -> None:
        """Have clients play the next weights that are published; `ValueError` says why nobody can."""
        self._evaluations.ask(command_id, episodes)

    def forget(self, client: str) -> int:
        """Nothing is remembered that was learned from."""
        return 0

    def begin(self, attempt: Attempt) -> None:
        """Use an attempt's server and clients from now on."""
        self.attempt, now = attempt, time.monotonic()
        learner, clients = self.status.waits["learner"], self.status.waits["clients"]
        self.interval = limits.IntervalStats(
            now, self.agent.updates, self.run.env_steps, learner=learner, ingest=clients
        )
        self._published_update = self._saved_update = self.agent.updates
        self.published_at, self.next_save = now, now + _CHECKPOINT_EVERY_S
        self._evaluations = ClientEvaluations(attempt, self.agent.updates)
        self.set_limits()

    def configure(self, settings: Settings) -> None:
        """Learn by other values of live settings from the next update on."""
        self.tell_row(time.monotonic())  # no row tells of updates by both
        self.agent.settings = settings
        self._evaluations.configure(settings)

    def finish(self) -> None:
        """Put the last updates on the curves."""
        self.tell_row(time.monotonic())

    @property
    def wanted(self) -> float:
        """Transitions that are wanted beyond those that were taken over."""
        goal = self.run.settings.stop.env_steps
        return float("inf") if goal is None else goal - self.run.env_steps - self.uncounted

    @property
    def all_taken_in(self) -> bool:
        """Whether there are as many samples as were wanted."""
        return self.wanted <= 0

    def read(self, connection: redis.Redis) -> None:
        """Take what came, unless the learner has to catch up; wait for it only if it has nothing to do."""
        began = time.monotonic()
        due, behind = self.due, self.behind
        self.interval.ingest.set(behind, began)
        self.interval.learner.set(self.learning and not due, began)
        self.set_limits()
        if not (behind or self.all_taken_in):
            room, intake = self.room, self.attempt.intake
            most = PER_STREAM
            if room is not None:  # so much that the learner is not left behind by far
                most = limits.entries_to_read(room, self._chunk_steps, intake.busy, PER_STREAM)
            intake.take(connection, 0 if due else BLOCK_MS, most)
        if not due and (self.all_taken_in or self.attempt.intake.reader.idle):
            self.attempt.stop.wait(BLOCK_MS / 1000)
        now = time.monotonic()
        self.interval.learner.set(False, now)
        self._waited_s = 0.0 if due else now - began

    def judge(self, owned: Owned) -> Codes:
        """Accept samples of weights that are not too old, as `chunks.SampleSink`."""
        digests, newest = self.attempt.publisher.digests, self.run.model_id
        return check_segments(owned.segments, self.run.spaces, digests, self.oldest, newest, owned.num_envs)

    def wants(self, session: Session) -> float:
        """Return how many more transitions are wanted, as `chunks.SampleSink`."""
        return self.wanted - self._let_in

    def admit(self, session: Session, lengths: Steps, model_ids: Ints, codes: Codes) -> None:
        """Let a chunk in if samples are still wanted, as `chunks.SampleSink`."""
        if self.wanted - self._let_in <= 0:
            codes[:] = LEFT_OUT
        if not self.takes(session, int(lengths[model_ids == self.run.model_id].sum())):
            refused = codes == GOOD
            codes[refused] = CODES[Reason.NOT_ADMITTED] if session.plays else LEFT_OUT
            if refused.any() and not session.plays:  # on its way when its client left: no fault of it
                self.attempt.intake.sessions.count_unadmitted(session.client, Reason.NOT_ADMITTED)
        self._let_in += int(lengths[codes == GOOD].sum())

    def refused_late(self, model_ids: Ints, lengths: Steps) -> None:
        """Count what is refused as late, as `chunks.SampleSink`."""
        self.attempt.refused_late(self.agent.updates, model_ids, lengths)

    def note_taken(self, accepted: Accepted) -> NDArray[Any]:
        """Take note of what was taken over; return the updates up to the weights of each segment, `[S]`."""
        segments = accepted.segments
        self._let_in = 0
        newest = 1 - (1 - _NEWEST_CHUNK) ** accepted.chunks
        self._chunk_steps += newest * (segments.steps / accepted.chunks - self._chunk_steps)
        made_with, where = np.unique(segments.model_id_last, return_inverse=True)
        return np.array([self.attempt.publisher.updates[model_id] for model_id in made_with.tolist()])[where]

    def lag_of(self, updates: NDArray[Any], lengths: NDArray[Any]) -> float:
        """Return the sum over transitions of the updates since the weights they were made with."""
        # After a resume there may be samples of weights that the resumed agent has not reached yet.
        lags = np.maximum(self.agent.updates - updates, 0)
        self.status.staleness.accept(lags, lengths)
        return float((lags * lengths).sum())

    def update(self, seconds: float) -> None:
        """Publish what was not sent, learn for a while, then tell, publish and save what is due."""
        began = time.monotonic()
        if self.attempt.unpublished:
            self.attempt.publish(self.grants_to_publish())
        self._evaluations.look(self.attempt.link.redis, began)
        self.status.asks_clients = self._evaluations.asks
        slice_s = limits.quarter_lag_s(self.delays, self._pace.steps_per_s, self.steps_per_update)
        learned = self.learn(began + min(slice_s, _SLICE_S))
        now = time.monotonic()
        if learned:
            self._pace.note(learned, seconds - self._waited_s + now - began)
        self.tell_when_due(now)
        self._save_when_due(now)
        self.status.stop_reached = self.all_taken_in and not self.owed
        if self.status.stop_reached:
            self.status.phase, self.status.detail = "waiting", "its steps are made"
        elif learned:
            self.status.phase, self.status.detail = "updating", ""
        elif not self.attempt.intake.sessions.playing:
            self.status.phase, self.status.detail = "waiting", "no clients"
        else:
            self.status.phase, self.status.detail = "collecting", self.collects_for

    def tell_when_due(self, now: float) -> None:
        """Publish the agent when it has changed, and put its updates on the curves, each when it is time."""
        if self.agent.updates != self._published_update and now >= self.published_at + self._publish_interval:
            self.publish_next(now)
        if now - self.interval.began >= _ROW_EVERY_S:
            self.tell_row(now)

    def grants_to_publish(self) -> dict[str, Grant]:
        """Return the grants that have to change: nobody waits for anybody here."""
        return self.attempt.intake.sessions.grants_due()

    def set_limits(self) -> None:
        """Say what clients may have on their way."""
        self.attempt.intake.sessions.steps_ahead = self.steps_ahead

    @property
    def steps_ahead(self) -> int:
        """Transitions that all clients together may have on their way."""
        least_s, pace = self._least_publish_s, self._pace.steps_per_s
        return max(limits.steps_ahead(self.delays, least_s, pace, self.steps_per_update), 1)

    @property
    def _least_publish_s(self) -> float:
        return max(
            self.run.settings.publish.min_seconds, self.attempt.publisher.size / limits.PUBLISHED_BYTES_PER_S
        )

    @property
    def _publish_interval(self) -> float:
        outstanding, pace = self.attempt.intake.sessions.steps_outstanding, self._pace.steps_per_s
        least_s, per_update = self._least_publish_s, self.steps_per_update
        return limits.publish_interval(self.delays, least_s, outstanding, pace, per_update)

    def publish_next(self, now: float) -> None:
        """Publish the agent under the next model id."""
        self.run.model_id += 1
        self.attempt.prepare(self.agent, self.weights())
        self.published_at, self._published_update = now, self.agent.updates
        self.set_limits()
        self._evaluations.publishing(self.run.position(self.agent.updates), now)
        self.attempt.publish(self.grants_to_publish())

    def _save_when_due(self, now: float) -> None:
        every = self.run.settings.checkpoint.every_updates
        if self.agent.updates // every > self._saved_update // every and now >= self.next_save:
            # What is saved is what training is taken back to: a row that has left all bounds ends it before.
            self.tell_row(now)
            self._saved_update, self.next_save = self.agent.updates, now + _CHECKPOINT_EVERY_S
            self.attempt.checkpoints.save_current()

    def tell_row(self, now: float) -> None:
        """Put the updates since the last row on the curves, if there were any."""
        previous = self.interval.update
        if self.agent.updates == previous:
            return
        lag = self.interval.policy_lag
        self.status.policy_lag = self.status.policy_lag if lag is None else lag
        values = self.agent.figures()
        values |= self.interval.close(now, self.agent.updates, self.run.env_steps) | self.own_figures(values)
        values["policy_lag"] = self.status.policy_lag
        values["clients"] = float(self.attempt.intake.sessions.playing)
        self.attempt.tell_update(self.agent.updates, previous, values)
        logger.info(
            "update %d: %d steps, %.0f updates and %.0f steps a second, policy lag %.1f updates",
            self.agent.updates, self.run.env_steps, values["updates_per_s"], values["env_steps_per_s"],
            self.status.policy_lag,
        )  # fmt: skip
