"""One optimiser step over all parameters: they lie in one tensor, which Adam moves in its fused kernel."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class FlatParameters:
    """Moves the parameters of networks, and their gradients, into one tensor each.

    The networks go on using their parameters as before: these become views, laid out in the order of the
    networks. A network moved to another device afterwards is lost. A backward pass adds into the flat
    gradient: zero it before, and never set a parameter's gradient to None.

    Attributes:
        parameter: All parameters, one after the other, `[P]`.
        gradient: Their gradients, likewise.
        changes: How often they were changed by anything but an optimiser; who changes them counts.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        # Each once, also what networks have in common.
        parameters = list(dict.fromkeys(one for network in networks for one in network.parameters()))
        flat = [p.detach().reshape(-1) for p in parameters]
        self.parameter = nn.Parameter(torch.cat(flat or [torch.zeros(0)]))
        self.gradient = torch.zeros_like(self.parameter.data)
        self.parameter.grad = self.gradient
        self.changes = 0
        start = 0
        for parameter in parameters:
            stop = start + parameter.numel()
            parameter.data = self.parameter.data[start:stop].view(parameter.shape)
            parameter.grad = self.gradient[start:stop].view(parameter.shape)
            start = stop

    def follow(self, parameters: Tensor, tau: float) -> None:
        """Move a part `tau` of the way to others of the same networks; 1 is a copy, to the bit."""
        self.parameter.data.lerp_(parameters, tau)
        self.changes += 1


def clip_norm_(gradient: Tensor, max_norm: float | None) -> Tensor:
    """Scale a gradient in place to a norm of at most `max_norm`, if given; return its norm `[]` before."""
    norm: Tensor = torch.linalg.vector_norm(gradient)
    if max_norm is not None:
        gradient.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
    return norm


class Adam:
    """Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), without weight decay.

    `torch.optim.Adam` moves a parameter by the same kernel, but imports torch's compiler with its first
    parameter: that takes a second of every start, and memory for as long as the process lives. `lr`, `eps`
    and `betas`, how much of both moments stays, may be changed between steps. The parameter's `grad` must be
    there at every step.
    """

    def __init__(self, parameter: nn.Parameter, lr: float = 1e-3, eps: float = 1e-8) -> None:
        self.lr, self.betas, self.eps = lr, (0.9, 0.999), eps
        self._parameter = parameter
        self._forget()

    def _forget(self) -> None:
        moved = self._parameter.detach()
        self._exp_avg, self._exp_avg_sq = torch.zeros_like(moved), torch.zeros_like(moved)
        self._steps = torch.zeros((), dtype=torch.float32, device=moved.device)

    @torch.no_grad()
    def step(self, part: slice = slice(None), count: int | None = None) -> None:
        """Move the parameter once along its gradient, or a part of it.

        A part that moves more seldom than the rest says how often it has moved with this step: `count`.
        """
        assert self._parameter.grad is not None
        if count is None:
            self._steps += 1
        steps = self._steps if count is None else torch.full_like(self._steps, count)
        whole = (self._parameter, self._parameter.grad, self._exp_avg, self._exp_avg_sq)
        moved, gradient, exp_avg, exp_avg_sq = ([tensor[part]] for tensor in whole)
        torch._fused_adam_(
            moved, gradient, exp_avg, exp_avg_sq, [], [steps],
            lr=self.lr, beta1=self.betas[0], beta2=self.betas[1], weight_decay=0.0, eps=self.eps,
            amsgrad=False, maximize=False,
        )  # fmt: skip

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of the moments `[P]` as `adam.exp_avg`, `adam.exp_avg_sq`, and `adam.step` `[]`.

        There are none before the first step.
        """
        if not self._steps:
            return {}
        return {f"adam.{name}": tensor.cpu().numpy().copy() for name, tensor in self._named().items()}

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `state` returned; other arrays may lie among them."""
        self._forget()
        if "adam.step" in arrays:
            for name, tensor in self._named().items():
                tensor.copy_(torch.from_numpy(np.array(arrays[f"adam.{name}"])))

    def _named(self) -> dict[str, Tensor]:
        return {"exp_avg": self._exp_avg, "exp_avg_sq": self._exp_avg_sq, "step": self._steps}
