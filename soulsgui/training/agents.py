"""The agent of each algorithm, and where it computes: device, threads, memory."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from soulsgui.config.schema import Settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import HardwareError
from soulsgui.rl.agents.crossq import CrossQAgent
from soulsgui.rl.agents.dqn import DQNAgent, R2D2Agent
from soulsgui.rl.agents.ppo import PPOAgent, RecurrentPPOAgent
from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.agents.td3 import TD3Agent
from soulsgui.rl.agents.vtrace import VTraceAgent
from soulsgui.rl.gradients.dqn import DQNParts


def make_agent(algorithm: str, settings: Settings, spaces: SpacesSpec, device: str) -> Any:
    """Make the agent of an algorithm on a device, as torch names it; with a memory where the settings say."""
    recurrent = settings.network.recurrent != "none"
    kinds: dict[str, Callable[..., Any]] = {
        "ppo": RecurrentPPOAgent if recurrent else PPOAgent,
        "dqn": R2D2Agent if DQNParts.of(settings.dqn).kind == "recurrent" else DQNAgent,
        "sac": {"td3": TD3Agent, "crossq": CrossQAgent}.get(settings.sac.agent, SACAgent),
        "vtrace": VTraceAgent,
    }
    agent = kinds[algorithm](spaces, settings, settings.seed, device)
    # Networks compute in bfloat16 where that is enough: on a GPU, and for images.
    if settings.learner.precision == "mixed" and device != "cpu" and len(spaces.observation.shape) >= 3:
        agent.learn_mixed()
    return agent


_WIDE = 1024  # layers from this width on are worth the way to a GPU and back

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
            "Choose auto or cpu (for a stopped run: soulsgui run resume --set learner.device=auto), or "
            "install a torch that was built for your GPU.",
        )
    large = has_images or max(hidden, default=0) >= _WIDE or processes > 1
    device = wanted if wanted != "auto" else "cuda" if gpus and large else "cpu"
    if device == "cuda" and processes > gpus:
        raise HardwareError(
            f"learner.processes is {processes}, and torch finds {gpus} GPU{'s' if gpus > 1 else ''} here.",
            f"Set learner.processes to {gpus}: each of them takes a GPU of its own. For a stopped run: "
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
