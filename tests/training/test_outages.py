"""The PPO node, whole, on servers that are killed, wiped and full."""

import threading
from pathlib import Path
from typing import Any

import pytest

from soulsgui.training.learners.rounds import RoundLearner
from soulsgui.wire.connection import connect
from tests.faults.server import faulty_server
from tests.faults.waiting import until
from tests.training.nodes import STEPS, join, next_round, play, running_node


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
def test_a_refusing_server_loses_no_round_and_the_state_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        until(lambda: node.node.reporter._link._refusal, "the state is refused too")
        monkeypatch.undo()
        admin.config_set("maxmemory", "0")
        admin.close()
        tick = node.told().tick
        until(lambda: node.told().tick > tick, "the state is told again")
        node.wait_for_updates(2)
        play(player, last=share.round_id)
        assert node.wait_for_updates(3).rejected == {}
