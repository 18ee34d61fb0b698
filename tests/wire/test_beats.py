"""Reading many beats at once: each under its client, whatever stands in the place of some."""

import pytest
import redis

from soulsgui.wire.beats import BeatReader, clients_of
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import MAX_BYTES


def test_beats_are_read_in_order_whatever_stands_in_the_place_of_some(
    redis_client: redis.Redis, keys: Keys
) -> None:
    reader = BeatReader(keys)
    redis_client.set(keys.beat("a"), b"one")
    redis_client.lpush(keys.beat("b"), b"a list")
    redis_client.set(keys.beat("d"), bytes(5 * MAX_BYTES))
    names = ["a", "b", "c", "d"]
    for _ in range(2):
        assert reader.read(redis_client, names) == [b"one", b"", b"", bytes(MAX_BYTES + 1)]
    redis_client.set(keys.beat("c"), b"two")
    assert reader.read(redis_client, ["c", "a"]) == [b"two", b"one"]
    assert reader.read(redis_client, []) == []
    assert redis_client.ping()


def test_after_a_broken_connection_no_answer_is_taken_for_another(
    redis_client: redis.Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = BeatReader(keys)
    for name in "abc":
        redis_client.set(keys.beat(name), name)
    link = redis_client.connection_pool.get_connection()
    redis_client.connection_pool.release(link)
    answers = iter([b"a"])

    def broken() -> bytes:
        try:
            return next(answers)
        except StopIteration:
            raise redis.ConnectionError("gone") from None

    with monkeypatch.context() as patched:
        patched.setattr(link, "read_response", broken)
        with pytest.raises(redis.ConnectionError):
            reader.read(redis_client, ["a", "b", "c"])
    assert reader.read(redis_client, ["c", "b"]) == [b"c", b"b"]


@pytest.mark.parametrize(("supervised", "expected"), [("1", ["listed"]), ("", ["beats", "listed"])])
def test_without_a_runner_everybody_who_beats_is_there(
    supervised: str,
    expected: list[str],
    redis_client: redis.Redis,
    keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOULSGUI_SUPERVISED", supervised)
    redis_client.hset(keys.clients, "listed", "{}")
    for name in ("beats", "no name", "con"):
        redis_client.set(keys.beat(name), "{}")
    redis_client.set(keys.grant("another"), "{}")
    assert clients_of(redis_client, keys) == expected
