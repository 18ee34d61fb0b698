"""What an inference server answers, and what it makes of what it is told: each transition once."""

import itertools
import math
import threading
import time
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from soulsgui.config.sections.run import MAX_NUM_ENVS
from soulsgui.errors import CheckpointError, ClientRegistrationError, SoulsGuiError, UsageError
from soulsgui.modes.seed import served_run
from soulsgui.modes.seed.served_run import server_of
from soulsgui.sampling import player
from soulsgui.sampling.inference_messages import MOST_IN_FLIGHT, ActionReply, checksum
from soulsgui.wire.beats import own_instance
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.heartbeat import EXPIRY_S, GreedyPlay, Heartbeat, InferenceFigures
from soulsgui.wire.messages.session import Episode, GreedyOrder
from tests.faults.waiting import until
from tests.modes.seed.serving import NAME, HandClient, HandTrainer, ServingThread, grant_for, let_play
from tests.sampling.free_trainer import (
    check_weights,
    check_whole,
    places,
    playing_client,
    settings,
    stored_steps,
)


def test_a_repeated_request_gets_the_same_answer_and_makes_no_second_transition(
    trainer: HandTrainer, serving: ServingThread, client: HandClient
) -> None:
    assert client.ask(0).action.shape == (2,)
    request = client.request(1)
    client.send(request)
    first = client.answer()
    for _ in range(2):
        client.send(request)
        assert client.answer() == first
    assert client.ask(2).number == 2
    trainer.until(lambda: trainer.steps() >= 4, "two steps of two environments")
    received = trainer.received()
    assert stored_steps(received) == {(env, 0, step) for env in range(2) for step in range(2)}
    assert np.concatenate([one.segments.reward for one in received]).sum() == 2 * (1 + 2)
    assert serving.server.figures.repeated == 2
    check_weights(trainer, received)


def test_each_trainer_is_told_whose_environments_are_whose(
    trainer: HandTrainer, serving: ServingThread, client: HandClient
) -> None:
    other = HandClient(trainer, "other", num_envs=3)
    client.ask(0)
    other.ask(0)
    trainer.until(lambda: len(trainer.hellos()[-1].served) == 2, "both are told")
    told = trainer.hellos()[-1]
    assert (told.served, told.num_envs) == ({client.name: 0, "other": 2}, 5)
    said = len(trainer.hellos())
    trainer.begin_run("run-1", attempt=2)
    trainer.publish(2)
    trainer.until(lambda: len(trainer.hellos()) > said, "another hello")
    assert trainer.hellos()[-1].served == told.served


def test_an_episode_that_ends_has_its_own_last_observation(
    trainer: HandTrainer, serving: ServingThread, client: HandClient
) -> None:
    ended = np.array([True, False])
    client.ask(0)
    client.ask(1, truncated=ended)
    client.ask(2, terminated=~ended)
    trainer.until(lambda: trainer.steps() >= 4, "two steps of two environments")
    found = sorted(place for one in trainer.received() for place in places(one.segments))
    assert found == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 0, 1)]
    flags = [flag for one in trainer.received() for flag in one.segments.flags.tolist()]
    assert sorted(flags)[-2:] == [1, 2]


def test_of_a_clients_requests_two_wait_at_most(
    trainer: HandTrainer, redis_address: Address, client: HandClient
) -> None:
    trainer.publish(1)
    for _ in range(6):
        client.send(client.request(0))
    with ServingThread(redis_address) as serving:
        client.answer()
        trainer.until(lambda: not trainer.connection.llen(client.requests), "every request is read")
        assert serving.server.figures.repeated <= 1


def test_another_process_begins_unrolls_anew(
    trainer: HandTrainer, redis_address: Address, client: HandClient
) -> None:
    trainer.publish(1)
    with ServingThread(redis_address):
        assert client.ask(0).generation == 0
        client.ask(1)
    sent = trainer.steps()
    assert sent == 2, "what was recorded is sent at the end"
    with ServingThread(redis_address) as serving:
        assert client.ask(2).generation == 1
        client.ask(3)
        trainer.until(lambda: trainer.steps() > sent, "more steps")
        assert trainer.steps() == 4, "what the lost answer led to is no transition of the new unroll"
        assert serving.server.figures.begun_anew == 1
    begins = [one.segments.first_step == 0 for one in trainer.received()]
    assert [each.tolist() for each in begins] == [[True, True], [False, False]], "they are under way"


def test_what_the_answer_of_one_process_led_to_is_no_outcome_of_anothers(
    trainer: HandTrainer, redis_address: Address, client: HandClient
) -> None:
    trainer.publish(1)
    request = client.request(0)
    with ServingThread(redis_address):
        client.send(request)
        taken = client.answer()
    client.send(request)  # as it repeated it before that answer came
    with ServingThread(redis_address):
        assert ActionReply.read(client.answer()).generation == 1
        client.send(client.request(1, follows=checksum(taken)))
        client.send(client.request(2, follows=checksum(client.answer())))
        client.answer()
    assert np.concatenate([one.segments.reward for one in trainer.received()]).tolist() == [2, 2]


def test_what_a_silent_client_asked_is_thrown_away(
    trainer: HandTrainer, serving: ServingThread, client: HandClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.ask(0)
    trainer.until(lambda: serving.server.figures.clients, "the client is seen")
    with monkeypatch.context() as patched:
        patched.setattr(served_run, "LATE_S", 0.5)
        client.silent = True
        trainer.until(lambda: not serving.server.figures.clients, "the client is silent")
        client.send(client.request(1))
        trainer.until(lambda: serving.server.figures.expired == 1, "its request is thrown away")
    assert not trainer.connection.exists(client.requests, client.replies)
    client.silent = False
    client.beat()  # before it asks: of who is silent nothing is kept
    assert client.ask(1).number == 1, "it may come back"


def test_nobody_beats_for_another_one(
    trainer: HandTrainer, serving: ServingThread, client: HandClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    HandClient(trainer, "d").ask(0)
    client.ask(0)
    trainer.until(lambda: serving.server.figures.clients == 2, "both are seen")
    monkeypatch.setattr(served_run, "LATE_S", 0.5)
    trainer.hand_clients.clear()  # both are silent from now on
    counter = itertools.count(1000)

    def forgotten() -> bool:
        told = {"num_envs": 2, "session": "1-1", "counter": next(counter)}
        beat = Heartbeat(client="d", instance=own_instance(), **told)
        trainer.connection.set(trainer.keys.beat("c"), beat.to_json(), ex=EXPIRY_S)
        return not serving.server.figures.clients

    trainer.until(forgotten, "neither lives by such beats")


def test_a_client_that_is_taken_off_the_roster_is_forgotten(
    trainer: HandTrainer, serving: ServingThread, client: HandClient
) -> None:
    client.ask(0)
    trainer.until(lambda: serving.server.figures.clients, "the client is seen")
    trainer.hand_clients.clear()
    trainer.connection.hdel(trainer.keys.clients, "c")
    trainer.connection.delete(*trainer.keys.of_client("c"))
    trainer.until(lambda: not serving.server.figures.clients, "it makes room")


def test_nobody_is_answered_before_there_are_weights_and_the_newest_ones_answer(
    trainer: HandTrainer, redis_address: Address, client: HandClient
) -> None:
    trainer.publish(1)
    trainer.connection.delete(trainer.keys.weights)
    client.send(client.request(0))
    with ServingThread(redis_address) as serving:
        for _ in range(2):  # between two looks there is a whole turn
            trainer.until(lambda: trainer.connection.ttl(client.requests) > 0, "it looks at the client")
            trainer.connection.persist(client.requests)
        assert trainer.connection.llen(client.requests) == 1
        for model_id in (2, 3):
            trainer.publish(model_id)
        client.answer()
        trainer.until(
            lambda: client.ask(serving.server.figures.actions // 2).model_id == 3, "the newest weights"
        )
        assert serving.server.figures.swaps <= 2


@settings(central__broadcast_period=3600.0)
def test_weights_stay_for_a_period(trainer: HandTrainer, serving: ServingThread, client: HandClient) -> None:
    assert client.ask(0).model_id == 1
    trainer.publish(2)
    trainer.until(lambda: serving.server.client_link.view.header == trainer.headers[2], "newer weights")
    assert client.ask(1).model_id == 1


def test_how_much_a_client_explores_follows_its_grant(
    trainer: HandTrainer, serving: ServingThread, client: HandClient
) -> None:
    exploring = grant_for("1-1").model_copy(update={"epsilon": 1.0})
    trainer.connection.set(trainer.keys.grant("c"), exploring.to_json())
    drawn = (client.ask(number).action.tolist() for number in itertools.count())
    trainer.until(lambda: len(set(next(drawn))) > 1, "actions at random, where both see the same")


def test_new_weights_are_no_reason_to_look_at_the_clients(
    trainer: HandTrainer, serving: ServingThread, client: HandClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.ask(0)
    monkeypatch.setattr(served_run, "_LOOK_EVERY_S", 3600.0)
    idle = HandClient(trainer, "idle")
    trainer.connection.rpush(idle.replies, b"x")
    trainer.publish(2)
    numbers = itertools.count(1)
    trainer.until(lambda: client.ask(next(numbers)).model_id == 2, "the newest weights")
    client.ask(next(numbers))
    assert trainer.connection.ttl(idle.replies) == -1, "it was not seen"


def test_a_client_that_changes_its_environments_begins_no_session_between_two_looks(
    trainer: HandTrainer, serving: ServingThread, client: HandClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    flips = HandClient(trainer, "flips")
    client.ask(0)
    flips.ask(0)
    monkeypatch.setattr(served_run, "_LOOK_EVERY_S", 3600.0)
    sessions = len(trainer.sessions())
    for number in range(1, 9):
        flips.num_envs, flips.unroll = 2 - number % 2, f"u{number}"
        flips.beat()
        flips.send(flips.request(0))
        trainer.publish(1 + number)
        assert client.ask(number).number == number
    assert len(trainer.sessions()) == sessions


def test_all_that_are_gone_are_forgotten_at_once(
    trainer: HandTrainer, serving: ServingThread, client: HandClient
) -> None:
    keys, connection = trainer.keys, trainer.connection
    gone = [f"gone-{number}" for number in range(100)]
    connection.hset(keys.clients, mapping=dict.fromkeys(gone, "{}"))

    def deletes() -> int:
        return int(connection.info("commandstats")["cmdstat_del"]["calls"])

    client.ask(0)
    before = deletes()
    for _ in range(2):  # between two looks there is a whole turn
        connection.rpush(keys.requests(gone[-1]), b"x")
        trainer.until(lambda: not connection.exists(keys.requests(gone[-1])), "it looks at the clients")
    assert deletes() - before < len(gone)


@settings(central__inference_batchsize=1)
def test_clients_that_come_together_are_admitted_by_one_session(
    trainer: HandTrainer, redis_address: Address
) -> None:
    trainer.publish(1)
    clients = [HandClient(trainer, name) for name in "abcde"]
    for one in clients:
        one.send(one.request(0))
    with ServingThread(redis_address):
        for one in clients:
            one.answer()
    assert [len(hello.served) for hello in trainer.hellos()] == [0, 5]


@settings(central__inference_batchsize=64, central__inference_delay=2.0)
def test_clients_are_answered_together(
    trainer: HandTrainer, serving: ServingThread, client: HandClient
) -> None:
    other = HandClient(trainer, "d", num_envs=3)
    numbers, rows = itertools.count(), serving.server.figures.rows

    def answered_together() -> bool:
        number = next(numbers)
        with trainer.connection.pipeline() as both:  # neither is seen without the other
            for one in (client, other):
                both.rpush(one.requests, one.request(number))
            both.execute()
        for one in (client, other):
            one.answer()
        return rows[3] >= 2

    trainer.until(answered_together, "two batches of five")
    made = 5 * (next(numbers) - 1)
    trainer.until(lambda: trainer.steps() == made, "what both played")
    assert {env for one in trainer.received() for env in one.segments.env_index.tolist()} == set(range(5))


@settings(central__inference_batchsize=4, central__inference_delay=2.0)
def test_a_batch_keeps_its_limit_but_for_a_client_that_has_more_environments_alone(
    trainer: HandTrainer, serving: ServingThread
) -> None:
    clients = [HandClient(trainer, name, num_envs=count) for name, count in (("a", 3), ("b", 3), ("c", 5))]
    for number in range(4):
        with trainer.connection.pipeline() as together:  # none is seen without the others
            for one in clients:
                together.rpush(one.requests, one.request(number))
            together.execute()
        for one in clients:
            assert ActionReply.read(one.answer()).action.shape == (one.num_envs,)
    figures = serving.server.figures
    assert figures.actions == 4 * (3 + 3 + 5)
    assert sum(figures.rows) == 4 * 3, "each is a batch of its own"


@settings(central__inference_batchsize=1)
def test_who_asks_seldom_is_served_beside_one_that_asks_all_the_time(
    trainer: HandTrainer, serving: ServingThread, client: HandClient
) -> None:
    others = [HandClient(trainer, name) for name in ("a", "seldom", "z")]  # two of whom never ask
    numbers = itertools.count()
    client.ask(next(numbers))
    others[1].send(others[1].request(0))

    def served() -> int:
        client.ask(next(numbers))
        return int(trainer.connection.llen(others[1].replies))

    trainer.until(served, "the answer to the other one")


@settings(central__inference_batchsize=64, central__inference_delay=0.0)
def test_two_requests_of_a_client_are_answered_one_after_the_other(
    trainer: HandTrainer, serving: ServingThread, client: HandClient
) -> None:
    HandClient(trainer, "silent").ask(0)  # who asked longest ago is looked at first, and others with it
    client.ask(0)
    last = client.request(1)
    client.unroll = "another"
    trainer.connection.rpush(client.requests, last, client.request(0))
    assert [ActionReply.read(client.answer()).number for _ in range(2)] == [1, 0]


@settings(central__inference_batchsize=1)
def test_a_client_that_takes_long_leaves_the_others_as_much_time(
    # Time is to go back once nobody serves any more.
    monkeypatch: pytest.MonkeyPatch,
    trainer: HandTrainer,
    serving: ServingThread,
    client: HandClient,
) -> None:
    explore, answered = served_run.explore, list[int]()
    time_passes = Mock(monotonic=lambda: time.monotonic() + sum(100.0 if n == 4 else 10.0 for n in answered))

    def explore_slowly(policy: Any, obs: Any, *words: Any) -> Any:
        answered.append(len(obs))
        return explore(policy, obs, *words)

    monkeypatch.setattr(served_run, "time", time_passes)  # by the answers: as fast as this test can ask
    monkeypatch.setattr(served_run, "LATE_S", math.inf)
    monkeypatch.setattr(served_run, "explore", explore_slowly)
    small, large = HandClient(trainer, "small", num_envs=1), HandClient(trainer, "large", num_envs=4)
    numbers, big_numbers = itertools.count(), itertools.count()
    large.send(large.request(next(big_numbers)))

    def answered_often() -> bool:
        asks_again = trainer.connection.delete(large.replies)
        small.send(small.request(next(numbers)))  # first: it is whom the large one waits for
        if asks_again:
            large.send(large.request(next(big_numbers)))
        small.answer()
        return answered.count(4) >= 4

    trainer.until(answered_often, "four answers to the large one")
    first, last = answered.index(4), len(answered) - 1 - answered[::-1].index(4)
    assert answered[first:last].count(1) >= 3 * 3, "as many times as the large one took there is time for"


@pytest.mark.parametrize("bad", ["nan", "shape", "bounds", "garbage"])
def test_what_can_not_be_used_is_counted_and_harms_nobody(
    trainer: HandTrainer, serving: ServingThread, client: HandClient, bad: str
) -> None:
    client.ask(0)
    if bad == "garbage":
        client.send(b"\x93garbage")
    else:
        reward = np.full(2, np.nan, np.float32) if bad == "nan" else np.zeros(2, np.float32)
        reward = np.zeros(3, np.float32) if bad == "shape" else reward
        client.send(client.request(2000 if bad == "bounds" else 1, reward=reward))
    trainer.until(lambda: serving.server.figures.unreadable == 1, "it is counted")
    assert client.ask(1).number == 1


@settings(inference="server", env__kwargs={"length": 20})
def test_a_client_without_a_policy_plays_whole_episodes(
    trainer: HandTrainer, serving: ServingThread, redis_address: Address
) -> None:
    keys, connection = trainer.keys, trainer.connection
    with playing_client(redis_address) as playing:
        let_play(trainer, playing)
        trainer.until(lambda: trainer.steps() > 200, "200 steps")
    told = playing.progress.env_steps - playing.progress.num_envs  # what the last answer led to nobody hears
    trainer.until(lambda: trainer.steps() >= told, "all steps that it told")
    assert len(stored_steps(trainer.received())) == told
    check_whole(trainer.received())

    def told_in_the_beat() -> bool:
        beat = Heartbeat.read(connection.get(keys.beat(NAME)))
        return beat is not None and beat.inference is not None and beat.inference.actions >= 200

    trainer.until(told_in_the_beat, "its figures")
    assert playing.progress.episodes >= 9
    assert playing.progress.remote
    assert "network" not in playing.progress.checks


@settings(inference="server", env__kwargs={"length": 20})
def test_a_client_without_a_policy_plays_the_evaluations_that_it_is_asked_for(
    trainer: HandTrainer, serving: ServingThread, redis_address: Address
) -> None:
    order = GreedyOrder(model_id=1, count=3, attempt=1, update=1, env_steps=0, episodes=0)

    def greedy() -> list[Episode]:
        return [one for one in trainer.episodes() if one.greedy]

    with playing_client(redis_address) as playing:
        let_play(trainer, playing)
        trainer.until(lambda: trainer.steps() > 100, "100 steps")
        assert playing.progress.greedy == GreedyPlay(model_id=-1), "it can be asked"
        let_play(trainer, playing, order)
        trainer.until(lambda: len(greedy()) == 3, "the evaluation")
        trainer.publish(2)
        after = trainer.steps()
        trainer.until(lambda: trainer.steps() > after + 200, "it goes on")
        assert playing.progress.model_id == 2
    assert [(one.number, one.env_index, one.model_id, one.length) for one in greedy()] == [
        (number, 0, 1, 20) for number in range(3)
    ]
    # Of the environment that played it, just those episodes are missing; all others are whole.
    steps = stored_steps(trainer.received())
    sent = {episode for env, episode, _ in steps if env == 0}
    assert len(set(range(max(sent) + 1)) - sent) == 3
    assert all(len([step for step in steps if step[:2] == (0, one)]) == 20 for one in sorted(sent)[:-1])


@settings(inference="server", env__kwargs={"length": 20})
def test_in_another_run_it_plays_evaluations_of_models_with_smaller_numbers(
    trainer: HandTrainer, redis_address: Address
) -> None:
    order = GreedyOrder(model_id=7, count=2, attempt=1, update=7, env_steps=0, episodes=0)

    def greedy() -> list[tuple[str, int]]:
        return [(one.run_id, one.model_id) for one in trainer.episodes() if one.greedy]

    trainer.publish(7)
    with ServingThread(redis_address), playing_client(redis_address) as playing:
        for run_id, model_id in (("run-1", 7), ("run-2", 3)):
            before = playing.progress.session
            if run_id != "run-1":
                trainer.begin_run(run_id)
                trainer.publish(model_id)
            until(lambda before=before: playing.progress.session not in ("", before), "its hello")
            let_play(trainer, playing, order.model_copy(update={"model_id": model_id, "update": model_id}))
            trainer.until(lambda told=(run_id, model_id): greedy().count(told) == 2, f"those of {run_id}")


@pytest.mark.parametrize("error", [ClientRegistrationError, UsageError, CheckpointError])
@settings(inference="server")
def test_a_client_that_can_not_run_the_network_says_that_it_plays_no_evaluations(
    trainer: HandTrainer,
    serving: ServingThread,
    redis_address: Address,
    monkeypatch: pytest.MonkeyPatch,
    error: type[SoulsGuiError],
) -> None:
    def lacks_something(_spec: Any) -> Any:
        raise error("The network can't be made here.", "")

    monkeypatch.setattr(player, "make_policy", lacks_something)
    order = GreedyOrder(model_id=1, count=3, attempt=1, update=1, env_steps=0, episodes=0)
    with playing_client(redis_address) as playing:
        let_play(trainer, playing, order)
        trainer.until(lambda: playing.progress.greedy is None, "it declines")
        trainer.until(lambda: trainer.steps() > 100, "it plays")
    assert not [one for one in trainer.episodes() if one.greedy]


def test_a_client_plays_by_itself_after_a_run_with_central_inference(
    trainer: HandTrainer, redis_address: Address
) -> None:
    trainer.client = "c"
    trainer.publish(1)
    with playing_client(redis_address) as playing:
        until(lambda: playing.progress.session, "its hello")
        trainer.settings["inference"] = "local"
        trainer.begin_run("run-2")
        trainer.publish(2)
        until(lambda: len(trainer.sessions()) > 1, "another hello")
        trainer.grant(None)
        until(trainer.received, "what it plays")


def test_an_episode_belongs_to_the_attempt_that_goes_on(
    trainer: HandTrainer, serving: ServingThread, redis_address: Address
) -> None:
    with playing_client(redis_address) as playing:
        let_play(trainer, playing)
        trainer.until(trainer.episodes, "an episode")
        trainer.begin_run("run-1", attempt=2)
        trainer.publish(2)
        trainer.until(lambda: trainer.episodes()[-1].attempt == 2, "an episode of the second attempt")
    attempts = [episode.attempt for episode in trainer.episodes()]
    assert attempts == sorted(attempts)
    assert attempts[0] == 1


def test_one_that_hangs_tells_so_in_its_beats(
    trainer: HandTrainer, serving: ServingThread, client: HandClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    explore, hangs, goes_on = served_run.explore, threading.Event(), threading.Event()

    def hang(*words: Any) -> Any:
        hangs.set()
        goes_on.wait()
        return explore(*words)

    def told() -> tuple[int, int]:
        beat = Heartbeat.read(trainer.connection.get(trainer.keys.beat(NAME)))
        figures = InferenceFigures() if beat is None or beat.inference is None else beat.inference
        return 0 if beat is None else beat.counter, figures.turns

    trainer.until(lambda: told()[1] > 1, "turns without requests")
    monkeypatch.setattr(served_run, "explore", hang)
    client.send(client.request(0))
    trainer.until(hangs.is_set, "a policy that hangs")
    try:
        turns, beats = serving.server.figures.turns, told()[0]
        trainer.until(lambda: told()[0] > beats + 1, "beats that go on")
        assert told()[1] == turns
    finally:
        goes_on.set()
    assert client.answer()


def test_every_client_belongs_to_one_server() -> None:
    shares = [server_of(f"client-{number}", 3) for number in range(300)]
    assert set(shares) == {1, 2, 3}
    assert min(shares.count(server) for server in (1, 2, 3)) > 50


def test_requests_of_other_environments_than_a_client_has_harm_nobody(
    trainer: HandTrainer, serving: ServingThread, client: HandClient
) -> None:
    client.ask(0)
    beats = client.num_envs
    client.num_envs = 4_000
    client.send(client.request(1))
    client.num_envs = beats
    trainer.until(lambda: serving.server.figures.unreadable == 1, "it is counted")
    client.ask(1)


@pytest.mark.allow_warnings
def test_a_client_for_whose_environments_no_numbers_are_left_is_told_so_and_the_owner_once(
    trainer: HandTrainer,
    serving: ServingThread,
    client: HandClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(served_run, "MAX_ENVS", 10)
    large, small = HandClient(trainer, "d", num_envs=4), HandClient(trainer, "e", num_envs=2)
    for one in (client, large, small):  # they have the numbers 0 to 1, 2 to 5 and 6 to 7
        one.ask(0)
    larger = HandClient(trainer, "f", num_envs=5)
    for number in range(2):
        reply = larger.ask(number)
        assert (len(reply.action), reply.number) == (0, number)
        assert reply.refused == "it has 8 environments, and 10 at most"
    assert caplog.text.count("f gets no actions") == 1
    with monkeypatch.context() as patched:
        patched.setattr(served_run, "steps_that_fit", lambda *_: 1)
        refused = HandClient(trainer, "g", num_envs=2).ask(0).refused
    assert refused == "a message holds one step of 1 environments at most"
    assert client.ask(1).number == 1
    large.silent = True
    trainer.connection.rpush(large.replies, b"unread")
    trainer.connection.delete(trainer.keys.beat("d"))
    trainer.until(lambda: not trainer.connection.exists(large.replies), "it is forgotten")
    assert larger.ask(2).action.shape == (5,), "there are six, though not in a row"
    assert small.ask(1).number == 1
    trainer.until(lambda: "f" in trainer.hellos()[-1].served, "all are told")
    assert trainer.hellos()[-1].served == {client.name: 0, "e": 2, "f": 4}


@pytest.mark.allow_warnings
def test_who_is_refused_is_told_so_once_also_where_a_look_takes_longer_than_a_request_is_waited_for(
    # Time is to go back once nobody serves any more.
    monkeypatch: pytest.MonkeyPatch,
    trainer: HandTrainer,
    serving: ServingThread,
    client: HandClient,
) -> None:
    client.ask(0)
    monkeypatch.setattr(served_run, "LATE_S", math.inf)
    monkeypatch.setattr(served_run, "MAX_ENVS", client.num_envs)
    monkeypatch.setattr(served_run, "time", Mock(monotonic=itertools.count(time.monotonic(), 10.0).__next__))
    other = HandClient(trainer, "d")
    assert other.ask(0).refused
    turns = serving.server.figures.turns
    trainer.until(lambda: serving.server.figures.turns > turns + 2, "two more looks")
    assert serving.server.figures.unreadable == 1


@pytest.mark.allow_warnings
@settings(inference="server")
def test_a_client_without_a_policy_ends_with_what_its_inference_server_refuses_it_for(
    trainer: HandTrainer,
    serving: ServingThread,
    redis_address: Address,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(served_run, "MAX_ENVS", 2)  # the client has three
    with pytest.raises(ClientRegistrationError, match="refused this client: it has 0 "):  # noqa: PT012, SIM117
        with playing_client(redis_address) as playing:
            let_play(trainer, playing)
            trainer.until(lambda: playing.failure, "it ends")


@pytest.mark.parametrize("why", ["no session", "quarantined", "too many environments"])
def test_whatever_is_asked_by_who_is_not_let_in_is_thrown_away(
    trainer: HandTrainer, serving: ServingThread, client: HandClient, why: str
) -> None:
    connection, other = trainer.connection, HandClient(trainer, "d")
    client.ask(0)
    if why == "no session":
        connection.delete(trainer.keys.grant("d"))
    elif why == "quarantined":
        other.ask(0)
        cut = grant_for("1-1").model_copy(update={"status": "quarantined"})
        connection.set(trainer.keys.grant("d"), cut.to_json())
        trainer.until(lambda: serving.server.figures.clients == 1, "its environments make room")
    else:
        other.num_envs = MAX_NUM_ENVS + 1
        other.beat()
    connection.rpush(client.replies, b"x")
    for _ in range(2):  # between two looks there is a whole turn
        connection.persist(client.replies)
        trainer.until(lambda: connection.ttl(client.replies) > 0, "it looks at the clients")
    connection.delete(client.replies)
    for _ in range(100):
        other.send(b"x")
    trainer.until(lambda: not connection.exists(other.requests), "they are thrown away")
    assert not connection.exists(other.replies)
    assert client.ask(1).number == 1


def test_answers_that_their_client_leaves_unread_are_few(
    trainer: HandTrainer, serving: ServingThread, client: HandClient
) -> None:
    client.ask(0)
    for _ in range(10):
        trainer.connection.rpush(client.replies, b"x")
    trainer.until(lambda: trainer.connection.llen(client.replies) == MOST_IN_FLIGHT, "the others are gone")
