"""Where the asynchronous trainer's records go."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from soulsgui.errors import UsageError

OPT_STEPS = "opt_steps"


class Recorder(Protocol):
    """Takes records."""

    def write(self, record: Mapping[str, float]) -> None:
        """Take a record of one moment, whose number of updates stands in it as `opt_steps`."""

    def close(self) -> None:
        """Write what is left."""


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

    def write(self, record: Mapping[str, float]) -> None:
        """Write a record."""
        step = int(record[OPT_STEPS])
        for name, value in record.items():
            if name != OPT_STEPS:
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()
