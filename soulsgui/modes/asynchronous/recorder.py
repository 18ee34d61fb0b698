"""Where the asynchronous trainer's records go."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from soulsgui.telemetry.sinks.tensorboard import EventFiles

OPT_STEPS = "opt_steps"


class RecordWriter(Protocol):
    """Takes records."""

    def write(self, record: Mapping[str, float]) -> None:
        """Take a record of one moment, whose number of updates stands in it as `opt_steps`."""

    def flush(self) -> None:
        """Let others see what was written."""

    def close(self) -> None:
        """Flush for the last time."""


class TensorboardRecorder:
    """Writes event files for TensorBoard, each value a curve over the updates.

    Raises:
        UsageError: The package tensorboard is missing.
    """

    def __init__(self, folder: Path | str) -> None:
        self._files = EventFiles(folder)
        self.flush, self.close = self._files.flush, self._files.close

    def write(self, record: Mapping[str, float]) -> None:
        """Write a record."""
        values = {name: value for name, value in record.items() if name != OPT_STEPS}
        self._files.add(values, int(record[OPT_STEPS]), time.time())
