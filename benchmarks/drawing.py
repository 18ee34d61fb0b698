"""Drawing a batch beside the update it is for, and whether a second thread that draws the next one pays.

The share is processor time of one thread, out of a memory that is full and larger than caches. The others
compare a thread that draws the next batch while this one is learned from with one after the other: what an
update takes by the clock, which needs a core to spare, and of the processors, which does not.

python -m benchmarks.drawing [--json] [--quick]
"""

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.learner import IMAGE, VECTOR
from benchmarks.report import Measured, beside, run
from soulsgui.config.layers import as_settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.process import child_env
from soulsgui.rl.agents.dqn import DQNAgent, R2D2Agent
from soulsgui.rl.buffers.memory import Drawn, ReplayMemory, WindowReplay
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.rl.buffers.sequences import SequenceReplay
from soulsgui.system import become
from soulsgui.wire.messages.server_config import state_of
from tests.experience.segments import segments_of

_SEGMENT = 64
_LEARNED, _BURN_IN = 20, 10
_MLP = {"hidden_sizes": [128, 128]}
_CNN = {"name": "nature_cnn", "hidden_sizes": [512]}
_LSTM = {"hidden_sizes": [128], "recurrent": "lstm", "recurrent_size": 128}


class Case(NamedTuple):
    """What is measured: an agent, how large its batches are, and how many steps it remembers."""

    name: str
    spaces: SpacesSpec
    network: dict[str, Any]
    dqn: dict[str, Any]
    count: int
    capacity: int
    times: int


CASES = (
    Case("DQN 128 × 2, batch 64", VECTOR, _MLP, {}, 64, 200_000, 300),
    Case("DQN 128 × 2, batch 256", VECTOR, _MLP, {}, 256, 200_000, 200),
    Case("Rainbow 128 × 2, batch 64", VECTOR, _MLP, {"agent": "rainbow"}, 64, 200_000, 100),
    Case("DQN, Nature CNN, batch 32", IMAGE, _CNN, {}, 32, 4_000, 8),
    Case(
        "R2D2, LSTM 128, 32 sequences of 10 + 20", VECTOR, _LSTM,
        {"agent": "r2d2", "burn_in": _BURN_IN, "sequence_length": _LEARNED}, 32 * _LEARNED, 100_000, 20,
    ),
)  # fmt: skip


class Learner:
    """An agent and its full memory, as a training node joins them.

    Args:
        case: Which one.
    """

    def __init__(self, case: Case) -> None:
        settings = as_settings({"algorithm": "dqn", "network": case.network, "dqn": case.dqn})
        recurrent = case.dqn.get("agent") == "r2d2"
        self.count = case.count
        self.agent = (R2D2Agent if recurrent else DQNAgent)(case.spaces, settings, 0)
        capacity = case.capacity
        ring = UniformReplay(capacity, case.spaces.observation)
        self.memory: ReplayMemory
        if recurrent:
            ((field, (size,)),) = state_of(self.agent.policy_spec()).items()
            alpha = settings.dqn.priority_exponent
            self.memory = SequenceReplay(ring, field, size, _BURN_IN, _LEARNED, capacity, alpha)
            _fill(self.memory, case.spaces, _LEARNED // 2, {field: size})
        else:
            parts = self.agent.parts
            alpha = settings.dqn.priority_exponent if parts.prioritised else None
            self.memory = WindowReplay(ring, parts.n_step, settings.dqn.gamma, alpha)
            _fill(self.memory, case.spaces, _SEGMENT, {})

    def draw(self) -> Drawn:
        """Draw a batch."""
        return self.memory.draw(self.count, self.agent.sample_rng)

    def learn(self, drawn: Drawn) -> None:
        """Make an update with it."""
        error = self.agent.update(drawn.batch, tell=drawn.number is not None)
        if drawn.number is not None and error is not None:
            self.memory.learned(drawn.number, error)

    def alone(self, times: int) -> None:
        """Draw and learn, one after the other."""
        for _ in range(times):
            self.learn(self.draw())

    def part(self, times: int, drawing: bool) -> float:
        """Draw and learn in turn, as ever; return the processor time, ms each, of one of both."""
        taken = 0.0
        for _ in range(times):
            began = time.thread_time()
            drawn = self.draw()
            between = time.thread_time()
            self.learn(drawn)
            taken += between - began if drawing else time.thread_time() - between
        return 1e3 * taken / times


def _fill(memory: ReplayMemory, spaces: SpacesSpec, steps: int, states: dict[str, int]) -> None:
    """Fill a memory with segments of one long episode of each of 16 environments."""
    rng, box, envs = np.random.default_rng(0), spaces.observation, 16
    obs = rng.integers(0, 256, size=(envs * (steps + 1), *box.shape)).astype(box.dtype)
    for number in range(-(-memory.capacity // (envs * steps))):
        memory.add(
            segments_of(
                obs=obs,
                length=np.full(envs, steps),
                action=rng.integers(4, size=envs * steps),
                reward=rng.normal(size=envs * steps).astype(np.float32),
                log_prob=np.zeros(envs * steps, np.float32),
                terminated=np.zeros(envs, np.bool_),
                truncated=np.zeros(envs, np.bool_),
                source=np.arange(envs),
                episode=np.zeros(envs, np.int64),
                first_step=np.full(envs, number * steps),
                state={name: np.zeros((envs, size), np.float32) for name, size in states.items()},
            )
        )


@contextmanager
def _drawing_ahead(learner: Learner) -> Iterator[Callable[[int], None]]:
    """Have a thread draw the next batch while one is learned from, in the same order of draws."""
    wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
    drawn: queue.SimpleQueue[Drawn] = queue.SimpleQueue()

    def draw() -> None:
        while wanted.get():
            drawn.put(learner.draw())

    def learn(times: int) -> None:
        wanted.put(True)
        for left in range(times - 1, -1, -1):
            batch = drawn.get()
            if left:
                wanted.put(True)
            learner.learn(batch)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        yield learn
    finally:
        wanted.put(False)
        thread.join()


def _seconds(clock: Callable[[], float], work: Callable[[], object], scale: float) -> float:
    began = clock()
    work()
    return scale * (clock() - began)


def measure(quick: bool) -> list[Measured]:
    """Measure both figures of each agent."""
    torch.set_num_threads(1)
    repeats, found = 3 if quick else 7, []
    for case in CASES:
        learner = Learner(case)
        times = max(3, case.times // 10) if quick else case.times
        learner.alone(2)
        told, each = "ms of processor time", 1e3 / times
        ours, its = (partial(learner.part, times, drawing) for drawing in (True, False))
        found.append(beside(f"{case.name}: drawing", told, ours, "its update", its, repeats))
        with _drawing_ahead(learner) as ahead:
            for clock, unit in ((time.perf_counter, "ms an update"), (time.process_time, told)):
                ours, its = (
                    partial(_seconds, clock, partial(work, times), each) for work in (ahead, learner.alone)
                )
                name = f"{case.name}: the next drawn in a thread"
                found.append(beside(name, unit, ours, "one after the other", its, repeats))
    return found


if __name__ == "__main__":
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        # As the trainer is started: how many threads numpy has, is settled before it is imported.
        become([sys.executable, "-m", "benchmarks.drawing", *sys.argv[1:]], os.environ | child_env())
    run(measure)
