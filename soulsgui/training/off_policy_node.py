"""Asynchronous off-policy learning: samples come in, updates are made beside it, kept in step by limits.

Which agent learns, out of which memory, and how clients explore, stands in a subclass.
"""

import logging
import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import redis
from numpy.typing import NDArray

from soulsgui.errors import ServiceError
from soulsgui.rl.agents.off_policy import OffPolicyAgent
from soulsgui.rl.buffers.memory import Memory, StepSegments
from soulsgui.training import limits
from soulsgui.training.batch import Accepted, Ints, Owned, Steps, source_numbers
from soulsgui.training.checks import CODES, GOOD, LEFT_OUT, Codes, check_segments
from soulsgui.training.exploring import Exploration
from soulsgui.training.intake import PER_STREAM
from soulsgui.training.lockstep import Lockstep
from soulsgui.training.node import BLOCK_MS, TrainingNode
from soulsgui.training.session import Session
from soulsgui.training.tally import Tally
from soulsgui.wire.messages.chunk import TERMINATED, TRUNCATED, Reason
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


class OffPolicyTrainingNode(TrainingNode):
    """Trains an off-policy agent on samples of earlier weights, too.

    Samples of weights that were published at most `max_model_delay` publishes ago are taken in. Learning
    begins with `learning_starts` transitions. A run that goes on from a checkpoint without the memory
    collects `learning_starts` transitions again before its next update, with the agent, the counters and the
    exploration as they were. See `TrainingNode` for the arguments.
    """

    family = OFF_POLICY

    # --- what a subclass provides ------------------------------------------------------------------

    @abstractmethod
    def _make_learner(self) -> tuple[OffPolicyAgent, Memory]:
        """Make a new agent for the settings and spaces, and the memory it draws from."""

    @property
    @abstractmethod
    def _pacing(self) -> limits.PacingSettings:
        """The settings of the algorithm that keep learner and clients in step."""

    @abstractmethod
    def _exploration(self) -> Exploration | None:
        """Return how clients are to explore now; None: as the policy itself says."""

    # --- making ------------------------------------------------------------------------------------

    def _make_agent(self) -> None:
        self._agent, self._memory = self._make_learner()
        self._band = limits.ReplayBand.of(self._pacing, self._memory.drawn_with(self._pacing.batch_size))
        self._pace = limits.Pace()
        self._learning = False
        self._let_in = 0  # transitions that were let in and not taken over yet
        self._chunk_steps = 1.0
        self._waited_s = 0.0
        self._remembered_ids = self._pacing.max_model_delay + 1
        in_step = self.settings.determinism == "lockstep"
        self._lockstep = Lockstep(self.settings.longest_segment) if in_step else None

    @property
    def agent(self) -> OffPolicyAgent:
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

    def _memory_state(self) -> dict[str, NDArray[Any]]:
        return self._memory.state()

    def _load_memory(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._memory.load_state(state)

    def _pacing_state(self) -> dict[str, float]:
        return {name: getattr(self._band, name) for name in ("ratio", "drawn", "inserted")}

    def _load_pacing(self, state: Mapping[str, float]) -> None:
        # With another ratio, what was drawn by the old one is no debt.
        if state.get("ratio") == self._band.ratio:
            self._band.drawn, self._band.inserted = int(state["drawn"]), int(state["inserted"])
            self._learning = len(self._memory) >= self._pacing.learning_starts

    # --- samples -----------------------------------------------------------------------------------

    @property
    def _all_taken_in(self) -> bool:
        """Whether there are as many samples as were wanted."""
        goal = self.settings.stop.env_steps
        return goal is not None and self.env_steps >= goal

    @property
    def _due(self) -> bool:
        """Whether an update is due."""
        if not (self._learning and len(self._memory)):
            return False
        return self._band.owes if self._all_taken_in else self._band.may_draw

    def _read(self, connection: redis.Redis) -> None:
        """Take what came, unless the learner has to catch up; wait for it only if it has nothing to do."""
        began = time.monotonic()
        due = self._due
        behind = self._learning and len(self._memory) > 0 and not self._band.may_insert
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
        if not self._learning:
            return PER_STREAM
        streams = self._intake.busy
        return limits.entries_to_read(self._band.room, self._chunk_steps, streams, PER_STREAM)

    def judge(self, owned: Owned) -> Codes:
        """Accept samples of weights that are not too old, as `batch.Taker`."""
        newest = self.model_id
        oldest = newest if self._lockstep is not None else newest - self._pacing.max_model_delay
        digests = self._publisher.digests
        return check_segments(owned.segments, self.spaces, digests, oldest, newest, owned.num_envs)

    def admit_all(self, session: Session, steps: int) -> bool:
        """Let chunks in as long as samples are wanted, as `batch.Taker`."""
        goal = self.settings.stop.env_steps
        if goal is not None and self.env_steps + self._let_in + steps > goal:
            return False
        if self._lockstep is not None and not self._lockstep.takes(session.client, steps):
            return False
        self._let_in += steps
        return True

    def admit(self, session: Session, lengths: Steps, model_ids: Ints, codes: Codes) -> None:
        """Let a chunk in if samples are still wanted, as `batch.Taker`."""
        goal = self.settings.stop.env_steps
        if goal is not None and self.env_steps + self._let_in >= goal:
            codes[:] = LEFT_OUT
        of_share = int(lengths[model_ids == self.model_id].sum())
        if self._lockstep is not None and not self._lockstep.takes(session.client, of_share):
            codes[codes == GOOD] = CODES[Reason.NOT_ADMITTED]
        self._let_in += int(lengths[codes == GOOD].sum())

    def take_in(self, accepted: Accepted) -> None:
        """Write samples into the replay memory, as `batch.Taker`."""
        segments = accepted.segments
        self._let_in = 0
        ended = (segments.flags & (TERMINATED | TRUNCATED)) > 0
        self._memory.add(
            StepSegments(
                obs=segments.obs,
                length=segments.length,
                action=segments.action,
                reward=segments.reward,
                log_prob=segments.log_prob,
                terminated=(segments.flags & TERMINATED) > 0,
                truncated=(segments.flags & TRUNCATED) > 0,
                source=source_numbers(accepted),
                episode=segments.episode,
                first_step=segments.first_step,
                action_mask=segments.action_mask,
                state=segments.state,
            )
        )
        self._agent.observe(segments.obs)
        self.env_steps += segments.steps
        self.episodes += int(np.count_nonzero(ended))
        if self._learning:
            self._band.inserted += segments.steps
        newest = 1 - (1 - _NEWEST_CHUNK) ** accepted.chunks
        self._chunk_steps += newest * (segments.steps / accepted.chunks - self._chunk_steps)
        made_with, where = np.unique(segments.model_id_last, return_inverse=True)
        updates = np.array([self._publisher.updates[model_id] for model_id in made_with.tolist()])[where]
        # After a resume there may be samples of weights that the resumed agent has not reached yet.
        lag = np.maximum(self.agent.updates - updates, 0) * segments.length
        self._tally.taken_in(segments.steps, float(lag.sum()))

    def dropped_out(self, client: str, reason: str) -> None:
        """The others go on: nobody waits for anybody, unless in lockstep."""
        if self._lockstep is not None:
            self._lockstep.drop(client)

    # --- learning ----------------------------------------------------------------------------------

    def _advance(self, seconds: float) -> None:
        began = time.monotonic()
        if self._unpublished:
            self._publish()
        if not self._learning and len(self._memory) >= self._pacing.learning_starts:
            self._learning = True
            self._tally.close(began, self.agent.updates, self.env_steps)
            logger.info("learning begins with %d transitions", len(self._memory))
        if self._lockstep is not None:
            self._set_limits()  # of the share that was taken in, in however many turns it is learned from
        waits = self._lockstep is not None and self._lockstep.waits
        updates = 0 if waits else self._learn(began + _SLICE_S)
        now = time.monotonic()
        if updates:
            drawn = updates * self._band.batch_size
            self._pace.note(drawn / self._band.ratio, seconds - self._waited_s + now - began)
        if self._lockstep is None:
            self._publish_when_due(now)
            if now - self._tally.began >= _ROW_EVERY_S:
                self._tell_row(now)
        elif not (waits or self._due):
            self._step_on(self._lockstep, now)
        self._save_when_due(now)
        self.goal_reached = self._all_taken_in and not self._due
        self.phase, self.detail = self._doing(updates)

    def _step_on(self, lockstep: Lockstep, now: float) -> None:
        """In lockstep: a share is taken in and learned from; publish, and let the next one be played."""
        self._tell_row(now)
        if self._all_taken_in or not lockstep.begin(self._intake.eligible(), self.model_id + 1):
            return
        self.model_id += 1
        self._prepare_weights()
        self._published_at, self._published_update = now, self.agent.updates
        self._set_limits()
        self._publish()

    def _learn(self, until: float) -> int:
        """Make updates until a time, or until the learner has to wait; return how many."""
        count = 0
        while self._due:
            with self.monitor_timing(self._timings["update"]):
                batch, number = self._memory.draw(self._band.batch_size, self._agent.sample_rng)
                error = self._agent.update(batch)
                if number is not None and error is not None:
                    self._memory.learned(number, error)
            self._band.drawn += self._band.batch_size
            count += 1
            if time.monotonic() >= until:
                break
        return count

    def _grants_to_publish(self) -> dict[str, Grant]:
        """Return the grants that have to change: nobody waits for anybody here, unless in lockstep."""
        if self._lockstep is not None:
            return self._intake.sessions.grants()
        return self._intake.sessions.grants_due()

    def _set_limits(self) -> None:
        """Say what clients may have on their way, and how they explore."""
        sessions, publish_s = self._intake.sessions, self.settings.publish.min_seconds
        if self._lockstep is None:
            sessions.steps_ahead = limits.steps_ahead(self._pacing, publish_s, self._pace.steps_per_s)
        sessions.exploration = self._exploration()

    def _publish_when_due(self, now: float) -> None:
        """Publish the agent when it has changed, but not too often."""
        if self.agent.updates == self._published_update:
            return
        interval = limits.publish_interval(
            self._pacing,
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

    def _doing(self, updates: int) -> tuple[NodePhase, str]:
        """Return phase and detail after a turn with so many updates."""
        if self.goal_reached:
            return "waiting", "goal reached"
        if updates:
            return "updating", ""
        if not self._intake.sessions.playing:
            return "waiting", "no clients"
        missing = self._pacing.learning_starts - len(self._memory)
        return "collecting", f"{missing} more transitions before learning begins" if missing > 0 else ""

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
        exploration = self._exploration()
        explored = {} if exploration is None else exploration.figures()
        values = self._agent.figures()
        values |= self._tally.close(now, self.agent.updates, self.env_steps)
        values |= {
            "replay_ratio": self._band.value,
            "policy_lag": self.policy_lag,
            "buffer_fill": len(self._memory) / self._memory.capacity,
            **explored,
            "clients": float(self._intake.sessions.playing),
        }
        self._tell_update(previous, values)
        logger.info(
            "update %d: %d steps, %.0f updates and %.0f steps a second, replay ratio %.2f",
            self.agent.updates, self.env_steps, values["updates_per_s"], values["env_steps_per_s"],
            self._band.value,
        )  # fmt: skip
