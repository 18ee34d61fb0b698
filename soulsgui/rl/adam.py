"""Adam over one flat parameter, in torch's fused kernel."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class Adam:
    """Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), without weight decay.

    `torch.optim.Adam` moves a parameter by the very same kernel, but imports torch's compiler with its first
    parameter: that takes a second of every start, and memory for as long as the process lives.

    Args:
        parameter: What is moved, along its `grad`, which must be there at every step.
        lr: Learning rate.
        eps: Added to the root of the second moment.

    Attributes:
        lr: Learning rate from the next step on.
        betas: How much of the first and of the second moment stays at each step, likewise.
        eps: As above, likewise.
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
    def step(self) -> None:
        """Move the parameter once along its gradient."""
        assert self._parameter.grad is not None
        self._steps += 1
        torch._fused_adam_(
            [self._parameter], [self._parameter.grad], [self._exp_avg], [self._exp_avg_sq], [], [self._steps],
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
