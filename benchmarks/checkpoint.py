"""What saving a checkpoint costs a learner, and the bytes of one, beside the bare bytes of its arrays.

A DQN agent of two layers of 1024 units (20 MB with what its optimiser keeps) makes gradient steps; another
thread writes. The processor has to be idle otherwise: the clock is that of the wall.

python -m benchmarks.checkpoint [--json] [--quick]
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.report import Measured, beside, run
from soulsgui.config.layers import as_settings
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.training import DQNTrainingNode
from soulsgui.training.checkpoint_manager import CheckpointManager
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys

_MB = 1e6
_UNITS, _BATCH, _OBS = 1024, 64, 4  # CartPole-v1
_STEPS = 20


class Saving:
    """A learner that is about to be saved."""

    def __init__(self, folder: Path) -> None:
        settings: Settings = as_settings(
            {"algorithm": "dqn", "dqn": {"agent": "dqn"}, "network": {"hidden_sizes": [_UNITS, _UNITS]}}
        )
        self.run = RunFolder(folder)
        self._node = DQNTrainingNode(settings, self.run, Address("127.0.0.1", 1))
        self._manager = CheckpointManager(
            self._node, self.run, Keys(), settings.checkpoint, lambda info, path: None
        )
        rng = np.random.default_rng(0)
        obs, after = rng.normal(size=(2, _BATCH, _OBS)).astype(np.float32)
        reward, discount = np.ones(_BATCH, np.float32), np.full(_BATCH, 0.99, np.float32)
        self._batch = NStepBatch(obs, rng.integers(2, size=_BATCH), reward, after, discount, None)
        self.step_ms()
        checkpoint = self._node.snapshot()
        self.arrays = [*checkpoint.weights.values(), *checkpoint.agent.values()]

    def step_ms(self) -> float:
        """Return how long one gradient step takes."""
        began = time.perf_counter()
        self._node.agent.update(self._batch)
        return (time.perf_counter() - began) * 1e3

    def longest_step_ms(self) -> float:
        """Return how long the slowest of several gradient steps takes."""
        return max(self.step_ms() for _ in range(_STEPS))

    def order_ms(self) -> float:
        """Return how long the learner is held up by the order of a checkpoint; wait for its end."""
        began = time.perf_counter()
        self._manager.save_current()
        taken = time.perf_counter() - began
        self._wait()
        return taken * 1e3

    def longest_step_beside_ms(self) -> float:
        """Return the same as `longest_step_ms` while a checkpoint is written."""
        self._manager.save_current()
        steps = [self.step_ms()]
        while self._manager.saving:
            steps.append(self.step_ms())
        return max(steps)

    def write_ms(self) -> float:
        """Return how long it takes until a checkpoint is on the disk."""
        began = time.perf_counter()
        self._manager.save_current()
        self._wait()
        return (time.perf_counter() - began) * 1e3

    def size_mb(self) -> float:
        """Return the size of its folder."""
        return sum(file.stat().st_size for file in self.run.checkpoint.iterdir()) / _MB

    def copy_ms(self) -> float:
        """Return how long it takes to copy its arrays, all into memory of their own."""
        began = time.perf_counter()
        copies = [array.copy() for array in self.arrays]
        taken = time.perf_counter() - began
        del copies
        return taken * 1e3

    def plain_write_ms(self) -> float:
        """Return how long it takes to write the bytes of its arrays into one file, and sync that."""
        began = time.perf_counter()
        with (self.run.root / "plain").open("wb") as file:
            for array in self.arrays:
                file.write(array.tobytes())
            file.flush()
            os.fsync(file.fileno())
        return (time.perf_counter() - began) * 1e3

    def plain_mb(self) -> float:
        """Return the bytes of its arrays."""
        return sum(array.nbytes for array in self.arrays) / _MB

    def close(self) -> None:
        """End its thread."""
        self._manager.close(save=False)

    def _wait(self) -> None:
        while self._manager.saving:
            time.sleep(0.001)


def measure(quick: bool) -> list[Measured]:
    """Measure all of it."""
    repeats = 3 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        saving = Saving(Path(folder))
        steady = statistics.median(saving.step_ms() for _ in range(_STEPS))
        found = [
            beside("learner held up by an order", "ms", saving.order_ms, "copy", saving.copy_ms, repeats),
            beside(
                f"slowest gradient step beside the writing (usual: {steady:.1f} ms)", "ms",
                saving.longest_step_beside_ms, "slowest without", saving.longest_step_ms, repeats,
            ),
            beside("written", "ms", saving.write_ms, "plain write", saving.plain_write_ms, repeats),
            beside("size", "MB", saving.size_mb, "arrays", saving.plain_mb, 1),
        ]  # fmt: skip
        saving.close()
    return found


if __name__ == "__main__":
    run(measure)
