"""Simulated clients before a real trainer: on the wire they are clients like all others."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
import redis.asyncio

from soulsgui.sampling.simulate import Fleet, SharedView
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat
from tests.faults.waiting import LIMIT_S, until
from tests.sampling.free_trainer import beat_of, wish_for
from tests.training.nodes import running_node, small_settings
from tests.training.taking import CONFIG

COUNT = 5


@contextmanager
def playing(address: Address, count: int = COUNT) -> Iterator[Fleet]:
    """A fleet in a thread of its own."""
    stop = threading.Event()
    made: list[Fleet] = []
    ready = threading.Event()

    async def live() -> None:
        made.append(Fleet(address, "sim", count, rate=5_000.0, num_envs=2))
        ready.set()
        await made[0].run(stop)

    thread = threading.Thread(target=lambda: asyncio.run(live()), name="fleet")
    thread.start()
    try:
        assert ready.wait(LIMIT_S)
        yield made[0]
    finally:
        stop.set()
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def beat(connection: redis.Redis, keys: Keys, client: str) -> Heartbeat:
    found = beat_of(connection, keys, client)
    assert found is not None
    return found


@pytest.mark.allow_warnings
def test_simulated_clients_are_trained_with_obey_and_nothing_of_theirs_is_refused(
    redis_address: Address, redis_client: redis.Redis, keys: Keys, tmp_path: Path
) -> None:
    # Put on the roster, as the runner does.
    redis_client.hset(keys.clients, mapping={f"sim-{number}": "{}" for number in range(1, COUNT + 1)})
    settings = small_settings(ppo__n_clients=COUNT, ppo__round_timeout=20.0)

    def wish(client: str, state: str) -> None:
        wish_for(redis_client, keys, state, client)

    with running_node(redis_address, tmp_path, settings) as node, playing(redis_address):
        state = node.wait_for_updates(3)
        assert state.env_steps == state.updates * COUNT * 2 * settings.ppo.n_steps
        wish("sim-2", "pause")
        until(lambda: beat(redis_client, keys, "sim-2").phase == "paused", "it pauses")
        wish("sim-3", "stop")
        until(lambda: beat(redis_client, keys, "sim-3").leaving, "it leaves")
        wish("sim-2", "run")
        # Between two rounds, of which a busy trainer makes most of the time, it waits.
        until(lambda: beat(redis_client, keys, "sim-2").phase in ("sampling", "waiting"), "it goes on")
        state = node.wait_for_updates(node.told().updates + 2)
        assert (state.rejected, state.lost_chunks) == ({}, 0)
    last = beat(redis_client, keys, "sim-1")
    assert last.leaving
    assert last.env_steps > 0
    assert last.mean_return is not None


def test_clients_of_one_process_share_what_is_costly_to_draw() -> None:
    view = SharedView(redis.asyncio.Redis(), Keys())
    maker = view.maker_of(CONFIG)
    assert view.maker_of(CONFIG.model_copy(deep=True)) is maker
    assert view.maker_of(CONFIG.model_copy(update={"run_id": "another"})) is not maker
