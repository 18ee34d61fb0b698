"""How much is read at once: no more than the processor's caches hold, whatever waits. Pure."""

from collections.abc import Sequence

from soulsgui.wire.group_reader import Part

# What is read is copied several times on its way into the memory of the learner. As long as that stays in
# the caches, and the same memory serves for the next read, it costs little beside reading.
READ_BYTES = 4 * 2**20
_LEAST_ENTRIES = 8
_UNKNOWN_ENTRY_BYTES = 16384.0


class ReadSize:
    """Says how many entries to read of each stream.

    Streams that were read to their end don't count: a thousand slow clients must not make every read of a
    fast one short.

    Attributes:
        entries: Most entries that the last read could bring of each stream.
        full: Streams that brought so many, and may have more waiting; None before the first read.
    """

    def __init__(self) -> None:
        self.entries = _LEAST_ENTRIES
        self.full: int | None = None
        self._entry_bytes = _UNKNOWN_ENTRY_BYTES

    def next(self, streams: int, most: int) -> int:
        """Return how many entries to read next of each stream, at least 1.

        Args:
            streams: Streams that are read.
            most: Never more than this.
        """
        sharing = streams if self.full is None else self.full
        fitting = int(READ_BYTES / (self._entry_bytes * sharing)) if sharing else most
        self.entries = max(1, min(most, max(fitting, _LEAST_ENTRIES)))
        return self.entries

    def note(self, parts: Sequence[Part]) -> None:
        """Take note of what the last read brought."""
        self.full = sum(len(part.ids) >= self.entries for part in parts)
        newest = [sum(map(len, part.fields[-1] or ())) for part in parts]
        if any(newest):
            self._entry_bytes = sum(newest) / len(newest)
