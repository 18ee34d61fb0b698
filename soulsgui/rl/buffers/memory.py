"""What every replay memory offers to the node that fills it, and to the agent that learns from it."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.frame_stacks import Observations
from soulsgui.rl.buffers.replay import Bools, Ints


class StepSegments(NamedTuple):
    """`S` segments with `N` steps in all, laid end to end: contiguous steps within one episode each.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs | `[N + S, *shape]` | raw; the last one of a segment follows its last step |
    | length | `[S]` int | steps of each |
    | action, reward, log_prob | `[N, ...]` | as given to the environment; of the policy that chose |
    | terminated, truncated | `[S]` bool | how the last step ended its episode |
    | source | `[S]` int64 | a number for each environment of each client's session |
    | episode | `[S]` int64 | number of the episode within its source |
    | first_step | `[S]` int64 | number of the first step within its episode |
    | action_mask | `[N + S, A]` bool, or None | which actions are valid; None: all are |
    | state | name → `[S, *shape]` | what a recurrent policy remembered before each first step |
    """

    obs: Observations
    length: NDArray[np.integer[Any]]
    action: NDArray[Any]
    reward: NDArray[np.float32]
    log_prob: NDArray[np.float32]
    terminated: Bools
    truncated: Bools
    source: Ints
    episode: Ints
    first_step: Ints
    action_mask: Bools | None = None
    state: Mapping[str, NDArray[np.float32]] = {}


class Drawn(NamedTuple):
    """What a memory gives for one update.

    Attributes:
        batch: What the agent learns from, in whatever form both have agreed on.
        number: `[B]`, by which the memory knows again what was drawn; None when it need not.
    """

    batch: Any
    number: Ints | None


class Memory(Protocol):
    """Keeps steps, and gives batches of them."""

    @property
    def capacity(self) -> int:
        """Most steps that are kept."""

    @property
    def inserted(self) -> int:
        """Steps ever added."""

    def __len__(self) -> int:
        """Return the number of steps that are kept; 0 while there is nothing to draw."""

    def drawn_with(self, count: int) -> int:
        """Return how many transitions a draw of `count` really gives."""

    def add(self, segments: StepSegments) -> int:
        """Take segments in; return the steps added."""

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw `count` of what the agent learns from."""

    def learned(self, number: Ints, error: NDArray[Any]) -> None:
        """Take note of how wrong the agent was, `[B]`, about what was drawn by these numbers."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that is needed for the same draws to follow."""

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned.

        Raises:
            CheckpointError: It does not fit; nothing has changed.
            MemoryGoneError: A part of it lay in a file, which is gone; nothing has changed.
        """

    def close(self, leave: bool = False) -> None:
        """Keep nothing in a file any more; what lies in memory stays.

        Args:
            leave: Leave the file there: it belongs to what `state` returned last.
        """
