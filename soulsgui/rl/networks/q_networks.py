"""Networks that value actions: a torso, a head, and what the head's numbers mean.

Heads go from features to a number, or several, for each action; with noise for exploration, and dueling.
Clients run them in numpy as plain layers: whatever a dueling head, noise and a mean over quantiles do to the
last numbers is linear, and so is part of the last layer. `Q = V + A - mean A` of two streams is one layer
behind the hidden units of both.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.rl.losses.q_learning import midpoints
from soulsgui.rl.networks.mlp import ACTIVATIONS, fan_in_
from soulsgui.rl.networks.recurrent import RecurrentTorso, unroll_with_burn_in
from soulsgui.rl.networks.torsos import Torso

SIGMA = 0.5


class NoisyLinear(nn.Module):
    """`y = (mu_w + sigma_w * e_w) x + mu_b + sigma_b * e_b` with factorised Gaussian noise.

    `e_w[j, i] = f(e_j) f(e_i)`, `e_b[j] = f(e_j)`, `f(x) = sign(x) √|x|` (eq. 10 and 11). The means are drawn
    evenly within `±1 / √inputs`, the sigmas begin at `sigma / √inputs` (section 3.2).

    The noise stands still until `resample_noise`; it is part of the state. In `eval` mode there is none.
    """

    noise_in: Tensor
    noise_out: Tensor

    def __init__(self, inputs: int, outputs: int, generator: torch.Generator, sigma: float = SIGMA) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound, generator=generator))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma * bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma * bound))
        self.register_buffer("noise_in", torch.zeros(inputs))
        self.register_buffer("noise_out", torch.zeros(outputs))

    def plain(self) -> tuple[Tensor, Tensor]:
        """Return weight and bias of the linear layer that this one is with its present noise."""
        noise = torch.outer(self.noise_out, self.noise_in)
        return self.weight + self.weight_sigma * noise, self.bias + self.bias_sigma * self.noise_out

    def forward(self, inputs: Tensor) -> Tensor:
        """Return `[B, outputs]` for `[B, inputs]`.

        The noise is applied to inputs and outputs: `(sigma_w * f f') x = f * (sigma_w (f' * x))`, the same
        without a matrix of noise.
        """
        outputs = nn.functional.linear(inputs, self.weight, self.bias)
        if self.training:
            strayed = nn.functional.linear(inputs * self.noise_in, self.weight_sigma, self.bias_sigma)
            outputs = outputs + strayed * self.noise_out
        return outputs


def still_noise(network: nn.Module) -> None:
    """Take the noise out of all noisy layers of a network, until it is drawn again."""
    for layer in network.modules():
        if isinstance(layer, NoisyLinear):
            layer.noise_in.zero_()
            layer.noise_out.zero_()


def resample_noise(network: nn.Module, generator: torch.Generator) -> None:
    """Draw new noise for all noisy layers of a network from a generator of the CPU.

    Before each update, and between actions; at once, since there are many small ones.
    """
    layers = [layer for layer in network.modules() if isinstance(layer, NoisyLinear)]
    noises = [noise for layer in layers for noise in (layer.noise_in, layer.noise_out)]
    drawn = torch.randn(sum(noise.numel() for noise in noises), generator=generator)
    drawn = drawn.sign() * drawn.abs().sqrt()
    start = 0
    for noise in noises:
        noise.copy_(drawn[start : start + noise.numel()])
        start += noise.numel()


class Stream(nn.Sequential):
    """Linear layers with an activation between them: one hidden layer, or none where its width is 0."""

    def __init__(
        self,
        features: int,
        hidden: int,
        outputs: int,
        noisy: bool,
        generator: torch.Generator,
        activation: str = "relu",
        sigma: float = SIGMA,
    ) -> None:
        def linear(fan_in: int, fan_out: int) -> nn.Module:
            if noisy:
                return NoisyLinear(fan_in, fan_out, generator, sigma)
            layer = nn.Linear(fan_in, fan_out)
            fan_in_(layer, generator)
            return layer

        if hidden:
            between = ACTIVATIONS[activation]()
            super().__init__(linear(features, hidden), between, linear(hidden, outputs))
        else:
            super().__init__(linear(features, outputs))


class QHead(nn.Module):
    """`[B, features]` to `[B, actions, atoms]`.

    Dueling: `Q(s, a) = V(s) + A(s, a) - mean_a A(s, a)`, each atom for itself (Wang et al. 2016,
    arXiv 1511.06581, eq. 9; with atoms as in Rainbow, arXiv 1710.02298).

    Args:
        atoms: Numbers for each action: quantiles, atoms of a distribution; 1 for its value.
        hidden: Width of the hidden layer of each stream (512 in the sources); 0: there is none.
        noisy, sigma: Noise in the weights, and how large it is at first (`NoisyLinear`).
    """

    def __init__(
        self,
        features: int,
        actions: int,
        atoms: int,
        hidden: int,
        dueling: bool,
        noisy: bool,
        generator: torch.Generator,
        activation: str = "relu",
        sigma: float = SIGMA,
    ) -> None:
        super().__init__()
        self.atoms = atoms
        self._shape = (-1, actions, atoms)
        rest = noisy, generator, activation, sigma
        self.advantage = Stream(features, hidden, actions * atoms, *rest)
        self.value = Stream(features, hidden, atoms, *rest) if dueling else None

    def forward(self, features: Tensor) -> Tensor:
        """Return `[B, actions, atoms]`."""
        outputs: Tensor = self.advantage(features).view(self._shape)
        if self.value is not None:
            outputs = outputs - outputs.mean(1, keepdim=True) + self.value(features)[:, None, :]
        return outputs


Arrays = dict[str, NDArray[np.float32]]
_Layer = tuple[NDArray[np.float64], NDArray[np.float64]]


class HeadedNetwork(nn.Module):
    """A torso with a head for each action."""

    def __init__(self, torso: Torso, head: QHead) -> None:
        super().__init__()
        self.torso, self.head = torso, head


def folded(network: HeadedNetwork, mean: bool) -> Arrays:
    """Return linear layers of torso and head as `policy.N.weight` and `policy.N.bias`, float32.

    With `mean` there is an output for each action, the mean over its atoms; otherwise one for each action and
    atom, those of an action side by side.
    """
    return named([*torso_layers(network.torso), *head_layers(network.head, mean)], "policy")


def named(layers: list[_Layer], prefix: str) -> Arrays:
    """Name layers by their place, as float32."""
    arrays: Arrays = {}
    for index, (weight, bias) in enumerate(layers):
        arrays[f"{prefix}.{index}.weight"] = weight.astype(np.float32)
        arrays[f"{prefix}.{index}.bias"] = bias.astype(np.float32)
    return arrays


def torso_layers(torso: Torso) -> list[_Layer]:
    """Return the linear layers of a torso."""
    return [plain(layer) for layer in torso.layers if isinstance(layer, nn.Linear)]


def head_layers(head: QHead, mean: bool) -> list[_Layer]:
    """Return a head as one layer, or as two where its streams have hidden ones."""
    advantage, value = _stream(head.advantage), None if head.value is None else _stream(head.value)
    weight, bias = advantage[-1]
    shape = -1, head.atoms
    weight, bias = weight.reshape(*shape, weight.shape[1]), bias.reshape(shape)
    hidden = advantage[:-1]
    if value is not None:
        weight, bias = weight - weight.mean(0), bias - bias.mean(0) + value[-1][1]
        of_value = np.broadcast_to(value[-1][0], (len(weight), *value[-1][0].shape))
        weight = np.concatenate((weight, of_value), axis=2) if hidden else weight + of_value
        hidden = [
            (np.concatenate((one[0], other[0])), np.concatenate((one[1], other[1])))
            for one, other in zip(hidden, value[:-1], strict=True)
        ]
    if mean:
        return [*hidden, (weight.mean(1), bias.mean(1))]
    return [*hidden, (weight.reshape(-1, weight.shape[2]), bias.reshape(-1))]


def plain(layer: nn.Linear | NoisyLinear) -> _Layer:
    """Return weight and bias of a linear layer, of a noisy one with its present noise, float64."""
    tensors = layer.plain() if isinstance(layer, NoisyLinear) else (layer.weight, layer.bias)
    weight, bias = (tensor.detach().cpu().double().numpy() for tensor in tensors)
    return weight, bias


def _stream(stream: Stream) -> list[_Layer]:
    return [plain(layer) for layer in stream if isinstance(layer, nn.Linear | NoisyLinear)]


class ValueNetwork(HeadedNetwork):
    """A value for each action (DQN and its dueling and noisy kin); the head has 1 atom."""

    def forward(self, obs: Tensor) -> Tensor:
        """Return values `[B, A]` for observations `[B, *shape]`."""
        values: Tensor = self.head(self.torso(obs)).squeeze(2)
        return values

    def values(self, obs: Tensor) -> Tensor:
        """Return values `[B, A]`."""
        return self.forward(obs)


class QuantileNetwork(HeadedNetwork):
    """N quantiles of each action's return, at the levels `midpoints(N)` (QR-DQN, arXiv 1710.10044)."""

    def forward(self, obs: Tensor) -> Tensor:
        """Return quantiles `[B, A, N]` for observations `[B, *shape]`."""
        quantiles: Tensor = self.head(self.torso(obs))
        return quantiles

    def values(self, obs: Tensor) -> Tensor:
        """Return the means `[B, A]`."""
        return self.forward(obs).mean(2)


class CategoricalNetwork(HeadedNetwork):
    """Probabilities of N atoms for each action (C51, arXiv 1707.06887), of fixed values `atoms` `[N]`."""

    atoms: Tensor

    def __init__(self, torso: Torso, head: QHead, atoms: Tensor) -> None:
        super().__init__(torso, head)
        self.register_buffer("atoms", atoms)

    def forward(self, obs: Tensor) -> Tensor:
        """Return log-probabilities `[B, A, N]` for observations `[B, *shape]`."""
        logits: Tensor = self.head(self.torso(obs))
        return logits.log_softmax(2)

    def values(self, obs: Tensor) -> Tensor:
        """Return the means `[B, A]`."""
        return self.forward(obs).exp() @ self.atoms


class ImplicitQuantileNetwork(HeadedNetwork):
    """The quantile of each action's return at any level (IQN, arXiv 1806.06923).

    The features are multiplied by an embedding of the level τ: `relu(sum_i cos(pi i tau) w_ij + b_j)` with
    i from 0 to 63 (eq. 4, section 3.1). Values are means over `levels` quantiles.
    """

    _frequency: Tensor

    def __init__(
        self, torso: Torso, head: QHead, generator: torch.Generator, cosines: int = 64, levels: int = 32
    ) -> None:
        super().__init__(torso, head)
        self._levels = levels
        self.embedding = nn.Linear(cosines, torso.features)
        fan_in_(self.embedding, generator)
        self.register_buffer("_frequency", math.pi * torch.arange(cosines), persistent=False)

    def forward(self, obs: Tensor, level: Tensor) -> Tensor:
        """Return the quantiles `[B, A, K]` at the levels `[B, K]` for observations `[B, *shape]`."""
        batch, count = level.shape
        features: Tensor = self.torso(obs)
        embedded = self.embedding(torch.cos(level[:, :, None] * self._frequency)).relu()  # [B, K, features]
        mixed = (features[:, None, :] * embedded).flatten(0, 1)
        quantiles: Tensor = self.head(mixed).view(batch, count, -1)
        return quantiles.transpose(1, 2)

    def values(self, obs: Tensor) -> Tensor:
        """Return the means `[B, A]` over evenly spread levels.

        The paper draws them (K = 32); even ones have the same mean without its scatter, and the same
        observation always gets the same action.
        """
        level = midpoints(self._levels, obs.device).expand(len(obs), -1)
        return self.forward(obs, level).mean(2)


class RecurrentQNetwork(nn.Module):
    """A value for each action, by all that was seen of an episode."""

    def __init__(self, torso: RecurrentTorso, head: QHead) -> None:
        super().__init__()
        self.torso, self.head = torso, head

    def forward(self, obs: Tensor, state: Tensor, burn_in: int, exact: Tensor) -> Tensor:
        """Go through sequences as `unroll_with_burn_in`; return values `[T, B, A]`."""
        return self._valued(unroll_with_burn_in(self.torso, obs, state, burn_in, exact))

    @torch.no_grad()
    def values(self, obs: Tensor) -> Tensor:
        """Return values `[B, A]` of observations `[B, *shape]` that are each seen twice at first.

        The second time every weight has its say, those of the memory too.
        """
        return self._from_nothing(torch.stack((obs, obs)))[1]

    @torch.no_grad()
    def start_values(self, obs: Tensor) -> Tensor:
        """Return values `[B, A]` of the observations `[B, *shape]` that episodes begin with."""
        return self._from_nothing(obs[None])[0]

    def _from_nothing(self, obs: Tensor) -> Tensor:
        """Return values `[T, B, A]` of sequences `[T, B, *shape]` that begin with an empty memory."""
        starts = torch.zeros(obs.shape[:2], dtype=torch.bool, device=obs.device)
        state = torch.zeros((obs.shape[1], self.torso.state_size), device=obs.device)
        return self._valued(self.torso(obs, state, starts)[0])

    def _valued(self, features: Tensor) -> Tensor:
        values: Tensor = self.head(features.flatten(0, 1)).squeeze(2).view(*features.shape[:2], -1)
        return values
