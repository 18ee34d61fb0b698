from collections.abc import Iterable
from typing import cast
from unittest.mock import patch

import pytest
import redis

from soulsgui.wire.group_reader import Entry, GroupReader
from soulsgui.wire.keys import TRAINER_GROUP, Keys


def _add(connection: redis.Redis, keys: Keys, client: str, *payloads: str, id: str = "*") -> None:
    for payload in payloads:
        connection.xadd(keys.chunks(client), {"c": payload}, id=id)


def _reader(connection: redis.Redis, keys: Keys, *clients: str, entries: int = 200) -> GroupReader:
    made = GroupReader(TRAINER_GROUP, keys.chunks, lambda streams: entries // streams)
    made.set_clients(connection, clients)
    return made


def _said(entries: Iterable[Entry]) -> list[str]:
    return sorted(f"{entry.client}{entry.fields[b'c'].decode()}" for entry in entries)


def _take_all(reader: GroupReader, connection: redis.Redis, acknowledge: bool = True) -> list[str]:
    found: list[Entry] = []
    for _ in range(4):
        entries = reader.read(connection, 0)
        if entries and acknowledge:
            reader.acknowledge(connection, entries)
        found += entries
    return _said(found)


def _pending(connection: redis.Redis, keys: Keys, client: str) -> int:
    info = cast("dict[str, int]", connection.xpending(keys.chunks(client), TRAINER_GROUP))
    return info["pending"]


def test_acknowledged_entries_are_off_the_stream_and_marked_and_later_ones_stay(
    redis_client: redis.Redis, keys: Keys
) -> None:
    sent = sorted(str(number) for number in range(90))
    _add(redis_client, keys, "a", *sent)  # before there is a group
    last = redis_client.xinfo_stream(keys.chunks("a"))["last-generated-id"]
    reader = _reader(redis_client, keys, "a")
    entries = reader.read(redis_client, 0) or reader.read(redis_client, 0)
    _add(redis_client, keys, "a", "later")
    reader.acknowledge(redis_client, entries)
    assert _said(entries) == sorted(f"a{text}" for text in sent)
    assert redis_client.xlen(keys.chunks("a")) == 1
    assert _pending(redis_client, keys, "a") == 0
    assert reader.high_water == {"a": last.decode()}
    assert _take_all(reader, redis_client) == ["alater"]
    _add(redis_client, keys, "a", "last", id=f"{10**15}-{2**64 - 1}")  # the largest of its millisecond
    assert _take_all(reader, redis_client) == ["alast"]
    assert redis_client.xlen(keys.chunks("a")) == 0
    assert _take_all(reader, redis_client) == []


def test_a_read_takes_so_many_of_each_stream_and_waits_for_new_ones(
    redis_client: redis.Redis, keys: Keys
) -> None:
    reader = _reader(redis_client, keys, "a", "b", entries=4)
    _take_all(reader, redis_client)
    _add(redis_client, keys, "a", "1", "2", "3")
    _add(redis_client, keys, "b", "1", "2", "3")
    assert _said(reader.read(redis_client, 0)) == ["a1", "a2", "b1", "b2"]
    assert _said(reader.read(redis_client, 0)) == ["a3", "b3"]
    asked = []
    execute = redis_client.execute_command
    redis_client.execute_command = lambda *words: asked.append(words) or execute(*words)  # type: ignore
    assert reader.read(redis_client, 1) == reader.read(redis_client, 0) == []
    assert [b"BLOCK" in words or "BLOCK" in words for words in asked] == [True, False]


def test_an_entry_that_was_trimmed_before_it_was_acknowledged_has_no_fields(
    redis_client: redis.Redis, keys: Keys
) -> None:
    reader = _reader(redis_client, keys, "a")
    _take_all(reader, redis_client)
    _add(redis_client, keys, "a", "1")
    (entry,) = reader.read(redis_client, 0)
    redis_client.xtrim(keys.chunks("a"), maxlen=0)
    reader.unsettle()
    assert reader.read(redis_client, 0) == [entry._replace(fields={})]


def test_what_a_killed_reader_had_not_acknowledged_is_read_first(
    redis_client: redis.Redis, keys: Keys
) -> None:
    killed = _reader(redis_client, keys, "a", "b")
    _take_all(killed, redis_client)
    _add(redis_client, keys, "a", "1", "2")
    assert _take_all(killed, redis_client, acknowledge=False) == ["a1", "a2"]
    assert killed.up_to_date
    killed.unsettle()
    assert _said(killed.read(redis_client, 0)) == ["a1", "a2"]
    assert not killed.up_to_date
    _add(redis_client, keys, "a", "3")
    _add(redis_client, keys, "b", "1")
    following = _reader(redis_client, keys, "a", "b")
    assert _said(following.read(redis_client, 0)) == ["a1", "a2"]
    again = _reader(redis_client, keys, "a", "b")
    assert _take_all(again, redis_client) == ["a1", "a2", "a3", "b1"]
    assert _pending(redis_client, keys, "a") == 0


@pytest.mark.allow_warnings
def test_a_stream_of_another_type_is_left_out_and_the_others_go_on(
    redis_client: redis.Redis, keys: Keys
) -> None:
    reader = _reader(redis_client, keys, "a", "b", "c")
    _take_all(reader, redis_client)
    redis_client.set(keys.chunks("b"), "mine now")
    _add(redis_client, keys, "a", "1")
    _add(redis_client, keys, "c", "1")
    assert _take_all(reader, redis_client) == ["a1", "c1"]
    assert reader.take_unusable() == ["b"]
    for _ in range(3):
        reader.set_clients(redis_client, ["a", "b", "c"])
    assert reader.take_unusable() == []  # said once
    reader.set_clients(redis_client, ["a", "c"])
    reader.set_clients(redis_client, ["a", "b", "c"])
    assert reader.take_unusable() == ["b"]  # and again when its client was gone meanwhile
    redis_client.delete(keys.chunks("b"))
    _add(redis_client, keys, "b", "1")
    reader.set_clients(redis_client, ["a", "b", "c"])
    assert _take_all(reader, redis_client) == ["b1"]


@pytest.mark.allow_warnings
def test_a_bad_stream_does_not_hide_what_others_have_pending(redis_client: redis.Redis, keys: Keys) -> None:
    killed = _reader(redis_client, keys, "a", "b", "c")
    _add(redis_client, keys, "a", "1")
    _add(redis_client, keys, "c", "1")
    _take_all(killed, redis_client, acknowledge=False)
    following = _reader(redis_client, keys, "a", "b", "c")
    redis_client.set(keys.chunks("b"), "mine now")
    never_usable = _reader(redis_client, keys, "a", "b", "c")
    assert never_usable.take_unusable() == ["b"]
    assert _take_all(following, redis_client) == ["a1", "c1"]
    assert _pending(redis_client, keys, "a") == _pending(redis_client, keys, "c") == 0


@pytest.mark.parametrize("gone", ["group", "stream"])
def test_a_missing_group_is_made_anew(redis_client: redis.Redis, keys: Keys, gone: str) -> None:
    reader = _reader(redis_client, keys, "a", "b")
    _take_all(reader, redis_client)
    if gone == "group":
        redis_client.xgroup_destroy(keys.chunks("a"), TRAINER_GROUP)
    else:
        redis_client.delete(keys.chunks("a"))
    _add(redis_client, keys, "a", "1")
    _add(redis_client, keys, "b", "1")
    assert _take_all(reader, redis_client) == ["a1", "b1"]
    assert reader.take_unusable() == []
    assert reader.take_begun_anew() == ["a"]


def test_a_refused_acknowledgement_brings_the_entries_again(redis_client: redis.Redis, keys: Keys) -> None:
    reader = _reader(redis_client, keys, "a", "b")
    _take_all(reader, redis_client)
    _add(redis_client, keys, "a", "1")
    _add(redis_client, keys, "b", "1")
    entries = reader.read(redis_client, 0)
    aborted = patch.object(redis.client.Pipeline, "execute", side_effect=redis.exceptions.ExecAbortError)
    with aborted, pytest.raises(redis.exceptions.ExecAbortError):
        reader.acknowledge(redis_client, entries)
    assert sorted(reader.read(redis_client, 0)) == sorted(entries)
    redis_client.rename(keys.chunks("a"), keys.chunks("elsewhere"))
    redis_client.set(keys.chunks("a"), "in between")
    reader.acknowledge(redis_client, entries)
    assert set(reader.high_water) == {"b"}
    redis_client.rename(keys.chunks("elsewhere"), keys.chunks("a"))
    assert _take_all(reader, redis_client) == ["a1"]


def test_clients_that_are_gone_are_forgotten(redis_client: redis.Redis, keys: Keys) -> None:
    reader = _reader(redis_client, keys, "a", "b")
    assert not reader.idle
    _add(redis_client, keys, "a", "1")
    _take_all(reader, redis_client)
    reader.set_clients(redis_client, ["b"])
    assert reader.high_water == {}
    _add(redis_client, keys, "a", "2")
    assert _take_all(reader, redis_client) == []
    reader.set_clients(redis_client, [])
    assert reader.idle
    assert reader.read(redis_client, 1000) == []
