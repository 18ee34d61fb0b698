"""Ids of stream entries: `milliseconds-sequence`, ordered as pairs of numbers."""

from typing import NamedTuple, Self

_LARGEST = 2**64 - 1


class EntryId(NamedTuple):
    """Id of one entry of a stream."""

    ms: int
    seq: int

    @classmethod
    def parse(cls, text: bytes | str) -> Self:
        """Read an id such as `1700000000000-3`.

        Raises:
            ValueError: It is not an id.
        """
        plain = text.decode("ascii") if isinstance(text, bytes) else text
        ms, _, seq = plain.partition("-")
        return cls(int(ms), int(seq or 0))

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"

    @property
    def next(self) -> "EntryId":
        """The smallest id after this one; the largest id has none and returns itself."""
        if self.seq < _LARGEST:
            return EntryId(self.ms, self.seq + 1)
        return EntryId(self.ms + 1, 0) if self.ms < _LARGEST else self
