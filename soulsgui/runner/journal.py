"""Numbered messages of a runner that outlive it: in memory, and in a private file of JSON lines."""

import logging
from pathlib import Path
from typing import Generic, TypeVar

from soulsgui.runner.status_text import count_words
from soulsgui.system import write_private
from soulsgui.wire.control import Numbered

logger = logging.getLogger(__name__)

KEPT = 2000  # messages that are remembered; the file holds at most twice as many lines

_MOST_UNREADABLE_BYTES = 2**20
_MOST_READ_BYTES = 2**24

N = TypeVar("N", bound=Numbered)


class Journal(Generic[N]):
    """The newest messages of one kind, oldest first; of a number that is there twice the later one counts."""

    def __init__(self, path: Path, kind: type[N]) -> None:
        self._path = path
        self._kind = kind
        self._records = {record.number: record for record in read_journal(path, kind)}
        self.last_number = max(self._records, default=0)  # of the newest
        self._aside = path.with_name(f"{path.stem}_unreadable{path.suffix}")
        self._lines = 0
        self._lost = self._keep_unreadable()
        self._compact()

    @property
    def loss(self) -> str:
        """How many lines could not be read, and where they are kept; empty where all could."""
        lost = count_words(self._lost, "line")
        return f"{lost} of {self._path.name} can't be read; kept in {self._aside.name}." if self._lost else ""

    def since(self, number: int) -> list[N]:
        """Return those with greater numbers."""
        return [record for record in self._records.values() if record.number > number]

    def write(self, record: N) -> None:
        """Add a record, or its newer state, unless newer ones have pushed it out meanwhile."""
        if record.number <= self.last_number and record.number not in self._records:
            return
        self.last_number = max(self.last_number, record.number)
        self._records[record.number] = record
        while len(self._records) > KEPT:
            del self._records[next(iter(self._records))]
        try:
            if self._lines >= 2 * KEPT:
                self._compact()
                return
            with self._path.open("a", encoding="utf-8") as file:
                file.write(record.to_json() + "\n")
            self._lines += 1
        except OSError as error:
            logger.error("a line can't be written to %s: %s", self._path.name, error)
            self._lines = 2 * KEPT  # it may be torn: the next time all are written anew

    def _keep_unreadable(self) -> int:
        """Keep lines aside that are none of ours, the newest MB of them; return how many there were now.

        One torn by a crash, the last, is none.
        """
        lines = _lines(self._path)
        bad = [line for line in lines if line.endswith(b"\n") and self._kind.read(line) is None]
        if bad:
            before = self._aside.read_bytes() if self._aside.is_file() else b""
            write_private(self._aside, (before + b"".join(bad))[-_MOST_UNREADABLE_BYTES:])
        return len(bad)

    def _compact(self) -> None:
        """Write what is remembered alone; this also takes a line torn by a crash away."""
        text = "".join(record.to_json() + "\n" for record in self._records.values())
        write_private(self._path, text.encode())
        self._lines = len(self._records)


def read_journal(path: Path, kind: type[N]) -> list[N]:
    """Return the newest messages of a file, oldest first; lines that are none are left out."""
    read = (kind.read(line) for line in _lines(path)[-2 * KEPT :])
    found = {record.number: record for record in read if record is not None}
    return list(found.values())[-KEPT:]


def _lines(path: Path) -> list[bytes]:
    """Return the last lines of a file with their ends; none of what is no file, or is not there."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        skipped = max(path.stat().st_size - _MOST_READ_BYTES, 0)
        file.seek(skipped)
        lines = file.read(_MOST_READ_BYTES).splitlines(keepends=True)
    return lines[1:] if skipped else lines
