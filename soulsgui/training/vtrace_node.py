"""Asynchronous actor and critic: batches are learned from as they come, corrected for their age."""

import logging
import time

import numpy as np
import redis

from soulsgui.errors import ServiceError
from soulsgui.rl.agents.vtrace import VTraceAgent
from soulsgui.rl.buffers.collecting import CollectedSegments
from soulsgui.rl.buffers.waiting import Arrived, WaitingSegments
from soulsgui.training import limits
from soulsgui.training.batch import Accepted, Ints, Owned, Steps
from soulsgui.training.checks import GOOD, LEFT_OUT, Codes, check_segments
from soulsgui.training.intake import PER_STREAM
from soulsgui.training.node import BLOCK_MS, TrainingNode
from soulsgui.training.session import Session
from soulsgui.training.tally import Tally
from soulsgui.wire.messages.chunk import TERMINATED, TRUNCATED
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


class VTraceTrainingNode(TrainingNode):
    """Trains a `VTraceAgent` on segments as they come; no client waits for another, nor for an update.

    Segments of weights that were published at most `vtrace.max_model_delay` publishes ago are taken in, and
    wait, oldest first, until there are `vtrace.batch_size` transitions; what has become too old meanwhile is
    dropped and counted. Each transition is learned from once (`vtrace.epochs` gradient steps). What waits is
    not part of a checkpoint: a run that goes on collects it anew. See `TrainingNode` for the arguments.
    """

    family = OFF_POLICY

    def _make_agent(self) -> None:
        self._agent = VTraceAgent(self.spaces, self.settings, self.settings.seed, self.device)
        self._waiting = WaitingSegments()
        self._pace = limits.Pace()
        self._let_in = 0  # transitions that were let in and not taken over yet
        self._too_old = 0  # transitions that were dropped since the last row
        self._chunk_steps = 1.0
        self._waited_s = 0.0
        self._remembered_ids = self.settings.vtrace.max_model_delay + 1

    @property
    def agent(self) -> VTraceAgent:
        """The learner."""
        return self._agent

    # --- beginning and end -------------------------------------------------------------------------

    def _begin_attempt(self) -> None:
        now = time.monotonic()
        learner, clients = self._waits["learner"], self._waits["clients"]
        self._tally = Tally(now, self.agent.updates, self.env_steps, learner=learner, ingest=clients)
        self._published_update = self._saved_update = self.agent.updates
        self._published_at, self._next_save = now, now + _CHECKPOINT_EVERY_S
        self._set_limits()
        super()._begin_attempt()

    def _close(self) -> None:
        try:
            self._tell_row(time.monotonic())
        except ServiceError as error:
            self._failure = self._failure or str(error)
            raise
        finally:
            super()._close()

    # --- samples -----------------------------------------------------------------------------------

    @property
    def _all_taken_in(self) -> bool:
        """Whether there are as many samples as were wanted."""
        return self._wanted(self._waiting.steps) <= 0

    def _wanted(self, there: int) -> float:
        """Return how many more transitions are wanted when so many are there, but not learned from yet."""
        goal = self.settings.stop.env_steps
        return float("inf") if goal is None else goal - self.env_steps - there

    @property
    def _due(self) -> bool:
        """Whether an update is due; what is left at the goal makes a smaller one."""
        waiting = self._waiting.steps
        return waiting >= self.settings.vtrace.batch_size or (self._all_taken_in and waiting > 0)

    def _read(self, connection: redis.Redis) -> None:
        """Take what came, unless enough waits to be learned from; wait for it if there is nothing to do."""
        began = time.monotonic()
        room = self.settings.vtrace.buffer_size - self._waiting.steps
        due, behind = self._due, room <= 0
        self._tally.ingest.set(behind, began)
        self._tally.learner.set(not due, began)
        self._set_limits()
        if not (behind or self._all_taken_in):
            streams = self._intake.busy
            most = limits.entries_to_read(room, self._chunk_steps, streams, PER_STREAM)
            self._intake.take(connection, 0 if due else BLOCK_MS, most)
        if not due and (self._all_taken_in or self._intake.reader.idle):
            self._stop.wait(BLOCK_MS / 1000)
        now = time.monotonic()
        self._tally.learner.set(False, now)
        self._waited_s = 0.0 if due else now - began

    def judge(self, owned: Owned) -> Codes:
        """Accept samples of weights that are not too old, as `batch.Taker`."""
        digests = self._publisher.digests
        return check_segments(
            owned.segments, self.spaces, digests, self._oldest, self.model_id, owned.num_envs
        )

    @property
    def _oldest(self) -> int:
        """Id of the oldest weights whose samples are learned from."""
        return self.model_id - self.settings.vtrace.max_model_delay

    def admit_all(self, session: Session, steps: int) -> bool:
        """Let chunks in as long as samples are wanted, as `batch.Taker`."""
        if self._wanted(self._waiting.steps + self._let_in) < steps:
            return False
        self._let_in += steps
        return True

    def admit(self, session: Session, lengths: Steps, model_ids: Ints, codes: Codes) -> None:
        """Let a chunk in if samples are still wanted, as `batch.Taker`."""
        if self._wanted(self._waiting.steps + self._let_in) <= 0:
            codes[:] = LEFT_OUT
        self._let_in += int(lengths[codes == GOOD].sum())

    def take_in(self, accepted: Accepted) -> None:
        """Let samples wait to be learned from, as `batch.Taker`."""
        segments = accepted.segments
        self._let_in = 0
        found = CollectedSegments(
            client=accepted.clients,
            env_index=segments.env_index,
            episode=segments.episode,
            first_step=segments.first_step,
            lengths=segments.length,
            terminated=(segments.flags & TERMINATED) > 0,
            truncated=(segments.flags & TRUNCATED) > 0,
            obs=np.asarray(segments.obs),
            action=segments.action,
            log_prob=segments.log_prob,
            reward=segments.reward,
            action_mask=segments.action_mask,
            state=segments.state,
        )
        made_with, where = np.unique(segments.model_id_last, return_inverse=True)
        updates = np.array([self._publisher.updates[model_id] for model_id in made_with.tolist()])[where]
        self._waiting.add(Arrived(found, segments.model_id_first, updates))
        newest = 1 - (1 - _NEWEST_CHUNK) ** accepted.chunks
        self._chunk_steps += newest * (segments.steps / accepted.chunks - self._chunk_steps)

    def dropped_out(self, client: str, reason: str) -> None:
        """The others go on; nobody waits for anybody."""

    # --- learning ----------------------------------------------------------------------------------

    def _advance(self, seconds: float) -> None:
        began, before = time.monotonic(), self.env_steps
        if self._unpublished:
            self._publish()
        self._learn(began + _SLICE_S)
        now = time.monotonic()
        learned = self.env_steps - before
        if learned:
            self._pace.note(learned, seconds - self._waited_s + now - began)
        self._publish_when_due(now)
        if now - self._tally.began >= _ROW_EVERY_S:
            self._tell_row(now)
        self._save_when_due(now)
        self.goal_reached = self._all_taken_in and not self._due
        self.phase, self.detail = self._doing(learned)

    def _learn(self, until: float) -> None:
        """Make updates until a time, or until too little waits."""
        self._too_old += self._waiting.drop_older(self._oldest)
        while self._due:
            taken = self._waiting.take(self.settings.vtrace.batch_size)
            batch = taken.batch
            # After a resume there may be samples of weights that the resumed agent has not reached yet.
            lag = np.maximum(self.agent.updates - taken.update, 0) * batch.lengths
            goal = self.settings.stop.env_steps
            progress = min(self.env_steps / goal, 1.0) if goal else 0.0
            # Before the update: the reporting thread never tells of an update without its steps.
            self.env_steps += batch.steps
            self.episodes += int(np.count_nonzero(batch.terminated | batch.truncated))
            with self.monitor_timing(self._timings["update"]):
                self._agent.update(batch, progress)
            self._tally.taken_in(batch.steps, float(lag.sum()))
            if time.monotonic() >= until:
                break

    def _grants_to_publish(self) -> dict[str, Grant]:
        """Return the grants that have to change: nobody waits for anybody here."""
        return self._intake.sessions.grants_due()

    def _set_limits(self) -> None:
        """Say what clients may have on their way: at least what the next two updates take."""
        vtrace, publish_s = self.settings.vtrace, self.settings.publish.min_seconds
        ahead = limits.steps_ahead(vtrace, publish_s, self._pace.steps_per_s)
        self._intake.sessions.steps_ahead = max(ahead, 2 * vtrace.batch_size)

    def _publish_when_due(self, now: float) -> None:
        """Publish the agent when it has changed, but not too often."""
        if self.agent.updates == self._published_update:
            return
        interval = limits.publish_interval(
            self.settings.vtrace,
            self.settings.publish.min_seconds,
            self._intake.sessions.steps_outstanding,
            self._pace.steps_per_s,
        )
        if now < self._published_at + interval:
            return
        self.model_id += 1
        self._prepare_weights()
        self._published_at, self._published_update = now, self.agent.updates
        self._set_limits()
        self._publish()

    def _save_when_due(self, now: float) -> None:
        every = self.settings.checkpoint.every_updates
        if self.agent.updates // every > self._saved_update // every and now >= self._next_save:
            # What is saved is what training is taken back to: a row that has left all bounds ends it before.
            self._tell_row(now)
            self._saved_update, self._next_save = self.agent.updates, now + _CHECKPOINT_EVERY_S
            self._desk.save_current()

    def _doing(self, learned: int) -> tuple[NodePhase, str]:
        """Return phase and detail after a turn in which so many transitions were learned from."""
        if self.goal_reached:
            return "waiting", "goal reached"
        if learned:
            return "updating", ""
        return ("collecting", "") if self._intake.sessions.playing else ("waiting", "no clients")

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
        values = self._agent.figures()
        values |= self._tally.close(now, self.agent.updates, self.env_steps)
        values |= {
            "policy_lag": self.policy_lag,
            "too_old_steps": float(self._too_old),
            "waiting_steps": float(self._waiting.steps),
            "clients": float(self._intake.sessions.playing),
        }
        self._too_old = 0
        self._tell_update(previous, values)
        logger.info(
            "update %d: %d steps, %.0f steps a second, policy lag %.1f updates",
            self.agent.updates, self.env_steps, values["env_steps_per_s"], self.policy_lag,
        )  # fmt: skip
