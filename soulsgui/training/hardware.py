"""Where a learner computes, with how many threads and how much memory."""

from collections.abc import Sequence

import psutil
import torch

from soulsgui.config.schema import Settings
from soulsgui.environments.spaces import SpacesSpec
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
    """Return where the networks live, as torch names it."""
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


def learner_device(settings: Settings, spaces: SpacesSpec) -> str:
    """Return where the networks of a run live, as torch names it."""
    network, wanted = settings.network, settings.learner.device
    widths = list(network.hidden_sizes)
    if settings.algorithm != "dqn":
        widths += network.value_hidden_sizes
    if network.recurrent != "none":
        widths.append(network.recurrent_size)
    gpus = torch.cuda.device_count() if wanted != "cpu" else 0
    has_images = any(len(box.shape) >= 3 for _, box in spaces.observation.fields)
    return choose_device(wanted, gpus, has_images, widths, settings.learner.processes)


def hardware_words(device: str, processes: int) -> str:
    """Return what a learner computes on, in words."""
    if device == "cpu":
        return "the CPU" if processes == 1 else f"the CPU, {processes} processes"
    return "a GPU" if processes == 1 else f"{processes} GPUs"


def choose_threads(wanted: int, weights: int, cores: int) -> int:
    """Return the number of threads of the learner."""
    if wanted:
        return wanted
    return max(1, min(cores // _CORES_A_THREAD, _MOST_THREADS)) if weights >= _WORTH_THREADS else 1


def memory_limit(wanted: int | None) -> int:
    """Return how many bytes the observations of a replay memory may take before they lie in a file."""
    return int(psutil.virtual_memory().total) // 2 if wanted is None else wanted


def choose_mixed(wanted: str, device: str, observation: Sequence[int]) -> bool:
    """Return whether networks compute in bfloat16 where that is enough: on a GPU, and for images."""
    return wanted == "mixed" and device != "cpu" and len(observation) >= 3
