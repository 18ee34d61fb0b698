"""Losses that torch may compile while they are in use, and numbers of half the size on a GPU."""

import copy
import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class CompiledLoss(Generic[Result]):
    """A function of networks, tensors and settings, as it stands or compiled.

    What is compiled is the same arithmetic in another order: results differ by rounding.

    Attributes:
        compiled: Whether it is the compiled one that is called now.
        noted: Whether the arguments of the last call are kept for `prepare`.

    Args:
        loss: Which tensor of the function's result is differentiated.
    """

    def __init__(self, function: Callable[..., Result], loss: Callable[[Result], Tensor]) -> None:
        self._function, self._loss = function, loss
        self._compiled: Callable[..., Result] | None = None
        self._last: tuple[Any, ...] | None = None
        self.compiled = self.noted = False

    def __call__(self, *arguments: Any) -> Result:
        """Call the function; if what was compiled fails, as it stands, now and from then on."""
        if not self.compiled or self._compiled is None:
            self._last = arguments if self.noted else None
            return self._function(*arguments)
        try:
            if torch.cuda.is_available():
                # What is returned stands in memory that the next call writes to (CUDA graphs).
                torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
            return self._compiled(*arguments)
        except Exception as error:
            logger.warning(
                "the compiled code has failed, learning continues without it: %s", first_line(error)
            )
            self.compiled = False
            return self._function(*arguments)

    def prepare(self) -> None:
        """Compile for arguments like those of the last call; may be called by another thread.

        Everything happens to copies of the networks: nothing of it is seen by who learns meanwhile.

        Raises:
            RuntimeError: It was not called since `noted` was set.
            Exception: Whatever torch and its compilers raise.
        """
        if self._last is None:
            raise RuntimeError("nothing has been computed yet")
        memo: dict[int, Any] = {}  # one for all: what networks have in common, their copies have, too
        arguments = [copy.deepcopy(one, memo) if _learns(one) else one for one in self._last]
        compiled = self._made()
        for _ in range(3):  # CUDA graphs are recorded in the third call
            self._loss(compiled(*arguments)).backward()  # type: ignore[no-untyped-call]
        self._compiled, self._last = compiled, None

    def use(self, compiled: bool) -> None:
        """Say which one is to be called; without `prepare`, its first call compiles and takes long."""
        if compiled and self._compiled is None:
            self._compiled = self._made()
        self.compiled = compiled

    def _made(self) -> Callable[..., Result]:
        # One thread: more of them are processes that stay for as long as this one, idle.
        options: dict[str, Any] = {"compile_threads": 1, "triton.cudagraphs": torch.cuda.is_available()}
        made: Callable[..., Result] = torch.compile(self._function, dynamic=False, options=options)
        return made


def _learns(argument: Any) -> bool:
    """Whether it is a network, or a method of one."""
    return isinstance(argument, nn.Module) or isinstance(getattr(argument, "__self__", None), nn.Module)


def forward(network: Callable[..., Tensor], *inputs: Tensor, mixed: bool) -> Tensor:
    """Run a network; with `mixed`, its products in bfloat16: 8 bits of 24, the same range. Gives float32."""
    if not mixed:
        return network(*inputs)
    with torch.autocast(inputs[0].device.type, torch.bfloat16):
        return network(*inputs).float()


def to_device(array: Any, device: torch.device) -> Tensor:
    """Copy an array to where the networks live; to a GPU from pinned memory, without waiting for it."""
    if device.type == "cpu":
        return torch.tensor(array)
    return torch.from_numpy(np.ascontiguousarray(array)).pin_memory().to(device, non_blocking=True)


def first_line(error: BaseException) -> str:
    """Return what an error of a compiler says first: the rest is its log."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
