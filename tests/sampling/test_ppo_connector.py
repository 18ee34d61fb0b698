import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import redis

from soulsgui.errors import UsageError
from soulsgui.sampling import ClientRegistrationError, PPOConnector, ServerTimeoutError
from soulsgui.sampling.connectors import base as connector_module
from soulsgui.wire.codec import pack_sample
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.session import Episode
from tests.faults.waiting import LIMIT_S, until
from tests.sampling.loops import Loop
from tests.training.nodes import STEPS, RunningNode, heard_batches, running_node, small_settings
from tests.training.players import Player

SETTINGS: dict[str, Any] = {"env": {"id": "CartPole-v1"}, "ppo": {"n_steps": STEPS}}


def _loop(connector: PPOConnector, seed: int) -> Loop:
    return Loop(connector, gymnasium.make("CartPole-v1"), seed)


class _Bench:
    """Makes nodes, and connectors that are listed as the runner would do."""

    def __init__(self, address: Address, connection: redis.Redis, folder: Path) -> None:
        self.address, self.connection, self.folder = address, connection, folder
        self.keys = Keys(address.prefix)
        self.made = ExitStack()

    def node(self, run_id: str = "run", **changed: Any) -> AbstractContextManager[RunningNode]:
        return running_node(self.address, self.folder / run_id, small_settings(**changed))

    def connect(self, name: str = "hand", config: Any = SETTINGS) -> PPOConnector:
        self.connection.hset(self.keys.clients, name, "{}")
        return self.made.enter_context(closing(PPOConnector(config, self.address, name)))


@pytest.fixture
def bench(
    redis_address: Address, redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[_Bench]:
    monkeypatch.setattr("soulsgui.training.intake.roster.LATE_S", LIMIT_S)
    bench = _Bench(redis_address, redis_client, tmp_path)
    with bench.made:
        yield bench


def _episodes(node: RunningNode, name: str) -> list[Episode]:
    found = [Episode.read(fields.get(b"e")) for _, fields in node.connection.xrange(node.keys.episodes(name))]
    return [episode for episode in found if episode is not None]


def test_two_loops_train_a_node_for_three_rounds(bench: _Bench) -> None:
    with bench.node(ppo__n_clients=2) as node:
        loops = {name: _loop(bench.connect(name), seed) for seed, name in enumerate(("one", "two"))}

        def play(loop: Loop) -> None:
            loop.connector.sync(timeout=LIMIT_S)
            for _ in range(3):
                while loop.connector.steps_left:
                    loop.step()
                loop.connector.sync(timeout=LIMIT_S)

        with ThreadPoolExecutor(2) as players:
            list(players.map(play, loops.values()))
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
            assert {episode.run_id for episode in told} <= {"run"}
            loop.env.close()


def test_probabilities_are_those_of_published_weights(bench: _Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench.node() as node:
        heard = heard_batches(node, monkeypatch)
        connector = bench.connect()
        loop = _loop(connector, 1)
        connector.sync(LIMIT_S)
        for _ in range(STEPS // 2):
            loop.step()
        for _ in range(STEPS // 2):
            loop.step({"log_prob": -0.125})  # what the sampler says itself is taken as it is
        connector.sync(LIMIT_S)
        loop.env.close()
        (batch, policy), *_ = heard
        expected = policy.log_prob(batch.obs[batch.step_rows], batch.action)
        np.testing.assert_allclose(batch.log_prob[: STEPS // 2], expected[: STEPS // 2], atol=1e-6)
        np.testing.assert_array_equal(batch.log_prob[STEPS // 2 :], np.float32(-0.125))


def _push(connector: PPOConnector, step_id: int, model_id: int | None = None) -> None:
    at = np.zeros(4, np.float32)
    chosen = connector.model_id if model_id is None else model_id
    connector.push_sample(pack_sample(at, 0, 1.0, at, False, False, {}, chosen, step_id))


def test_steps_beyond_the_round_or_of_other_weights_are_dropped_and_counted(bench: _Bench) -> None:
    with bench.node() as node:
        connector = bench.connect()
        connector.sync(LIMIT_S)
        assert connector.steps_left == STEPS
        _push(connector, 0, model_id=connector.model_id - 1)
        assert connector.steps_left == STEPS
        for step in range(STEPS + 3):
            _push(connector, step)
        assert connector.steps_left == 0
        connector.sync(LIMIT_S)
        state = node.wait_for_updates(1)
        assert (state.env_steps, state.rejected) == (STEPS, {})
        assert connector._link.progress.dropped == 4
        assert connector._link.progress.env_steps == STEPS + 4
        _push(connector, STEPS + 3)  # a gap since the last one that went out: a segment of its own
        assert connector.steps_left == STEPS - 1
        for step_id in range(STEPS - 1):
            _push(connector, STEPS + 4 + step_id)
        syncing = threading.Thread(target=connector.sync, args=(LIMIT_S,))
        with connector as pair:
            before = pair.model_id
            syncing.start()
            syncing.join(0.3)
            assert syncing.is_alive()
            assert connector.model_id == before, "weights and their id stay the same inside the context"
            assert pair.agent(np.zeros(4)) in (0, 1)
        syncing.join(LIMIT_S)
        assert connector.model_id == before + 1


def test_without_a_round_sync_ends_with_a_timeout(bench: _Bench) -> None:
    with bench.node(ppo__n_clients=2) as node:
        connector = bench.connect()
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
        connector.sync(LIMIT_S)
        assert node.wait_for_updates(1).env_steps == 3 * STEPS


def test_no_server_no_run_and_no_name_end_in_words(
    redis_address: Address, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connector_module, "_JOIN_TIMEOUT_S", 0.2)
    with pytest.raises(ServerTimeoutError, match=r"a run within 0\.2 s"):
        PPOConnector(SETTINGS, redis_address)
    with pytest.raises(UsageError, match="not a client name"):
        PPOConnector(SETTINGS, redis_address, "a b")
    monkeypatch.setattr("soulsgui.config.paths.default_data_dir", lambda: tmp_path)
    with pytest.raises(UsageError, match="soulsgui serve"):
        PPOConnector(SETTINGS)


@pytest.mark.allow_warnings
def test_settings_may_come_as_a_namespace_and_names_by_themselves(bench: _Bench) -> None:
    config = SimpleNamespace(env=SimpleNamespace(id="CartPole-v1"))
    with bench.node(), ThreadPoolExecutor(1) as maker:
        making = maker.submit(PPOConnector, config, bench.address)
        until(lambda: list(bench.connection.scan_iter(bench.keys.beat("*"))), "the beat")
        (key,) = bench.connection.scan_iter(bench.keys.beat("*"))
        name = Heartbeat.read(bench.connection.get(key)).client
        bench.connection.hset(bench.keys.clients, name, "{}")  # as the runner does
        connector = making.result(LIMIT_S)
        connector.sync(LIMIT_S)
        assert connector.steps_left == STEPS
        connector.close()
        connector.close()  # twice does no harm
        for other in ({"id": "Acrobot-v1"}, {"wrappers": ["FlattenObservation"]}):
            with pytest.raises(ClientRegistrationError, match="environment, wrappers or spaces differ"):
                bench.connect(config={"env": other})
        assert Heartbeat.read(bench.connection.get(key)).leaving
