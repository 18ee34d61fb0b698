"""Proximal policy optimisation: networks, optimiser, normaliser, random state and the update over a round."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import CheckpointError, ServiceError
from soulsgui.policies.actor import actor_spec
from soulsgui.policies.normalise import RunningNormaliser
from soulsgui.policies.numpy_mlp import MLPPolicySpec
from soulsgui.policies.schedules import scheduled
from soulsgui.policies.torch_spec import TorchPolicySpec
from soulsgui.rl.action_heads import action_head
from soulsgui.rl.agents.saved import (
    Arrays,
    adam_arrays,
    check_shapes,
    load_adam,
    to_numpy,
    to_tensor,
)
from soulsgui.rl.buffers.rollout import Bools, RolloutBatch
from soulsgui.rl.flat import FlatParameters, clip_norm_
from soulsgui.rl.gradients.ppo import AutogradPPOGradient, PPOGradient, PPORows
from soulsgui.rl.gradients.ppo_by_hand import HandPPOGradient
from soulsgui.rl.losses.ppo import approximate_kl
from soulsgui.rl.networks import build_mlp
from soulsgui.rl.networks.named import MLP, build_network, named_tensors, sees_images
from soulsgui.rl.networks.shapes import LayerShape, shape_report
from soulsgui.rl.returns import gae
from soulsgui.rl.settings import ActorCriticSettings, PPOAgentSettings

Settings = TypeVar("Settings", bound=ActorCriticSettings)

Floats = NDArray[np.float32]


class ActorCritic(Generic[Settings]):
    """Networks for policy and value, their optimiser and the normaliser: what every actor-critic needs.

    Policy and value have networks of their own, the last policy layer is small and observations are
    normalised ("What matters in on-policy reinforcement learning", arXiv 2006.05990).

    Attributes:
        updates: Updates so far.

    Args:
        spaces: What the environment shows and takes.
        settings: The groups `network` and `normalize` of the configuration, and that of the algorithm, which
            is read at each update; the attribute may be replaced in between.
        learning_rate: Adam's step size at the start.
        seed: Determines the initial weights and every shuffle.
        device: Where the networks live, as torch names it.
    """

    def __init__(
        self, spaces: SpacesSpec, settings: Settings, learning_rate: float, seed: int, device: str
    ) -> None:
        self.spaces = spaces
        self.settings = settings
        self.device = torch.device(device)
        self.updates = 0
        self._rng = np.random.default_rng(seed)
        self.head = action_head(spaces.action, settings.network).to(self.device)
        self._flat = FlatParameters(self._build(torch.Generator().manual_seed(seed)))
        self._optimiser = torch.optim.Adam([self._flat.parameter], lr=learning_rate, eps=1e-5, fused=True)
        self._normalises = settings.normalize.observations and not sees_images(
            settings.network.name, spaces.observation
        )
        self.normaliser = RunningNormaliser(spaces.observation.size, settings.normalize.clip)

    def _build(self, generator: torch.Generator) -> list[nn.Module]:
        """Build the networks and return all that is to be learned."""
        network = self.settings.network
        self.policy = self._network(
            network.hidden_sizes, self.head.spec.outputs, network.policy_init_scale, generator
        )
        self.value = self._network(network.value_hidden_sizes, 1, 1.0, generator)
        return [self.policy, self.value, self.head]

    def _network(
        self, hidden_sizes: Sequence[int], outputs: int, scale: float, generator: torch.Generator
    ) -> nn.Module:
        network, box = self.settings.network, self.spaces.observation
        if network.name == MLP:
            mlp = build_mlp(box.size, hidden_sizes, outputs, network.activation, scale, generator)
            return mlp.to(self.device)
        built = build_network(network.name, box, hidden_sizes, network.activation, outputs, scale, generator)
        return built.to(self.device)

    def shapes(self) -> dict[str, list[LayerShape]]:
        """Return the layers of each network by its name, with shapes and parameters."""
        obs = np.zeros((1, *self.spaces.observation.shape), self.spaces.observation.dtype)
        inputs = self._inputs(obs)
        return {"policy": shape_report(self.policy, inputs), "value": shape_report(self.value, inputs)}

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        network = self._network_spec()
        if isinstance(self.spaces.action, DiscreteSpec):
            return network
        return actor_spec(network, self.head.spec)

    def _network_spec(self) -> dict[str, Any]:
        """Return the description of the policy's network, as JSON-able data."""
        action = self.spaces.action
        first = action.start if isinstance(action, DiscreteSpec) else 0
        if self.settings.network.name != MLP:
            return TorchPolicySpec(
                network=self.settings.network.name,
                observation_shape=self.spaces.observation.shape,
                observation_dtype=self.spaces.observation.dtype,
                num_actions=self.head.spec.outputs,
                first_action=first,
                hidden_sizes=tuple(self.settings.network.hidden_sizes),
                activation=self.settings.network.activation,
                normalise=self._normalises,
            ).to_json()
        return MLPPolicySpec(
            observation_shape=self.spaces.observation.shape,
            num_actions=self.head.spec.outputs,
            first_action=first,
            hidden_sizes=tuple(self.settings.network.hidden_sizes),
            activation=self.settings.network.activation,
            normalise=self.settings.normalize.observations,
        ).to_json()

    def export_weights(self) -> Arrays:
        """Return what a client needs to act: policy and normaliser, copied, float32."""
        exported = (*named_tensors(self.policy, "policy"), *self.head.named_tensors())
        arrays = {name: to_numpy(tensor) for name, tensor in exported}
        if self._normalises:
            arrays |= {f"normaliser.{name}": array for name, array in self.normaliser.frozen().items()}
        return arrays

    def outputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return what the policy network says of raw observations `[B, *shape]`, `[B, outputs]`."""
        with torch.no_grad():
            return to_numpy(self.policy(self._inputs(obs)))

    def act_greedy(self, obs: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """Return the best stored action `[B, ...]` for each raw observation `[B, *shape]`.

        Args:
            obs: The observations.
            mask: `[B, A]` bool, which actions are valid, at least one of each choice; None: all are.
        """
        allowed = None if mask is None else torch.from_numpy(mask).to(self.device)
        with torch.no_grad():
            best = self.head.distribution(self.policy(self._inputs(obs)), allowed).mode()
        return self.head.stored(best.cpu().numpy())

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return everything that a bit-equal continuation needs.

        Returns:
            Arrays by name (weights, the optimiser's moments, the normaliser), and JSON-able data (counters,
            random state).
        """
        arrays = {name: to_numpy(tensor) for name, tensor in self._named_tensors()}
        arrays |= adam_arrays(self._optimiser, self._flat.parameter)
        arrays |= {f"normaliser.{name}": array for name, array in self.normaliser.state().items()}
        return arrays, {"updates": self.updates, "rng": self._rng.bit_generator.state}

    def load_state(self, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Continue from what `state` returned; nothing is changed when it does not fit.

        Raises:
            CheckpointError: A tensor is missing or misshapen: the state belongs to other networks or spaces;
                or the random state can't be read.
        """
        self._check_shapes(tensors)
        try:
            updates = int(meta["updates"])
            self._rng.bit_generator.state = dict(meta["rng"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"The counters and the random state of the agent can't be read: {error!r}.",
                "Resume from an older checkpoint.",
            ) from error
        self.updates = updates
        with torch.no_grad():
            for name, tensor in self._named_tensors():
                tensor.copy_(to_tensor(tensors[name]))
        load_adam(self._optimiser, self._flat.parameter, tensors)
        self.normaliser.load({name: tensors[f"normaliser.{name}"] for name in self.normaliser.state()})

    def _check_shapes(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Raise a CheckpointError unless the tensors of a saved state fit this agent."""
        shapes = {name: tuple(tensor.shape) for name, tensor in self._named_tensors()}
        shapes |= {f"normaliser.{name}": array.shape for name, array in self.normaliser.state().items()}
        check_shapes(tensors, shapes, self._flat.parameter.numel())

    def _named_tensors(self) -> list[tuple[str, Tensor]]:
        layers = (*named_tensors(self.policy, "policy"), *named_tensors(self.value, "value"))
        return [*layers, *self.head.named_tensors()]

    def _inputs(self, obs: NDArray[Any]) -> Tensor:
        """Turn raw observations `[N, *shape]` into what the networks take, on the device.

        That is `[N, size]` float32 for an MLP and otherwise `[N, *shape]`, images as the bytes they are.
        """
        name, box = self.settings.network.name, self.spaces.observation
        shape = (len(obs), box.size) if name == MLP else (len(obs), *box.shape)
        if self._normalises:
            inputs: NDArray[Any] = self.normaliser.normalise(obs)
        else:
            inputs = obs if sees_images(name, box) else obs.astype(np.float32)
        return torch.from_numpy(inputs.reshape(shape)).to(self.device)


class PPOAgent(ActorCritic[PPOAgentSettings]):
    """Learns a policy over actions of any kind from rounds of its own experience.

    Follows "What matters in on-policy reinforcement learning" (arXiv 2006.05990): transitions shuffled over
    the whole round and advantages recomputed before each pass. Published statistics of the normaliser stay
    as they are until the update on the data collected with them is over.

    Args:
        spaces: What the environment shows and takes.
        settings: The groups `network`, `normalize` and `ppo` of the configuration. `ppo` is read at each
            update; the attribute may be replaced in between.
        seed: Determines the initial weights and every shuffle.
        device: Where the networks live, as torch names it.
    """

    def __init__(
        self, spaces: SpacesSpec, settings: PPOAgentSettings, seed: int, device: str = "cpu"
    ) -> None:
        super().__init__(spaces, settings, settings.ppo.learning_rate, seed, device)
        self._gradient = self._make_gradient()

    def _make_gradient(self) -> PPOGradient:
        policy, value = self.policy, self.value
        if (
            self.device.type == "cpu"
            and isinstance(self.spaces.action, DiscreteSpec)
            and isinstance(policy, nn.Sequential)
            and isinstance(value, nn.Sequential)
        ):
            return HandPPOGradient(policy, value)
        return AutogradPPOGradient(policy, value, self._flat, self.head.distribution)

    def update(self, batch: RolloutBatch, progress: float) -> dict[str, float]:
        """Learn from one round, collected with the weights and statistics exported last.

        Args:
            batch: The round.
            progress: Part of the run that is done, 0 to 1; moves the learning rate along its schedule.

        Returns:
            `policy_loss`, `value_loss`, `entropy`, `grad_norm` (before clipping): means over all gradient
            steps; `approx_kl`, `clip_fraction`: over the last pass; `explained_variance` of the returns by
            the values before the update; `learning_rate`; `epochs_done`.

        Raises:
            ServiceError: A loss is no longer finite; the agent is then of no more use.
        """
        ppo = self.settings.ppo
        learning_rate = scheduled(ppo.learning_rate, ppo.learning_rate_schedule, progress)
        self._optimiser.param_groups[0]["lr"] = learning_rate
        inputs = self._inputs(batch.obs)
        data, explained = self._first_targets(batch, inputs)
        steps: list[Tensor] = []
        kl, log_ratio, epochs_done = 0.0, torch.zeros(1), 0
        for epoch in range(ppo.epochs):
            if epoch and ppo.recompute_advantages:
                advantage, target, _ = self._targets(batch, inputs)
                data = data._replace(advantage=advantage, target=target)
            log_ratio = self._run_pass(data, steps)
            kl, epochs_done = approximate_kl(log_ratio).item(), epoch + 1
            if ppo.target_kl is not None and kl > ppo.target_kl:
                break
        if self._normalises:
            self.normaliser.update(batch.obs[batch.step_rows])
        self.updates += 1
        means = torch.stack(steps).mean(dim=0).tolist()
        if not np.isfinite(means).all():
            raise ServiceError(
                f"Update {self.updates} of the agent gave numbers that are not finite: {means}.",
                "Resume from a checkpoint with a lower ppo.learning_rate, and check the size of the rewards.",
            )
        return {
            **dict(zip(("policy_loss", "value_loss", "entropy", "grad_norm"), means, strict=True)),
            "approx_kl": kl,
            "clip_fraction": (torch.expm1(log_ratio).abs() > ppo.clip).float().mean().item(),
            "explained_variance": explained,
            "learning_rate": learning_rate,
            "epochs_done": float(epochs_done),
        }

    def _first_targets(self, batch: RolloutBatch, inputs: Tensor) -> tuple[PPORows, float]:
        """Gather the round for its first pass; also return the explained variance of the returns."""
        advantage, target, value = self._targets(batch, inputs)
        if batch.action_mask is None:
            mask = np.zeros((batch.steps, 0), np.bool_)
        else:
            mask = batch.action_mask[batch.step_rows]
        data = PPORows(
            obs=inputs[torch.from_numpy(batch.step_rows).to(self.device)],
            action=torch.tensor(self.head.drawn(batch.action), device=self.device),
            log_prob=torch.tensor(batch.log_prob, device=self.device),
            advantage=advantage,
            target=target,
            old_value=value,
            mask=torch.from_numpy(mask).to(self.device),
        )
        spread = target.var(correction=0).item()
        explained = 1.0 - (target - value).var(correction=0).item() / spread if spread > 0 else 0.0
        return data, explained

    def _targets(self, batch: RolloutBatch, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute advantages (normalised if so set), value targets and values, `[N]` each, as of now."""
        ppo = self.settings.ppo
        values, next_values, ends = self._values(batch, inputs)
        advantages = gae(
            batch.reward, values, next_values, batch.terminated_steps, ends, ppo.gamma, ppo.gae_lambda
        )
        targets = advantages + values
        if ppo.normalize_advantage:
            advantages = (advantages - advantages.mean()) / (advantages.std() + np.float32(1e-8))
        advantage, target, value = (
            torch.from_numpy(x).to(self.device) for x in (advantages, targets, values)
        )
        return advantage, target, value

    def _values(self, batch: RolloutBatch, inputs: Tensor) -> tuple[Floats, Floats, Bools]:
        """Return `[N]` each: values as of now, those of what came next, and where an estimate ends."""
        values = self._gradient.values(inputs)
        return values[batch.step_rows], values[batch.step_rows + 1], batch.ends

    def _run_pass(self, data: PPORows, steps: list[Tensor]) -> Tensor:
        """Go once over the round.

        Args:
            data: The round.
            steps: Losses, entropy and gradient norm of each gradient step are added to it.

        Returns:
            The log-ratios `[N]` as the gradient steps saw them.
        """
        ppo = self.settings.ppo
        log_ratios = []
        for rows in self._minibatches(data):
            figures = self._gradient(rows, ppo)
            norm = clip_norm_(self._flat.gradient, ppo.max_grad_norm)
            self._optimiser.step()
            log_ratios.append(figures.log_ratio)
            steps.append(torch.cat((figures.terms, norm[None])))
        return torch.cat(log_ratios)

    def _minibatches(self, data: PPORows) -> Iterator[PPORows]:
        """Go once over the round in random order, in minibatches of nearly equal size."""
        count = len(data.action)
        order = torch.from_numpy(self._rng.permutation(count)).to(self.device)
        minibatches = max(1, round(count / self.settings.ppo.minibatch_size))
        shuffled = [column[order].tensor_split(minibatches) for column in data]
        for columns in zip(*shuffled, strict=True):
            yield PPORows(*columns)
