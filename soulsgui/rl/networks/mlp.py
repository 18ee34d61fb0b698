"""Multi-layer perceptrons by size, and their initial weights."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


def build_mlp(
    inputs: int,
    hidden_sizes: Sequence[int],
    outputs: int,
    activation: str,
    output_scale: float,
    generator: torch.Generator,
) -> nn.Sequential:
    """Build a multi-layer perceptron with orthogonal weights and zero biases.

    Hidden layers are scaled by √2 (Saxe et al. 2014), the last one by `output_scale`: a small one (0.01) for
    a policy makes the first actions independent of the observation (Andrychowicz et al. 2021, arXiv
    2006.05990, section 3.2).

    Args:
        inputs: Number of features.
        hidden_sizes: Width of each hidden layer; none gives a linear network.
        outputs: Number of outputs.
        activation: `tanh` or `relu`, after each hidden layer.
        output_scale: Scale of the last layer's weights.
        generator: Where the weights are drawn from.

    Returns:
        A network from `[B, inputs]` to `[B, outputs]`.
    """
    sizes = [inputs, *hidden_sizes, outputs]
    modules: list[nn.Module] = []
    for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        last = index == len(sizes) - 2
        modules.append(_linear(fan_in, fan_out, output_scale if last else math.sqrt(2), generator))
        if not last:
            modules.append(ACTIVATIONS[activation]())
    return nn.Sequential(*modules)


def _linear(fan_in: int, fan_out: int, scale: float, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(fan_in, fan_out)
    nn.init.orthogonal_(layer.weight, gain=scale, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def draw_by_fan_in(network: nn.Sequential, generator: torch.Generator) -> None:
    """Draw the weights and biases of each linear layer anew, evenly within `±1 / √inputs`.

    What PyTorch does by default, and what the published returns of deep Q-learning were reached with. Values
    that are their own targets stay bounded longer than with the larger orthogonal weights: in CartPole, with
    256×256 units and a target network that moves every 25 updates, at 10² instead of 10⁶ after 7,000 updates.
    """
    for layer in network:
        if isinstance(layer, nn.Linear):
            bound = 1.0 / math.sqrt(layer.in_features)
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def named_layers(network: nn.Sequential, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Name each linear layer's tensors by place: `prefix.0.weight`, `prefix.0.bias`, `prefix.1.weight`."""
    layers = (module for module in network if isinstance(module, nn.Linear))
    for index, layer in enumerate(layers):
        yield f"{prefix}.{index}.weight", layer.weight
        yield f"{prefix}.{index}.bias", layer.bias
