"""A client whose rewards are of another size: nothing of it is learned from, and who it is is told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.training.divergence import DivergenceError, Divergences
from soulsgui.wire.connection import Address
from tests.faults.waiting import until
from tests.training.nodes import RunningNode, RunNode, dqn_settings, join
from tests.training.players import Player

pytestmark = pytest.mark.allow_warnings


def _send(player: Player, reward: float = 1.0, steps: int = 8) -> None:
    player.deliver(steps, reward=np.full(player.num_envs * steps, reward, np.float32))


def _taken(node: RunningNode, steps: int) -> None:
    node.wait_for(lambda now: now.env_steps == steps, f"{steps} steps are taken")


def test_rewards_times_a_million_are_cut_off_before_anything_is_learned_from_them(run_node: RunNode) -> None:
    with run_node(dqn_settings(dqn__learning_starts=1000)) as node:
        good, evil = join(node, "client-1"), join(node, "evil")
        memory = node.node.learner.memory
        for number, player in enumerate((good, evil), start=1):
            _send(player)
            _taken(node, 16 * number)
        _send(evil, reward=1e6)
        until(lambda: evil.granted().status == "quarantined", "it is cut off")
        assert evil.granted().reason == "its rewards are 1e+06 times as large as those of the others"
        assert len(memory) == 16, "what it had sent before left the memory, too"
        assert node.wait_for(lambda now: now.rejected, "it is counted").rejected == {"not_admitted": 1}
        assert node.answer(node.ask("release", client="evil")).ok
        until(lambda: evil.granted().status == "accepted", "somebody has looked at it")
        _send(evil, reward=1e6)
        _taken(node, 48)
        purged = node.answer(node.ask("purge", client="evil"))
        assert (purged.result, len(memory)) == ({"transitions": 16}, 16)


def test_the_trainer_tells_what_came_of_invited_clients(run_node: RunNode) -> None:
    with run_node(dqn_settings(dqn__learning_starts=1000)) as node:
        good, own = join(node, "pc"), join(node, "client-1")
        _send(own)
        _send(good, reward=-2.0)
        # Of two environments with a segment of 8 steps each both episodes ended.
        wanted = {"pc": (2, 8.0, -16.0, 16.0)}
        node.wait_for(lambda now: now.arrived == wanted, "what came")


@pytest.mark.parametrize(("reward", "what"), [(1.0, "returns"), (0.0, "episode lengths")])
def test_episodes_of_another_size_are_cut_off_too(run_node: RunNode, reward: float, what: str) -> None:
    with run_node(dqn_settings(dqn__learning_starts=1000)) as node:
        good, evil = join(node, "client-1"), join(node, "evil")
        for _ in range(6):
            _send(good, reward, steps=1)
        _taken(node, 12)
        _send(evil, reward, steps=100_000)
        until(lambda: evil.granted().status == "quarantined", "it is cut off")
        assert evil.granted().reason.startswith(f"its {what} are ")
        assert len(node.node.learner.memory) == 12


def test_who_is_served_is_judged_and_purged_by_its_own_name(run_node: RunNode) -> None:
    """Of several clients whose samples an inference server sends."""
    with run_node(dqn_settings(dqn__learning_starts=1000)) as node:
        good, evil = join(node, "client-1"), join(node, "evil")
        server = Player(node.connection, node.keys, "inference-1", num_envs=4)
        server.hello(serves=True, served={"evil": 2, "client-1": 0})
        server.beat()
        until(server.grant, "its grant")
        _send(server)
        node.wait_for(lambda now: now.arrived.keys() == {"evil"}, "it is told whose they are")
        server.deliver(8, reward=np.repeat([1.0, 1e6], 16).astype(np.float32))
        until(lambda: evil.granted().status == "quarantined", "it is cut off")
        _send(server)
        _taken(node, 32 + 16 + 16)
        refused = {"evil": {"not_admitted": 4}}
        node.wait_for(lambda now: now.rejected_by_client == refused, "it is counted")
        assert [one.granted().status for one in (good, server)] == ["accepted"] * 2
        memory = node.node.learner.memory
        assert len(memory) == 48, "what it had sent before left the memory, that of the others did not"
        purged = node.answer(node.ask("purge", client="client-1"))
        assert (purged.result, len(memory)) == ({"transitions": 48}, 0)


def test_a_purge_takes_what_one_client_has_sent_and_nothing_else_also_after_a_restart(
    run_node: RunNode,
) -> None:
    settings = dqn_settings(dqn__learning_starts=1000, checkpoint__with_buffer=True)
    names = ("pc-2069", "pc-5597")  # short hashes of them are the same
    with run_node(settings) as node:
        for player in [join(node, name) for name in names]:
            _send(player)
        _taken(node, 32)
        assert node.answer(node.ask("save", kind="current")).ok
    with run_node(settings, resume=True) as node:
        memory = node.node.learner.memory
        until(lambda: len(memory) == 32, "its memory")
        purged = node.answer(node.ask("purge", client=names[0]))
        assert (purged.result, len(memory)) == ({"transitions": 16}, 16)
        assert node.answer(node.ask("purge", client="nobody")).result == {"transitions": 0}


def test_when_training_diverges_who_stands_out_is_cut_off_named_and_forgotten(
    run_node: RunNode, redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dqn_settings(checkpoint__with_buffer=True, checkpoint__every_updates=1)
    node = RunningNode(redis_address, tmp_path, settings)
    good, evil = join(node, "client-1"), join(node, "evil")
    agent, update = node.node.agent, node.node.agent.update

    def explode(*given: Any, **more: Any) -> Any:
        update(*given, **more)
        raise DivergenceError(agent.updates, "loss is nan")

    _send(good)
    _send(evil, reward=40.0)  # of no other size than somebody may have
    node.wait_for(lambda now: now.checkpoint_env_steps == 32, "a checkpoint with both")
    monkeypatch.setattr(agent, "update", explode)
    _send(good)
    node.join()
    assert isinstance(node.failure, DivergenceError)
    node.connection.close()
    reason = "its rewards are 20 times as large as those of the others"
    noted = Divergences(tmp_path / "divergence.json").last
    assert noted is not None
    assert noted.reason == f"loss is nan; evil is cut off: {reason}"
    with run_node(settings, resume=True) as again:
        state = again.wait_for(lambda now: now.diverged, "it says so")
        assert "evil is cut off" in state.diverged
        assert evil.grant().reason == f"the training diverged, and {reason}"
        until(lambda: len(again.node.learner.memory) == 16, "what it had sent is not learned from again")
