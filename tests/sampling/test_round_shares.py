"""A client that plays in rounds: shares that grow, sessions that begin anew, and how long it waited."""

from collections.abc import Iterator
from typing import Any

import pytest

from soulsgui.runner.bus import describing_no_run
from soulsgui.wire.connection import Address
from tests.faults.waiting import until
from tests.sampling.free_trainer import FreeTrainer, PlayingClient, check_whole, playing_client, stored_steps

ENVS = 3


@pytest.fixture
def trainer(redis_address: Address) -> Iterator[FreeTrainer]:
    made = FreeTrainer(redis_address, algorithm="ppo")
    made.publish(1)
    yield made
    made.close()


@pytest.fixture
def client(redis_address: Address) -> Iterator[PlayingClient]:
    with playing_client(redis_address) as playing:
        yield playing


def _share(round_id: int, steps: int) -> dict[str, Any]:
    return {"round": {"round_id": round_id, "steps": steps}}


def test_a_share_is_played_to_its_end_and_on_when_it_grows(
    trainer: FreeTrainer, client: PlayingClient
) -> None:
    for steps in (31, 100, 100, 101):  # also such that are no whole steps of all environments
        trainer.grant(None, **_share(1, steps))
        until(lambda wanted=steps: trainer.steps() == wanted, "the share")  # type: ignore[misc]
        client.until_phase("waiting")
    stored_steps(trainer.received())
    assert {one.session for one in trainer.received()} == {trainer.hello()}
    trainer.publish(2)
    trainer.grant(None, **_share(2, 60))
    until(lambda: trainer.steps() == 161, "the next round has a share of its own")


@pytest.mark.allow_warnings
def test_a_share_is_that_of_the_present_session(trainer: FreeTrainer, client: PlayingClient) -> None:
    trainer.grant(None, **_share(1, 90))
    until(lambda: trainer.steps() == 90, "the share")
    client.until_phase("waiting")
    first = trainer.hello()
    # Somebody else's garbage ends the session, and the trainer wants the rest of the same round in the next.
    garbage = trainer.connection.xadd(trainer.keys.chunks("c"), {"x": "garbage"})
    client.link._uploader.distrust()  # type: ignore[union-attr]
    until(lambda: trainer.hello() > first, "another session")
    trainer.connection.xdel(trainer.keys.chunks("c"), garbage)
    trainer.grant(None, **_share(1, 30))
    until(lambda: _of_session(trainer, trainer.hello()) == 30, "the rest")
    client.until_phase("waiting")
    assert client.progress.env_steps == 120


def _of_session(trainer: FreeTrainer, session: str) -> int:
    return sum(one.segments.steps for one in trainer.received() if one.session == session)


def test_its_waits_for_the_next_round_are_told(trainer: FreeTrainer, client: PlayingClient) -> None:
    trainer.grant(None, **_share(1, 30))
    until(lambda: trainer.steps() == 30, "the share")
    client.until_phase("waiting")
    until(lambda: (beat := trainer.beat()) and beat.waited_s > 1, "it has waited for a second")
    trainer.publish(2)
    trainer.grant(None, **_share(2, 30))
    until(lambda: trainer.steps() == 60, "the next share")
    until(lambda: (beat := trainer.beat()) and beat.waits >= 1, "the wait is counted")
    beat = trainer.beat()
    assert beat is not None
    assert 0.2 < beat.waiting <= 1
    until(lambda: (beat := trainer.beat()) and beat.sent_steps == 60, "all it sent is told")


def test_a_pause_is_no_wait_for_the_server(trainer: FreeTrainer, client: PlayingClient) -> None:
    trainer.grant(None, **_share(1, 30))
    until(lambda: trainer.steps() == 30, "the share")
    trainer.wish("pause")
    before = client.progress.beat().waited_s
    counter = client.progress.beat().counter
    until(lambda: (beat := trainer.beat()) and beat.counter > counter + 1, "beats")
    assert client.progress.beat().waited_s == before


@pytest.mark.parametrize("when_full", ["wait", "drop_oldest"])
def test_it_rests_when_the_run_is_over_and_plays_on_when_it_goes_on(
    redis_address: Address, when_full: str
) -> None:
    trainer = FreeTrainer(redis_address, client__when_full=when_full, client__segment_length=16)
    trainer.publish(1)
    with playing_client(redis_address) as client:
        trainer.grant(None)
        until(lambda: trainer.steps() > 100, "steps")
        describing_no_run(trainer.keys)(trainer.connection)
        client.until_phase("waiting")
        made, counter = client.progress.env_steps, client.progress.beat().counter
        until(lambda: (beat := trainer.beat()) and beat.counter > counter + 1, "beats go on")
        assert client.progress.env_steps == made
        until(lambda: trainer.steps() == made - client.progress.dropped, "what it had made is sent")
        trainer.publish(2)  # the same run goes on, in the same session
        until(lambda: trainer.steps() > made, "it plays on")
        assert len(trainer.sessions()) == 1
        check_whole(trainer.received())
        describing_no_run(trainer.keys)(trainer.connection)
        client.until_phase("waiting")
        trainer.begin_run("run-2")
        trainer.publish(3)
        until(lambda: len(trainer.sessions()) == 2, "another run is another session")
    trainer.close()
