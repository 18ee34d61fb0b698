"""A network in figures: each layer's output shape and parameters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class LayerShape:
    """One layer: its path in the network, its class, the shape of its output, and the numbers learned in it.

    The shape is that for one observation, without the batch; empty where it gives several outputs.
    """

    name: str
    kind: str
    output: tuple[int, ...]
    parameters: int


def shape_report(
    network: nn.Module, *inputs: Tensor, run: Callable[[], object] | None = None
) -> list[LayerShape]:
    """Run a network once and report its layers in the order they work; nothing about it changes.

    Only layers that have no layers of their own are listed, so that the parameters add up to those of the
    network; one that works several times stands once for each, with its parameters at the first.

    Args:
        inputs: What its `forward` takes, with the batch first.
        run: Runs it once in another way than its `forward` with these inputs.
    """
    found: list[LayerShape] = []
    counted: set[str] = set()

    def note(name: str, layer: nn.Module) -> Callable[[nn.Module, object, object], None]:
        def hook(_layer: nn.Module, _inputs: object, output: object) -> None:
            own = 0 if name in counted else sum(parameter.numel() for parameter in layer.parameters())
            counted.add(name)
            shape = tuple(output.shape[1:]) if isinstance(output, Tensor) else ()
            found.append(LayerShape(name, type(layer).__name__, shape, own))

        return hook

    hooks = [
        layer.register_forward_hook(note(name, layer))
        for name, layer in network.named_modules()
        if not any(layer.children())
    ]
    try:
        with torch.no_grad():
            network(*inputs) if run is None else run()
    finally:
        for hook in hooks:
            hook.remove()
    return found


def shape_lines(name: str, report: Sequence[LayerShape]) -> list[str]:
    """Return a network as a table for people: a line for it, and one for each layer."""
    total = sum(layer.parameters for layer in report)
    widths = [
        max((len(text) for text in column), default=0) for column in zip(*map(_texts, report), strict=True)
    ]
    lines = [f"{name}: {total:,} parameters"]
    for layer in report:
        place, kind, output, count = _texts(layer)
        lines.append(
            f"  {place:<{widths[0]}}  {kind:<{widths[1]}}  {output:>{widths[2]}}  {count:>{widths[3]}}"
        )
    return lines


def _texts(layer: LayerShape) -> tuple[str, str, str, str]:
    return layer.name, layer.kind, "×".join(map(str, layer.output)), f"{layer.parameters:,}"
