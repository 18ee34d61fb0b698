"""The connector: a loop written by hand trains a real node."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
import redis

from soulsgui.errors import UsageError
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.sampling import ClientRegistrationError, PPOConnector, ServerTimeoutError
from soulsgui.sampling.connectors import base as connector_module
from soulsgui.wire.codec import pack_sample
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.session import Episode
from tests.faults.waiting import LIMIT_S, until
from tests.sampling.loops import Loop
from tests.training.nodes import STEPS, RunningNode, running_node, small_settings
from tests.training.players import Player

SETTINGS: dict[str, Any] = {"env": {"id": "CartPole-v1"}, "ppo": {"n_steps": STEPS}}


Connect = Callable[..., PPOConnector]


def _loop(connector: PPOConnector, seed: int) -> Loop:
    return Loop(connector, gymnasium.make("CartPole-v1"), seed)


@pytest.fixture
def connect_to(redis_address: Address, redis_client: redis.Redis, keys: Keys) -> Iterator[Connect]:
    """Makes connectors, listed as the runner would do; they are closed at the end."""
    made: list[PPOConnector] = []

    def make(name: str = "hand", config: Any = None) -> PPOConnector:
        redis_client.hset(keys.clients, name, "{}")
        made.append(PPOConnector(SETTINGS if config is None else config, redis_address, name))
        return made[-1]

    yield make
    for connector in made:
        connector.close()


def _episodes(node: RunningNode, name: str) -> list[Episode]:
    entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", node.connection.xrange(node.keys.episodes(name)))
    found = [Episode.read(fields.get(b"e")) for _, fields in entries]
    return [episode for episode in found if episode is not None]


def test_two_loops_train_a_node_for_three_rounds(
    redis_address: Address, tmp_path: Path, connect_to: Connect
) -> None:
    with running_node(redis_address, tmp_path, small_settings(ppo__n_clients=2)) as node:
        loops = {name: _loop(connect_to(name), seed) for seed, name in enumerate(("one", "two"))}
        errors: list[BaseException] = []

        def play(loop: Loop) -> None:
            try:
                loop.connector.sync(timeout=20)
                for _ in range(3):
                    while loop.connector.steps_left:
                        loop.step()
                    loop.connector.sync(timeout=20)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=play, args=(loop,)) for loop in loops.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
        assert errors == []
        state = node.wait_for_updates(3)
        assert (state.env_steps, state.rejected, state.lost_chunks) == (3 * 2 * STEPS, {}, 0)
        for name, loop in loops.items():
            ids = sorted(set(loop.model_ids))
            assert len(loop.model_ids) == 3 * STEPS
            assert len(ids) == 3  # one for each round
            assert loop.connector.model_id == ids[-1] + 1
            until(lambda n=name, m=loop: len(_episodes(node, n)) == len(m.returns), "the episodes")  # type: ignore[misc]
            told = _episodes(node, name)
            assert [episode.total_return for episode in told] == loop.returns
            assert {episode.run_id for episode in told} <= {tmp_path.name}
            loop.env.close()


def test_what_is_trained_on_has_the_probabilities_of_the_published_weights(
    redis_address: Address, tmp_path: Path, connect_to: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node(redis_address, tmp_path) as node:
        batches: list[Any] = []
        update = node.node.agent.update

        def keep(batch: Any, progress: float) -> dict[str, float]:
            batches.append((batch, node.node.agent.export_weights()))
            return update(batch, progress)

        monkeypatch.setattr(node.node.agent, "update", keep)
        connector = connect_to()
        loop = _loop(connector, 1)
        connector.sync(20)
        for _ in range(STEPS // 2):
            loop.step()
        for _ in range(STEPS // 2):
            loop.step({"log_prob": -0.125})  # what the sampler says itself is taken as it is
        connector.sync(20)
        loop.env.close()
        (batch, weights), *_ = batches
        policy = NumpyMLPPolicy(node.node.agent.policy_spec())
        policy.load(weights)
        expected = policy.log_prob(batch.obs[batch.step_rows], batch.action)
        np.testing.assert_allclose(batch.log_prob[: STEPS // 2], expected[: STEPS // 2], atol=1e-6)
        np.testing.assert_array_equal(batch.log_prob[STEPS // 2 :], np.float32(-0.125))


def _push(connector: PPOConnector, step_id: int, model_id: int | None = None) -> None:
    at = np.zeros(4, np.float32)
    chosen = connector.model_id if model_id is None else model_id
    connector.push_sample(pack_sample(at, 0, 1.0, at, False, False, {}, chosen, step_id))


def test_steps_beyond_the_round_or_of_other_weights_are_dropped_and_counted(
    redis_address: Address, tmp_path: Path, connect_to: Connect
) -> None:
    with running_node(redis_address, tmp_path) as node:
        connector = connect_to()
        connector.sync(20)
        assert connector.steps_left == STEPS
        _push(connector, 0, model_id=connector.model_id - 1)
        assert connector.steps_left == STEPS
        for step in range(STEPS + 3):
            _push(connector, step)
        assert connector.steps_left == 0
        connector.sync(20)
        state = node.wait_for_updates(1)
        assert (state.env_steps, state.rejected) == (STEPS, {})
        assert connector._link.progress.dropped == 4
        assert connector._link.progress.env_steps == STEPS + 4
        _push(connector, STEPS + 3)  # a gap since the last one that went out: a segment of its own
        assert connector.steps_left == STEPS - 1


def test_weights_and_their_id_stay_the_same_inside_the_context(
    redis_address: Address, tmp_path: Path, connect_to: Connect
) -> None:
    with running_node(redis_address, tmp_path):
        connector = connect_to()
        connector.sync(20)
        for step_id in range(STEPS):
            _push(connector, step_id)
        syncing = threading.Thread(target=connector.sync, args=(20,))
        with connector as pair:
            before = pair.model_id
            syncing.start()
            syncing.join(0.3)
            assert syncing.is_alive()
            assert connector.model_id == before
            assert pair.agent(np.zeros(4)) in (0, 1)
        syncing.join(LIMIT_S)
        assert connector.model_id == before + 1


def test_without_a_round_sync_ends_with_a_timeout(
    redis_address: Address, tmp_path: Path, connect_to: Connect
) -> None:
    with running_node(redis_address, tmp_path, small_settings(ppo__n_clients=2)) as node:
        connector = connect_to()
        assert connector.steps_left is None
        with pytest.raises(ServerTimeoutError, match=r"a round to play within 0\.2 s"):
            connector.sync(timeout=0.2)
        _push(connector, 0)  # held until the round begins
        other = Player(node.connection, node.keys, "other")
        other.hello()
        other.beat()
        until(lambda: connector.steps_left == STEPS - 1, "the round begins")
        for step_id in range(1, STEPS):
            _push(connector, step_id)
        until(other.share, "the other's share")
        other.deliver(STEPS)
        connector.sync(20)
        assert node.wait_for_updates(1).env_steps == 3 * STEPS


@pytest.mark.allow_warnings
@pytest.mark.parametrize(
    "config", [{"env": {"id": "Acrobot-v1"}}, {"env": {"wrappers": ["FlattenObservation"]}}]
)
def test_another_environment_is_refused(
    redis_address: Address, tmp_path: Path, connect_to: Connect, config: dict[str, Any]
) -> None:
    with (
        running_node(redis_address, tmp_path),
        pytest.raises(ClientRegistrationError, match="environment, wrappers or spaces differ"),
    ):
        connect_to(config=config)


def test_no_server_no_run_and_no_name_end_in_words(
    redis_address: Address, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connector_module, "_JOIN_TIMEOUT_S", 0.2)
    with pytest.raises(ServerTimeoutError, match=r"a run within 0\.2 s"):
        PPOConnector(SETTINGS, redis_address)
    with pytest.raises(UsageError, match="no name"):
        PPOConnector(SETTINGS, redis_address, "a b")
    monkeypatch.setattr("soulsgui.config.paths.default_data_dir", lambda: tmp_path)
    with pytest.raises(UsageError, match="soulsgui serve"):
        PPOConnector(SETTINGS)


@pytest.mark.allow_warnings
def test_another_run_ends_the_connector(redis_address: Address, tmp_path: Path, connect_to: Connect) -> None:
    with running_node(redis_address, tmp_path / "first"):
        connector = connect_to()
    _push(connector, 0)
    with (
        running_node(redis_address, tmp_path / "second"),
        pytest.raises(ClientRegistrationError, match="another run: second"),
    ):
        connector.sync(20)


@pytest.mark.allow_warnings
def test_settings_may_come_as_a_namespace_and_names_by_themselves(
    redis_address: Address, redis_client: redis.Redis, keys: Keys, tmp_path: Path
) -> None:
    config = SimpleNamespace(env=SimpleNamespace(id="CartPole-v1"))
    with running_node(redis_address, tmp_path) as node:
        made: list[PPOConnector] = []
        maker = threading.Thread(target=lambda: made.append(PPOConnector(config, redis_address)))
        maker.start()
        beats: list[Heartbeat | None] = []

        def listed() -> bool:
            found = list(redis_client.scan_iter(keys.beat("*")))
            beats[:] = [Heartbeat.read(cast("bytes", redis_client.get(key))) for key in found]
            return bool(beats)

        until(listed, "the beat")
        assert beats[0] is not None
        node.connection.hset(keys.clients, beats[0].client, "{}")  # as the runner does
        maker.join(LIMIT_S)
        made[0].sync(20)
        assert made[0].steps_left == STEPS
        made[0].close()
        made[0].close()  # twice does no harm
        last = Heartbeat.read(cast("bytes", redis_client.get(keys.beat(beats[0].client))))
        assert last is not None
        assert last.leaving
