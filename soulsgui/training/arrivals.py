"""What came of one client in one read: its chunks, apart from hellos and entries it took back. Pure."""

from dataclasses import dataclass, field

from soulsgui.training.session import Session
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.group_reader import Fields, as_dict
from soulsgui.wire.messages.chunk import NUMBER_FIELD
from soulsgui.wire.messages.session import CHUNK_FIELD, HELLO_FIELD

_LONGEST_NUMBER = 18


@dataclass
class Chunks:
    """Chunks of one stream, in their order.

    Attributes:
        ids: Id of each entry.
        payloads: The chunks.
        numbers: Number of each within its session, None where there is none that can be read.
    """

    ids: list[bytes] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    numbers: list[int | None] = field(default_factory=list)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.ids)

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(map(len, self.payloads))

    def after(self, newest: EntryId) -> "Chunks":
        """Return those that came after an entry."""
        if not self.ids or EntryId.parse(self.ids[0]) > newest:
            return self
        first = sum(EntryId.parse(entry) <= newest for entry in self.ids)
        return Chunks(self.ids[first:], self.payloads[first:], self.numbers[first:])


@dataclass(frozen=True)
class Arrivals:
    """Chunks of one session that may send."""

    session: Session
    chunks: Chunks

    def part(self, begin: int, end: int) -> "list[Arrivals]":
        """Return the chunks from `begin` up to `end` as arrivals, if there are any."""
        if (begin, end) == (0, len(self.chunks)):
            return [self]
        here, chunks = slice(begin, end), self.chunks
        part = Chunks(chunks.ids[here], chunks.payloads[here], chunks.numbers[here])
        return [Arrivals(self.session, part)] if len(part) else []


def sort_out(ids: list[bytes], fields: list[Fields]) -> list[Chunks | tuple[EntryId, bytes]]:
    """Return what stands in the entries of one stream: chunks together, each hello (id, payload) alone."""
    if all(found is not None and len(found) == 4 and found[0] == CHUNK_FIELD for found in fields):
        plain = [found for found in fields if found is not None]
        if all(found[2] == NUMBER_FIELD for found in plain):
            return [Chunks(ids, [found[1] for found in plain], _numbers([found[3] for found in plain]))]
    parts: list[Chunks | tuple[EntryId, bytes]] = []
    for entry, found in zip(ids, fields, strict=True):
        named = as_dict(found)
        if HELLO_FIELD in named:
            parts.append((EntryId.parse(entry), named[HELLO_FIELD]))
        elif named:
            if not parts or not isinstance(parts[-1], Chunks):
                parts.append(Chunks())
            last = parts[-1]
            assert isinstance(last, Chunks)
            last.ids.append(entry)
            last.payloads.append(named.get(CHUNK_FIELD, b""))
            last.numbers += _numbers([named.get(NUMBER_FIELD, b"")])
    return parts


def _numbers(texts: list[bytes]) -> list[int | None]:
    if b"".join(texts).isdigit() and min(map(len, texts)) > 0 and max(map(len, texts)) <= _LONGEST_NUMBER:
        return list(map(int, texts))
    return [int(text) if text.isdigit() and len(text) <= _LONGEST_NUMBER else None for text in texts]
