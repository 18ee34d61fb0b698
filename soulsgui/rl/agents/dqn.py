"""The DQN family: networks, optimiser, normaliser, random state and the update over a drawn batch.

What its members differ in stands in `dqn_kinds`.
"""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import CheckpointError, ServiceError
from soulsgui.frame_stacks import Observations
from soulsgui.policies.normalise import RunningNormaliser, normalise
from soulsgui.rl.agents.dqn_kinds import kind_of
from soulsgui.rl.agents.saved import Arrays, adam_arrays, check_shapes, load_adam, to_numpy, to_tensor
from soulsgui.rl.buffers.replay import NStepBatch, TransitionBatch
from soulsgui.rl.dqn_parts import Parts
from soulsgui.rl.flat import FlatParameters, clip_norm_
from soulsgui.rl.gradients.dqn import DQNRows
from soulsgui.rl.networks import named_layers
from soulsgui.rl.networks.named import MLP, sees_images
from soulsgui.rl.networks.noisy import resample_noise, still_noise
from soulsgui.rl.networks.shapes import LayerShape, shape_report
from soulsgui.rl.settings import DQNAgentSettings

FIGURES = ("loss", "q_mean", "target_mean", "td_error", "grad_norm")
_SEEDS = 2**62


class DQNAgent:
    """Learns the values of numbered actions from transitions of any policy.

    Q-learning with a target network (Mnih et al. 2015, Nature 518), double by default (arXiv 1509.06461); its
    parts, and what it learns of the return, are chosen by `dqn.agent` and its fellows (`rl.dqn_parts`). The
    network sees observations normalised by the statistics of all that `observe` was shown: those of the
    moment, the same in the update as in the weights exported then.

    With noise in its weights (arXiv 1706.10295), each update has noise of its own, in both networks; what
    clients get are plain weights, with one noise drawn for all of them after each update: between two
    publishes a policy explores consistently, over whole episodes if need be.

    Attributes:
        updates: Gradient steps so far.
        sample_rng: What to draw transitions with; part of the state.

    Args:
        spaces: What the environment shows and takes.
        settings: The groups `network`, `normalize` and `dqn` of the configuration. `dqn` is read at each
            update; the attribute may be replaced in between.
        seed: Determines the initial weights and every draw.
        device: Where the networks live, as torch names it.
    """

    def __init__(
        self, spaces: SpacesSpec, settings: DQNAgentSettings, seed: int, device: str = "cpu"
    ) -> None:
        self.spaces = spaces
        self._actions = spaces.numbered_actions("dqn")
        self.settings = settings
        self.device = torch.device(device)
        self.updates = 0
        self.sample_rng = np.random.default_rng(seed)
        self.parts = Parts.of(settings.dqn)
        self._kind = kind_of(spaces, settings)
        self._noise = torch.Generator().manual_seed(seed)
        self._noise_seed = seed
        self.online = self._kind.network(self._noise).to(self.device)
        self.target = copy.deepcopy(self.online)
        self._flat, self._target_flat = FlatParameters([self.online]), FlatParameters([self.target])
        self._optimiser = torch.optim.Adam([self._flat.parameter], lr=settings.dqn.learning_rate, fused=True)
        self._gradient = self._kind.gradient(self.online, self.target, self._flat, self.sample_rng)
        self._sees_images = sees_images(settings.network.name, spaces.observation)
        self._normalises = settings.normalize.observations and not self._sees_images
        self.normaliser = RunningNormaliser(spaces.observation.size, settings.normalize.clip)
        self._statistics = self.normaliser.frozen()
        # Stays where the networks are: reading a number there would wait for them at each update.
        self._sums = torch.zeros(len(FIGURES), device=self.device)
        self._summed = 0

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data; its outputs are the values."""
        return self._kind.policy_spec()

    def shapes(self) -> dict[str, list[LayerShape]]:
        """Return the layers of the network by its name, with shapes and parameters."""
        obs = np.zeros((1, *self.spaces.observation.shape), self.spaces.observation.dtype)
        inputs = torch.from_numpy(self._inputs(obs)).to(self.device)
        report = shape_report(self.online, run=lambda: self._kind.values(self.online, inputs))
        return {"values": report}

    def export_weights(self, noise: bool = True) -> Arrays:
        """Return what a client needs to act: online network and normaliser, copied, float32.

        Args:
            noise: Leave the noise that explores in the weights, where there is any.
        """
        if noise:
            self._noise_to_act_with()
        else:
            still_noise(self.online)
        arrays = self._kind.exported(self.online)
        if self._normalises:
            arrays |= {f"normaliser.{name}": array.copy() for name, array in self._statistics.items()}
        return arrays

    def outputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return the values `[B, actions]` that the exported weights give to raw ones `[B, *shape]`."""
        return to_numpy(self._values(obs))

    def act_greedy(self, obs: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return the action `[B]` int64 of the highest value for each raw observation `[B, *shape]`.

        Args:
            obs: The observations.
            mask: `[B, A]` bool, which actions are valid, at least one each; None: all are.
        """
        values = self._values(obs)
        if mask is not None:
            values = values.masked_fill(~torch.from_numpy(mask).to(self.device), -torch.inf)
        index = values.argmax(dim=1)
        actions: NDArray[np.int64] = index.cpu().numpy() + self._actions.start
        return actions

    def observe(self, obs: Observations) -> None:
        """Take new raw observations `[N, *shape]` into the normaliser's statistics, if there is one."""
        if self._normalises:
            self.normaliser.update(np.asarray(obs))
            self._statistics = self.normaliser.frozen()

    def update(self, batch: NStepBatch | TransitionBatch) -> NDArray[np.float32]:
        """Make one gradient step; what it tells is added to `figures`.

        Returns:
            `[B]`, how wrong each sample was, never negative: its new priority.
        """
        dqn = self.settings.dqn
        self._optimiser.param_groups[0]["lr"] = dqn.learning_rate
        if self.parts.noisy:
            self._noise_seed = int(self.sample_rng.integers(_SEEDS))
            self._draw_noise(self._noise_seed)
        step = self._gradient(self._rows(batch), dqn)
        norm = clip_norm_(self._flat.gradient, dqn.max_grad_norm)
        self._optimiser.step()
        self._sums += torch.cat((step.figures, norm[None]))
        self._summed += 1
        self.updates += 1
        if self.updates % dqn.target_interval == 0:
            # All the way (tau = 1) is a copy, to the bit.
            self._target_flat.parameter.data.lerp_(self._flat.parameter.data, dqn.target_tau)
        error: NDArray[np.float32] = step.error.cpu().numpy()
        return error

    def figures(self) -> dict[str, float]:
        """Return means over the updates since the last call, and begin anew.

        Returns:
            `loss`; `q_mean`, the value of the actions taken; `target_mean`, what they are drawn to;
            `td_error`, the mean absolute difference of both; `grad_norm` before clipping; `learning_rate`, as
            of the last update. Nothing when there was no update.

        Raises:
            ServiceError: A figure is no longer finite; the agent is then of no more use.
        """
        if not self._summed:
            return {}
        means = dict(zip(FIGURES, (self._sums / self._summed).tolist(), strict=True))
        self._sums.zero_()
        self._summed = 0
        if not np.isfinite(list(means.values())).all():
            raise ServiceError(
                f"The updates of the agent up to {self.updates} gave numbers that are not finite: {means}.",
                "Resume from a checkpoint with a lower dqn.learning_rate, and check the size of the rewards.",
            )
        return {**means, "learning_rate": self._optimiser.param_groups[0]["lr"]}

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return everything that a bit-equal continuation needs.

        Returns:
            Arrays by name (weights, the optimiser's moments, the normaliser, sums of the figures), and
            JSON-able data (counters, random state).
        """
        arrays = {name: to_numpy(tensor) for name, tensor in self._named_tensors()}
        arrays |= adam_arrays(self._optimiser, self._flat.parameter)
        arrays |= {f"normaliser.{name}": array for name, array in self.normaliser.state().items()}
        counters = {"updates": self.updates, "summed": self._summed}
        return arrays, counters | {"rng": self.sample_rng.bit_generator.state, "noise": self._noise_seed}

    def load_state(self, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Continue from what `state` returned; nothing is changed when it does not fit.

        Raises:
            CheckpointError: A tensor is missing or misshapen: the state belongs to other networks or spaces;
                or the random state can't be read.
        """
        shapes = {name: tuple(tensor.shape) for name, tensor in self._named_tensors()}
        shapes |= {f"normaliser.{name}": array.shape for name, array in self.normaliser.state().items()}
        check_shapes(tensors, shapes, self._flat.parameter.numel())
        try:
            updates, summed = int(meta["updates"]), int(meta["summed"])
            noise = int(meta.get("noise", 0))
            self.sample_rng.bit_generator.state = dict(meta["rng"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"The counters and the random state of the agent can't be read: {error!r}.",
                "Resume from an older checkpoint.",
            ) from error
        self.updates, self._summed, self._noise_seed = updates, summed, noise
        with torch.no_grad():
            for name, tensor in self._named_tensors():
                tensor.copy_(to_tensor(tensors[name]))
        load_adam(self._optimiser, self._flat.parameter, tensors)
        self.normaliser.load({name: tensors[f"normaliser.{name}"] for name in self.normaliser.state()})
        self._statistics = self.normaliser.frozen()

    def _named_tensors(self) -> list[tuple[str, Tensor]]:
        return [
            *_named_parameters(self.online, "online"),
            *_named_parameters(self.target, "target"),
            ("figures.sums", self._sums),
        ]

    def _values(self, obs: NDArray[Any]) -> Tensor:
        """Return the values `[B, actions]` of the network that is exported."""
        self._noise_to_act_with()
        with torch.no_grad():
            return self._kind.values(self.online, torch.from_numpy(self._inputs(obs)).to(self.device))

    def _noise_to_act_with(self) -> None:
        """Give the online network the noise of the exported weights: the same until the next update."""
        if self.parts.noisy:
            self._draw_noise(self._noise_seed + _SEEDS)

    def _draw_noise(self, seed: int) -> None:
        self._noise.manual_seed(seed)
        for network in (self.online, self.target):
            resample_noise(network, self._noise)

    def _inputs(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Turn raw observations `[N, *shape]` into what the networks take.

        That is `[N, size]` float32 for an MLP and otherwise `[N, *shape]`, images as the bytes they are.
        """
        box = self.spaces.observation
        shape = (len(obs), box.size) if self.settings.network.name == MLP else (len(obs), *box.shape)
        if self._normalises:
            return normalise(obs, self._statistics).reshape(shape)
        return (obs if self._sees_images else obs.astype(np.float32)).reshape(shape)

    def _rows(self, batch: NStepBatch | TransitionBatch) -> DQNRows:
        """Turn a batch into what the gradient takes."""
        inputs = self._inputs(np.concatenate((batch.obs, batch.next_obs)))
        count = len(batch.action)
        if isinstance(batch, NStepBatch):
            discount, weight = batch.discount, batch.weight
        else:
            gamma = np.float32(self.settings.dqn.gamma)
            discount, weight = np.where(batch.terminated, np.float32(0), gamma), None
        return DQNRows(
            obs=inputs[:count],
            action=batch.action - self._actions.start,
            reward=batch.reward,
            next_obs=inputs[count:],
            discount=discount,
            next_mask=batch.next_mask,
            weight=weight,
        )


def _named_parameters(network: nn.Module, prefix: str) -> list[tuple[str, Tensor]]:
    """Name what is learned in a network; the layers of an MLP by their place alone."""
    if isinstance(network, nn.Sequential):
        return list(named_layers(network, prefix))
    return [(f"{prefix}.{name}", parameter) for name, parameter in network.named_parameters()]
