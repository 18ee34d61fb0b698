"""An update that several processes compute together, beside one process alone: by the clock, one thread each.

On GPUs, as many processes as there are; else two on the CPU, each of which needs a core to itself: on a busy
computer they wait for each other, and the ratio says nothing.

python -m benchmarks.together [--json] [--quick]
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.learner import IMAGE, VECTOR
from benchmarks.report import Measured, beside, run
from soulsgui.config.layers import as_settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import START
from soulsgui.process import child_env
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.system import become
from soulsgui.training.agents import make_agent
from soulsgui.training.group import learning_together
from tests.experience.segments import segments_of

_ROUND, _SEGMENTS = 512, 8
_NATURE = {"name": "nature_cnn", "hidden_sizes": [512], "value_hidden_sizes": [512]}
_IMPALA = {"name": "impala_resnet", "hidden_sizes": [256], "value_hidden_sizes": [256]}


def _windows(spaces: SpacesSpec, count: int) -> NStepBatch:
    rng, box = np.random.default_rng(0), spaces.observation
    obs, following = (rng.integers(256, size=(count, *box.shape)).astype(box.dtype) for _ in range(2))
    discount = np.full(count, 0.99, np.float32)
    return NStepBatch(obs, rng.integers(4, size=count), np.ones(count, np.float32), following, discount)


def _round(spaces: SpacesSpec, count: int) -> Segments:
    rng, box = np.random.default_rng(0), spaces.observation
    ended = np.zeros(_SEGMENTS, np.bool_)
    return segments_of(
        obs=rng.integers(256, size=(count + _SEGMENTS, *box.shape)).astype(box.dtype),
        length=np.full(_SEGMENTS, count // _SEGMENTS),
        action=rng.integers(4, size=count),
        log_prob=np.full(count, -1.39, np.float32),
        reward=np.ones(count, np.float32),
        terminated=ended,
        truncated=ended,
    )


CASES: tuple[tuple[str, SpacesSpec, dict[str, Any], Callable[[], tuple[Any, ...]], int], ...] = (
    (
        "DQN 128 × 2, batch 256", VECTOR,
        {"algorithm": "dqn", "network": {"hidden_sizes": [128, 128]}},
        lambda: (_windows(VECTOR, 256),), 50,
    ),
    (
        "DQN, Nature CNN, batch 256", IMAGE, {"algorithm": "dqn", "network": _NATURE},
        lambda: (_windows(IMAGE, 256),), 2,
    ),
    (
        f"PPO, IMPALA ResNet, {_ROUND} steps, minibatch 128", IMAGE,
        {"algorithm": "ppo", "network": _IMPALA, "ppo": {"epochs": 1, "minibatch_size": 128}},
        lambda: (_round(IMAGE, _ROUND), START), 1,
    ),
)  # fmt: skip


def _updates(agent: Any, batch: tuple[Any, ...], times: int) -> float:
    """Return the time an update takes, ms."""
    began = time.perf_counter()
    for _ in range(times):
        agent.update(*batch)
    if agent.device.type == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - began) / times


def measure(quick: bool) -> list[Measured]:
    """Measure an update of each agent, together and alone."""
    torch.set_num_threads(1)
    gpus = torch.cuda.device_count()
    processes, device = (gpus, "cuda") if gpus > 1 else (2, "cpu")
    repeats, found = 3 if quick else 5, []
    for name, spaces, values, batch_of, times in CASES[: 2 if quick else None]:
        learner = {"learner": {"processes": processes, "device": device, "compile": "off"}}
        settings = as_settings(values | learner)
        alone, leader = (make_agent(settings.algorithm, settings, spaces, device) for _ in range(2))
        with learning_together(settings, spaces, leader, device):
            ours, its = (partial(_updates, agent, batch_of(), times) for agent in (leader, alone))
            for warm_up in (ours, its):
                warm_up()
            found.append(beside(f"{name}: {processes} processes", "ms", ours, "one", its, repeats))
    return found


if __name__ == "__main__":
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        # As the trainer is started: how many threads numpy has, is settled before it is imported.
        become([sys.executable, "-m", "benchmarks.together", *sys.argv[1:]], os.environ | child_env())
    run(measure)
