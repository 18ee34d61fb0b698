"""Where a learner computes, with how many threads and how much memory."""

from collections.abc import Sequence

import psutil

from soulsgui.errors import HardwareError

_WIDE = 1024
"""Layers from this width on are worth the way to a GPU and back."""

_WORTH_THREADS = 200_000
"""Weights of a network that is worth another thread: with fewer, threads mostly wait for each other."""

_CORES_A_THREAD = 4
"""Clients play on the same computer. A thread that waits for its core costs many times what it saves: on two
busy cores two threads made a gradient step 10 times slower."""

_MOST_THREADS = 8


def choose_device(wanted: str, gpus: int, has_images: bool, hidden: Sequence[int], processes: int = 1) -> str:
    """Return where the networks live, as torch names it.

    Args:
        wanted: `learner.device`.
        gpus: How many GPUs torch can use.
        has_images: Whether observations have three dimensions, or an image among their parts.
        hidden: Width of each hidden layer, of all networks.
        processes: `learner.processes`: each takes a GPU of its own, and several are wanted for their GPUs.

    Raises:
        HardwareError: GPUs are wanted, and there are too few.
    """
    if wanted == "cuda" and not gpus:
        raise HardwareError(
            "learner.device is cuda, and torch finds no GPU here.",
            "Choose auto or cpu (for a run that goes on: soulsgui run resume --set learner.device=auto), or "
            "install a torch that was built for your GPU.",
        )
    large = has_images or max(hidden, default=0) >= _WIDE or processes > 1
    device = wanted if wanted != "auto" else "cuda" if gpus and large else "cpu"
    if device == "cuda" and processes > gpus:
        raise HardwareError(
            f"learner.processes is {processes}, and torch finds {gpus} GPU{'s' if gpus > 1 else ''} here.",
            f"Set learner.processes to {gpus}: each of them takes a GPU of its own. For a run that goes on: "
            f"soulsgui run resume --set learner.processes={gpus}",
        )
    return device


def hardware_words(device: str, processes: int) -> str:
    """Return what a learner computes on, in words.

    Args:
        device: Where the networks live, as torch names it.
        processes: `learner.processes`.
    """
    if device == "cpu":
        return "the CPU" if processes == 1 else f"the CPU, {processes} processes"
    return "a GPU" if processes == 1 else f"{processes} GPUs"


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


def memory_limit(wanted: int | None) -> int:
    """Return how many bytes the observations of a replay memory may take before they lie in a file.

    Args:
        wanted: `learner.memory_limit`; None: half of what this computer has.
    """
    return int(psutil.virtual_memory().total) // 2 if wanted is None else wanted


def choose_mixed(wanted: str, device: str, observation: Sequence[int]) -> bool:
    """Return whether networks compute in bfloat16 where that is enough: on a GPU, and for images.

    Args:
        wanted: `learner.precision`.
        device: Where the networks live.
        observation: Shape of an observation.
    """
    return wanted == "mixed" and device != "cpu" and len(observation) >= 3
