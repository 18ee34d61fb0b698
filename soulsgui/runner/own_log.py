"""The runner's own log, kept as those of its services are: bounded, and read the same way."""

import io
import logging
import os
import sys
from pathlib import Path

from soulsgui.process import LineFormatter
from soulsgui.runner.logs import LogFile


class OwnLog:
    """Writes this process's log into a file until it is closed.

    Where standard error leads into that file already (a window started the runner so), nothing is added.

    Args:
        path: The file; its folder is made.
    """

    def __init__(self, path: Path) -> None:
        self._file = LogFile(path)
        text = io.TextIOWrapper(self._file.open("start of runner"), encoding="utf-8", write_through=True)
        self._stream = text
        self._handler = logging.StreamHandler(text)
        self._handler.setFormatter(LineFormatter())
        if not _is_standard_error(path):
            logging.getLogger().addHandler(self._handler)

    def keep_small(self) -> None:
        """Set the file aside when it has grown too large."""
        self._file.cut_if_large()

    def close(self) -> None:
        """Write no more."""
        logging.getLogger().removeHandler(self._handler)
        self._stream.close()


def _is_standard_error(path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(sys.stderr.fileno()), path.stat())
    except (OSError, ValueError, AttributeError):
        # There may be no standard error at all, as in a program without a console.
        return False
