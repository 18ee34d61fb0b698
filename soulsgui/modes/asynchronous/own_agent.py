"""Agents of one's own in the place of the program's: what a training node asks of an agent."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import UsageError
from soulsgui.experience.frame_stacks import Observations
from soulsgui.modes.asynchronous.sync_model import OWN, SyncModel
from soulsgui.policies.exploration import START, Moment
from soulsgui.policies.policy import Floats, Mask
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.gradients.shared import Group, SharedGradient
from soulsgui.rl.normalisation import Rewards
from soulsgui.training.attempt import TrainingRun
from soulsgui.training.learners.replay import SelfExploring, uniform_memory


class OwnAgent:
    """A `SyncModel` as the agent of a training node (`rl.agents.base.OffPolicyAgent`)."""

    compiled_loss = None

    def __init__(self, agent: SyncModel, run: TrainingRun) -> None:
        self.agent, self.settings = agent, run.settings
        self.updates = agent.model_info()[0]
        self.sample_rng = np.random.default_rng(run.settings.seed)
        self.rewards = Rewards(run.settings.normalize)
        self.moment: Moment = START
        self._sums: Counter[str] = Counter()
        self._summed = 0

    def policy_spec(self) -> dict[str, Any]:
        """Return a policy that is none but for a process with such an agent: no other one can act."""
        return {"kind": OWN}

    def export_weights(self) -> dict[str, NDArray[Any]]:
        """Return the weights, copies."""
        return {name: np.array(array) for name, array in self.agent.model_info()[1].items()}

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return nothing that could be compared: the agent alone knows its network."""
        return np.zeros((len(obs), 1), np.float32)

    def learn_mixed(self) -> None:
        """Nothing changes: it computes as it wants."""

    def share(self, group: Group) -> SharedGradient:
        """Raise: its updates are made by one process."""
        raise UsageError("An agent of your own learns in one process: set learner.processes to 1.")

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return its weights, and how many updates there were."""
        return self.export_weights(), {"updates": self.updates}

    def load_state(self, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Go on with weights."""
        self.agent.sync_model(tensors)
        self.updates = int(meta["updates"])

    def observe(self, obs: Observations) -> None:
        """Nothing is to be learned of observations alone."""

    def start_values(self, obs: NDArray[Any], mask: Mask | None = None) -> None:
        """Return nothing: an agent of one's own tells no values."""

    def update(self, batch: NStepBatch, tell: bool = True) -> None:
        """Let it make an update."""
        self._sums.update(self.agent.opt(batch))
        self._summed += 1
        self.updates += 1

    def figures(self) -> dict[str, float]:
        """Return means of what it recorded since the last call, and begin anew."""
        means = {name: float(value) / self._summed for name, value in self._sums.items()}
        self._sums.clear()
        self._summed = 0
        return means


class OwnAlgorithm(SelfExploring):
    """Of a run with an agent of one's own: settings, agent, memory.

    Raises:
        UsageError: The environment says which actions are valid: `SyncModel.sample` is not told.
    """

    def __init__(self, run: TrainingRun, agent: SyncModel, n_step: int) -> None:
        if run.spaces.masked_actions:
            raise UsageError(
                f"{run.settings.env.id} says which actions are valid: an agent of your own is not told.",
                "Take one of the program's: agent_config is then its settings.",
            )
        self.settings = run.settings.dqn if run.settings.algorithm == "dqn" else run.settings.sac
        agent.train()
        self.agent = OwnAgent(agent, run)
        self.memory = uniform_memory(run, self.settings, n_step)
