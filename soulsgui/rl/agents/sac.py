"""Soft actor-critic: networks, optimiser, normaliser, random state and the update over a drawn batch."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulsgui.environments.actions import ActionSpec
from soulsgui.environments.space_words import action_words
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import CheckpointError, EnvironmentCheckError, ServiceError
from soulsgui.frame_stacks import Observations
from soulsgui.policies.action_heads import HeadSpec
from soulsgui.policies.actor import actor_spec
from soulsgui.policies.normalise import RunningNormaliser, normalise
from soulsgui.policies.numpy_mlp import MLPPolicySpec
from soulsgui.rl.agents.saved import Arrays, adam_arrays, check_shapes, load_adam, to_numpy, to_tensor
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.gradients.sac import FIGURES, AutogradSACGradient, SACGradient, SACRows
from soulsgui.rl.gradients.sac_by_hand import HandSACGradient
from soulsgui.rl.networks import named_layers
from soulsgui.rl.networks.sac_networks import build_sac_networks
from soulsgui.rl.settings import SACAgentSettings


class SACAgent:
    """Learns a policy over numbers within bounds, and their values, from transitions of any policy.

    Soft actor-critic with two critics, target networks that follow softly and a learned temperature (Haarnoja
    et al. 2018, arXiv 1812.05905). Inside, actions are scaled to -1 … 1 by the bounds of their space, and
    entropies are those of scaled actions. Each update moves actor, critics and temperature at once, all by
    what the others were before it. The networks see observations normalised by the statistics of all that
    `observe` was shown: those of the moment, the same in the update as in the weights exported then.

    Attributes:
        updates: Gradient steps so far.
        sample_rng: What to draw transitions with; the updates draw their actions from it too.

    Args:
        spaces: What the environment shows and takes.
        settings: The groups `network`, `normalize` and `sac` of the configuration. `sac` is read at each
            update; the attribute may be replaced in between.
        seed: Determines the initial weights and every draw.
        device: Where the networks live, as torch names it.

    Raises:
        EnvironmentCheckError: The environment takes something else than numbers within bounds.
    """

    def __init__(
        self, spaces: SpacesSpec, settings: SACAgentSettings, seed: int, device: str = "cpu"
    ) -> None:
        self.spaces = spaces
        self.settings = settings
        self.device = torch.device(device)
        self.updates = 0
        self.sample_rng = np.random.default_rng(seed)
        self._head = bounded_head(spaces.action, settings.network.initial_std)
        self.networks = nets = build_sac_networks(
            spaces.observation.size,
            self._head.size,
            settings.network,
            settings.sac.initial_temperature,
            torch.Generator().manual_seed(seed),
            self.device,
        )
        self._flat, self._target_flat = FlatParameters(nets.learning), FlatParameters(nets.targets)
        self._optimiser = torch.optim.Adam([self._flat.parameter], lr=settings.sac.learning_rate, fused=True)
        self._gradient: SACGradient = (
            HandSACGradient(nets) if self.device.type == "cpu" else AutogradSACGradient(nets, self._flat)
        )
        self.normaliser = RunningNormaliser(spaces.observation.size, settings.normalize.clip)
        self._statistics = self.normaliser.frozen()
        # Stays where the networks are: reading a number there would wait for them at each update.
        self._sums = torch.zeros(len(FIGURES), device=self.device)
        self._summed = 0

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        network = MLPPolicySpec(
            observation_shape=self.spaces.observation.shape,
            num_actions=self._head.outputs,
            first_action=0,
            hidden_sizes=tuple(self.settings.network.hidden_sizes),
            activation=self.settings.network.activation,
            normalise=self.settings.normalize.observations,
        )
        return actor_spec(network.to_json(), self._head)

    def export_weights(self) -> Arrays:
        """Return what a client needs to act: actor and normaliser, copied, float32."""
        arrays = {name: to_numpy(tensor) for name, tensor in named_layers(self.networks.actor, "policy")}
        if self.settings.normalize.observations:
            arrays |= {f"normaliser.{name}": array.copy() for name, array in self._statistics.items()}
        return arrays

    def outputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return means and raw deviations `[B, 2 * D]` of `u` at raw observations `[B, *shape]`."""
        with torch.no_grad():
            return to_numpy(self.networks.actor(torch.from_numpy(self._inputs(obs)).to(self.device)))

    def observe(self, obs: Observations) -> None:
        """Take new raw observations `[N, *shape]` into the normaliser's statistics, if there is one."""
        if self.settings.normalize.observations:
            self.normaliser.update(np.asarray(obs))
            self._statistics = self.normaliser.frozen()

    def update(self, batch: NStepBatch) -> None:
        """Make one gradient step with windows of any length; what it tells is added to `figures`.

        Their actions are `u`, as stored (`environments.actions`).
        """
        sac = self.settings.sac
        self._optimiser.param_groups[0]["lr"] = sac.learning_rate
        self._sums += self._gradient(self._rows(batch), self._target_entropy)
        self._optimiser.step()
        self._summed += 1
        self.updates += 1
        critics = self._flat.parameter.data[self._critics]
        self._target_flat.parameter.data.lerp_(critics, sac.target_tau)

    def figures(self) -> dict[str, float]:
        """Return means over the updates since the last call, and begin anew.

        Returns:
            `critic_loss` and `actor_loss`; `q_mean`, the value of the actions taken; `target_mean`, what they
            are drawn to; `td_error`, the mean absolute difference of both; `entropy` of the policy over
            scaled actions, estimated; `temperature`; `learning_rate`, as of the last update. Nothing when
            there was no update.

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
                "Resume from a checkpoint with a lower sac.learning_rate, and check the size of the rewards.",
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
        return arrays, counters | {"rng": self.sample_rng.bit_generator.state}

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
            self.sample_rng.bit_generator.state = dict(meta["rng"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"The counters and the random state of the agent can't be read: {error!r}.",
                "Resume from an older checkpoint.",
            ) from error
        self.updates, self._summed = updates, summed
        with torch.no_grad():
            for name, tensor in self._named_tensors():
                tensor.copy_(to_tensor(tensors[name]))
        load_adam(self._optimiser, self._flat.parameter, tensors)
        self.normaliser.load({name: tensors[f"normaliser.{name}"] for name in self.normaliser.state()})
        self._statistics = self.normaliser.frozen()

    @property
    def _target_entropy(self) -> float | None:
        """What the temperature aims at; None: it stays as it is."""
        sac = self.settings.sac
        if not sac.learn_temperature:
            return None
        return -float(self._head.size) if sac.target_entropy is None else sac.target_entropy

    @property
    def _critics(self) -> slice:
        """Where the critics stand among all that learns: behind the actor, before the temperature."""
        return slice(-1 - self._target_flat.parameter.numel(), -1)

    def _named_tensors(self) -> list[tuple[str, Tensor]]:
        nets = self.networks
        pairs = enumerate(zip(nets.critics, nets.targets, strict=True))
        layers = (
            (*named_layers(critic, f"critic_{index}"), *named_layers(target, f"target_{index}"))
            for index, (critic, target) in pairs
        )
        return [
            *named_layers(nets.actor, "actor"),
            *chain.from_iterable(layers),
            ("log_temperature", nets.log_temperature),
            ("figures.sums", self._sums),
        ]

    def _inputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Turn raw observations `[N, *shape]` into what the networks take, `[N, size]`."""
        if self.settings.normalize.observations:
            return normalise(obs, self._statistics)
        return obs.reshape(len(obs), self.spaces.observation.size).astype(np.float32)

    def _rows(self, batch: NStepBatch) -> SACRows:
        """Turn a batch into what the gradient takes, with chance for its actions."""
        count = len(batch.reward)
        inputs = self._inputs(np.concatenate((batch.obs, batch.next_obs)))
        return SACRows(
            obs=inputs[:count],
            action=np.tanh(batch.action),
            reward=batch.reward,
            next_obs=inputs[count:],
            discount=batch.discount,
            noise=self.sample_rng.standard_normal((2, count, self._head.size), dtype=np.float32),
        )


def bounded_head(action: ActionSpec, initial_std: float) -> HeadSpec:
    """Return the head of a policy over numbers that a tanh keeps within their bounds.

    Args:
        action: What the environment takes.
        initial_std: Deviation of `u` at the start; it depends on the observation.

    Raises:
        EnvironmentCheckError: The environment takes something else, or a bound is missing.
    """
    told = action.to_json()
    head = HeadSpec(told, "state_dependent", initial_std, "tanh")
    if told["type"] == "box" and head.is_squashed:
        return head
    raise EnvironmentCheckError(
        f"sac chooses numbers within bounds; this environment takes {action_words(action)}.",
        "Set algorithm: ppo, or choose an environment with a Box of actions that has bounds on both sides.",
    )
