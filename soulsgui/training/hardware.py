"""Where a learner computes, and with how many threads. Pure: what there is, is passed in."""

from collections.abc import Sequence

from soulsgui.errors import ServiceError

_WIDE = 1024
"""Layers from this width on are worth the way to a GPU and back."""

_WORTH_THREADS = 200_000
"""Weights of a network that is worth another thread: with fewer, threads mostly wait for each other."""

_CORES_A_THREAD = 4
"""Clients play on the same computer. A thread that waits for its core costs many times what it saves: on two
busy cores two threads made a gradient step 10 times slower."""

_MOST_THREADS = 8


def choose_device(wanted: str, available: bool, observation: Sequence[int], hidden: Sequence[int]) -> str:
    """Return where the networks live, as torch names it.

    Args:
        wanted: `learner.device`.
        available: Whether there is a GPU that torch can use.
        observation: Shape of an observation.
        hidden: Width of each hidden layer, of all networks.

    Raises:
        ServiceError: A GPU is wanted, and there is none.
    """
    if wanted == "cuda" and not available:
        raise ServiceError(
            "learner.device is cuda, and torch finds no GPU here.",
            "Choose auto or cpu, or install a torch that was built for your GPU.",
        )
    if wanted != "auto":
        return wanted
    large = len(observation) >= 3 or max(hidden, default=0) >= _WIDE
    return "cuda" if available and large else "cpu"


def choose_threads(wanted: int, weights: int, cores: int) -> int:
    """Return the number of threads of the learner.

    Args:
        wanted: `learner.threads`; 0 leaves the choice to this.
        weights: Numbers in its network.
        cores: Cores of this computer.
    """
    if wanted:
        return wanted
    return max(1, min(cores // _CORES_A_THREAD, _MOST_THREADS)) if weights >= _WORTH_THREADS else 1
