"""A network in figures: each layer's output shape and parameters."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class LayerShape:
    """One layer.

    Attributes:
        name: Its path in the network, for instance `torso.layers.0`.
        kind: Its class, for instance `Conv2d`.
        output: Shape of its output for one observation, without the batch.
        parameters: Numbers that are learned in it.
    """

    name: str
    kind: str
    output: tuple[int, ...]
    parameters: int


def shape_report(network: nn.Module, *inputs: Tensor) -> list[LayerShape]:
    """Run a network once and report its layers in the order they work.

    Only layers that have no layers of their own are listed, so that the parameters add up to those of the
    network. Nothing about the network changes.

    Args:
        network: Any network.
        inputs: What its `forward` takes, with the batch first.

    Returns:
        The layers; one that works several times stands once for each, with its parameters at the first.
    """
    found: list[LayerShape] = []
    counted: set[str] = set()

    def note(name: str, layer: nn.Module) -> Callable[[nn.Module, object, Tensor], None]:
        def hook(_layer: nn.Module, _inputs: object, output: Tensor) -> None:
            own = 0 if name in counted else sum(parameter.numel() for parameter in layer.parameters())
            counted.add(name)
            found.append(LayerShape(name, type(layer).__name__, tuple(output.shape[1:]), own))

        return hook

    hooks = [
        layer.register_forward_hook(note(name, layer))
        for name, layer in network.named_modules()
        if not any(layer.children())
    ]
    try:
        with torch.no_grad():
            network(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found
