"""Simulated clients before a real trainer: on the wire they are clients like all others."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import redis
import redis.asyncio

from soulsgui.sampling.simulate import Fleet, SharedView
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from tests.faults.waiting import LIMIT_S, until
from tests.sampling.free_trainer import beat_of, wish_for
from tests.training.nodes import running_node, small_settings
from tests.training.taking import CONFIG

COUNT = 5


@contextmanager
def playing(address: Address) -> Iterator[None]:
    """A fleet in a thread of its own."""
    stop = threading.Event()

    async def live() -> None:
        await Fleet(address, "sim", COUNT, rate=5_000.0, num_envs=2).run(stop)

    with ThreadPoolExecutor(1) as fleet:
        lived = fleet.submit(asyncio.run, live())
        try:
            yield
        finally:
            stop.set()
            lived.result(LIMIT_S)


@pytest.mark.allow_warnings
def test_simulated_clients_are_trained_with_and_obey(
    redis_address: Address, redis_client: redis.Redis, keys: Keys, tmp_path: Path
) -> None:
    # Put on the roster, as the runner does.
    redis_client.hset(keys.clients, mapping={f"sim-{number}": "{}" for number in range(1, COUNT + 1)})
    settings = small_settings(ppo__n_clients=COUNT, ppo__round_timeout=LIMIT_S)
    wish, beat = partial(wish_for, redis_client, keys), partial(beat_of, redis_client, keys)
    with running_node(redis_address, tmp_path, settings) as node, playing(redis_address):
        state = node.wait_for_updates(3)
        assert state.env_steps == state.updates * COUNT * 2 * settings.ppo.n_steps
        wish("pause", "sim-2")
        until(lambda: beat("sim-2").phase == "paused", "it pauses")
        wish("stop", "sim-3")
        until(lambda: beat("sim-3").leaving, "it leaves")
        # In the round that it was paused in, what it plays is late.
        node.wait_for_updates(node.told().updates + 2)
        wish("run", "sim-2")
        # Between two rounds, of which a busy trainer makes most of the time, it waits.
        until(lambda: beat("sim-2").phase in ("sampling", "waiting"), "it goes on")
        state = node.wait_for_updates(node.told().updates + 2)
        assert (state.rejected, state.lost_chunks) == ({}, 0)
    last = beat("sim-1")
    assert last.leaving
    assert last.env_steps > 0
    assert last.mean_return is not None


def test_clients_of_one_process_share_what_is_costly_to_draw() -> None:
    view = SharedView(redis.asyncio.Redis(), Keys())
    maker = view.maker_of(CONFIG)
    assert view.maker_of(CONFIG.model_copy(deep=True)) is maker
    assert view.maker_of(CONFIG.model_copy(update={"run_id": "another"})) is not maker
