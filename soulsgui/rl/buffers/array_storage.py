"""Where the observations of a replay memory lie: in memory, or in a file where they would take too much."""

import errno
import json
import logging
import math
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import MemoryGoneError, StorageError

logger = logging.getLogger(__name__)

_PART = 64
"""Into so many parts the file is taken from the disk: one more whenever the one before is full."""

_SPARE_BYTES = 256 * 2**20
"""What has to be free on the disk beside the file: a full one stops checkpoints and everything else."""

_ALIGN = 4096
"""Each column begins at a multiple of this: no block of the disk, and no page, belongs to two of them."""

_REMEDY = (
    "Free some space there, or set a smaller buffer_size, or a larger learner.memory_limit if there is "
    "enough memory."
)


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class ArrayColumn(NamedTuple):
    """What is kept of each observation, as one array: shape and dtype of a row."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def row_bytes(self) -> int:
        """Size of a row."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


IN_FILE = "file"
"""Name in the saved state of a memory under which it tells the file that its observations lie in."""

Arrays = list[NDArray[Any]]


class ArrayStorage:
    """Gives memory; `token` is what a file is known by again, empty where there is none."""

    token = ""

    def lay_out(self, rows: int, expected: int, columns: Sequence[ArrayColumn]) -> Arrays:
        """Return room for rows, `[rows, *shape]` for each column, all 0; what was given before is given up.

        Args:
            expected: How many of them will be used, as far as can be said.

        Raises:
            StorageError: There is no room for them.
        """
        return [np.zeros((rows, *column.shape), column.dtype) for column in columns]

    def reserve(self, rows: int) -> None:
        """Make sure that the first rows can be written to.

        Raises:
            StorageError: The disk is full.
        """

    def lay_out_again(self, token: str, stored: int, expected: int, columns: Sequence[ArrayColumn]) -> Arrays:
        """Return the room of an earlier process, known by token and transitions ever stored when it was left.

        Raises:
            MemoryGoneError: It is not there any more, or something was written to it since.
        """
        raise MemoryGoneError("The observations of the saved replay memory lie in a file, which is gone.")

    def close(self, stored: int | None = None) -> None:
        """Give everything up, or leave it behind for another process with so many transitions ever stored."""


class FileStorage(ArrayStorage):
    """Gives memory up to a limit, and beyond it a file that the operating system reads and writes.

    The file is `observations` in a folder of its own, one column after the other. Disk is taken from the file
    system before it is written to, a part at a time: a disk that is full is an error in words, not the end of
    the process. What an earlier process left in the folder is taken up or removed.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder, self._limit = folder, limit_bytes
        self._file, self._seal = folder / "observations", folder / "left.json"
        self._map: np.memmap[Any, Any] | None = None
        self._columns: Sequence[ArrayColumn] = ()
        self._rows = self._reserved = 0

    def lay_out(self, rows: int, expected: int, columns: Sequence[ArrayColumn]) -> Arrays:
        """Return room for rows, as `ArrayStorage.lay_out` does."""
        self.close()
        if not self._exceeds(expected, columns):
            return super().lay_out(rows, expected, columns)
        needed = _row_bytes(columns) * expected + _SPARE_BYTES
        free = _free_bytes(self._folder.parent)
        if free < needed:
            raise self._too_small(needed, free)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._file.open("wb") as file:
                file.truncate(_begins(rows, columns)[-1])
        except OSError as error:
            raise StorageError(f"{self._file} can't be made: {error}.", _REMEDY) from error
        self.token, self._reserved = secrets.token_hex(8), 0
        return self._mapped(rows, columns)

    def reserve(self, rows: int) -> None:
        """Take disk for the first rows, as `ArrayStorage.reserve` says."""
        if self._map is None or rows <= self._reserved:
            return
        upto = min(max(rows, self._reserved + -(-self._rows // _PART)), self._rows)
        size = 0
        try:
            for begin, column in zip(_begins(self._rows, self._columns), self._columns, strict=False):
                size = (upto - self._reserved) * column.row_bytes
                self._allocate(begin + self._reserved * column.row_bytes, size)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise StorageError(f"{self._file} can't grow: {error}.", _REMEDY) from error
            raise self._too_small(size, _free_bytes(self._folder.parent)) from error
        self._reserved = upto

    def lay_out_again(self, token: str, stored: int, expected: int, columns: Sequence[ArrayColumn]) -> Arrays:
        """Return what an earlier process left (`ArrayStorage.lay_out_again`); in memory within the limit."""
        try:
            left = json.loads(self._seal.read_text())
            found = [left[name] for name in ("token", "stored", "columns")]
            if found != [token, stored, _told(columns)]:
                raise ValueError("it was written to since, or belongs to another checkpoint")
            rows = int(left["rows"])
            if self._file.stat().st_size != _begins(rows, columns)[-1]:
                raise ValueError("its size has changed")
            self._seal.unlink()  # from now on it is written to
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MemoryGoneError(
                f"The observations of the saved replay memory lay in {self._file}: {error}."
            ) from error
        self.token, self._reserved = token, int(left["reserved"])
        mapped = self._mapped(rows, columns)
        if self._exceeds(expected, columns):
            return mapped
        # With another limit than when it was left; what was never written to takes no memory.
        arrays = super().lay_out(rows, expected, columns)
        for array, source in zip(arrays, mapped, strict=True):
            array[: self._reserved] = source[: self._reserved]
        del mapped, source
        self._map = None
        self.close()
        return arrays

    def close(self, stored: int | None = None) -> None:
        """Give everything up, as `ArrayStorage.close` says."""
        if self._map is None or stored is None:
            self._remove()
        else:
            self._leave(self._map, stored)
        self._map, self.token = None, ""

    def _exceeds(self, rows: int, columns: Sequence[ArrayColumn]) -> bool:
        return _row_bytes(columns) * rows > self._limit

    def _leave(self, mapped: "np.memmap[Any, Any]", stored: int) -> None:
        """Seal the file for another process; where that can't be written, it is of no use and goes."""
        shape = {"rows": self._rows, "columns": _told(self._columns)}
        left = {"token": self.token, "stored": stored, "reserved": self._reserved, **shape}
        try:
            mapped.flush()
            self._seal.write_text(json.dumps(left))
        except OSError as error:
            words = "%s can't be left behind: %s. Make room there; the replay memory is filled again."
            logger.warning(words, self._file, error)
            self._remove()

    def _mapped(self, rows: int, columns: Sequence[ArrayColumn]) -> Arrays:
        self._rows, self._columns = rows, tuple(columns)
        self._map = np.memmap(self._file, np.uint8, "r+")
        whole = np.asarray(self._map)
        return [
            whole[begin : begin + rows * column.row_bytes].view(column.dtype).reshape(rows, *column.shape)
            for begin, column in zip(_begins(rows, columns), columns, strict=False)
        ]

    def _allocate(self, begin: int, size: int) -> None:
        """Take a part of the file from the disk.

        Raises:
            OSError: The disk has not so much room.
        """
        if not hasattr(os, "posix_fallocate"):  # macOS, Windows
            if _free_bytes(self._folder.parent) < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._file))
            return
        with self._file.open("r+b") as file:
            os.posix_fallocate(file.fileno(), begin, size)

    def _remove(self) -> None:
        for path in (self._seal, self._file):
            path.unlink(missing_ok=True)
        if self._folder.is_dir():
            self._folder.rmdir()

    def _too_small(self, needed: int, free: int) -> StorageError:
        return StorageError(
            f"The observations of the replay memory need {needed / 1e9:.1f} GB on the disk of "
            f"{self._folder.parent}, where {free / 1e9:.1f} GB are free: they are more than "
            f"learner.memory_limit, {self._limit / 1e9:.1f} GB.",
            _REMEDY,
        )


def _row_bytes(columns: Sequence[ArrayColumn]) -> int:
    return sum(column.row_bytes for column in columns)


def _begins(rows: int, columns: Sequence[ArrayColumn]) -> list[int]:
    """Return where in the file each column begins, in bytes, and where the last one ends."""
    begins = [0]
    for column in columns:
        begins[-1] = -(-begins[-1] // _ALIGN) * _ALIGN
        begins.append(begins[-1] + rows * column.row_bytes)
    return begins


def _told(columns: Sequence[ArrayColumn]) -> list[list[Any]]:
    """Return columns as JSON gives them back."""
    return [[list(column.shape), np.dtype(column.dtype).str] for column in columns]
