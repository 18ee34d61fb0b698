"""The PPO node, whole, on servers that are killed, wiped and full."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import redis

from soulsgui.training.learners.rounds import RoundLearner
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.messages.session import Grant
from tests.faults.server import faulty_server
from tests.faults.waiting import until
from tests.training.nodes import STEPS, join, next_round, play, running_node


@pytest.mark.allow_warnings
@pytest.mark.parametrize("keeps_data", [True, False], ids=["with its data", "without data"])
def test_training_goes_on_after_the_server_was_killed(tmp_path: Path, keeps_data: bool) -> None:
    (tmp_path / "server").mkdir()
    with (
        faulty_server(tmp_path / "server", keeps_data) as server,
        running_node(server.address, tmp_path / "run") as node,
    ):
        player = join(node)
        last = play(player)
        node.wait_for_updates(1)
        next_round(player, last)
        server.restart()
        if not keeps_data:
            until(player.config, "the run is told again")
            player = join(node)
        last = play(player, last=last)
        state = node.wait_for_updates(2)
        assert state.env_steps == 4 * STEPS
        assert next_round(player, last).round_id == last + 1


@pytest.mark.allow_warnings
def test_neither_absence_nor_an_update_is_time_of_collecting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server").mkdir()
    long_s = 1.0
    passed: list[float] = []
    advance = RoundLearner.update

    def record(learner: RoundLearner, seconds: float) -> None:
        passed.append(seconds)
        advance(learner, seconds)

    monkeypatch.setattr(RoundLearner, "update", record)
    with (
        faulty_server(tmp_path / "server", keeps_data=True) as server,
        running_node(server.address, tmp_path / "run") as node,
    ):
        player = join(node)
        next_round(player)
        server.kill()
        until(lambda: node.node._returning, "the absence is noticed")
        threading.Event().wait(long_s)
        server.start()
        update = node.node.agent.update

        def slow_update(*args: Any) -> dict[str, float]:
            threading.Event().wait(long_s)
            return update(*args)

        monkeypatch.setattr(node.node.agent, "update", slow_update)
        player.deliver(STEPS)
        node.wait_for_updates(1)
        count = len(passed)
        until(lambda: len(passed) > count + 2, "it goes on")
    assert max(passed) < long_s


@pytest.mark.allow_warnings
def test_a_refusing_server_loses_no_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "server").mkdir()
    with (
        faulty_server(tmp_path / "server") as server,
        running_node(server.address, tmp_path / "run") as node,
    ):
        player = join(node)
        last = play(player)
        node.wait_for_updates(1)
        share = next_round(player, last)
        admin = connect(server.address)
        update = node.node.agent.update

        def full_meanwhile(*args: Any) -> dict[str, float]:
            admin.config_set("maxmemory", "1")
            return update(*args)

        monkeypatch.setattr(node.node.agent, "update", full_meanwhile)
        player.deliver(share.steps // player.num_envs)
        until(lambda: node.node.attempt.link._refusal, "the refusal is noticed")
        monkeypatch.undo()
        admin.config_set("maxmemory", "0")
        admin.close()
        node.wait_for_updates(2)
        play(player, last=share.round_id)
        assert node.wait_for_updates(3).rejected == {}


def test_the_run_without_clients_does_not_spin(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path) as node:
        node.wait_for(lambda now: now.phase == "waiting", "it waits")
        before = node.node.training.status.tick
        threading.Event().wait(0.5)
        assert 0 < node.node.training.status.tick - before < 30


@pytest.mark.allow_warnings
def test_a_round_whose_grants_did_not_go_out_is_told_again(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node(redis_address, tmp_path) as node:
        until(lambda: node.connection.exists(node.keys.weights), "the first weights, without a round")
        publish, failures = node.node.attempt.publisher.publish, 0

        def fail_once(connection: redis.Redis, grants: Mapping[str, Grant]) -> None:
            nonlocal failures
            failures += 1
            if failures == 1:
                raise redis.ConnectionError("lost")
            publish(connection, grants)

        monkeypatch.setattr(node.node.attempt.publisher, "publish", fail_once)
        player = join(node)
        next_round(player)
        player.deliver(STEPS)
        node.wait_for_updates(1)


@pytest.mark.allow_warnings
def test_the_state_is_told_while_the_server_refuses_everything_else(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with (
        faulty_server(tmp_path / "server") as server,
        running_node(server.address, tmp_path / "run") as node,
    ):
        until(lambda: node.connection.exists(node.keys.node("trainer")), "the state")
        node.connection.config_set("maxmemory", "1")
        until(lambda: node.node.reporter._link._refusal, "the state is refused too")
        node.connection.config_set("maxmemory", "0")
        tick = node.told().tick
        until(lambda: node.told().tick > tick, "the state is told again")


@pytest.mark.allow_warnings
def test_a_hello_whose_answer_was_refused_is_answered_later(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node(redis_address, tmp_path) as node:
        until(lambda: node.connection.exists(node.keys.weights), "the first weights")
        tell, refusals = node.node.attempt.publisher.tell_all, 0

        def refuse_once(connection: redis.Redis, grants: dict[str, Grant]) -> None:
            nonlocal refusals
            refusals += 1
            if refusals == 1:
                raise redis.OutOfMemoryError("full")
            tell(connection, grants)

        monkeypatch.setattr(node.node.attempt.publisher, "tell_all", refuse_once)
        play(join(node))
        node.wait_for_updates(1)
        assert refusals > 1
