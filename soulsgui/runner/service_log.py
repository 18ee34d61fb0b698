"""The log of one supervised service: what it wrote since it was started last, and how large it may grow."""

import logging
from pathlib import Path
from typing import IO

from soulsgui.runner.log_lines import tail
from soulsgui.runner.logs import LogFile

logger = logging.getLogger(__name__)


class ServiceLog:
    """The file a service writes to.

    Args:
        name: The service.
        path: The file.
    """

    def __init__(self, name: str, path: Path) -> None:
        self._name, self._path = name, path
        self._file = LogFile(path)
        self._title = f"start of {name}"

    def open(self) -> IO[bytes]:
        """Open it for a process that is started now.

        Raises:
            OSError: It can't be written.
        """
        return self._file.open(self._title)

    @property
    def too_large(self) -> bool:
        """Whether `keep_small` has something to do."""
        return self._file.too_large

    def keep_small(self) -> bool:
        """Set it aside when it has grown too large; called in a thread of its own.

        Returns:
            Whether there was room for it.
        """
        try:
            self._file.cut_if_large()
        except OSError as error:
            logger.warning("the log of %s can't be set aside: %s", self._name, error)
            return False
        return True

    def lines_of_this_start(self, n: int) -> list[str]:
        """Return up to `n` lines, the last ones, of those written since the last start."""
        lines = tail(self._path, n)
        starts = [index for index, line in enumerate(lines) if line.endswith(f"runner: {self._title}")]
        return lines[starts[-1] + 1 :] if starts else lines
