"""A client that plays freely or in rounds: newest weights, credits, shares, pauses, runs and outages."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.runner.server.bus import describing_no_run
from soulsgui.sampling.sampling_modes import drops_when_full
from soulsgui.wire.connection import Address
from tests.faults.server import FaultyServer
from tests.faults.waiting import until
from tests.sampling.free_trainer import (
    LENGTH,
    FreeTrainer,
    OwnersFolder,
    PlayingClient,
    Received,
    check_weights,
    check_whole,
    playing_client,
    settings,
    stored_steps,
)

ENVS = 3


def _share(round_id: int, steps: int) -> dict[str, Any]:
    return {"round": {"round_id": round_id, "steps": steps}}


def _models(received: list[Received]) -> list[int]:
    """Return the ids of the weights in the order in which they were played with."""
    found: list[int] = []
    for one in received:
        for model_id in one.segments.model_id_first.tolist():
            if not found or found[-1] != model_id:
                found.append(model_id)
    return found


def test_newer_weights_are_taken_inside_an_episode(
    trainer: FreeTrainer, client: PlayingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer.grant(100)
    until(lambda: trainer.steps() >= 100, "the first steps")
    levels: list[str] = []
    monkeypatch.setattr(logging.getLogger(), "setLevel", levels.append)
    trainer.settings["logging.level"] = "error"
    trainer.begin_run("run-1")  # resumed, with another setting
    for model_id in (2, 3):
        trainer.publish(model_id)
        trainer.grant(100 * model_id)
        until(lambda wanted=100 * model_id: trainer.steps() >= wanted, "steps with them")
    received = trainer.received()
    assert _models(received) == [1, 2, 3]
    check_weights(trainer, received)
    check_whole(received)
    assert {episode for _, episode, _ in stored_steps(received)} == {0}
    assert client.progress.model_id == 3
    assert levels == ["ERROR"]
    assert trainer.beat().phase in ("sampling", "waiting")


@settings(client__segment_seconds=60, client__segment_length=7, env__kwargs={"length": 25})
def test_segments_end_with_episodes_or_at_their_length(trainer: FreeTrainer, client: PlayingClient) -> None:
    trainer.grant(7 * ENVS * 10)
    until(lambda: trainer.steps() == 7 * ENVS * 10, "ten cuts")
    received = trainer.received()
    assert [one.segments.steps for one in received] == [7 * ENVS] * 10
    assert [one.number for one in received] == list(range(10))
    check_whole(received)
    cuts = set()
    for one in received:
        segments = one.segments
        cuts |= set(zip(segments.episode.tolist(), segments.first_step, segments.length, strict=True))
    assert {(0, 0, 7), (0, 21, 4), (1, 0, 3)} <= cuts, "the second is the end of the episode"
    until(lambda: len(trainer.episodes()) == 2 * ENVS, "the episodes are told of")
    assert {(one.length, one.model_id, one.attempt) for one in trainer.episodes()} == {(25, 1, 1)}
    assert client.progress.dropped == 0


def test_it_waits_for_grant_weights_release_and_credit_and_stops_when_told_to(redis_address: Address) -> None:
    trainer = FreeTrainer(redis_address)
    trainer.connection.set(trainer.keys.config, trainer.config.to_json())
    with playing_client(redis_address) as client:
        trainer.grant(100)
        client.until_phase("waiting")
        assert client.progress.env_steps == 0
        trainer.publish(1)
        for credit in (100, 250, 251, 400):
            trainer.grant(credit)
            until(lambda wanted=credit: trainer.steps() >= wanted, "the credit is used up")
            client.until_phase("waiting")
            # All it has is here, and no more of it than the credit and the rest of one step.
            assert client.progress.env_steps == trainer.steps() < credit + ENVS
            trainer.grant(10**6, status="quarantined")
        client.until_phase("waiting")
        assert trainer.steps() < 400 + ENVS
        trainer.grant(None)
        until(lambda: trainer.steps() > 500, "steps")
        trainer.wish("stop")
        client.join()
    assert client.link.farewell == "the server asked it to stop"
    assert trainer.steps() == client.progress.env_steps, "what it has is sent before it goes"
    check_whole(trainer.received())
    assert client.progress.dropped == 0
    trainer.close()


def _fill_the_buffer(trainer: FreeTrainer, client: PlayingClient, **changed: Any) -> None:
    trainer.grant(None, credit_entries=0, **changed)
    until(lambda: client.progress.buffered_bytes > 2**16, "its buffer is full")
    client.until_phase("waiting")
    assert 2**16 < client.progress.buffered_bytes < 2**16 + 8192
    assert trainer.steps() == 0


@settings(client__buffer_bytes=2**16, client__segment_length=16)
def test_it_stops_when_its_buffer_is_full(trainer: FreeTrainer, client: PlayingClient) -> None:
    _fill_the_buffer(trainer, client)
    made = client.progress.env_steps
    trainer.wish("pause")
    client.until_phase("paused")
    trainer.grant(None)
    until(lambda: trainer.steps() == made, "all of it is sent")
    trainer.wish("run")
    until(lambda: trainer.steps() > made, "it goes on")
    trainer.wish("pause")
    until(lambda: trainer.steps() == client.progress.env_steps, "all of it is sent")
    check_whole(trainer.received())


@settings(client__when_full="drop_oldest", client__segment_length=8)
def test_it_drops_the_oldest_beyond_its_credit(trainer: FreeTrainer, client: PlayingClient) -> None:
    trainer.grant(100)
    client.until_dropped(500)
    assert client.progress.phase == "sampling"
    until(lambda: trainer.steps() >= 100, "its credit is used up all the same")
    assert trainer.steps() < 100 + 8 * ENVS
    trainer.grant(10**6)
    until(lambda: trainer.steps() >= 500, "it is heard again")
    trainer.grant(0, resting=True)
    client.until_phase("waiting")  # while the run is paused nothing is played only to be dropped
    resting_at, dropped = client.progress.env_steps, client.progress.dropped
    trainer.grant(10**6)
    until(lambda: client.progress.env_steps > resting_at, "it goes on")
    assert client.progress.dropped == dropped
    trainer.wish("pause")
    until(lambda: client.progress.buffered_bytes == 0, "all that is left is sent")
    received = trainer.received()
    made = client.progress.env_steps
    assert sum(one.segments.steps for one in received) + client.progress.dropped == made
    # Numbers are given to what is sent: what was dropped here is no loss between here and the server.
    assert [one.number for one in received] == list(range(len(received)))
    _, episode, step = max(place for place in stored_steps(received) if place[0] == 0)
    assert (episode * LENGTH + step + 1) * ENVS == made, "the newest are here"
    assert trainer.beat().dropped == client.progress.dropped


@settings(client__when_full="drop_oldest", client__segment_length=8, client__step_seconds=0.001)
def test_a_game_in_real_time_plays_on_and_drops(trainer: FreeTrainer, client: PlayingClient) -> None:
    trainer.grant(0, resting=True)
    client.until_dropped(50)
    assert client.progress.phase == "sampling"


def test_actions_are_as_random_as_the_grant_says(trainer: FreeTrainer, client: PlayingClient) -> None:
    def played(steps: int, epsilon: float | None) -> tuple[Any, Any]:
        """Return actions, and their log-probabilities, of further steps."""
        before = trainer.steps()
        trainer.grant(before + steps, epsilon=epsilon)
        until(lambda: trainer.steps() >= before + steps, "steps")
        client.until_phase("waiting")
        segments = [one.segments for one in trainer.received()]
        action, log_prob = ([getattr(one, name) for one in segments] for name in ("action", "log_prob"))
        return np.concatenate(action)[before:], np.concatenate(log_prob)[before:]

    action, log_prob = played(900, epsilon=0.2)  # the other one of two actions: every tenth
    assert 0.03 < 1 - action.mean() < 0.2
    np.testing.assert_allclose(log_prob, np.log(np.where(action == 1, 0.9, 0.1)), rtol=1e-5)
    action, log_prob = played(300, epsilon=None)  # as the policy itself says
    odds = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(log_prob, np.log(np.where(action == 1, odds, 1 - odds)), rtol=1e-5)


@settings(env__kwargs={"length": 20})
def test_it_pauses_and_ends_its_episodes_before_it_goes(trainer: FreeTrainer, client: PlayingClient) -> None:
    trainer.grant(None)
    until(lambda: trainer.steps() > 100, "steps")
    trainer.wish("pause")
    client.until_phase("paused")
    until(lambda: trainer.steps() == client.progress.env_steps, "all of it is sent")
    trainer.publish(2)
    trainer.wish("run")
    until(lambda: _models(trainer.received())[-1] == 2, "it goes on with newer weights")
    trainer.wish("run")  # it does already, and says so
    trainer.wish("finish")
    client.join()
    assert client.link.farewell == "the server asked it to stop"
    received = trainer.received()
    check_whole(received)
    check_weights(trainer, received)
    # Also the episodes it was in were told of, though what it still played of them was not recorded.
    told = trainer.episodes()
    assert {one.length for one in told} == {20}
    begun = {(env, episode) for env, episode, _ in stored_steps(received)}
    assert len(told) == len(begun)
    assert trainer.beat().leaving


@settings(env__kwargs={"length": 500})
def test_its_owner_has_his_way_too(trainer: FreeTrainer, redis_address: Address, tmp_path: Path) -> None:
    folder = OwnersFolder(tmp_path)
    with playing_client(redis_address, folder) as client:
        trainer.grant(1000)  # used up before the owner says anything
        until(lambda: trainer.steps() >= 1000, "steps")
        folder.want("pause_after_episode")
        client.until_phase("paused")
        # The rest of the episodes was played without a grant, and not recorded.
        until(lambda: len(trainer.episodes()) == ENVS, "the episodes are told of")
        assert {one.length for one in trainer.episodes()} == {500}
        assert client.progress.env_steps == trainer.steps() < 1000 + ENVS
        folder.want("run")
        trainer.grant(2000)
        until(lambda: trainer.steps() >= 2000, "it goes on")
        folder.want("stop")
        client.join()


@pytest.mark.allow_warnings
def test_nothing_is_lost_nor_doubled_when_the_server_is_back(keeping_server: FaultyServer) -> None:
    trainer = FreeTrainer(keeping_server.address, client__segment_seconds=0.01)
    trainer.publish(1)
    with playing_client(keeping_server.address) as client:
        session = trainer.hello()
        trainer.grant(None)
        for _ in range(2):
            made = client.progress.env_steps
            until(lambda since=made: client.progress.env_steps > since + 500, "steps")
            keeping_server.kill()
            made = client.progress.env_steps
            until(lambda since=made: client.progress.env_steps > since, "it plays on")
            keeping_server.start()
        trainer.publish(2)
        until(lambda: _models(trainer.received())[-1:] == [2], "newer weights are played with")
        trainer.wish("pause")
        until(lambda: trainer.steps() == client.progress.env_steps, "all of it is sent")
        assert trainer.sessions() == [session]
        check_whole(trainer.received())
        assert client.progress.dropped == 0
    trainer.close()


@settings(algorithm="ppo", client__buffer_bytes=2**16, client__segment_length=16)
def test_a_round_waits_too_while_its_buffer_is_full(trainer: FreeTrainer, client: PlayingClient) -> None:
    share = _share(1, 2000 * ENVS)
    _fill_the_buffer(trainer, client, **share)
    trainer.grant(None, **share)
    until(lambda: trainer.steps() == 2000 * ENVS, "its share is played to the end")
    client.until_phase("waiting")
    assert client.progress.env_steps == 2000 * ENVS
    stored_steps(trainer.received())


@settings(client__step_delay=60.0)
def test_who_is_asked_to_stop_does_not_sleep_on(trainer: FreeTrainer, client: PlayingClient) -> None:
    trainer.grant(100)
    client.until_phase("sampling")
    client.end()  # it waits for less than the pause
    assert client.failure is None


ROUNDS = settings(algorithm="ppo")


@pytest.mark.allow_warnings
@ROUNDS
def test_a_share_is_that_of_its_session_and_may_grow(trainer: FreeTrainer, client: PlayingClient) -> None:
    def stored_in(session: str) -> int:
        return sum(one.segments.steps for one in trainer.received() if one.session == session)

    for steps in (31, 100, 100, 101):  # also such that are no whole steps of all environments
        trainer.grant(None, **_share(1, steps))
        until(lambda wanted=steps: trainer.steps() == wanted, "the share")
        client.until_phase("waiting")
    stored_steps(trainer.received())
    first = trainer.hello()
    assert {one.session for one in trainer.received()} == {first}
    # The server loses its data, and the trainer wants the rest of the same round in the next session.
    trainer.connection.delete(trainer.keys.chunks("c"))
    client.link._uploader.distrust()
    until(lambda: trainer.hello() > first, "another session")
    trainer.grant(None, **_share(1, 30))
    until(lambda: stored_in(trainer.hello()) == 30, "the rest")
    client.until_phase("waiting")
    assert client.progress.env_steps == 131
    trainer.publish(2)
    trainer.grant(None, **_share(2, 60))
    until(lambda: stored_in(trainer.hello()) == 90, "the next round has a share of its own")


@ROUNDS
def test_waits_for_rounds_are_told_and_a_pause_is_none(trainer: FreeTrainer, client: PlayingClient) -> None:
    trainer.grant(None, **_share(1, 30))
    until(lambda: trainer.steps() == 30, "the share")
    trainer.wish("pause")
    paused = client.progress.beat()
    until(lambda: (beat := trainer.beat()) and beat.counter > paused.counter + 1, "beats")
    assert client.progress.beat().waited_s == paused.waited_s
    trainer.wish("run")
    client.until_phase("waiting")
    until(lambda: (beat := trainer.beat()) and beat.waited_s > 1, "it has waited for a second")
    trainer.publish(2)
    trainer.grant(None, **_share(2, 30))
    until(lambda: trainer.steps() == 60, "the next share")
    until(lambda: (beat := trainer.beat()) and beat.waits >= 1, "the wait is counted")
    assert 0.2 < trainer.beat().waiting <= 1
    until(lambda: (beat := trainer.beat()) and beat.sent_steps == 60, "all it sent is told")


def test_another_run_is_played_with_a_session_of_its_own(trainer: FreeTrainer, client: PlayingClient) -> None:
    trainer.grant(300)
    until(lambda: trainer.steps() >= 300, "steps")
    first = trainer.hello()
    trainer.begin_run("run-2")
    trainer.connection.delete(trainer.keys.chunks("c"))
    trainer.publish(7)
    until(lambda: trainer.sessions() and trainer.hello() > first, "another session")
    (hello,) = trainer.hellos()
    assert (hello.run_id, hello.contract) == ("run-2", trainer.config.contract)
    assert trainer.steps() == 0
    trainer.grant(50)  # counted since that hello
    until(lambda: trainer.steps() >= 50, "steps of the other run")
    client.until_phase("waiting")
    assert trainer.steps() < 50 + ENVS
    received = trainer.received()
    check_weights(trainer, received)
    check_whole(received)
    assert _models(received) == [7]


@settings(client__when_full="drop_oldest", client__segment_length=16)
def test_it_rests_while_the_run_is_over(trainer: FreeTrainer, client: PlayingClient) -> None:
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
    trainer.begin_run("run-2")
    trainer.publish(3)
    until(lambda: len(trainer.sessions()) == 2, "another run is another session")
    until(lambda: (beat := trainer.beat()) and beat.run_id == "run-2" and beat.session, "it is told")
    assert (client.progress.env_steps, client.progress.episodes) == (0, 0), "the figures begin anew"


@pytest.mark.parametrize(
    ("chosen", "step_s", "drops"),
    [(None, 0.0, False), (None, 0.03, True), ("wait", 0.03, False), ("drop_oldest", 0.0, True)],
)
def test_games_in_real_time_drop_unless_they_are_to_wait(
    chosen: str | None, step_s: float, drops: bool
) -> None:
    assert drops_when_full({"client.when_full": chosen, "client.step_seconds": step_s}) is drops
