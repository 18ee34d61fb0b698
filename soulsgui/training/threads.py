"""The threads of numpy and torch, in a process that may be a program's own."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch


@contextmanager
def threads_of_a_learner() -> Iterator[None]:
    """Have numpy multiply with one thread meanwhile; afterwards numpy and torch have as many as before.

    Processes of ours are started so (`process.ONE_THREAD`), a Python program is not. Where actors keep all
    cores busy, two threads that waited for each other took 20 ms for a product that takes one 0.06 ms.
    """
    of_torch, of_numpy = torch.get_num_threads(), numpy_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(of_torch)
        if of_numpy is not None:
            numpy_threads(of_numpy)


def numpy_threads(count: int) -> int | None:
    """Set how many threads numpy multiplies with, and return how many it had.

    None where its OpenBLAS is not the one that numpy's own packages bring: then nothing is changed.
    """
    for path in (Path(np.__file__).parents[1] / "numpy.libs").glob("libscipy_openblas64_*"):
        library = ctypes.CDLL(str(path))  # as numpy has loaded it
        before: int = library.scipy_openblas_get_num_threads64_()
        library.scipy_openblas_set_num_threads64_(count)
        return before
    return None
