"""From streams to segments: sessions, refusals, quarantine."""

from typing import Any

import numpy as np
import pytest
import redis

from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import MAX_BYTES
from soulsgui.wire.messages.session import Grant
from tests.training.players import Player
from tests.training.taking import IntakeOfTest, joined
from tests.wire.chunks import chunk, segments

STEPS = segments().steps


def test_a_hello_is_answered_with_credits(trainer: IntakeOfTest, player: Player) -> None:
    joined(trainer, player)
    grant = player.grant()
    assert grant is not None
    assert (grant.status, grant.credit_bytes, grant.round) == ("accepted", 10**6, None)
    assert set(trainer.intake.eligible()) == {"c"}


def test_chunks_of_a_session_are_taken_over(trainer: IntakeOfTest, player: Player) -> None:
    joined(trainer, player)
    player.send(chunk())
    player.send(chunk())
    trainer.turn()
    assert trainer.used == {"c": 2 * STEPS}
    assert trainer.rejected() == {}
    assert player.connection.xlen(player.keys.chunks("c")) == 0


def test_a_hello_is_not_acknowledged_before_it_is_answered(
    trainer: IntakeOfTest, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    player.hello()
    player.beat()
    tell = trainer.publisher.tell_all

    def fail(*_: Any) -> None:
        raise redis.ConnectionError("lost")

    monkeypatch.setattr(trainer.publisher, "tell_all", fail)
    with pytest.raises(redis.ConnectionError):
        trainer.turn()
    assert player.grant() is None
    assert player.connection.xlen(player.keys.chunks("c")) == 1
    monkeypatch.setattr(trainer.publisher, "tell_all", tell)
    session = trainer.intake.sessions.by_client["c"]
    trainer.intake.start_over()
    trainer.turn()
    assert player.grant() is not None
    assert trainer.intake.sessions.by_client["c"] is session  # read twice, begun once


def test_a_refused_grant_comes_again_with_its_hello(
    trainer: IntakeOfTest, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined(trainer, player)
    player.hello()
    with monkeypatch.context() as patched:

        def refuse(*_: Any) -> None:
            raise redis.OutOfMemoryError("full")

        patched.setattr(trainer.publisher, "tell_all", refuse)
        with pytest.raises(redis.OutOfMemoryError):
            trainer.turn()
    trainer.intake.unsettle()
    trainer.turn()
    assert player.grant() is not None


def test_a_client_that_greets_another_run_is_not_refused_and_comes_in_with_its_next_hello(
    trainer: IntakeOfTest, player: Player
) -> None:
    player.hello(run_id="the one before", contract="other")
    player.beat()
    trainer.turn()
    assert player.grant() is None
    assert trainer.intake.sessions.by_client == {}
    assert player.connection.xlen(player.keys.chunks("c")) == 0
    joined(trainer, player)
    grant = player.grant()
    assert grant is not None
    assert grant.status == "accepted"


@pytest.mark.allow_warnings
def test_another_contract_is_refused_with_its_chunks(trainer: IntakeOfTest, player: Player) -> None:
    player.hello(contract="other")
    trainer.turn()
    grant = player.grant()
    assert grant is not None
    assert grant.status == "refused"
    player.send(chunk())
    trainer.turn()
    assert (trainer.used, trainer.rejected()) == ({}, {"not_admitted": 1})
    assert trainer.intake.eligible() == {}


@pytest.mark.allow_warnings
def test_a_hello_that_can_not_be_read_is_refused(trainer: IntakeOfTest, player: Player) -> None:
    for hello in (b"\xff", b"{}", b"x" * (MAX_BYTES + 1)):
        entry = player.connection.xadd(player.keys.chunks("c"), {"hello": hello})
        player.session = entry.decode()
        trainer.turn()
        grant = player.grant()
        assert grant is not None
        assert grant.status == "refused"


def test_a_newer_session_fences_the_older_one(trainer: IntakeOfTest, player: Player) -> None:
    joined(trainer, player)
    older = player.session
    player.hello()
    trainer.turn()
    assert trainer.dropped_out_of[-1] == ("c", "began a new session")
    assert player.session > older
    assert trainer.intake.sessions.by_client["c"].id == player.session


def test_chunks_of_a_session_before_the_present_one_are_not_used(
    trainer: IntakeOfTest, player: Player, redis_client: redis.Redis, keys: Keys
) -> None:
    # A trainer that goes on with the newer session finds what an earlier one had not acknowledged.
    joined(trainer, player)
    player.send(chunk())
    trainer.intake.ingest.read(redis_client, 0)  # delivered, and then the trainer is killed
    player.hello()
    player.beat()
    grant = Grant(session=player.session, status="accepted")
    redis_client.set(keys.grant("c"), grant.to_json())
    following = IntakeOfTest(redis_client, keys)
    following.intake.begin(redis_client)
    following.turn()
    assert following.used == {}
    assert following.rejected() == {"not_admitted": 1}
    assert following.intake.sessions.by_client["c"].id == player.session


def test_garbage_is_counted_by_reason_and_harms_nobody(
    trainer: IntakeOfTest, player: Player, redis_client: redis.Redis, keys: Keys
) -> None:
    other = joined(trainer, Player(redis_client, keys, "d"))
    joined(trainer, player)
    player.send(b"\xc1garbage")
    player.connection.xadd(player.keys.chunks("c"), {"x": "y"})
    player.send(chunk(run="other"))
    player.send(chunk(contract="other"))
    player.send(chunk(segments(reward=np.zeros(2, np.float32))))
    other.send(chunk())
    trainer.turn()
    assert trainer.rejected() == {"unreadable": 2, "other_run": 1, "contract": 1, "shape": 1}
    assert trainer.used == {"d": STEPS}


@pytest.mark.allow_warnings
def test_a_client_that_keeps_failing_is_quarantined(trainer: IntakeOfTest, player: Player) -> None:
    joined(trainer, player)
    for _ in range(60):
        player.send(b"garbage")
    trainer.turn()
    grant = player.grant()
    assert grant is not None
    assert grant.status == "quarantined"
    assert "unreadable" in grant.reason
    assert trainer.dropped_out_of[-1] == ("c", "quarantined")
    player.send(chunk())
    trainer.turn()
    assert trainer.used == {}
    assert trainer.rejected() == {"unreadable": 50, "not_admitted": 11}
    assert trainer.intake.eligible() == {}


def test_repeats_are_dropped_once_and_gaps_are_counted(trainer: IntakeOfTest, player: Player) -> None:
    joined(trainer, player)
    for number in (0, 1, 1, 5, 0):
        player.send(chunk(), number)
    trainer.turn()
    assert trainer.used == {"c": 3 * STEPS}
    refusals = trainer.intake.sessions.refusals()
    assert (refusals.total, refusals.missing) == ({"repeated": 2}, 3)


@pytest.mark.parametrize("number", [b"-1", b"1e3", b"x", b"9" * 30, b"", b"\xd9\xa3"])
def test_forged_numbers_count_as_none(trainer: IntakeOfTest, player: Player, number: bytes) -> None:
    joined(trainer, player)
    player.connection.xadd(player.keys.chunks("c"), {"c": chunk(), "n": number})
    trainer.turn()
    assert trainer.used == {"c": STEPS}
    assert trainer.intake.sessions.refusals().missing == 0


def test_entries_their_client_took_back_are_nothing(trainer: IntakeOfTest, player: Player) -> None:
    joined(trainer, player)
    player.send(chunk())
    trainer.intake.ingest.read(trainer.connection, 1)
    player.connection.xtrim(player.keys.chunks("c"), maxlen=0, approximate=False)
    trainer.intake.unsettle()
    trainer.turn()
    assert (trainer.used, trainer.rejected()) == ({}, {})


@pytest.mark.allow_warnings
def test_an_unusable_stream_is_counted_and_its_client_dropped(trainer: IntakeOfTest, player: Player) -> None:
    joined(trainer, player)
    player.connection.set(player.keys.chunks("c"), "mine")
    trainer.turn()
    assert trainer.rejected() == {"wrong_type": 1}
    assert ("c", "its stream can't be read") in trainer.dropped_out_of


def test_credits_are_renewed_before_they_end(trainer: IntakeOfTest, player: Player) -> None:
    joined(trainer, player)
    first = player.grant()
    big = chunk(segments((8000, 8000)))
    for _ in range(2):
        player.send(big)
    trainer.turn()
    second = player.grant()
    assert first is not None
    assert second is not None
    assert second.credit_bytes == first.credit_bytes + 2 * len(big)
