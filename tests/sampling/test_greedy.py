"""A client that is asked for an evaluation: what it plays, tells and keeps to itself."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from soulsgui.policies.exploration import with_still
from soulsgui.policies.policy import make_policy
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.greedy import GreedyEvaluation
from soulsgui.sampling.progress import Progress
from soulsgui.wire.codec import pack_weights
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import GreedyPlay
from soulsgui.wire.messages.session import Episode, Grant, GreedyOrder
from tests.faults.waiting import until
from tests.sampling.free_trainer import (
    ENOUGH,
    POLICY,
    FreeTrainer,
    PlayingClient,
    playing_client,
    stored_steps,
    weights_of,
)

LENGTH = 20
COUNT = 3


def order(model_id: int, count: int = COUNT) -> GreedyOrder:
    return GreedyOrder(model_id=model_id, count=count, attempt=1, update=model_id, env_steps=0, episodes=0)


def trained(trainer: FreeTrainer) -> list[Episode]:
    return [one for one in trainer.episodes() if not one.greedy]


def trains_again(trainer: FreeTrainer) -> bool:
    """Whether the environment that plays evaluations has ended an episode of the training after them."""
    return not [one for one in trainer.episodes() if one.env_index == 0][-1].greedy


def greedy(trainer: FreeTrainer) -> list[Episode]:
    return [one for one in trainer.episodes() if one.greedy]


@pytest.fixture
def trainer(redis_address: Address, request: pytest.FixtureRequest) -> Iterator[FreeTrainer]:
    """A trainer whose client acts at random; a test's parameter changes its settings."""
    made = FreeTrainer(redis_address, env__kwargs={"length": LENGTH}, **getattr(request, "param", {}))
    made.publish(2)
    yield made
    made.close()


@pytest.fixture
def client(redis_address: Address, trainer: FreeTrainer) -> Iterator[PlayingClient]:
    with playing_client(redis_address) as playing:
        trainer.grant(ENOUGH, epsilon=1.0)
        yield playing


def test_the_first_environment_plays_what_is_asked_for(trainer: FreeTrainer, client: PlayingClient) -> None:
    until(lambda: client.progress.greedy == GreedyPlay(), "it can be asked")
    trainer.grant(ENOUGH, epsilon=1.0, greedy=order(2))
    until(lambda: len(greedy(trainer)) == COUNT, "the evaluation")
    asked = [(one.number, one.env_index, one.model_id, one.attempt, one.length) for one in greedy(trainer)]
    assert asked == [(number, 0, 2, 1, LENGTH) for number in range(COUNT)]
    until(lambda: trains_again(trainer), "it goes on")
    client.end()
    assert len(greedy(trainer)) == COUNT, "no more than was asked for"
    # Of the environment that played it, just those episodes are missing, and they are whole.
    sent = {episode for env, episode, _ in stored_steps(trainer.received()) if env == 0}
    assert len(set(range(max(sent) + 1)) - sent) == COUNT
    first = (0, min(sent))  # the very first is greedy where the client was asked before it had begun
    steps = [step for env, episode, step in stored_steps(trainer.received()) if (env, episode) == first]
    assert sorted(steps) == list(range(LENGTH))
    numbers = [one.number for one in trained(trainer)]
    assert numbers == list(range(len(numbers))), "training episodes are numbered without them"
    beat = client.progress.beat().greedy
    assert beat == GreedyPlay(model_id=2, played=COUNT, steps=COUNT * LENGTH)


def test_an_evaluation_is_of_the_weights_asked_for_and_told_of_unless_it_is_withdrawn(
    trainer: FreeTrainer, client: PlayingClient
) -> None:
    trainer.grant(ENOUGH, epsilon=1.0, greedy=order(1))
    before = trainer.steps()
    until(lambda: trainer.steps() > before + 10 * LENGTH, "it plays on: those weights are gone")
    assert (client.progress.greedy, greedy(trainer)) == (GreedyPlay(), [])
    trainer.grant(ENOUGH, epsilon=1.0, greedy=order(2, count=50))
    until(lambda: greedy(trainer), "it has begun")
    trainer.publish(3)
    until(lambda: client.progress.model_id == 3, "the others play with newer weights")
    until(lambda: len(greedy(trainer)) == 50, "the evaluation")
    assert {one.model_id for one in greedy(trainer)} == {2}
    assert 3 in {one.model_id for one in trained(trainer)}
    trainer.grant(ENOUGH, epsilon=1.0, greedy=order(3, count=10_000))
    until(lambda: len(greedy(trainer)) > 50, "the next has begun")
    trainer.grant(ENOUGH, epsilon=1.0)
    until(lambda: trains_again(trainer), "its first environment trains again")
    told = len(greedy(trainer))
    trainer.publish(4)
    trainer.grant(ENOUGH, epsilon=1.0, greedy=order(4))
    until(lambda: len(greedy(trainer)) == told + COUNT, "the next evaluation")
    assert [(one.model_id, one.number) for one in greedy(trainer)[told:]] == [(4, n) for n in range(COUNT)]


@pytest.mark.parametrize("trainer", [{"env__num_envs": 1, "evaluation__max_steps": 15}], indirect=True)
@pytest.mark.allow_warnings
def test_one_environment_plays_it_between_two_episodes_and_is_cut_where_it_does_not_end(
    trainer: FreeTrainer, client: PlayingClient
) -> None:
    until(trainer.received, "it trains")
    trainer.grant(ENOUGH, epsilon=1.0, greedy=order(2))
    until(lambda: len(greedy(trainer)) == COUNT, "the evaluation")
    until(lambda: trains_again(trainer), "it trains again")
    client.end()
    for one in trainer.received():
        np.testing.assert_array_equal(one.segments.env_index, 0)
    # Step k gives k: each begins anew.
    found = {(one.length, one.total_return, one.terminated, one.cut) for one in greedy(trainer)}
    assert found == {(15, sum(range(16)), False, True)}
    assert {(one.length, one.cut) for one in trained(trainer)} == {(LENGTH, False)}


def test_it_acts_greedily_without_noise_in_the_first_environment_alone() -> None:
    still = weights_of(2)  # its best action is 0
    noisy = weights_of(3)
    header, _ = pack_weights("run-1", 1, 2, 2, still, (), 0, 0)
    asked = ServerView(
        header=header,
        tensors=with_still(noisy, still),
        grant=Grant(session="1-1", status="accepted", greedy=order(2, count=1)),
    )
    told: list[int] = []
    progress = Progress("c", Instance(), 3, {})
    playing = GreedyEvaluation(
        lambda *_: make_policy(POLICY.to_json()), progress, lambda: told.append(1), 900
    )
    ones, obs = np.ones(3, np.int64), np.zeros((3, 2), np.float32)
    playing.at_start()
    assert not playing.active
    playing.hear(order(2, count=1), asked)
    assert told
    assert not playing.active, "the episode that is under way belongs to the training"
    playing.at_start()
    assert playing.active
    np.testing.assert_array_equal(playing.instead(obs, None, ones), [0, 1, 1])
    np.testing.assert_array_equal(ones, 1)
    only_one = np.array([[False, True]] * 3)
    np.testing.assert_array_equal(playing.instead(obs, only_one, ones), [1, 1, 1])
    assert playing.ended() == (order(2, count=1), 0)
    playing.at_start()
    assert not playing.active


class Tenfold:
    """Chooses 0.5, which is 5 to the environment."""

    def load(self, _tensors: Any) -> None:
        """Take anything."""

    def greedy(self, obs: Any, _mask: Any) -> Any:
        return np.full((len(obs), 1), 0.5, np.float32)

    def to_environment(self, action: Any) -> Any:
        return 10 * action


def test_where_the_others_act_as_environments_take_it_so_does_the_first() -> None:
    header, _ = pack_weights("run-1", 1, 2, 2, weights_of(2), (), 0, 0)
    grant = Grant(session="1-1", status="accepted", greedy=order(2))
    asked = ServerView(header=header, tensors=weights_of(2), grant=grant)
    made: Any = Tenfold()
    playing = GreedyEvaluation(lambda *_: made, Progress("c", Instance(), 2, {}), lambda: None, 900)
    playing.hear(order(2), asked)
    playing.at_start()
    obs, others = np.zeros((2, 2), np.float32), np.full((2, 1), 3.0, np.float32)
    np.testing.assert_array_equal(playing.instead(obs, None, others), [[0.5], [3.0]])
    np.testing.assert_array_equal(playing.instead(obs, None, others, converted=True), [[5.0], [3.0]])


@pytest.mark.parametrize(
    "trainer", [{"determinism": "lockstep", "clients__local": 0}, {"algorithm": "ppo"}], indirect=True
)
@pytest.mark.usefixtures("trainer")
def test_in_lockstep_and_in_rounds_nobody_can_be_asked(redis_address: Address) -> None:
    with playing_client(redis_address) as client:
        until(lambda: client.progress.session, "it has joined")
        assert client.progress.greedy is None
