"""The runner's own log, kept as those of its services are: bounded, and read the same way."""

import contextlib
import io
import logging
import os
import sys
from pathlib import Path
from typing import TextIO

from soulsgui.process import LineFormatter
from soulsgui.runner.logs import LogFile


class _Handler(logging.StreamHandler[TextIO]):
    """Loses lines without a word while the disk is full: standard error has them too."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Say what is wrong with a record, unless it is the disk."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class OwnLog:
    """Writes this process's log into a file until it is closed.

    Where standard error leads into that file already (a window started the runner so), nothing is added.

    Args:
        path: The file; its folder is made.
    """

    def __init__(self, path: Path) -> None:
        self._file = LogFile(path)
        text = io.TextIOWrapper(
            self._file.open("start of runner"),
            encoding="utf-8",
            errors="backslashreplace",
            write_through=True,
        )
        self._stream = text
        self._handler = _Handler(text)
        self._handler.setFormatter(LineFormatter())
        if not _is_standard_error(path):
            logging.getLogger().addHandler(self._handler)

    def keep_small(self) -> None:
        """Set the file aside when it has grown too large."""
        self._file.cut_if_large()

    def close(self) -> None:
        """Write no more."""
        logging.getLogger().removeHandler(self._handler)
        with contextlib.suppress(OSError):
            self._stream.close()


def _is_standard_error(path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(sys.stderr.fileno()), path.stat())
    except (OSError, ValueError, AttributeError):
        # There may be no standard error at all, as in a program without a console.
        return False
