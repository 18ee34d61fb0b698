"""What came of one client in one read: its chunks, apart from hellos and entries it took back. Pure."""

from collections.abc import Sequence
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
    odd = [
        at
        for at, found in enumerate(fields)
        if found is None or len(found) != 4 or found[0] != CHUNK_FIELD or found[2] != NUMBER_FIELD
    ]
    parts: list[Chunks | tuple[EntryId, bytes]] = []
    begin = 0
    for at in odd:
        _add_plain(parts, ids[begin:at], fields[begin:at])
        begin = at + 1
        named = as_dict(fields[at])
        if HELLO_FIELD in named:
            parts.append((EntryId.parse(ids[at]), named[HELLO_FIELD]))
        elif named:
            number = named.get(NUMBER_FIELD, b"")
            _add_plain(parts, [ids[at]], [[CHUNK_FIELD, named.get(CHUNK_FIELD, b""), NUMBER_FIELD, number]])
    _add_plain(parts, ids[begin:], fields[begin:])
    return parts


def _add_plain(
    parts: list[Chunks | tuple[EntryId, bytes]], ids: list[bytes], fields: Sequence[Fields]
) -> None:
    """Put entries that hold a chunk and its number behind what is there, with the chunks before them."""
    if not ids:
        return
    plain = [found for found in fields if found is not None]
    more = Chunks(ids, [found[1] for found in plain], _numbers([found[3] for found in plain]))
    last = parts[-1] if parts else None
    if isinstance(last, Chunks):
        last.ids += more.ids
        last.payloads += more.payloads
        last.numbers += more.numbers
    else:
        parts.append(more)


def _numbers(texts: list[bytes]) -> list[int | None]:
    if b"".join(texts).isdigit() and min(map(len, texts)) > 0 and max(map(len, texts)) <= _LONGEST_NUMBER:
        return list(map(int, texts))
    return [int(text) if text.isdigit() and len(text) <= _LONGEST_NUMBER else None for text in texts]
