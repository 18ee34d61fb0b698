"""Asynchronous off-policy learning: batches are drawn from a memory, as often as the replay ratio says."""

import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from soulsgui.config.schema import Settings
from soulsgui.config.sections.algorithms import BEYOND_SUPPORT, BEYOND_SUPPORT_REMEDY, beyond_support_words
from soulsgui.errors import MemoryGoneError
from soulsgui.experience.segments import Bools, Segments
from soulsgui.policies.exploration import Moment, with_still
from soulsgui.rl.agents.base import OffPolicyAgent
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.buffers.array_storage import IN_FILE, FileStorage
from soulsgui.rl.buffers.memory import WindowReplay
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.rl.buffers.sequences import SequenceReplay
from soulsgui.rl.gradients.dqn import DQNParts
from soulsgui.training.agents import make_agent
from soulsgui.training.attempt import TrainingRun
from soulsgui.training.compiling import Compiling
from soulsgui.training.intake.chunks import Accepted
from soulsgui.training.intake.sessions import REFUSED, Exploration, Session
from soulsgui.training.learners import limits
from soulsgui.training.learners.asynchronous import AsynchronousLearner
from soulsgui.training.learners.limits import Lockstep, PacingSettings
from soulsgui.training.status import Stopwatch
from soulsgui.wire.messages.server_config import state_of
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)

Memory = Mapping[str, NDArray[Any]]

_CATCHES_UP_S = 0.1  # updates that came late, with a limit on their rate, are made up for within this time


def observation_storage(run: TrainingRun) -> FileStorage:
    """Return where the observations of the memory lie: beyond the limit of bytes, in a file of the run."""
    limit = run.settings.learner.memory_limit
    return FileStorage(run.folder.replay, psutil.virtual_memory().total // 2 if limit is None else limit)


class DeepQ:
    """The agents of the DQN family: one that is given, or made by the settings."""

    def __init__(self, run: TrainingRun, agent: DQNAgent | None = None) -> None:
        self.settings = dqn = run.settings.dqn
        self.agent: DQNAgent = agent or make_agent("dqn", run.settings, run.spaces, run.device)
        self._parts, self._told_beyond = DQNParts.of(dqn), False
        storage = observation_storage(run)
        ring = UniformReplay(
            dqn.buffer_size, run.spaces.observation, run.spaces.masked_actions, storage=storage
        )
        alpha = dqn.priority_exponent if self._parts.prioritised else None
        self.memory: WindowReplay | SequenceReplay
        if self._parts.kind == "recurrent":
            ((field, (state_size,)),) = state_of(self.agent.policy_spec()).items()
            # At worst each step is a segment of its own, and a sequence begins with each.
            length, most = dqn.sequence_length, ring.capacity
            self.memory = SequenceReplay(
                ring, field, state_size, dqn.burn_in, length, most, dqn.priority_exponent
            )
        else:
            self.memory = WindowReplay(ring, self._parts.n_step, dqn.gamma, alpha)

    def weights(self, published: bool) -> dict[str, NDArray[Any]]:
        """Return the weights: with the noise that explores where they are published."""
        still = self.agent.export_weights(noise=False)
        noisy = published and self._parts.noisy
        return with_still(self.agent.export_weights(), still) if noisy else still

    def exploration(self, moment: Moment) -> Exploration:
        """Return how clients are to explore."""
        dqn = self.settings
        if dqn.exploration == "boltzmann" and not self._parts.noisy:
            return Exploration(temperature=moment.value(dqn.temperature))
        ladder = dqn.ladder_exponent if dqn.exploration == "ladder" else None
        return Exploration(moment.value(dqn.epsilon), ladder=ladder)

    def scheduled(self, moment: Moment) -> dict[str, float]:
        """Set and return how much of the bias of prioritised replay is undone."""
        self.memory.beta = moment.value(self.settings.priority_correction)
        return {"priority_correction": self.memory.beta} if self._parts.prioritised else {}

    def note_figures(self, values: Mapping[str, float]) -> None:
        """Say once when returns lie beyond the support of their distribution."""
        beyond = beyond_support_words(values.get(BEYOND_SUPPORT, 0.0))
        if beyond and not self._told_beyond:
            self._told_beyond = True
            logger.warning("%s. %s", beyond, BEYOND_SUPPORT_REMEDY)


def uniform_memory(run: TrainingRun, settings: PacingSettings, n_step: int) -> WindowReplay:
    """Return a memory that draws all transitions alike, for actions of any kind."""
    action = run.spaces.action
    ring = UniformReplay(
        settings.buffer_size,
        run.spaces.observation,
        action_shape=action.shape,
        action_dtype=action.dtype,
        storage=observation_storage(run),
    )
    return WindowReplay(ring, n_step, settings.gamma)


class SelfExploring:
    """What algorithms have in common whose policies explore by themselves."""

    settings: PacingSettings
    agent: OffPolicyAgent
    memory: WindowReplay

    def weights(self, published: bool) -> dict[str, NDArray[Any]]:
        """Return the agent's weights."""
        return self.agent.export_weights()

    def exploration(self, moment: Moment) -> None:
        """Return that clients explore as the policy says."""

    def scheduled(self, moment: Moment) -> dict[str, float]:
        """Return nothing."""
        return {}

    def note_figures(self, values: Mapping[str, float]) -> None:
        """Nothing stands out."""


class SoftActorCritic(SelfExploring):
    """Soft actor-critic and its relatives; clients draw from the policy itself."""

    def __init__(self, run: TrainingRun) -> None:
        self.settings = run.settings.sac
        self.agent: SACAgent = make_agent("sac", run.settings, run.spaces, run.device)
        self.memory = uniform_memory(run, self.settings, n_step=1)


class EpisodeStarts:
    """The observations that the newest episodes began with, and which actions were valid then."""

    _MOST = 64

    def __init__(self) -> None:
        self._seen: deque[tuple[NDArray[Any], Bools | None]] = deque(maxlen=self._MOST)

    def note(self, segments: Segments) -> None:
        """Take those of segments that begin an episode."""
        for one in np.flatnonzero(segments.first_step == 0)[-self._MOST :]:
            row, mask = int(segments.starts[one] + one), segments.action_mask
            mine = None if mask is None else mask[row : row + 1].copy()
            self._seen.append((np.array(segments.obs[row : row + 1]), mine))

    def figures(self, agent: OffPolicyAgent) -> dict[str, float]:
        """Return what an agent thinks that these episodes are worth, on average."""
        if not self._seen:
            return {}
        obs, masks = zip(*self._seen, strict=True)
        mask = None if masks[0] is None else np.concatenate(masks)
        values = agent.start_values(np.concatenate(obs), mask)
        return {} if values is None else {"start_value": float(values.mean())}


OffPolicy = DeepQ | SelfExploring
"""The off-policy algorithms: settings, agent, memory, and how clients explore."""


class ReplayLearner(AsynchronousLearner):
    """Trains an agent that draws from a memory.

    Learning begins with `learning_starts` transitions. A run that goes on from a checkpoint without the
    memory collects `learning_starts` transitions again before its next update, with the agent, the counters
    and the exploration as they were.
    """

    agent: OffPolicyAgent

    def __init__(self, run: TrainingRun, algorithm: OffPolicy) -> None:
        self.pacing = algorithm.settings
        super().__init__(run, self.pacing)
        self.algorithm, self.memory, self.agent = algorithm, algorithm.memory, algorithm.agent
        self.band = limits.ReplayBand.of(self.pacing, self.memory.drawn_with(self.pacing.batch_size))
        self.learning = self._told_of_file = False
        in_step = run.settings.determinism == "lockstep"
        self._lockstep = Lockstep(run.settings.longest_segment) if in_step else None
        self._next_update = float("-inf")
        self._starts = EpisodeStarts()
        self._compiling = Compiling(run, self.agent.compiled_loss, exact=in_step)

    def configure(self, settings: Settings) -> None:
        """Learn by other values of live settings from the next update on."""
        super().configure(settings)
        replay = settings.replay
        assert replay is not None
        self.algorithm.settings = replay
        if replay.replay_ratio != self.band.ratio:  # what was drawn by the old one is no debt
            self.band = limits.ReplayBand.of(replay, self.band.batch_size)

    def close(self, keep_memory: bool) -> None:
        """Compile nothing any more, and let go of the memory's file."""
        self._compiling.close()
        self.memory.close(leave=keep_memory)

    def weights(self, published: bool = True) -> dict[str, NDArray[Any]]:
        """Return the weights that are published, or else those that a checkpoint holds."""
        return self.algorithm.weights(published)

    def state(self, with_memory: bool) -> tuple[dict[str, float], Memory]:
        """Return how far learner and clients are in step, and the memory, if it is wanted."""
        memory = self.memory.state() if with_memory else {}
        if IN_FILE in memory and not self._told_of_file:
            self._told_of_file = True
            logger.warning(
                "The observations of the replay memory lie in %s, not in checkpoints: a run can only use "
                "them if it continues from where it was stopped.",
                self.run.folder.replay,
            )
        return {name: getattr(self.band, name) for name in ("ratio", "drawn", "inserted")}, memory

    def load(self, pacing: Mapping[str, float], memory: Memory) -> None:
        """Go on with a memory, if it is still there."""
        try:
            self.memory.load_state(memory)
        except MemoryGoneError as error:
            logger.warning("%s It is filled again before the next update.", error.message)
            return
        # With another ratio, what was drawn by the old one is no debt.
        if pacing.get("ratio") == self.band.ratio:
            self.band.drawn, self.band.inserted = int(pacing["drawn"]), int(pacing["inserted"])
            self.learning = len(self.memory) >= self.pacing.learning_starts

    @property
    def owed(self) -> bool:
        """Whether an update is wanted by the ratio, if not by the clock yet."""
        if not (self.learning and len(self.memory)):
            return False
        return self.band.owes if self.all_taken_in else self.band.may_draw

    @property
    def due(self) -> bool:
        """Whether an update may be made now: no more a second than `learner.max_updates_per_s`."""
        return self.owed and time.monotonic() >= self._next_update

    @property
    def behind(self) -> bool:
        """Whether the learner has to catch up before more is taken in."""
        return self.learning and len(self.memory) > 0 and not self.band.may_insert

    @property
    def room(self) -> float | None:
        """Transitions that may be taken in before the learner has to catch up."""
        return self.band.room if self.learning else None

    @property
    def oldest(self) -> int:
        """Id of the oldest weights whose samples are taken in: in lockstep, of the newest."""
        return super().oldest if self._lockstep is None else self.run.model_id

    @property
    def steps_per_update(self) -> float:
        """Transitions that are taken in for each update."""
        return self.band.batch_size / self.band.ratio

    @property
    def steps_ahead(self) -> int:
        """Transitions on their way: with those that wait to be learned from no more than may be in all."""
        return limits.beside_waiting(super().steps_ahead, self.band.waiting)

    def wants(self, session: Session) -> float:
        """Return how many more transitions are wanted: in lockstep, of the client whose share it is."""
        wanted, lockstep = super().wants(session), self._lockstep
        if lockstep is None:
            return wanted
        return min(wanted, lockstep.left) if session.client == lockstep.client else 0

    def takes(self, session: Session, steps: int) -> bool:
        """Return whether transitions of a client are taken: in lockstep, those of its share."""
        return self._lockstep is None or self._lockstep.takes(session.client, steps)

    def insert(self, accepted: Accepted) -> None:
        """Write samples into the replay memory, as `chunks.SampleSink`."""
        segments = accepted.segments
        self.memory.add(self.rewarded(segments))
        self.agent.observe(segments.obs)
        self._starts.note(segments)
        self.run.count(segments)
        if self.learning:
            self.band.inserted += segments.steps
        self.interval.taken_in(segments.steps, self.lag_of(self.note_taken(accepted), segments.length))

    def forget(self, client: str) -> int:
        """Draw nothing any more of what a client has sent; return how many transitions these are."""
        origin = self.run.origins.get(client)
        return 0 if origin is None else self.memory.remove(origin)

    def rewarded(self, segments: Segments) -> Segments:
        """Return segments with the rewards that are remembered."""
        rewards = self.agent.rewards
        if not rewards.changes:
            return segments
        return replace(segments, reward=rewards.learned_from(segments, self.pacing.gamma))

    def lost(self, client: str, reason: str) -> None:
        """The others go on: nobody waits for anybody, unless in lockstep."""
        lockstep = self._lockstep
        if lockstep is None or client != lockstep.client:
            return
        if reason == REFUSED and lockstep.waits:
            logger.warning("%s %s: this run can't be repeated exactly", client, reason)
        lockstep.drop(client)

    def learn(self, until: float) -> float:
        """Make updates until a time, or until there is nothing to learn from."""
        if not self.learning and len(self.memory) >= self.pacing.learning_starts:
            self.learning = True
            self.interval.close(time.monotonic(), self.agent.updates, self.run.env_steps)
            logger.info("learning begins with %d transitions", len(self.memory))
        if self._lockstep is not None:
            self._give_up_lost_share(self._lockstep)
            self.set_limits()  # of the share that was taken in, in however many turns it is learned from
            if self._lockstep.waits:
                return 0
        drawn, expected = 0, max(self.wanted, 0.0) / self.steps_per_update  # until the goal, as far as known
        least_s = 1 / (self.run.settings.learner.max_updates_per_s or float("inf"))
        while self.due:
            self._next_update = max(self._next_update + least_s, time.monotonic() - _CATCHES_UP_S)
            with Stopwatch(self.status.timings["update"]), self._compiling.update(expected):
                batch, number = self.memory.draw(self.band.batch_size, self.agent.sample_rng)
                error = self.agent.update(batch, tell=number is not None)
                if number is not None and error is not None:
                    self.memory.learned(number, error)
            self.band.drawn += self.band.batch_size
            drawn += self.band.batch_size
            if time.monotonic() >= until:
                break
        return drawn / self.band.ratio

    def _give_up_lost_share(self, lockstep: Lockstep) -> None:
        client = lockstep.client
        if lockstep.waits and lockstep.lost(self.attempt.intake.eligible(), time.monotonic()):
            logger.warning(
                "%s is silent: another client keeps playing, and this run can't be repeated exactly", client
            )
            lockstep.drop(client)
            session = self.attempt.intake.sessions.by_client.get(client)
            if session is not None:
                session.round = None

    def tell_when_due(self, now: float) -> None:
        """Publish and tell when it is time; in lockstep, when a share is taken in and learned from."""
        lockstep = self._lockstep
        if lockstep is None:
            super().tell_when_due(now)
        elif not (lockstep.waits or self.owed):
            self.tell_row(now)
            players = {} if self.all_taken_in else self.attempt.intake.eligible()
            if lockstep.begin(players, self.run.model_id + 1):
                self.publish_next(now)

    def grants_to_publish(self) -> dict[str, Grant]:
        """Return the grants that have to change: nobody waits for anybody here, unless in lockstep."""
        return (
            super().grants_to_publish() if self._lockstep is None else self.attempt.intake.sessions.grants()
        )

    def set_limits(self) -> None:
        """Say what clients may have on their way, and how they explore."""
        if self._lockstep is None:
            super().set_limits()
        self.attempt.intake.sessions.exploration = self.algorithm.exploration(self.run.moment)
        self.algorithm.scheduled(self.run.moment)
        self.agent.moment = self.run.moment

    @property
    def collects_for(self) -> str:
        """What more samples are collected for."""
        missing = self.pacing.learning_starts - len(self.memory)
        return f"learning begins in {missing:,} steps" if missing > 0 else ""

    def own_figures(self, of_agent: Mapping[str, float]) -> dict[str, float]:
        """Return what a row tells besides the figures of the agent and of the interval."""
        self.algorithm.note_figures(of_agent)
        exploration = self.algorithm.exploration(self.run.moment)
        return {
            "replay_ratio": self.band.value,
            "buffer_fill": len(self.memory) / self.memory.capacity,
            **self._starts.figures(self.agent),
            **({} if exploration is None else exploration.figures()),
            **self.algorithm.scheduled(self.run.moment),
        }
