"""What agents that learn from a replay memory have in common: normaliser, figures, random state, saving."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.config.declaring import Scheduled
from soulsgui.config.sections.network import NormalizeSettings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.frame_stacks import Observations
from soulsgui.policies.exploration import START, Moment
from soulsgui.rl.agents.base import AgentState, Arrays, FigureSums
from soulsgui.rl.compiled_loss import CompiledLoss
from soulsgui.rl.gradients.base import Gradient
from soulsgui.rl.gradients.shared import Group, SharedGradient
from soulsgui.rl.inputs import Inputs
from soulsgui.rl.normalisation import Rewards
from soulsgui.rl.optimiser import Adam, FlatParameters


class ReplayAgent(ABC):
    """An agent whose networks see observations by the statistics of all that `observe` was shown.

    Those are the statistics of the moment, the same in the update as in the weights exported then. All that
    learns is moved by one optimiser.

    Args:
        to_see: What its networks take of observations.
        figures: Names of what an update tells.
        setting: Key of the learning rate.
        maxima: How many of the last figures are the largest, not the mean, of the updates they tell of.
    """

    _flat: FlatParameters
    _target_flat: FlatParameters
    _optimiser: Adam
    _gradient: Gradient[Any, Any] | SharedGradient

    def __init__(
        self,
        spaces: SpacesSpec,
        to_see: Inputs,
        seed: int,
        device: str,
        normalize: NormalizeSettings,
        figures: Sequence[str],
        setting: str,
        maxima: int = 0,
    ) -> None:
        self.spaces = spaces
        self.device = torch.device(device)
        self.updates = 0
        self.sample_rng = np.random.default_rng(seed)
        self.rewards = Rewards(normalize)
        self.moment: Moment = START
        self._to_see = to_see
        self.normaliser, self._normalises = to_see.normaliser, to_see.normalises
        self._statistics = self.normaliser.frozen()
        self._figures = FigureSums(figures, self.device, setting, maxima)

    def _learn_with(self, flat: FlatParameters, target_flat: FlatParameters) -> None:
        """Let an optimiser move all that learns; the networks of the targets follow."""
        self._flat, self._target_flat = flat, target_flat
        self._optimiser = Adam(flat.parameter)
        saved = self._named_tensors, flat, self._optimiser, self.normaliser
        self._saved = AgentState(*saved, self.rewards, self.sample_rng)

    def _set_rate(self, rate: Scheduled) -> None:
        """Let the next step of the optimiser be as large as a setting says now."""
        self._optimiser.lr = self.moment.value(rate)

    @property
    def compiled_loss(self) -> CompiledLoss[Any] | None:
        """What of the update may be compiled; None: nothing that would gain."""
        return self._gradient.compiled_loss

    def learn_mixed(self) -> None:
        """Let networks compute in bfloat16 in the updates, where that is enough."""
        assert isinstance(self._gradient, Gradient)
        self._gradient.mixed = True

    def share(self, group: Group) -> SharedGradient:
        """Compute gradients together with the other processes of a group from now on."""
        assert isinstance(self._gradient, Gradient)
        flats = self._flat, [self._target_flat]
        self._gradient = shared = SharedGradient(self._gradient, group, *flats, self._modules())
        return shared

    @abstractmethod
    def _modules(self) -> list[nn.Module]:
        """Return all networks that the gradient looks at."""

    @abstractmethod
    def _networks(self) -> list[tuple[str, Tensor]]:
        """Return everything that is learned, and what follows it, by name."""

    def observe(self, obs: Observations) -> None:
        """Take new stored observations `[N, *shape]` into the normaliser's statistics, if there is one."""
        if self._normalises:
            self._to_see.observe(obs)
            self._statistics = self.normaliser.frozen()

    def figures(self) -> dict[str, float]:
        """Return means over the updates since the last call, and begin anew: see `FigureSums.means`."""
        told = {"learning_rate": self._optimiser.lr, **self.rewards.figures()}
        return self._figures.means(self.updates, told)

    def _with_statistics(self, weights: Arrays) -> Arrays:
        """Return weights with the normaliser's statistics, copied, if there is one."""
        if self._normalises:
            weights |= {f"normaliser.{name}": array.copy() for name, array in self._statistics.items()}
        return weights

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return everything that a bit-equal continuation needs: arrays by name, and JSON-able data."""
        return self._saved.save(self._counters())

    def load_state(self, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Continue from what `state` returned (`AgentState.load`)."""
        sums = np.zeros(self._figures.sums.shape, np.float32)
        if "figures.sums" in tensors and tensors["figures.sums"].shape < sums.shape:
            # Saved by a version that told fewer.
            tensors, meta = {**tensors, "figures.sums": sums}, {**meta, "summed": 0}
        self._load_counters(self._saved.load(tensors, meta, self._counters()))
        self._target_flat.changes += 1
        self._statistics = self.normaliser.frozen()

    def _counters(self) -> dict[str, int]:
        return {"updates": self.updates, "summed": self._figures.count}

    def _load_counters(self, counters: Mapping[str, int]) -> None:
        self.updates, self._figures.count = counters["updates"], counters["summed"]

    def _named_tensors(self) -> list[tuple[str, Tensor]]:
        return [*self._networks(), ("figures.sums", self._figures.sums)]
