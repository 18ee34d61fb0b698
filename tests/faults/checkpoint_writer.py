"""A process that forks writers of checkpoints for a test to kill; run as a script.

For each line `FOLDER UPDATE` on its standard input it forks a child that writes one checkpoint after the
other of the run in FOLDER, from UPDATE on. It says `pid N`, then `done UPDATE` after each one, and `dead` at
the end.
"""

import os
import sys
from pathlib import Path

import numpy as np

from soulsgui.config.paths import RunFolder
from soulsgui.training.checkpoint import Checkpoint, newest_resumable, write_checkpoint
from soulsgui.wire.manifest import Manifest


def checkpoint(update: int, size: int = 50_000) -> Checkpoint:
    """Return a checkpoint in which everything tells of its update."""
    info = Manifest(
        run_id="run-1",
        attempt=1,
        model_id=update,
        updates=update,
        env_steps=update * 10,
        episodes=update,
        algorithm="ppo",
        env_id="CartPole-v1",
        spaces={},
        policy={},
    )
    weights = {"policy.0.weight": np.full(size, update, np.float32), "clip": np.array(10, np.float32)}
    agent = {"adam.step": np.array(update, np.float32), "adam.exp_avg": np.full(size, update, np.float32)}
    return Checkpoint(
        info, weights, agent, {"agent": {"updates": update}, "high_water": {}}, f"note {update}"
    )


def _say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def _write_for_ever(run: RunFolder, update: int) -> None:
    newest_resumable(run)  # as a trainer does before it begins
    while True:
        write_checkpoint(run.checkpoint, checkpoint(update), run.older)
        _say(f"done {update}")
        update += 1


def main() -> None:
    for line in sys.stdin:
        folder, update = line.split()
        child = os.fork()
        if child == 0:
            _write_for_ever(RunFolder(Path(folder)), int(update))
        _say(f"pid {child}")
        os.waitpid(child, 0)
        _say("dead")


if __name__ == "__main__":
    main()
