"""Commands as bytes: what the server reads is the same, and a large value is not copied."""

import pytest
import redis

from soulsgui.wire.packing import LARGE_BYTES, CommandPacker


@pytest.mark.parametrize("size", [0, LARGE_BYTES, LARGE_BYTES + 1, 300_000])
def test_a_large_value_is_handed_on_as_it_is_between_what_frames_it(size: int) -> None:
    value = bytes(size)
    pieces = CommandPacker().pack("SET", "key", value, 7)
    framed = b"*4\r\n$3\r\nSET\r\n$3\r\nkey\r\n$%d\r\n" % size
    assert b"".join(pieces) == framed + value + b"\r\n$1\r\n7\r\n"
    assert any(piece is value for piece in pieces) == (size > LARGE_BYTES)


def test_commands_of_two_words_are_packed_as_two() -> None:
    assert b"".join(CommandPacker().pack("CLIENT INFO")) == b"*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n"


def test_large_values_come_back_from_the_server_also_out_of_a_transaction(redis_client: redis.Redis) -> None:
    values = {f"packed:{size}": bytes([size % 251]) * size for size in (10, LARGE_BYTES + 1, 2_000_000)}
    with redis_client.pipeline(transaction=True) as pipeline:
        for name, value in values.items():
            pipeline.set(name, value, ex=60)
        pipeline.execute()
    assert {name: redis_client.get(name) for name in values} == values
