"""What the off-policy algorithms differ in: their agent and memory, and how clients explore."""

import logging
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from soulsgui.config.sections.algorithms import BEYOND_SUPPORT, BEYOND_SUPPORT_REMEDY, beyond_support_words
from soulsgui.policies.exploration import Moment, with_still
from soulsgui.rl.buffers.array_storage import FileStorage
from soulsgui.rl.buffers.memory import WindowReplay
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.rl.buffers.sequences import SequenceReplay
from soulsgui.training.agents import make_dqn, make_sac
from soulsgui.training.attempt import TrainingRun
from soulsgui.training.hardware import memory_limit
from soulsgui.training.intake.sessions import Exploration
from soulsgui.wire.messages.server_config import state_of

logger = logging.getLogger(__name__)


def _observation_storage(run: TrainingRun) -> FileStorage:
    """Return where the observations of the memory lie: beyond the limit, in a file of the run."""
    return FileStorage(run.folder.replay, memory_limit(run.settings.learner.memory_limit))


class DeepQ:
    """The agents of the DQN family."""

    def __init__(self, run: TrainingRun) -> None:
        self.settings = dqn = run.settings.dqn
        self.agent = make_dqn(run.settings, run.spaces, run.device)
        self._parts, self._told_beyond = self.agent.parts, False
        storage = _observation_storage(run)
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
        if not (published and self._parts.noisy):
            return self.agent.export_weights(noise=False)
        still = self.agent.export_weights(noise=False)
        return with_still(self.agent.export_weights(), still)

    def exploration(self, moment: Moment) -> Exploration:
        """Return how clients are to explore."""
        dqn = self.settings
        if self._parts.noisy:
            return Exploration(0.0)  # the weights that are published explore by themselves
        if dqn.exploration == "boltzmann":
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


class SoftActorCritic:
    """Soft actor-critic; clients draw from the policy itself, which keeps its entropy."""

    def __init__(self, run: TrainingRun) -> None:
        self.settings = sac = run.settings.sac
        action, storage = run.spaces.action, _observation_storage(run)
        ring = UniformReplay(
            sac.buffer_size,
            run.spaces.observation,
            action_shape=action.shape,
            action_dtype=action.dtype,
            storage=storage,
        )
        self.agent = make_sac(run.settings, run.spaces, run.device)
        self.memory = WindowReplay(ring, 1, sac.gamma)

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


OffPolicy = DeepQ | SoftActorCritic
"""The off-policy algorithms: settings, agent, memory, and how clients explore."""
