"""However much waits, one read brings about as much as the processor's caches hold."""

import pytest
import redis

from soulsgui.training import read_size
from soulsgui.training.read_size import READ_BYTES, ReadSize
from soulsgui.wire.group_reader import Part
from tests.training.players import Player
from tests.training.taking import IntakeOfTest, joined

MOST = 200


def brought(client: str, count: int, size: int) -> Part:
    return Part(client, [b"1-1"] * count, [[b"", bytes(size), b"", b""]] * count)


def test_the_first_read_is_small_as_nothing_is_known_of_the_entries() -> None:
    assert ReadSize().next(16, MOST) * 16 * 16384 <= READ_BYTES
    assert ReadSize().next(1000, MOST) == 8


@pytest.mark.parametrize("size", [500, 3_300, 13_000, 200_000])
def test_reads_of_a_backlog_fit(size: int) -> None:
    size_of_reads = ReadSize()
    for _ in range(3):
        count = size_of_reads.next(16, MOST)
        size_of_reads.note([brought(str(n), count, size) for n in range(16)])
    count = size_of_reads.next(16, MOST)
    assert count == min(MOST, max(8, READ_BYTES // (16 * size)))


def test_slow_clients_do_not_shorten_the_reads_of_a_fast_one() -> None:
    size_of_reads = ReadSize()
    count = size_of_reads.next(1001, MOST)
    size_of_reads.note([brought("fast", count, 3_300), *(brought(str(n), 1, 3_300) for n in range(1000))])
    assert size_of_reads.full == 1
    assert size_of_reads.next(1001, MOST) == MOST


def test_without_a_backlog_and_after_trimmed_entries_as_much_as_is_wanted() -> None:
    size_of_reads = ReadSize()
    size_of_reads.next(2, MOST)
    size_of_reads.note([])
    assert size_of_reads.next(2, MOST) == MOST
    size_of_reads.note([Part("a", [b"1-1"] * MOST, [None] * MOST)])
    assert 1 <= size_of_reads.next(2, 3) == 3


def test_a_backlog_of_large_entries_comes_in_several_reads(
    trainer: IntakeOfTest, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_size, "READ_BYTES", 100_000)
    joined(trainer, player)
    pipeline = player.connection.pipeline(transaction=False)
    for number in range(40):
        pipeline.xadd(player.keys.chunks("c"), {b"c": bytes(20_000), b"n": number})
    pipeline.execute()
    sizes = []
    reader = trainer.intake.reader
    read = reader.read_parts

    def watched(connection: redis.Redis, block_ms: int) -> list[Part]:
        parts = read(connection, block_ms)
        sizes.append(sum(len(part.ids) for part in parts))
        return parts

    monkeypatch.setattr(reader, "read_parts", watched)
    for _ in range(6):
        trainer.intake.take(trainer.connection, 0)
    assert sum(sizes) == 40
    assert max(sizes[1:]) <= 8 < 40 == 5 * 8
    assert trainer.intake.busy == 0
