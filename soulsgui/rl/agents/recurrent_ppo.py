"""Proximal policy optimisation of a policy that remembers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.config.schema import Settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Bools, Ints, Segments
from soulsgui.policies.policy import with_encoding
from soulsgui.policies.specs import MEMORY, RecurrentPolicySpec
from soulsgui.rl.agents.base import to_numpy
from soulsgui.rl.agents.ppo import Floats, PPOAgent
from soulsgui.rl.buffers.rollout import BPTTChunks
from soulsgui.rl.gradients.ppo import ChunkRows, PPOGradient, PPORows, RecurrentPPOGradient
from soulsgui.rl.networks.mlp import build_mlp
from soulsgui.rl.networks.named import torso_spec
from soulsgui.rl.networks.recurrent import recurrent_torso
from soulsgui.rl.networks.shapes import LayerShape, shape_report


class RecurrentPPOAgent(PPOAgent):
    """`PPOAgent` with an LSTM or a GRU that policy and value share; each has a head of its own behind it.

    Actions may be of any kind. The round is laid out in chains of segments and these in chunks of at most
    `ppo.sequence_length` steps. A chain begins with the state that the client stored, of the published
    weights; before each pass (or, where advantages aren't recomputed, before the first) every chunk behind
    its first one gets the state that one long unroll leads to. Minibatches are whole chunks, padded to the
    longest; gradients reach back to the beginning of a chunk. Advantages are estimated over whole chains.

    Args:
        spaces: What the environment shows and takes.
        settings: As of `PPOAgent`; `network.recurrent` is a cell.
        seed: Determines the initial weights and every shuffle.
        device: Where the networks live, as torch names it.
    """

    def __init__(self, spaces: SpacesSpec, settings: Settings, seed: int, device: str = "cpu") -> None:
        super().__init__(spaces, settings, seed, device)
        # What the newest look at the round found: how it is laid out, its observations, states `[P, S]`.
        self._look: tuple[BPTTChunks, Tensor, Tensor] | None = None

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        return with_encoding(self._spec().to_json(), self.spaces.observation, self._to_see.images)

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

    def _spec(self) -> RecurrentPolicySpec:
        network = self.settings.network
        return RecurrentPolicySpec(
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

    # --- networks ----------------------------------------------------------------------------------

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

    # --- the update --------------------------------------------------------------------------------

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
                value[now, : upto + 1] = self._values_at(torch.cat((features, behind))).T
                on = chunks.goes_on[now]
                state[now[on] + 1] = after[torch.from_numpy(on).to(self.device)]
        self._look = chunks, inputs, state
        valid = chunks.valid(longest)
        return value[:, :-1][valid], value[:, 1:][valid], chunks.ends()

    def _values_at(self, features: Tensor) -> Floats:
        """Return values `[T, B]` of features `[T, B, F]`."""
        said: Floats = self.value(features.flatten(0, 1)).cpu().numpy()
        return said.reshape(features.shape[:2])

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
