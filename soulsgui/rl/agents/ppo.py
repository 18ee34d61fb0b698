"""Proximal policy optimisation: the update over a round, also of a policy that remembers."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.config.schema import Settings
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import ServiceError
from soulsgui.experience.segments import Bools, Ints, Segments
from soulsgui.policies.exploration import Moment
from soulsgui.policies.policy import with_encoding
from soulsgui.policies.specs import MEMORY, RecurrentPolicySpec
from soulsgui.rl.agents.actor_critic import ActorCritic
from soulsgui.rl.agents.base import to_numpy
from soulsgui.rl.buffers.rollout import BPTTChunks
from soulsgui.rl.gradients.ppo import (
    AutogradPPOGradient,
    ChunkRows,
    PPOGradient,
    PPORows,
    PPOWeights,
    RecurrentPPOGradient,
)
from soulsgui.rl.gradients.ppo_by_hand import HandPPOGradient
from soulsgui.rl.losses.policy import approximate_kl, normalised
from soulsgui.rl.networks.mlp import build_mlp
from soulsgui.rl.networks.named import torso_spec
from soulsgui.rl.networks.recurrent import recurrent_torso
from soulsgui.rl.networks.shapes import LayerShape, shape_report
from soulsgui.rl.normalisation import ValueNormaliser
from soulsgui.rl.optimiser import clip_norm_
from soulsgui.rl.returns import gae

Floats = NDArray[np.float32]


class PPOAgent(ActorCritic):
    """Learns a policy over actions of any kind from rounds of its own experience.

    Follows "What matters in on-policy reinforcement learning" (arXiv 2006.05990): transitions shuffled over
    the whole round and advantages recomputed before each pass. Published statistics of the normaliser stay
    as they are until the update on the data collected with them is over. The arguments are those of
    `ActorCritic`; the algorithm's group is `ppo`.

    Attributes:
        after_step: Called after each gradient step: an update of large networks takes minutes.
        values_seen: The statistics of all value targets, where `ppo.normalize_value` is on.
    """

    after_step: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, spaces: SpacesSpec, settings: Settings, seed: int, device: str = "cpu") -> None:
        super().__init__(spaces, settings, seed, device)
        self._gradient = self._make_gradient()
        self.values_seen = ValueNormaliser() if settings.ppo.normalize_value else None
        if self.values_seen is not None:
            self._saved.statistics["value_normaliser"] = self.values_seen
        self._chunks: BPTTChunks | None = None  # how the round is cut, where whole pieces are drawn

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

    def update(self, batch: Segments, moment: Moment) -> dict[str, float]:
        """Learn from one round, collected with the weights and statistics exported last.

        Returns:
            `policy_loss`, `value_loss`, `entropy`, `grad_norm` (before clipping): means over all gradient
            steps; `approx_kl`, `clip_fraction`: over the last pass; `explained_variance` of the returns by
            the values before the update; `learning_rate`; `epochs_done`; besides, where there are such, the
            values of schedules, and the statistics of values and rewards.

        Raises:
            ServiceError: A loss is no longer finite; the agent is then of no more use.
        """
        ppo = self.settings.ppo
        adam = self._optimiser
        adam.lr, adam.eps = moment.value(ppo.learning_rate), ppo.adam_epsilon
        adam.betas = (ppo.adam_beta1, ppo.adam_beta2)
        weights = self._weights(moment)
        batch = self._learned_from(batch, ppo.gamma)
        inputs = self._inputs(np.asarray(batch.obs))
        data, explained = self._first_targets(batch, inputs)
        steps: list[Tensor] = []
        kl, log_ratio, epochs_done = 0.0, torch.zeros(1), 0
        for epoch in range(ppo.epochs):
            if epoch and ppo.recompute_advantages:
                advantage, target, _ = self._targets(batch, inputs)
                data = data._replace(advantage=advantage, target=target)
            log_ratio = self._run_pass(data, weights, steps)
            kl, epochs_done = approximate_kl(log_ratio).item(), epoch + 1
            if ppo.target_kl is not None and kl > ppo.target_kl:
                break
        self._to_see.observe(np.asarray(batch.obs)[batch.step_rows])
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
            "clip_fraction": (torch.expm1(log_ratio).abs() > weights.clip).float().mean().item(),
            "explained_variance": explained,
            "learning_rate": self._optimiser.lr,
            "epochs_done": float(epochs_done),
            **self._statistics_told(weights),
        }

    def _weights(self, moment: Moment) -> PPOWeights:
        """Return what the loss looks at, as of now."""
        ppo = self.settings.ppo
        scheduled = moment.value(ppo.clip), moment.value(ppo.entropy_coef)
        return PPOWeights(*scheduled, ppo.value_coef, ppo.value_clip, ppo.value_huber)

    def _statistics_told(self, weights: PPOWeights) -> dict[str, float]:
        """Return what changes beside the figures of the loss: schedules, statistics."""
        told = self.rewards.figures()
        for name in ("clip", "entropy_coef"):
            if isinstance(getattr(self.settings.ppo, name), dict):
                told[name] = getattr(weights, name)
        if self.values_seen is not None:
            told |= {"value_mean": self.values_seen.mean, "value_std": self.values_seen.std}
        return told

    def _first_targets(self, batch: Segments, inputs: Tensor) -> tuple[PPORows, float]:
        """Gather the round for its first pass; also return the explained variance of the returns.

        The statistics of the values take in what this round says of them, and stand still for all passes.
        """
        if self.values_seen is not None:
            _, targets, _ = self._estimate(batch, inputs)
            self.values_seen.update(targets)
        if self.settings.ppo.shuffle != "transitions":
            self._chunks = BPTTChunks.of(batch, self.settings.ppo.sequence_length)
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

    def _targets(self, batch: Segments, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute advantages (normalised if so set), value targets and values, `[N]` each, as of now.

        Targets and values are as the value network says them: in deviations, where it says those.
        """
        advantages, targets, values = self._estimate(batch, inputs)
        if self.settings.ppo.normalize_advantage == "round":
            advantages = (advantages - advantages.mean()) / (advantages.std() + np.float32(1e-8))
        if self.values_seen is not None:
            targets, values = self.values_seen.outputs(targets), self.values_seen.outputs(values)
        advantage, target, value = (
            torch.from_numpy(x).to(self.device) for x in (advantages, targets, values)
        )
        return advantage, target, value

    def _estimate(self, batch: Segments, inputs: Tensor) -> tuple[Floats, NDArray[Any], NDArray[Any]]:
        """Return advantages, value targets and values, `[N]` each, in units of the rewards, as of now."""
        ppo = self.settings.ppo
        said, said_next, ends = self._values(batch, inputs)
        values: NDArray[Any] = said
        following: NDArray[Any] = said_next
        if self.values_seen is not None:
            values, following = self.values_seen.values(said), self.values_seen.values(said_next)
        over = batch.terminated_steps
        advantages = gae(batch.reward, values, following, over, ends, ppo.gamma, ppo.gae_lambda)
        return advantages, advantages + values, values

    def _values(self, batch: Segments, inputs: Tensor) -> tuple[Floats, Floats, Bools]:
        """Return `[N]` each: what the value network says, and of what came next; where an estimate ends."""
        values = self._gradient.values(inputs)
        return values[batch.step_rows], values[batch.step_rows + 1], batch.ends

    def _run_pass(self, data: PPORows, weights: PPOWeights, steps: list[Tensor]) -> Tensor:
        """Go once over the round; return the log-ratios `[N]` as the gradient steps saw them.

        To `steps` losses, entropy and gradient norm of each gradient step are added.
        """
        ppo = self.settings.ppo
        log_ratios = []
        for rows in self._minibatches(data):
            if ppo.normalize_advantage == "minibatch":
                rows = rows._replace(advantage=normalised(rows.advantage))
            step = self._gradient(rows, weights)
            norm = clip_norm_(self._flat.gradient, ppo.max_grad_norm)
            self._optimiser.step()
            self.after_step()
            log_ratios.append(step.samples)
            steps.append(torch.cat((step.figures, norm[None])))
        return torch.cat(log_ratios)

    def _minibatches(self, data: PPORows) -> Iterator[PPORows]:
        """Go once over the round, as `ppo.shuffle` says, in minibatches of nearly equal size."""
        count = len(data.action)
        if self._chunks is not None and self.settings.ppo.shuffle != "transitions":
            length, valid = self._chunks.length, self._chunks.valid(self._chunks.steps.shape[1])
            for part in self._drawn(length):
                here = torch.from_numpy(self._chunks.steps[part][valid[part]]).to(self.device)
                yield PPORows(*(column[here] for column in data))
            return
        order = torch.from_numpy(self._rng.permutation(count)).to(self.device)
        minibatches = max(1, round(count / self.settings.ppo.minibatch_size))
        shuffled = [column[order].tensor_split(minibatches) for column in data]
        for columns in zip(*shuffled, strict=True):
            yield PPORows(*columns)

    def _drawn(self, length: Ints) -> Iterator[Ints]:
        """Deal pieces of these lengths `[P]` out in minibatches of about equal size, by `ppo.shuffle`."""
        ppo, count = self.settings.ppo, len(length)
        order = np.arange(count) if ppo.shuffle == "none" else self._rng.permutation(count)
        steps = int(length.sum())
        minibatches = max(1, round(steps / ppo.minibatch_size))
        middle = np.cumsum(length[order]) - length[order] / 2
        number = (middle * minibatches / steps).astype(np.int64)
        for index in np.unique(number):
            yield order[number == index]


class RecurrentPPOAgent(PPOAgent):
    """`PPOAgent` with an LSTM or a GRU that policy and value share; each has a head of its own behind it.

    Actions may be of any kind. The round is laid out in chains of segments and these in chunks of at most
    `ppo.sequence_length` steps. A chain begins with the state that the client stored, of the published
    weights; before each pass (or, where advantages aren't recomputed, before the first) every chunk behind
    its first one gets the state that one long unroll leads to. Minibatches are whole chunks, padded to the
    longest; gradients reach back to the beginning of a chunk. Advantages are estimated over whole chains.
    In its settings `network.recurrent` is a cell.
    """

    def __init__(self, spaces: SpacesSpec, settings: Settings, seed: int, device: str = "cpu") -> None:
        super().__init__(spaces, settings, seed, device)
        # What the newest look at the round found: how it is laid out, its observations, states `[P, S]`.
        self._look: tuple[BPTTChunks, Tensor, Tensor] | None = None

    def _acting_tensors(self) -> list[tuple[str, Tensor]]:
        return [*self.memory.named_tensors(), *super()._acting_tensors()]

    def outputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return what it says `[B, outputs]` of stored observations, each `[*shape]` seen twice at first."""
        with torch.no_grad():
            inputs = self._inputs(obs)
            features, _ = self._unroll(torch.stack((inputs, inputs)), self._nothing(len(obs)))
            return to_numpy(self.policy(features[1]))

    def shapes(self) -> dict[str, list[LayerShape]]:
        """Return the layers of each network by its name, with shapes and parameters."""
        obs = self._to_see.nothing()
        starts = torch.zeros(1, 1, dtype=torch.bool, device=self.device)
        memory = shape_report(self.memory, self._inputs(obs)[None], self._nothing(1), starts)
        features = torch.zeros(1, self.memory.features, device=self.device)
        heads = {"policy": self.policy, "value": self.value}
        return {"memory": memory} | {name: shape_report(head, features) for name, head in heads.items()}

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        network = self.settings.network
        spec = RecurrentPolicySpec(
            observation_shape=self._to_see.seen.shape,
            hidden_sizes=tuple(network.hidden_sizes),
            activation=network.activation,
            cell=network.recurrent,
            units=network.recurrent_size,
            head_sizes=(),
            normalise=self._normalises,
            head=self.head.spec,
            torso=torso_spec(network.name, self._to_see.seen),
        )
        return with_encoding(spec.to_json(), self.spaces.observation, self._to_see.images)

    def _build(self, generator: torch.Generator) -> list[nn.Module]:
        network, units = self.settings.network, self.settings.network.recurrent_size
        self.memory = recurrent_torso(network, self._to_see.seen, generator).to(self.device)
        sizes = () if network.shared else network.value_hidden_sizes
        scale, value_scale = network.policy_init_scale, network.value_init_scale
        self.policy = build_mlp(units, (), self.head.spec.outputs, "tanh", scale, generator).to(self.device)
        self.value = build_mlp(units, sizes, 1, network.activation, value_scale, generator).to(self.device)
        return [self.memory, self.policy, self.value, self.head]

    def _modules(self) -> list[nn.Module]:
        return [self.memory, *super()._modules()]

    @property
    def compiled_loss(self) -> None:
        """Nothing is compiled: each minibatch has another shape."""

    def learn_mixed(self) -> None:
        """Change nothing: the policy sees no images, but what the memory makes of them."""

    def _make_gradient(self) -> PPOGradient:
        # Its observations are what the memory makes of them: the gradient goes on through it.
        return RecurrentPPOGradient(self.memory, self.policy, self.value, self._flat, self.head.distribution)

    def _named_tensors(self) -> list[tuple[str, Tensor]]:
        return [*self.memory.named_tensors(), *super()._named_tensors()]

    def _nothing(self, count: int) -> Tensor:
        """Return the state `[count, S]` at the beginning of an episode."""
        return torch.zeros((count, self.memory.state_size), device=self.device)

    def _unroll(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Go on from states `[B, S]` through `[T, B, size]`: features `[T, B, F]` and the next states."""
        starts = torch.zeros(inputs.shape[:2], dtype=torch.bool, device=self.device)
        features, after = self.memory(inputs, state, starts)
        return features, after

    def _values(self, batch: Segments, inputs: Tensor) -> tuple[Floats, Floats, Bools]:
        """Go through all chains once, noting the state that each chunk begins with."""
        chunks = BPTTChunks.of(batch, self.settings.ppo.sequence_length)
        state = torch.tensor(batch.state[MEMORY][chunks.segment], device=self.device)
        longest = chunks.steps.shape[1]
        value = np.zeros((len(chunks.length), longest + 1), np.float32)
        with torch.no_grad():
            for place in range(int(chunks.place.max()) + 1):
                now = np.flatnonzero(chunks.place == place)
                upto = int(chunks.length[now].max())
                seen = self._seen(inputs, chunks.rows[now, : upto + 1])
                features, after = self._unroll(seen[:upto], state[now])
                behind, _ = self._unroll(seen[upto:], after)
                said = self.value(torch.cat((features, behind)).flatten(0, 1)).cpu().numpy()
                value[now, : upto + 1] = said.reshape(upto + 1, len(now)).T
                on = chunks.goes_on[now]
                state[now[on] + 1] = after[torch.from_numpy(on).to(self.device)]
        self._look = chunks, inputs, state
        valid = chunks.valid(longest)
        return value[:, :-1][valid], value[:, 1:][valid], chunks.ends()

    def _seen(self, inputs: Tensor, rows: Ints) -> Tensor:
        """Take rows `[B, T]` of the inputs, time first: `[T, B, size]`."""
        return inputs[torch.from_numpy(rows.T.copy()).to(self.device)]

    def _minibatches(self, data: PPORows) -> Iterator[ChunkRows]:  # type: ignore[override]
        """Go once over the round in minibatches of whole chunks, drawn at random, of about equal size."""
        assert self._look is not None
        chunks, inputs, state = self._look
        for part in self._drawn(chunks.length):
            upto = int(chunks.length[part].max())
            valid = chunks.valid(upto)[part]
            here = torch.from_numpy(chunks.steps[part, :upto][valid]).to(self.device)
            yield ChunkRows(
                self._seen(inputs, chunks.rows[part, :upto]),
                state[part],
                torch.from_numpy(chunks.length[part]).to(self.device),
                *(column[here] for column in data[1:]),
            )
