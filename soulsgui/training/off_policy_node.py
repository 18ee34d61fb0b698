"""Asynchronous off-policy learning: batches are drawn from a memory, as often as the replay ratio says.

Which agent learns, out of which memory, and how clients explore, stands in a subclass.
"""

import logging
import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.rl.agents.base import OffPolicyAgent
from soulsgui.rl.buffers.array_storage import IN_FILE, ArrayStorage, FileStorage
from soulsgui.rl.buffers.memory import ReplayMemory, StepSegments
from soulsgui.rl.normalisation import Origin
from soulsgui.training import limits
from soulsgui.training.asynchronous_node import AsynchronousTrainingNode
from soulsgui.training.batch import Accepted, source_numbers
from soulsgui.training.compiling import Compiling
from soulsgui.training.exploring import Exploration
from soulsgui.training.hardware import memory_limit
from soulsgui.training.lockstep import Lockstep
from soulsgui.training.session import Session
from soulsgui.wire.messages.chunk import TERMINATED, TRUNCATED
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)


class OffPolicyTrainingNode(AsynchronousTrainingNode):
    """Trains an agent that draws from a memory. See `TrainingNode` for the arguments.

    Learning begins with `learning_starts` transitions. A run that goes on from a checkpoint without the
    memory collects `learning_starts` transitions again before its next update, with the agent, the counters
    and the exploration as they were.
    """

    # --- what a subclass provides ------------------------------------------------------------------

    @abstractmethod
    def _make_learner(self) -> tuple[OffPolicyAgent, ReplayMemory]:
        """Make a new agent for the settings and spaces, and the memory it draws from."""

    @property
    @abstractmethod
    def _pacing(self) -> limits.PacingSettings:
        """The settings of the algorithm that keep learner and clients in step."""

    @abstractmethod
    def _exploration(self) -> Exploration | None:
        """Return how clients are to explore now; None: as the policy itself says."""

    # --- making, saving ----------------------------------------------------------------------------

    def _make_agent(self) -> None:
        super()._make_agent()
        self._agent, self._memory = self._make_learner()
        self._band = limits.ReplayBand.of(self._pacing, self._memory.drawn_with(self._pacing.batch_size))
        self._learning = self._told_of_file = False
        in_step = self.settings.determinism == "lockstep"
        self._lockstep = Lockstep(self.settings.longest_segment) if in_step else None
        part, device = self._agent.compiled_loss, self.device
        self._compiling = Compiling(self.settings.learner.compiles, part, in_step, device)

    @property
    def agent(self) -> OffPolicyAgent:
        """The learner."""
        return self._agent

    @property
    def _delays(self) -> limits.Delays:
        return self._pacing

    def _observation_storage(self) -> ArrayStorage:
        """Return where the observations of the memory lie: beyond the limit, in a file of the run."""
        return FileStorage(self.run_folder.replay, memory_limit(self.settings.learner.memory_limit))

    def _close(self) -> None:
        try:
            super()._close()
        finally:
            # What a run that failed has left is not what its last checkpoint tells of.
            self._compiling.close()
            self._memory.close(leave=self.settings.checkpoint.with_buffer and not self._spoilt)

    def _memory_state(self) -> dict[str, NDArray[Any]]:
        state = self._memory.state()
        if IN_FILE in state and not self._told_of_file:
            self._told_of_file = True
            logger.warning(
                "The observations of the replay memory lie in %s, not in checkpoints: a run goes on with "
                "them from where it was stopped, and only from there.",
                self.run_folder.replay,
            )
        return state

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
    def _due(self) -> bool:
        if not (self._learning and len(self._memory)):
            return False
        return self._band.owes if self._all_taken_in else self._band.may_draw

    @property
    def _behind(self) -> bool:
        return self._learning and len(self._memory) > 0 and not self._band.may_insert

    @property
    def _room(self) -> float | None:
        return self._band.room if self._learning else None

    @property
    def _oldest(self) -> int:
        return super()._oldest if self._lockstep is None else self.model_id

    @property
    def _steps_per_update(self) -> float:
        return self._band.batch_size / self._band.ratio

    @property
    def _steps_ahead(self) -> int:
        """Transitions on their way: with those that wait to be learned from no more than may be in all."""
        return limits.beside_waiting(super()._steps_ahead, self._band.waiting)

    def _takes(self, session: Session, steps: int) -> bool:
        return self._lockstep is None or self._lockstep.takes(session.client, steps)

    def take_in(self, accepted: Accepted) -> None:
        """Write samples into the replay memory, as `batch.Taker`."""
        segments = accepted.segments
        terminated, truncated = (segments.flags & TERMINATED) > 0, (segments.flags & TRUNCATED) > 0
        self._memory.add(
            StepSegments(
                obs=segments.obs,
                length=segments.length,
                action=segments.action,
                reward=self._rewards(accepted, terminated | truncated),
                log_prob=segments.log_prob,
                terminated=terminated,
                truncated=truncated,
                source=source_numbers(accepted),
                episode=segments.episode,
                first_step=segments.first_step,
                action_mask=segments.action_mask,
                state=segments.state,
            )
        )
        self._agent.observe(segments.obs)
        self.env_steps += segments.steps
        self.episodes += int(np.count_nonzero(terminated | truncated))
        if self._learning:
            self._band.inserted += segments.steps
        self._tally.taken_in(segments.steps, self._lag(self._note_taken(accepted), segments.length))

    def _rewards(self, accepted: Accepted, ended: NDArray[np.bool_]) -> NDArray[Any]:
        """Return the rewards `[N]` that are remembered."""
        segments, rewards = accepted.segments, self._agent.rewards
        if not rewards.changes:
            return segments.reward
        origin = Origin(source_numbers(accepted), segments.episode, segments.first_step)
        return rewards.learned_from(segments.reward, segments.length, ended, origin, self._pacing.gamma)

    def dropped_out(self, client: str, reason: str) -> None:
        """The others go on: nobody waits for anybody, unless in lockstep."""
        if self._lockstep is not None:
            self._lockstep.drop(client)

    # --- learning ----------------------------------------------------------------------------------

    def _learn(self, until: float) -> float:
        if not self._learning and len(self._memory) >= self._pacing.learning_starts:
            self._learning = True
            self._tally.close(time.monotonic(), self.agent.updates, self.env_steps)
            logger.info("learning begins with %d transitions", len(self._memory))
        if self._lockstep is not None:
            self._give_up_lost_share(self._lockstep)
            self._set_limits()  # of the share that was taken in, in however many turns it is learned from
            if self._lockstep.waits:
                return 0
        drawn = 0
        while self._due:
            with self.monitor_timing(self._timings["update"]), self._compiling.update(self._expected_updates):
                batch, number = self._memory.draw(self._band.batch_size, self._agent.sample_rng)
                error = self._agent.update(batch, tell=number is not None)
                if number is not None and error is not None:
                    self._memory.learned(number, error)
            self._band.drawn += self._band.batch_size
            drawn += self._band.batch_size
            if time.monotonic() >= until:
                break
        return drawn / self._band.ratio

    def _give_up_lost_share(self, lockstep: Lockstep) -> None:
        client = lockstep.client
        if lockstep.waits and lockstep.lost(self._intake.eligible(), time.monotonic()):
            logger.warning(
                "%s is silent: another client plays on, and this run can't be repeated to the bit", client
            )
            lockstep.drop(client)
            session = self._intake.sessions.by_client.get(client)
            if session is not None:
                session.round = None

    @property
    def _expected_updates(self) -> float:
        """Updates until the run's goal, as far as that is known."""
        return max(self._wanted, 0.0) * self._band.ratio / self._band.batch_size

    def _tell_when_due(self, now: float) -> None:
        if self._lockstep is None:
            super()._tell_when_due(now)
        elif not (self._lockstep.waits or self._due):
            self._step_on(self._lockstep, now)

    def _step_on(self, lockstep: Lockstep, now: float) -> None:
        """In lockstep: a share is taken in and learned from; publish, and let the next one be played."""
        self._tell_row(now)
        if not self._all_taken_in and lockstep.begin(self._intake.eligible(), self.model_id + 1):
            self._publish_next(now)

    def _grants_to_publish(self) -> dict[str, Grant]:
        """Return the grants that have to change: nobody waits for anybody here, unless in lockstep."""
        return super()._grants_to_publish() if self._lockstep is None else self._intake.sessions.grants()

    def _set_limits(self) -> None:
        """Say what clients may have on their way, and how they explore."""
        if self._lockstep is None:
            super()._set_limits()
        self._intake.sessions.exploration = self._exploration()
        self._agent.moment = self.moment

    @property
    def _collects_for(self) -> str:
        missing = self._pacing.learning_starts - len(self._memory)
        return f"learning begins in {missing:,} steps" if missing > 0 else ""

    def _own_figures(self) -> dict[str, float]:
        exploration = self._exploration()
        explored = {} if exploration is None else exploration.figures()
        fill = len(self._memory) / self._memory.capacity
        return {"replay_ratio": self._band.value, "buffer_fill": fill, **explored, **self._scheduled()}

    def _scheduled(self) -> dict[str, float]:
        """Return what else changes over the run and is to be seen on the curves."""
        return {}
