"""Notices when foreign code closes the files and connections of this process."""

import os


class OpenFiles:
    """Holds a file open that is nobody's business, and sees whether it still is."""

    def __init__(self) -> None:
        self._file, other = os.pipe()
        os.close(other)
        self._identity = self._look()

    def _look(self) -> tuple[int, int] | None:
        try:
            found = os.fstat(self._file)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @property
    def intact(self) -> bool:
        """Whether it is open; under its number there may be another one by now."""
        return self._identity is not None and self._look() == self._identity

    def close(self) -> None:
        """Close it, if nobody else has."""
        if self.intact:
            os.close(self._file)
        self._identity = None
