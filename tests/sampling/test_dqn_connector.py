"""The connector of asynchronous algorithms: pushes never wait, weights change by themselves, pairs hold."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from soulsgui.errors import ClientRegistrationError, ServiceError, UsageError
from soulsgui.experience.segments import TERMINATED, TRUNCATED
from soulsgui.sampling import DQNConnector, PPOConnector
from soulsgui.sampling.connectors import base as connector_module
from soulsgui.sampling.connectors.samples import Assembler
from soulsgui.wire.codec import pack_sample
from soulsgui.wire.connection import Address
from tests.environments.toys import Counter
from tests.faults.server import FaultyServer
from tests.faults.waiting import LIMIT_S, until
from tests.sampling.free_trainer import ENV_ID, LENGTH, FreeTrainer, check_weights, check_whole, settings
from tests.sampling.loops import Loop

OBS = np.zeros(2, np.float32)
CONFIG = {"env": {"id": ENV_ID, "kwargs": {"length": LENGTH}}}


def _connected(address: Address, let_in: Callable[[], None]) -> DQNConnector:
    """Make a connector; who lets it in does so meanwhile."""
    with ThreadPoolExecutor(1) as maker:
        made = maker.submit(DQNConnector, CONFIG, address, "c")
        let_in()
        return made.result(LIMIT_S)


@pytest.fixture
def connector(trainer: FreeTrainer, redis_address: Address) -> Iterator[DQNConnector]:
    made = _connected(redis_address, lambda: trainer.grant(None))
    yield made
    made.close()


def _push(connector: DQNConnector, step_id: int, model_id: int = 1, action: int = 1, **info: float) -> None:
    obs, after = np.array([0, step_id], np.float32), np.array([0, step_id + 1], np.float32)
    connector.push_sample(pack_sample(obs, action, 1.0, after, False, False, info, model_id, step_id))


@settings(client__segment_length=16)
def test_what_a_loop_pushes_arrives_whole(trainer: FreeTrainer, connector: DQNConnector) -> None:
    loop = Loop(connector, Counter(20))
    for _ in range(110):
        loop.step()
    until(lambda: trainer.steps() == 110, "all steps")
    received = trainer.received()
    check_whole(received)
    check_weights(trainer, received)
    assert max(one.segments.length.max() for one in received) <= 16
    flags = np.concatenate([one.segments.flags for one in received])
    assert flags[flags > 0].tolist() == [TERMINATED, TRUNCATED] * 2 + [TERMINATED]
    for one in received:
        row = 0
        for first, length in zip(one.segments.first_step, one.segments.length, strict=True):
            seen = one.segments.obs[row : row + length + 1, 1]
            np.testing.assert_array_equal(seen, np.arange(first, first + length + 1))
            row += length + 1
    until(lambda: len(trainer.episodes()) == 5, "the episodes")
    assert {(one.total_return, one.length, one.model_id) for one in trainer.episodes()} == {(210.0, 20, 1)}
    assert [one.number for one in trainer.episodes()] == [0, 1, 2, 3, 4]


def test_weights_change_but_never_within_the_context(trainer: FreeTrainer, connector: DQNConnector) -> None:
    assert (connector.model_id, connector.agent(OBS)) == (1, 1)
    with connector as (agent, model_id):
        trainer.publish(2)
        until(lambda: connector._newest.header.model_id == 2, "the weights are here")
        assert (model_id, connector.model_id, agent(OBS), connector.agent(OBS)) == (1, 1, 1, 1)
        with connector as (inner, inner_id):
            assert (inner_id, inner(OBS)) == (1, 1)
        assert connector.model_id == 1
    assert (connector.model_id, connector.agent(OBS)) == (2, 0)
    trainer.publish(3)
    until(lambda: connector.model_id == 3, "they change without a context, too")
    assert connector.agent(OBS) == 1


def _newer_weights(trainer: FreeTrainer, connector: DQNConnector) -> None:
    trainer.publish(2)
    until(lambda: connector.model_id == 2, "the weights are here")


def test_steps_carry_the_weights_that_chose_them(trainer: FreeTrainer, connector: DQNConnector) -> None:
    _newer_weights(trainer, connector)
    for step in range(5):
        _push(connector, step, model_id=1, action=1)
    for step in range(5, 9):
        _push(connector, step, model_id=2, action=0)
    _push(connector, 9, model_id=3)  # which it never had
    until(lambda: trainer.steps() == 9, "the steps")
    received = trainer.received()
    check_weights(trainer, received)
    check_whole(received)
    chosen_by = np.concatenate(
        [np.repeat(one.segments.model_id_first, one.segments.length) for one in received]
    )
    assert chosen_by.tolist() == [1] * 5 + [2] * 4
    assert connector._link.progress.dropped == 1
    assert not any(one.segments.log_prob.any() for one in received), "nobody asks for probabilities"


def test_actions_are_as_random_as_the_grant_says(trainer: FreeTrainer, connector: DQNConnector) -> None:
    assert {connector.agent(OBS) for _ in range(50)} == {1}
    trainer.grant(None, epsilon=1.0)
    until(lambda: connector._grant is not None and connector._grant.epsilon == 1.0, "the grant is heard")
    assert {connector.agent(OBS) for _ in range(50)} == {0, 1}


@settings(algorithm="vtrace")
def test_unsaid_probabilities_are_those_of_who_chose(trainer: FreeTrainer, connector: DQNConnector) -> None:
    def sent(steps: int) -> Any:
        until(lambda: trainer.steps() == steps, "the steps")
        return np.concatenate([one.segments.log_prob for one in trainer.received()])

    _newer_weights(trainer, connector)
    _push(connector, 0, model_id=1, action=1)  # its best one, by odds of e to 1
    _push(connector, 1, model_id=2, action=1)  # no longer
    _push(connector, 2, model_id=2, action=1, log_prob=-0.125)
    best = -np.log(1 + np.exp(-1))
    np.testing.assert_allclose(sent(3), [best, best - 1, -0.125], atol=1e-6)
    connector._policies.clear()  # of long ago
    for step, said in ((3, {}), (4, {"log_prob": -0.25}), (5, {})):
        _push(connector, step, **said)
    until(lambda: connector._link.progress.dropped == 2, "they are dropped")
    assert sent(4)[3] == -0.25


@pytest.mark.allow_warnings
def test_what_is_no_sample_is_said_by_the_next_push(
    trainer: FreeTrainer, connector: DQNConnector, caplog: pytest.LogCaptureFixture
) -> None:
    odd = pack_sample(np.zeros(3), 0, 1.0, np.zeros(3), False, False, {}, 1, 0)
    for data, said in ((b"garbage", "not a sample"), (odd, "observations")):
        connector.push_sample(data)
        until(lambda: connector._complaint, "it is noticed")
        with pytest.raises(UsageError, match=said):
            _push(connector, 0)
        assert said in caplog.text
    with pytest.raises(UsageError):
        connector.push_episode_info(b"{}")
    _push(connector, 0)
    until(lambda: trainer.steps() == 1, "the good one")
    assert connector._link.progress.env_steps == 1


@settings(client__segment_length=10, client__segment_seconds=60)
def test_what_the_server_does_not_take_is_dropped_and_closing_sends_the_rest(
    trainer: FreeTrainer, connector: DQNConnector
) -> None:
    progress = connector._link.progress
    trainer.grant(20)
    until(lambda: not connector._uploader.has_room(20), "the grant is heard")
    for step in range(20):
        _push(connector, step)
    until(lambda: trainer.steps() == 20, "the credit is used up")
    for step in range(20, 200):
        _push(connector, step)
    until(lambda: progress.dropped == 170, "all but the newest ten are dropped")
    trainer.grant(30)
    until(lambda: trainer.steps() == 30, "they are sent")
    received = trainer.received()
    assert received[-1].segments.first_step.tolist() == [190]
    assert [one.number for one in received] == list(range(len(received)))
    assert progress.dropped == 170
    trainer.grant(100)
    until(lambda: connector._uploader.has_room(20), "the grant is heard")
    for step in range(200, 205):
        _push(connector, step)
    connector.close()
    connector.close()  # twice does no harm
    assert trainer.steps() == 35, "closing sends what was pushed"
    beat = trainer.beat()
    assert (beat.leaving, beat.env_steps, beat.dropped) == (True, 205, 170)


@pytest.mark.allow_warnings
def test_the_loop_goes_on_while_the_server_is_frozen_or_away(server: FaultyServer) -> None:
    trainer = FreeTrainer(server.address, client__segment_seconds=0.01)
    trainer.publish(1)
    connector = _connected(server.address, lambda: trainer.grant(None))
    loop = Loop(connector, Counter(LENGTH))
    with server.frozen():
        for _ in range(300):
            loop.step()
    until(lambda: trainer.steps() == 300, "all of it")
    first = trainer.hello()
    server.kill()
    for _ in range(300):
        loop.step()
    server.start()  # without its data
    until(lambda: trainer.sessions() and trainer.hello() > first, "a new session")
    trainer.publish(2)
    trainer.grant(None)
    until(lambda: connector.model_id == 2, "updates go on")
    for _ in range(100):
        loop.step()
    until(lambda: trainer.steps() == 400, "what waited, and the new ones")
    check_weights(trainer, trainer.received())
    assert connector._link.progress.dropped == 0
    connector.close()
    trainer.close()


@pytest.mark.allow_warnings
def test_another_run_ends_the_connector(trainer: FreeTrainer, connector: DQNConnector) -> None:
    trainer.begin_run("run-2")
    trainer.publish(5)
    until(lambda: connector._failure, "it is noticed")
    for refused in (
        lambda: _push(connector, 0),
        lambda: connector.push_episode_info(b'{"total_return": 1.0, "length": 1}'),
        lambda: connector.model_id,  # who waits for newer weights learns that there will be none
        connector.__enter__,
    ):
        with pytest.raises(ClientRegistrationError, match="another run: run-2"):
            refused()
    with ThreadPoolExecutor(1) as other:
        free = other.submit(connector._lock.acquire, blocking=False).result(LIMIT_S)
    assert free, "who was refused holds nothing"


@pytest.mark.allow_warnings
def test_a_defect_is_told_at_the_next_push(connector: DQNConnector, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(Assembler, "assemble", fail)
    _push(connector, 0)
    until(lambda: connector._failure, "it is noticed")
    with pytest.raises(ServiceError, match="a defect"):
        _push(connector, 1)


@pytest.mark.parametrize("before", ["ppo", "dqn"])
def test_the_run_before_is_not_held_against_the_one_that_begins(
    before: str, redis_address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    trainer = FreeTrainer(redis_address, algorithm=before)
    trainer.publish(1)

    def another_run() -> None:
        if before == "ppo":
            until(lambda: "Another run is waited for" in caplog.text, "it has read of the run before")
        else:
            trainer.hello()
        trainer.settings["algorithm"] = "dqn"
        trainer.begin_run("run-2")
        trainer.publish(2)
        until(lambda: any(hello.run_id == "run-2" for hello in trainer.hellos()), "it greets the new run")
        trainer.grant(None)

    connector = _connected(redis_address, another_run)
    assert connector.model_id == 2
    connector.close()
    trainer.close()


@pytest.mark.parametrize(
    ("trainer", "kind", "said"),
    [
        ({"algorithm": "dqn"}, PPOConnector, "DQNConnector"),
        ({"algorithm": "ppo"}, DQNConnector, "PPOConnector"),
        ({"determinism": "lockstep", "clients__local": 1}, DQNConnector, "lockstep"),
    ],
    indirect=["trainer"],
)
@pytest.mark.usefixtures("trainer")
def test_a_run_that_takes_no_such_connector_says_so(
    redis_address: Address, monkeypatch: pytest.MonkeyPatch, kind: type[DQNConnector], said: str
) -> None:
    monkeypatch.setattr(connector_module, "_ANOTHER_RUN_S", 0.0)  # none begins in its place
    with pytest.raises(ClientRegistrationError, match=said):
        kind(CONFIG, redis_address, "c")
