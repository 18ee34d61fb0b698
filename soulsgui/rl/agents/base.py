"""What every agent offers to the node that trains it, and what their saved states and figures share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulsgui.config.schema import Settings
from soulsgui.errors import CheckpointError, ServiceError
from soulsgui.experience.frame_stacks import Observations
from soulsgui.policies.exploration import Moment
from soulsgui.policies.normalise import RunningNormaliser
from soulsgui.rl.compiled_loss import CompiledLoss
from soulsgui.rl.gradients.shared import Group, SharedGradient
from soulsgui.rl.normalisation import Rewards, ValueNormaliser
from soulsgui.rl.optimiser import Adam, FlatParameters


class Agent(Protocol):
    """A learner without any process around it; `updates` are those so far.

    What of its `settings` is live is looked at anew in each update.
    """

    updates: int
    settings: Settings

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""

    def export_weights(self) -> dict[str, NDArray[Any]]:
        """Return what a client needs to act, copies."""

    def outputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return what the exported network says, `[B, actions]`, of raw observations `[B, *shape]`."""

    def learn_mixed(self) -> None:
        """Let networks compute in bfloat16 in the updates, where that is enough."""

    def share(self, group: Group) -> SharedGradient:
        """Compute gradients together with a group from now on: the leader calls at each step what is
        returned, the others `serve` it.
        """

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return everything a bit-equal continuation needs: arrays, and JSON-able data."""

    def load_state(self, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Continue from what `state` returned.

        Raises:
            CheckpointError: It does not fit.
        """


class AsynchronousAgent(Agent, Protocol):
    """A learner whose updates are told of now and then, many at once."""

    def figures(self) -> dict[str, float]:
        """Return means over the updates since the last call, and begin anew.

        Raises:
            ServiceError: A figure is no longer finite; the agent is then of no more use.
        """


class OffPolicyAgent(AsynchronousAgent, Protocol):
    """Learns from batches that were made with other weights, too.

    Attributes:
        sample_rng: What to draw from the memory with; part of the agent's state.
        rewards: What is to be remembered of the environment's rewards; part of the agent's state, too.
        moment: Where the run is: what schedules look at. The node keeps it up to date.
    """

    sample_rng: np.random.Generator
    rewards: Rewards
    moment: Moment

    def observe(self, obs: Observations) -> None:
        """Take new raw observations `[N, *shape]` into the normaliser's statistics, if there is one."""

    @property
    def compiled_loss(self) -> CompiledLoss[Any] | None:
        """What of the update may be compiled; None: nothing that would gain."""

    def start_values(self, obs: NDArray[Any], mask: Any = None) -> NDArray[np.float32] | None:
        """Return what whole episodes are worth, `[B]`, that begin with observations `[B, *shape]`.

        `mask` `[B, A]` says which actions are valid then; None: all are. Where it can't say: None.
        """

    def update(self, batch: Any, tell: bool = True) -> NDArray[np.float32] | None:
        """Make one update with what the memory gave; `tell` how wrong it was about each, if it can say."""


Arrays = dict[str, NDArray[Any]]


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """Copy a tensor out."""
    array: NDArray[Any] = tensor.detach().cpu().numpy().copy()
    return array


def check_shapes(
    tensors: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]], parameters: int
) -> None:
    """Make sure that the tensors of a saved state fit an agent, whose parameters Adam moves.

    `shapes` are those that the agent needs, without Adam's moments, which a saved state has or has not.

    Raises:
        CheckpointError: A tensor is missing or misshapen.
    """
    needed = dict(shapes)
    if "adam.step" in tensors:
        needed |= {"adam.exp_avg": (parameters,), "adam.exp_avg_sq": (parameters,), "adam.step": ()}
    for name, shape in needed.items():
        if name not in tensors or tensors[name].shape != shape:
            found = tensors[name].shape if name in tensors else "missing"
            raise CheckpointError(
                f"The state does not fit this agent: {name} is {found}, {shape} is needed.",
                "Resume with the network sizes and the environment of the run that saved it.",
            )


class AgentState:
    """All that is saved of an agent, so that it goes on to the bit.

    Attributes:
        statistics: By the prefix of their names in what is saved.

    Args:
        tensors: Returns what is learned, and what is summed up, by name.
        flat: Holds all parameters that the optimiser moves.
        rng: All chance of the agent.
    """

    def __init__(
        self,
        tensors: Callable[[], list[tuple[str, Tensor]]],
        flat: FlatParameters,
        optimiser: Adam,
        normaliser: RunningNormaliser,
        rewards: Rewards,
        rng: np.random.Generator,
    ) -> None:
        self.statistics: dict[str, RunningNormaliser | ValueNormaliser] = {"normaliser": normaliser}
        self._tensors, self._flat, self._optimiser = tensors, flat, optimiser
        self._rewards, self._rng = rewards, rng

    def save(self, counters: Mapping[str, int]) -> tuple[Arrays, dict[str, Any]]:
        """Return arrays by name (weights, moments, statistics), and JSON-able data (counters, chance)."""
        arrays = {name: to_numpy(tensor) for name, tensor in self._tensors()} | self._optimiser.state()
        rewards, tails = self._rewards.state()
        chance = {"rng": self._rng.bit_generator.state}
        return arrays | self._statistics() | rewards, {**counters, **chance, **tails}

    def load(
        self, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any], counters: Iterable[str]
    ) -> dict[str, int]:
        """Continue from what `save` returned, and return the counters; nothing is changed if it does not fit.

        Raises:
            CheckpointError: A tensor is missing or misshapen: the state belongs to other networks or spaces;
                or the counters or the random state can't be read.
        """
        shapes = {name: tuple(tensor.shape) for name, tensor in self._tensors()}
        shapes |= {name: array.shape for name, array in self._statistics().items()} | self._rewards.shapes
        check_shapes(tensors, shapes, self._flat.parameter.numel())
        self._rewards.check(meta)
        try:
            counted = {name: int(meta[name]) for name in counters}
            self._rng.bit_generator.state = dict(meta["rng"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"The counters and the random state of the agent can't be read: {error!r}.",
                "Resume from an older checkpoint.",
            ) from error
        with torch.no_grad():
            for name, tensor in self._tensors():
                tensor.copy_(torch.from_numpy(np.array(tensors[name])))
        self._optimiser.load_state(tensors)
        for prefix, one in self.statistics.items():
            one.load({name: tensors[f"{prefix}.{name}"] for name in one.state()})
        self._rewards.load(tensors, meta)
        return counted

    def _statistics(self) -> Arrays:
        return {
            f"{prefix}.{name}": array
            for prefix, one in self.statistics.items()
            for name, array in one.state().items()
        }


class FigureSums:
    """Adds the figures of updates up where the networks live: reading them there would wait for each update.

    `sums` `[F]` are those of `count` updates since they were asked for; in place of a sum the last `maxima`
    of them are the largest. `setting` is the key of the learning rate, named when figures are no longer
    finite.
    """

    def __init__(self, names: Sequence[str], device: torch.device, setting: str, maxima: int = 0) -> None:
        self.sums = torch.zeros(len(names), device=device)
        self.count = 0
        self._summed = len(names) - maxima
        self._names = tuple(names)
        self._setting = setting

    def add(self, figures: Tensor) -> None:
        """Add the figures `[F]` of one update; those that are maxima are never negative."""
        summed = self._summed
        self.sums[:summed] += figures[:summed]
        torch.maximum(self.sums[summed:], figures[summed:], out=self.sums[summed:])
        self.count += 1

    def means(self, updates: int, told: Mapping[str, float]) -> dict[str, float]:
        """Return means (and maxima) over the updates since the last call, and begin anew; nothing when there
        was no update.

        Beside them stands what is `told` as of the last of all `updates` so far, such as `learning_rate`.

        Raises:
            ServiceError: A figure is no longer finite; the agent is then of no more use.
        """
        if not self.count:
            return {}
        self.sums[: self._summed] /= self.count
        means = dict(zip(self._names, self.sums.tolist(), strict=True))
        self.sums.zero_()
        self.count = 0
        if not np.isfinite(list(means.values())).all():
            raise ServiceError(
                f"The updates of the agent up to {updates} gave numbers that are not finite: {means}.",
                f"Resume from a checkpoint with a lower {self._setting}, and check the size of the rewards.",
            )
        return {**means, **told}
