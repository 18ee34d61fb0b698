"""From streams to segments: what is read, taken over, granted, and who is held back."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import redis

from soulsgui.experience.segments import TERMINATED
from soulsgui.training.intake import reader as read_size
from soulsgui.training.intake.reader import PER_STREAM, READ_BYTES, FloodGuard, HelloCounter, ReadSize
from soulsgui.training.intake.sessions import LEFT, NEW_SESSION
from soulsgui.wire.group_reader import StreamPart
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import MAX_BYTES
from soulsgui.wire.messages.session import NO_SESSION, Grant
from tests.training.players import Player
from tests.training.taking import IntakeOfTest, joined
from tests.wire.chunks import chunk, segments

STEPS = segments().steps


def test_a_hello_is_answered_with_credits_that_are_renewed(trainer: IntakeOfTest, member: Player) -> None:
    grant = member.granted()
    assert (grant.status, grant.credit_bytes, grant.round) == ("accepted", 10**6, None)
    assert set(trainer.intake.eligible()) == {"c"}
    big = chunk(segments((8000, 8000)))
    for _ in range(2):
        member.send(big)
    trainer.turn()
    assert (trainer.used, trainer.rejected()) == ({"c": 2 * 16_000}, {})
    assert member.granted().credit_bytes == 10**6 + 2 * len(big)
    assert member.connection.xlen(member.keys.chunks("c")) == 0
    older = member.session
    member.hello()  # a newer session fences the older one
    trainer.turn()
    assert trainer.losses[-1] == ("c", NEW_SESSION)
    assert trainer.intake.sessions.by_client["c"].id == member.session > older


@pytest.mark.parametrize(
    ("error", "then"),
    [(redis.ConnectionError("lost"), "start_over"), (redis.OutOfMemoryError("full"), "refused")],
    ids=["lost", "refused"],
)
def test_a_hello_is_not_acknowledged_before_it_is_answered(
    trainer: IntakeOfTest, player: Player, monkeypatch: pytest.MonkeyPatch, error: Exception, then: str
) -> None:
    player.hello()
    player.beat()

    def fail(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(trainer.publisher, "tell_all", fail)
        with pytest.raises(type(error)):
            trainer.turn()
    assert player.grant() is None
    assert player.connection.xlen(player.keys.chunks("c")) == 1
    session = trainer.intake.sessions.by_client["c"]
    if then == "start_over":
        trainer.intake.start_over(player.connection)
    else:
        trainer.intake.refused()
    trainer.turn()
    assert player.granted().status == "accepted"
    assert trainer.intake.sessions.by_client["c"] is session  # read twice, begun once


def test_who_greets_another_run_comes_in_with_its_next_hello(trainer: IntakeOfTest, player: Player) -> None:
    player.hello(run_id="the one before", contract="other")
    player.beat()
    trainer.turn()
    assert player.grant() is None
    assert trainer.intake.sessions.by_client == {}
    assert player.connection.xlen(player.keys.chunks("c")) == 0
    joined(trainer, player)
    assert player.granted().status == "accepted"


@pytest.mark.allow_warnings
@pytest.mark.parametrize("hello", [b"\xff", b"{}", b"x" * (MAX_BYTES + 1), None], ids=repr)
def test_other_hellos_are_refused(trainer: IntakeOfTest, player: Player, hello: bytes | None) -> None:
    if hello is None:
        player.hello(contract="other")
    else:
        player.session = player.connection.xadd(player.keys.chunks("c"), {"hello": hello}).decode()
    trainer.turn()
    assert player.granted().status == "refused"
    player.send(chunk())
    trainer.turn()
    assert (trainer.used, trainer.rejected()) == ({}, {"not_admitted": 1})
    assert trainer.intake.eligible() == {}


def test_what_an_earlier_run_or_session_left_is_not_used(trainer: IntakeOfTest, member: Player) -> None:
    for _ in range(3):  # that run takes nothing any more
        member.send(chunk())
    trainer.intake.reader.read(member.connection, 0)  # some was delivered
    member.send(chunk())
    member.beat(leaving=True)
    following = IntakeOfTest(member.connection, member.keys)
    following.intake.begin(member.connection)
    member.send(chunk())
    member.hello()
    member.send(chunk())
    member.beat()
    following.turn()
    assert following.used == {"c": STEPS}
    assert following.rejected() == {"not_admitted": 1}, "what came while it was there, without a session"
    # A trainer that goes on with the newer session finds what an earlier one had not acknowledged.
    member.send(chunk())
    following.intake.reader.read(member.connection, 0)  # delivered, and then the trainer is killed
    member.hello()
    member.beat()
    member.granted_before()
    last = IntakeOfTest(member.connection, member.keys)
    last.intake.begin(member.connection)
    last.turn()
    assert (last.used, last.rejected()) == ({}, {"not_admitted": 1})
    assert last.intake.sessions.by_client["c"].id == member.session


def test_what_a_client_sent_before_it_left_is_taken_over(trainer: IntakeOfTest, member: Player) -> None:
    for _ in range(2 * PER_STREAM):
        member.send(chunk())
    member.beat(leaving=True)
    trainer.look_around()
    assert trainer.losses == [("c", NEW_SESSION)], "what it sent before may be all that is expected of it"
    assert trainer.intake.eligible() == {}
    trainer.turn()
    assert trainer.used == {"c": 2 * PER_STREAM * STEPS}
    assert trainer.losses == [("c", NEW_SESSION), ("c", LEFT)], "nothing more is expected of it"
    assert trainer.intake.sessions.by_client == {}, "all of it was read"
    member.send(chunk())
    trainer.turn()
    assert trainer.rejected() == {"not_admitted": 1}, "it has said that nothing would come"
    joined(trainer, member)
    member.send(chunk())
    trainer.turn()
    assert trainer.used == {"c": (2 * PER_STREAM + 1) * STEPS}, "it is back and plays on"
    assert (set(trainer.intake.eligible()), trainer.rejected()) == ({"c"}, {"not_admitted": 1})


def test_forged_numbers_and_entries_taken_back_are_none(trainer: IntakeOfTest, member: Player) -> None:
    forged = [b"-1", b"1e3", b"x", b"9" * 30, b"", b"\xd9\xa3"]
    for number in forged:
        member.connection.xadd(member.keys.chunks("c"), {"c": chunk(), "n": number})
        trainer.turn()
    member.send(chunk())
    trainer.intake.reader.read(trainer.connection, 1)
    member.connection.xtrim(member.keys.chunks("c"), maxlen=0, approximate=False)
    trainer.intake.refused()
    trainer.turn()
    assert (trainer.used, trainer.rejected()) == ({"c": len(forged) * STEPS}, {})
    assert trainer.intake.sessions.refusals().missing == 0


@pytest.mark.allow_warnings
def test_who_makes_its_stream_into_something_else_is_cut_off(trainer: IntakeOfTest, member: Player) -> None:
    stream, session = member.keys.chunks("c"), trainer.intake.sessions.by_client["c"]
    member.connection.set(stream, "mine")
    trainer.turn()
    assert trainer.rejected() == {"wrong_type": 1}
    assert trainer.losses[-1] == ("c", "its stream can't be read")
    assert trainer.intake.cut_off(member.connection, "c", "it held too much") == 0
    grant = member.granted()
    assert (grant.status, grant.reason) == ("quarantined", "it held too much")
    assert member.connection.exists(stream) == 0
    for _ in range(2):
        member.send(chunk())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trainer.intake.reader, "acknowledge_parts", lambda *_: trainer.intake.refused())
        trainer.turn()  # read three times, and never acknowledged
    trainer.turn()
    assert trainer.rejected() == {"wrong_type": 1, "not_admitted": 2}, "what comes again is counted once"
    assert (session.entries, session.size) == (2, 2 * len(chunk()))
    assert member.connection.xlen(stream) == 0


@pytest.mark.allow_warnings
def test_of_who_is_cut_off_what_its_session_sent_counts(trainer: IntakeOfTest, player: Player) -> None:
    player.hello()
    earlier = player.session
    player.send(chunk())  # of a session before, left over by an earlier trainer
    player.hello()
    player.send(chunk())  # counted in the beat
    player.beat(sent_chunks=1, sent_bytes=len(chunk()))
    assert player.session > earlier
    player.granted_before(status="quarantined", credit_entries=9, credit_bytes=10**6)
    trainer.intake.begin(player.connection)
    player.send(chunk(), 1)
    trainer.turn()
    session = trainer.intake.sessions.by_client["c"]
    assert (session.id, session.status) == (player.session, "quarantined")
    assert (session.entries, session.size) == (2, 2 * len(chunk()))
    assert trainer.rejected() == {"not_admitted": 3}


@pytest.mark.parametrize("changed", [{"leaving": True}, {"run_id": "the one before"}], ids=str)
def test_a_session_that_is_over_is_asked_for_once(
    trainer: IntakeOfTest, player: Player, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    player.session = "1-0"
    player.beat(**changed)
    player.granted_before(status="quarantined", reason="flood")
    asked: list[list[str]] = []
    mget = player.connection.mget
    monkeypatch.setattr(trainer.connection, "mget", lambda names: asked.append(names) or mget(names))
    for _ in range(3):
        trainer.turn()
    assert asked == [[player.keys.grant("c")]]
    player.hello()
    player.beat()
    trainer.turn()
    assert player.granted().reason == "flood", "who was cut off stays so"


MOST = 200


def brought(client: str, count: int, size: int) -> StreamPart:
    return StreamPart(client, [b"1-1"] * count, [[b"", bytes(size), b"", b""]] * count)


@pytest.mark.parametrize("size", [500, 3_300, 13_000, 200_000])
def test_reads_of_a_backlog_fit_and_slow_clients_do_not_shorten_those_of_a_fast_one(size: int) -> None:
    read = ReadSize()
    assert read.next(16, MOST) * 16 * 16384 <= READ_BYTES, "small, as nothing is known"
    for _ in range(3):
        read.note([brought(str(n), read.next(16, MOST), size) for n in range(16)])
    assert read.next(16, MOST) == min(MOST, max(8, READ_BYTES // (16 * size)))
    read = ReadSize()
    count = read.next(1001, MOST)
    assert count == 8
    read.note([brought("fast", count, 3_300), *(brought(str(n), 1, 3_300) for n in range(1000))])
    assert (read.full, read.next(1001, MOST)) == (1, MOST)
    read.note([])  # without a backlog
    assert read.next(2, MOST) == MOST
    read.note([StreamPart("a", [b"1-1"] * MOST, [None] * MOST)])  # trimmed entries
    assert read.next(2, 3) == 3


def test_who_begins_session_after_session_is_found() -> None:
    hellos = HelloCounter()
    assert not any(hellos.too_many("crashing", float(second)) for second in range(200))
    assert [hellos.too_many("flooding", 0.01 * n) for n in range(60)].count(True) == 10
    assert not hellos.too_many("flooding", 60.0)


def test_a_backlog_of_large_entries_comes_in_several_reads(
    trainer: IntakeOfTest, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_size, "READ_BYTES", 100_000)
    joined(trainer, player)
    for number in range(40):
        player.connection.xadd(player.keys.chunks("c"), {b"c": bytes(20_000), b"n": number})
    sizes = []
    note = trainer.intake._read_size.note

    def watched(parts: list[StreamPart]) -> None:
        sizes.append(sum(len(part.ids) for part in parts))
        note(parts)

    monkeypatch.setattr(trainer.intake._read_size, "note", watched)
    for _ in range(6):
        trainer.intake.take(trainer.connection, 0)
    assert sum(sizes) == 40
    assert max(sizes[1:]) <= 8 < 40 == 5 * 8
    assert trainer.intake.busy == 0


def test_a_stream_that_holds_more_than_all_may_is_a_flood(redis_client: redis.Redis, keys: Keys) -> None:
    guard = FloodGuard(keys, 2**20)
    for client, entries in (("a", 1), ("b", 8)):
        for _ in range(entries):
            redis_client.xadd(keys.chunks(client), {"c": bytes(2**19)})
    redis_client.set(keys.chunks("d"), "no stream")
    found = guard.look(redis_client, ["a", "b", "c", "d"])
    assert set(found) == {"b"}
    assert found["b"] > 4 * 2**20
    assert guard.sweep(redis_client, ["b", "c", "d"]) == {"b": 8}
    assert guard.look(redis_client, ["a", "b", "c", "d"]) == {}
    assert redis_client.exists(keys.chunks("d")) == 0
    assert FloodGuard(keys, 2**40).look(redis_client, ["a", "b"]) == {}


def test_a_flood_behind_small_entries_is_found(redis_client: redis.Redis, keys: Keys) -> None:
    for _ in range(1000):
        redis_client.xadd(keys.chunks("a"), {"c": b""})
    for _ in range(8):
        redis_client.xadd(keys.chunks("a"), {"c": bytes(2**19)})
    assert set(FloodGuard(keys, 2**20).look(redis_client, ["a"])) == {"a"}


@pytest.mark.allow_warnings
@pytest.mark.parametrize("restarted", [False, True])
def test_a_flooding_stream_is_swept_until_it_is_released(
    trainer: IntakeOfTest, member: Player, restarted: bool
) -> None:
    for _ in range(3):
        member.connection.xadd(member.keys.chunks("c"), {"c": bytes(2**20)})
    trainer.turn()
    assert ("c", "quarantined") in trainer.losses
    grant = member.granted()
    assert (grant.status, "floods the server" in grant.reason) == ("quarantined", True)
    for _ in range(5):
        member.send(chunk())
    trainer.turn()
    assert member.connection.xlen(member.keys.chunks("c")) == 1
    assert trainer.used == {}
    assert trainer.rejected()["not_admitted"] >= 4
    if restarted:
        member.hello()
        member.beat()
        trainer.turn()
        trainer.turn()
    assert trainer.intake.release("c")
    trainer.turn()
    trainer.turn()
    grant = member.granted()
    assert (grant.session, grant.status) == (member.session, "accepted")
    trainer.used.clear()
    member.send(chunk())
    trainer.turn()
    assert trainer.used == {"c": segments().steps}
    assert not trainer.intake.release("c")


@pytest.mark.allow_warnings
def test_who_only_fails_is_cut_off_until_it_is_released(trainer: IntakeOfTest, member: Player) -> None:
    for _ in range(60):
        member.send(b"garbage")
    member.send(chunk())
    trainer.turn()
    assert (member.granted().status, "unreadable" in member.granted().reason) == ("quarantined", True)
    assert trainer.losses[-1] == ("c", "quarantined")
    assert (trainer.used, trainer.rejected()) == ({}, {"unreadable": 50, "not_admitted": 11})
    assert trainer.intake.eligible() == {}
    member.beat(leaving=True)
    trainer.turn()
    assert trainer.intake.sessions.by_client == {}
    member.hello()  # the next process, under the same name
    member.beat()
    trainer.turn()
    assert member.granted().status == "quarantined"
    member.beat(leaving=True)
    trainer.turn()
    assert trainer.intake.release("c")
    trainer.turn()
    assert member.connection.get(member.keys.grant("c")) is None
    joined(trainer, member)
    assert member.granted().status == "accepted"


def test_who_has_no_session_is_cut_off_in_its_grant_also_by_the_next_trainer_until_it_is_released(
    trainer: IntakeOfTest, player: Player
) -> None:
    trainer.turn()
    assert trainer.intake.cut_off(player.connection, "c", "it held too much") == 0
    following = IntakeOfTest(player.connection, player.keys)
    following.intake.begin(player.connection)
    told = player.connection.get(player.keys.grant("c"))
    grant = Grant.read(told)
    assert grant is not None
    assert (grant.session, grant.status, grant.reason) == (NO_SESSION, "quarantined", "it held too much")
    joined(following, player)
    assert player.granted().status == "quarantined"
    player.connection.set(player.keys.grant("c"), told)
    last = IntakeOfTest(player.connection, player.keys)
    player.connection.delete(player.keys.beat("c"))
    last.intake.begin(player.connection)
    assert last.intake.release("c")
    last.turn()
    assert player.connection.get(player.keys.grant("c")) is None


@pytest.mark.allow_warnings
@pytest.mark.parametrize("floods", [False, True])
def test_whoever_is_invited_anew_comes_in_whatever_another_did_under_its_name(
    trainer: IntakeOfTest, player: Player, floods: bool
) -> None:
    connection, chunks = trainer.connection, player.keys.chunks("c")
    player.hello()
    hello = connection.xrange(chunks)[-1][1]
    last = connection.xadd(chunks, hello, id=f"{2**64 - 1}-0")
    player.session = last.decode()
    player.beat()
    trainer.turn()
    if floods:
        for _ in range(60):
            connection.xadd(chunks, hello)
        trainer.turn()
    else:
        trainer.intake.cut_off(connection, "c", "it held too much")
    assert "quarantined" in str(connection.get(player.keys.grant("c")))
    connection.unlink(*player.keys.of_client("c"))  # as the runner does at a reissue
    trainer.turn()
    joined(trainer, player)
    assert player.granted().status == "accepted"
    player.send(chunk())
    trainer.turn()
    assert trainer.used["c"]


@pytest.mark.allow_warnings
@pytest.mark.parametrize("how", ["reissued", "off the list"])
@pytest.mark.parametrize("released", [False, True])
def test_whoever_is_invited_anew_is_measured_by_what_it_sends_itself(
    trainer: IntakeOfTest, member: Player, how: str, released: bool
) -> None:
    own = joined(trainer, Player(member.connection, member.keys, "client-1"))
    usual = segments((16, 16), flags=np.full(2, TERMINATED, np.uint8))
    large = replace(usual, reward=usual.reward * 1e6)
    own.send(chunk(usual))
    member.send(chunk(large))
    trainer.turn()
    assert member.granted().status == "quarantined"
    if released:
        trainer.intake.release("c")
        member.send(chunk(large))
        trainer.turn()
        assert trainer.used["c"] == large.steps
    trainer.connection.unlink(*member.keys.of_client("c"))  # as the runner does at a reissue
    if how == "off the list":
        trainer.connection.hdel(member.keys.clients, "c", "client-1")  # of which is known how it plays
        trainer.turn()
    newcomer = joined(trainer, Player(member.connection, member.keys))
    trainer.used.clear()
    newcomer.send(chunk(large if released else usual))
    trainer.turn()
    assert (newcomer.granted().status, trainer.used["c"]) == (
        ("quarantined", 0) if released else ("accepted", usual.steps)
    )
    assert trainer.intake.ingest.arrived.told(["c"])["c"].episodes == 2, "of those of another nothing is left"


def test_who_says_hello_on_a_stream_begun_anew_is_answered_at_once(
    trainer: IntakeOfTest, member: Player
) -> None:
    member.connection.unlink(*member.keys.of_client("c"))
    member.hello()
    for _ in range(2):  # the group is made, then the hello read; nothing looks around meanwhile
        trainer.intake.take(member.connection, 0)
    assert member.granted().status == "accepted"


def test_a_session_whose_hello_the_server_lost_is_over(trainer: IntakeOfTest, member: Player) -> None:
    chunks = member.keys.chunks("c")
    member.hello()
    hello = member.connection.xrange(chunks)[-1][1]
    trainer.turn()
    member.connection.delete(chunks)  # what was published is there: it was published again since
    member.session = member.connection.xadd(chunks, hello, id="1-1").decode()  # its clock has gone back
    trainer.intake.start_over(member.connection)
    trainer.turn()
    assert trainer.intake.sessions.by_client["c"].id == "1-1"
    member.send(chunk())
    trainer.turn()
    assert trainer.used["c"] == STEPS
