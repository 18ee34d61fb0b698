"""What can be played in one go, and what plays it: the seam between a player and a way of playing."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.sampling.downloader import View
from soulsgui.wire.weights import WeightsHeader

Mask = NDArray[np.bool_]
Act = Callable[[NDArray[Any], np.random.Generator, Mask | None], tuple[NDArray[Any], NDArray[np.float32]]]
"""Chooses actions `[N, ...]` at observations `[N, *shape]`, as they are stored, and tells their
log-probabilities `[N]`.

The last argument says which actions are valid `[N, A]`; None: all are.
"""

NO_LIMIT = 2**62


@dataclass(frozen=True)
class Turn:
    """Steps that are made with the same weights, one after another.

    Attributes:
        header: Header of the weights.
        tensors: The weights.
        go_on: Asked before each step; False ends the turn.
        steps: Most transitions of all environments together.
        hold_s: Longest time that samples are held back to be sent together, seconds.
    """

    header: WeightsHeader
    tensors: dict[str, NDArray[Any]]
    go_on: Callable[[], bool]
    steps: int = NO_LIMIT
    hold_s: float = math.inf


class Way(Protocol):
    """A way of playing: in rounds, or freely."""

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Choose actions with the weights in use, as `Act`."""
        ...

    def turn(self, view: View) -> Turn | None:
        """Return what can be played, None while there is nothing; asking begins nothing.

        Raises:
            ClientRegistrationError, ServiceError: As `ClientLink.answer_of_trainer`.
        """
        ...

    def played(self, turn: Turn, steps: int) -> None:
        """Take note of transitions that were made in a turn."""
        ...
