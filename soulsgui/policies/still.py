"""Weights without the noise that explores, beside those with it: what evaluations and checkpoints take."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

_STILL = "still."


def with_still(noisy: Mapping[str, NDArray[Any]], still: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the weights to explore with and, under names that policies pass over, those without noise.

    Args:
        noisy: With noise.
        still: The same ones without it.
    """
    moved = {name: array for name, array in still.items() if not np.array_equal(array, noisy[name])}
    return {**noisy, **{_STILL + name: array for name, array in moved.items()}}


def without_noise(tensors: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return published weights without noise; those that never had any as they are."""
    plain = {name: array for name, array in tensors.items() if not name.startswith(_STILL)}
    still = {name: tensors[_STILL + name] for name in plain if _STILL + name in tensors}
    return {**plain, **still}
