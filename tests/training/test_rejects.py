"""The ring of refused chunks: bounded, fair to everybody, and kept over a restart."""

import redis

from soulsgui.training.rejects import KEPT, KEPT_OF_A_KIND, RejectRing
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.rejects import HEAD_BYTES, Rejects


def _ring(keys: Keys, run: str = "run-1") -> RejectRing:
    return RejectRing(keys, run, clock=lambda: 12.5)


def _kept(connection: redis.Redis, keys: Keys) -> list[tuple[str, str, str]]:
    data = connection.get(keys.rejects)
    found = Rejects.read(data if isinstance(data, bytes) else None)
    assert found is not None
    return [(one.client, one.reason, one.entry) for one in found.rejects]


def test_what_was_refused_is_written_with_its_beginning_alone(redis_client: redis.Redis, keys: Keys) -> None:
    ring = _ring(keys)
    ring.flush(redis_client, 0.0)
    assert not redis_client.exists(keys.rejects)
    ring.add("c", b"1-5", b"\x80pickle" + bytes(10_000), "unreadable", detail="not a\nchunk")
    ring.flush(redis_client, 1.0)
    data = redis_client.get(keys.rejects)
    found = Rejects.read(data if isinstance(data, bytes) else None)
    assert found is not None
    (one,) = found.rejects
    assert (one.client, one.entry, one.time, one.size) == ("c", "1-5", 12.5, 10_007)
    assert bytes.fromhex(one.head) == (b"\x80pickle" + bytes(100))[:HEAD_BYTES]
    assert one.detail == "not a chunk"


def test_it_is_written_only_now_and_then_and_only_when_it_has_changed(
    redis_client: redis.Redis, keys: Keys
) -> None:
    ring = _ring(keys)
    ring.add("c", b"1-1", b"x", "shape")
    ring.flush(redis_client, 1.0)
    ring.add("c", b"1-2", b"x", "shape")
    ring.flush(redis_client, 1.1)
    assert len(_kept(redis_client, keys)) == 1
    ring.flush(redis_client, 2.0)
    assert len(_kept(redis_client, keys)) == 2
    redis_client.delete(keys.rejects)
    ring.flush(redis_client, 9.0)
    assert not redis_client.exists(keys.rejects)


def test_one_that_fails_all_the_time_hides_nobody(redis_client: redis.Redis, keys: Keys) -> None:
    ring = _ring(keys)
    ring.add("quiet", b"1-0", b"x", "late")
    for number in range(1000):
        ring.add("loud", b"2-%d" % number, b"x", "shape")
    ring.flush(redis_client, 1.0)
    kept = _kept(redis_client, keys)
    assert kept[0] == ("quiet", "late", "1-0")
    assert kept[1:] == [("loud", "shape", f"2-{number}") for number in range(1000 - KEPT_OF_A_KIND, 1000)]


def test_it_is_bounded_in_all(redis_client: redis.Redis, keys: Keys) -> None:
    ring = _ring(keys)
    for number in range(10 * KEPT):
        ring.add(f"c{number}", b"1-%d" % number, bytes(1000), "shape", detail="x" * 10_000)
    assert len(ring) == KEPT
    ring.flush(redis_client, 1.0)
    assert [entry for *_, entry in _kept(redis_client, keys)] == [
        f"1-{n}" for n in range(9 * KEPT, 10 * KEPT)
    ]
    assert redis_client.strlen(keys.rejects) < 1000 * KEPT


def test_the_next_trainer_of_the_run_goes_on_with_it(redis_client: redis.Redis, keys: Keys) -> None:
    ring = _ring(keys)
    ring.add("c", b"1-1", b"x", "shape")
    ring.flush(redis_client, 1.0)
    following, other = _ring(keys), _ring(keys, "run-2")
    following.load(redis_client)
    other.load(redis_client)
    assert (len(following), len(other)) == (1, 0)
    for number in range(20):
        following.add("c", b"2-%d" % number, b"x", "shape")
    assert len(following) == KEPT_OF_A_KIND
    redis_client.delete(keys.rejects)
    redis_client.lpush(keys.rejects, "something else")
    following.load(redis_client)
    assert len(following) == KEPT_OF_A_KIND
