"""Who fills the server is found by what waits on its stream, and swept."""

import pytest
import redis

from soulsgui.training.flood import FloodGuard, Greetings
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.session import Grant
from tests.training.players import Player
from tests.training.taking import IntakeOfTest, joined
from tests.wire.chunks import chunk, segments


def test_only_a_stream_that_holds_more_than_all_may_have_is_a_flood(
    redis_client: redis.Redis, keys: Keys
) -> None:
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


@pytest.mark.allow_warnings
def test_a_flooding_stream_is_swept_unread_until_its_client_is_released(
    trainer: IntakeOfTest, player: Player, redis_client: redis.Redis
) -> None:
    joined(trainer, player)
    for _ in range(3):
        redis_client.xadd(player.keys.chunks("c"), {"c": bytes(2**20)})
    trainer.turn()
    assert trainer.intake.sessions.by_client["c"].status == "quarantined"
    assert ("c", "quarantined") in trainer.dropped_out_of
    grant = player.grant()
    assert grant is not None
    assert (grant.status, "floods the server" in grant.reason) == ("quarantined", True)
    for _ in range(5):
        player.send(chunk())
    trainer.turn()
    assert redis_client.xlen(player.keys.chunks("c")) == 0
    assert trainer.used == {}
    assert trainer.rejected()["not_admitted"] >= 5
    assert trainer.intake.release("c")
    trainer.turn()
    assert _status(player.grant()) == "accepted"
    player.send(chunk())
    trainer.turn()
    assert trainer.used == {"c": segments().steps}
    assert not trainer.intake.release("c")


@pytest.mark.allow_warnings
def test_a_released_client_whose_process_has_ended_may_come_again(
    trainer: IntakeOfTest, player: Player, redis_client: redis.Redis
) -> None:
    joined(trainer, player)
    for _ in range(60):
        player.send(b"garbage")
    trainer.turn()
    player.beat(leaving=True)
    trainer.turn()
    assert trainer.intake.sessions.by_client == {}
    player.hello()  # the next process, under the same name
    player.beat()
    trainer.turn()
    assert _status(player.grant()) == "quarantined"
    player.beat(leaving=True)
    trainer.turn()
    assert trainer.intake.release("c")
    trainer.turn()
    assert redis_client.get(player.keys.grant("c")) is None
    joined(trainer, player)
    assert _status(player.grant()) == "accepted"


def _status(grant: Grant | None) -> str:
    return grant.status if grant is not None else ""


def test_a_client_that_begins_one_session_after_the_other_is_found() -> None:
    greetings = Greetings()
    assert not any(greetings.too_many("crashing", float(second)) for second in range(200))
    assert [greetings.too_many("flooding", 0.01 * n) for n in range(60)].count(True) == 10
    assert not greetings.too_many("flooding", 60.0)
