"""Where the asynchronous trainer's records go."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from soulsgui.errors import UsageError

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
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise UsageError(
                "Event files need the package tensorboard.", "Install it: pip install tensorboard"
            ) from error
        self._writer = SummaryWriter(str(folder))
        self.flush, self.close = self._writer.flush, self._writer.close

    def write(self, record: Mapping[str, float]) -> None:
        """Write a record."""
        for name, value in record.items():
            if name != OPT_STEPS:
                self._writer.add_scalar(name, value, int(record[OPT_STEPS]))
