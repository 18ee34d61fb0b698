"""An environment that counts its steps on disk: `tests.faults.counted:ToysCounted-v0`.

What a client that is killed had made is known by it to the step.
"""

import os
import time
from pathlib import Path
from typing import Any

import gymnasium

from tests.environments.toys import Counter


class Counted(Counter):
    """A `Counter` that takes its time, and adds a byte to the file `<pid>` of a folder at every step."""

    def __init__(self, folder: str, step_s: float = 0.005, length: int = 900) -> None:
        super().__init__(length)
        self._step_s = step_s
        self._file = os.open(Path(folder) / str(os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def step(self, action: int) -> Any:
        time.sleep(self._step_s)
        os.write(self._file, b".")
        return super().step(action)

    def close(self) -> None:
        os.close(self._file)


def steps_made(folder: Path, pid: int) -> int:
    path = folder / str(pid)
    return path.stat().st_size if path.exists() else 0


if "ToysCounted-v0" not in gymnasium.registry:
    gymnasium.register("ToysCounted-v0", entry_point=Counted)
