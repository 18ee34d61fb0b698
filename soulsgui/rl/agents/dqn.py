"""The DQN family: networks, optimiser, normaliser, random state and the update over a drawn batch.

What its members differ in stands in `dqn_kinds`.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.config.schema import Settings
from soulsgui.config.sections.algorithms import BEYOND_SUPPORT
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.policy import with_encoding
from soulsgui.rl.agents.base import Arrays, to_numpy
from soulsgui.rl.agents.dqn_kinds import kind_of
from soulsgui.rl.agents.replay_agent import ReplayAgent
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.buffers.sequences import SequenceBatch
from soulsgui.rl.gradients.dqn import DQNParts, DQNRows
from soulsgui.rl.gradients.r2d2 import SequenceRows
from soulsgui.rl.networks.mlp import named_layers
from soulsgui.rl.networks.named import inputs_of
from soulsgui.rl.networks.q_networks import resample_noise, still_noise
from soulsgui.rl.networks.shapes import LayerShape, shape_report
from soulsgui.rl.optimiser import FlatParameters, clip_norm_

FIGURES = ("loss", "q_mean", "target_mean", "td_error")
_SEEDS = 2**62


class DQNAgent(ReplayAgent):
    """Learns the values of numbered actions from transitions of any policy.

    Q-learning with a target network (Mnih et al. 2015, Nature 518), double by default (arXiv 1509.06461); its
    parts, and what it learns of the return, are chosen by `dqn.agent` and its fellows (`DQNParts`).

    With noise in its weights (arXiv 1706.10295), each update has noise of its own, in both networks; what
    clients get are plain weights, with one noise drawn for all of them after each update: between two
    publishes a policy explores consistently, over whole episodes if need be.

    Its figures are `loss`; `q_mean`, the value of the actions taken; `target_mean`, what they are drawn to;
    `td_error`, the mean absolute difference of both; `td_error_max`, the error of the sample (of R2D2 the
    step) with the largest one in all updates; `grad_norm` before clipping. Where returns are learned between
    `dqn.value_min` and `dqn.value_max`, also `beyond_support`: the share of samples that are drawn to returns
    which lie outside, on average.

    The arguments are those of `ActorCritic`; the algorithm's group is `dqn`.
    """

    def __init__(self, spaces: SpacesSpec, settings: Settings, seed: int, device: str = "cpu") -> None:
        self._actions = spaces.numbered_actions("dqn")
        to_see = inputs_of(spaces.observation, settings)
        self.parts = DQNParts.of(settings.dqn)
        bounded = (BEYOND_SUPPORT,) if self.parts.kind == "categorical" else ()
        figures = (*FIGURES, *bounded, "grad_norm", "td_error_max")
        words = settings.normalize, figures, "dqn.learning_rate"
        super().__init__(spaces, to_see, seed, device, *words, maxima=1)
        self.settings = settings
        seen = replace(spaces, observation=to_see.seen)
        self._kind = kind_of(seen, settings.network, settings.dqn, to_see.normalises)
        self._noise = torch.Generator().manual_seed(seed)
        self._noise_seed = seed
        self.online = self._kind.network(self._noise).to(self.device)
        self.target = copy.deepcopy(self.online)
        self._learn_with(FlatParameters([self.online]), FlatParameters([self.target]))
        self._gradient = self._kind.gradient(self.online, self.target, self._flat, self.sample_rng)

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data; its outputs are the values."""
        return with_encoding(self._kind.policy_spec(), self.spaces.observation, self._to_see.images)

    def shapes(self) -> dict[str, list[LayerShape]]:
        """Return the layers of the network by its name, with shapes and parameters."""
        inputs = torch.from_numpy(self._inputs(self._to_see.nothing())).to(self.device)
        report = shape_report(self.online, run=lambda: self._kind.values(self.online, inputs))
        return {"values": report}

    def export_weights(self, noise: bool = True) -> Arrays:
        """Return what a client needs to act: online network and normaliser, copied, float32.

        With `noise` that which explores is left in the weights, where there is any.
        """
        if noise:
            self._noise_to_act_with()
        else:
            still_noise(self.online)
        return self._with_statistics(self._kind.exported(self.online))

    def outputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return the values `[B, actions]` that the exported weights give to raw ones `[B, *shape]`."""
        return to_numpy(self._values(obs, self._kind.values))

    def start_values(self, obs: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
        """Return the value `[B]` of the best action where episodes begin (`OffPolicyAgent`)."""
        values: NDArray[np.float32] = to_numpy(self._values(obs, self._kind.start_values))
        best: NDArray[np.float32] = (values if mask is None else np.where(mask, values, -np.inf)).max(1)
        return best

    def update(self, batch: NStepBatch, tell: bool = True) -> NDArray[np.float32] | None:
        """Make one gradient step; what it tells is added to `figures`.

        If it is to `tell`, it returns how wrong each sample was, `[B]`, never negative: its new priority.
        Without that nobody waits for a GPU: the next batch is drawn while it computes.
        """
        dqn = self.settings.dqn
        self._set_rate(dqn.learning_rate)
        if self.parts.noisy:
            self._noise_seed = int(self.sample_rng.integers(_SEEDS))
            self._draw_noise(self._noise_seed)
        step = self._gradient(self._rows(batch), dqn)
        norm = clip_norm_(self._flat.gradient, dqn.max_grad_norm)
        self._optimiser.step()
        errors = step.samples.reshape(len(step.samples), -1)
        self._figures.add(torch.cat((step.figures, norm[None], errors[:, -1].amax()[None])))
        self.updates += 1
        if self.updates % dqn.target_interval == 0:
            self._target_flat.follow(self._flat.parameter.data, dqn.target_tau)
        return errors[:, 0].cpu().numpy() if tell else None

    def _modules(self) -> list[nn.Module]:
        return [self.online, self.target]

    def _networks(self) -> list[tuple[str, Tensor]]:
        return [*_named_parameters(self.online, "online"), *_named_parameters(self.target, "target")]

    def load_state(self, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Continue from what `state` returned, also before there was noise (`ReplayAgent.load_state`)."""
        super().load_state(tensors, {"noise": 0, **meta})

    def _counters(self) -> dict[str, int]:
        return super()._counters() | {"noise": self._noise_seed}

    def _load_counters(self, counters: Mapping[str, int]) -> None:
        super()._load_counters(counters)
        self._noise_seed = counters["noise"]

    def _values(self, obs: NDArray[Any], values: Callable[[nn.Module, Tensor], Tensor]) -> Tensor:
        """Return the `values` `[B, actions]` of the network that is exported."""
        self._noise_to_act_with()
        with torch.no_grad():
            return values(self.online, torch.from_numpy(self._inputs(obs)).to(self.device))

    def _noise_to_act_with(self) -> None:
        """Give the online network the noise of the exported weights: the same until the next update."""
        if self.parts.noisy:
            self._draw_noise(self._noise_seed + _SEEDS)

    def _draw_noise(self, seed: int) -> None:
        self._noise.manual_seed(seed)
        for network in (self.online, self.target):
            resample_noise(network, self._noise)

    def _inputs(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Turn stored observations `[N, *shape]` into what the networks take."""
        return self._to_see.of(obs, self._statistics)

    def _rows(self, batch: NStepBatch) -> DQNRows:
        """Turn a batch into what the gradient takes."""
        inputs = self._inputs(np.concatenate((batch.obs, batch.next_obs)))
        count = len(batch.action)
        action = batch.action - self._actions.start
        seen = {"obs": inputs[:count], "next_obs": inputs[count:], "action": action}
        return DQNRows(**batch._asdict() | seen)


def _named_parameters(network: nn.Module, prefix: str) -> list[tuple[str, Tensor]]:
    """Name what is learned in a network; the layers of an MLP by their place alone."""
    if isinstance(network, nn.Sequential):
        return list(named_layers(network, prefix))
    return [(f"{prefix}.{name}", parameter) for name, parameter in network.named_parameters()]


class R2D2Agent(DQNAgent):
    """A `DQNAgent` that remembers, and learns from sequences.

    Double Q-learning with a dueling network over windows of n steps; values are rescaled. A sequence begins
    with the state that was stored when it was played; its first steps, the burn-in, make that a present one,
    in both networks. Other than in the source, reward and action of the step before are no inputs, and
    episodes that were cut off count on from their last observation. In its settings `dqn.agent` is `r2d2` and
    `network.recurrent` a cell.
    """

    def _rows(self, batch: Any) -> Any:
        """Turn a `SequenceBatch` into what the gradient takes."""
        assert isinstance(batch, SequenceBatch)
        inputs = self._inputs(batch.obs.reshape(-1, *batch.obs.shape[2:]))
        columns = batch._asdict() | {
            "obs": inputs.reshape(*batch.obs.shape[:2], *inputs.shape[1:]),
            # Steps that a sequence does not have say nothing, but need some action that exists.
            "action": np.maximum(batch.action - self._actions.start, 0),
        }
        del columns["number"]
        return SequenceRows(**columns)
