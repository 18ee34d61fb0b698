"""The PPO node, whole, on a real server: commands, checkpoints, going on, equal to the bit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.config.layers import combine, load_run_settings
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import RunFolder
from soulsgui.errors import CheckpointError, CheckpointMisfitError, ServiceError, UsageError
from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import START
from soulsgui.training import PPOTrainingNode
from soulsgui.training.checkpoint import newest_resumable, read_checkpoint, write_checkpoint
from soulsgui.wire.codec import unpack_weights
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.messages.metrics import AttemptRow, CheckpointRow
from tests.experience.segments import segments_of
from tests.faults.waiting import until
from tests.servers import delete_prefix, with_fresh_prefix
from tests.training.nodes import STEPS, RunningNode, join, next_round, play, running_node, small_settings

FALLING = {"schedule": "linear", "from": 1e-3, "to": 0}


def test_commands_are_carried_out_and_answered(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path) as node:
        player = join(node)
        last = play(player, rounds=3)
        node.wait_for_updates(3)
        manual = node.answer(node.ask("save", kind="manual", note="hand"))
        assert read_checkpoint(tmp_path / manual.result["path"]).info.updates == 3
        best = node.answer(node.ask("save", kind="best", model_id=last, score=12.0))
        assert best.ok
        info = read_checkpoint(tmp_path / "best_model").info
        # The weights of round `last` are those after two updates, and so is what is told of them.
        assert (info.model_id, info.updates, info.env_steps, info.score) == (last, 2, 4 * STEPS, 12.0)
        assert info.scored_by == "training"
        gone = node.answer(node.ask("save", kind="best", model_id=last + 50))
        assert not gone.ok
        assert "gone" in gone.error
        written_aside = node.node.snapshot("best", 3.0)
        write_checkpoint(node.run.evaluated / str(last + 50), written_aside)
        kept = node.answer(node.ask("save", kind="best", model_id=last + 50, score=7.5))
        assert kept.ok
        found = read_checkpoint(tmp_path / "best_model")
        assert (found.info.updates, found.info.score) == (3, 7.5)
        assert set(found.weights) == set(written_aside.weights)
        stop = node.ask("stop")
        node.join()
        assert node.answer(stop).ok
        state = node.told()
        assert (state.farewell, state.phase) == ("ended as asked", "stopping")
        assert read_checkpoint(tmp_path / "checkpoint").info.updates == 3
        saved = {row.saved for row in node.rows() if isinstance(row, CheckpointRow)}
        assert saved == {"manual", "best", "current"}


def test_regular_checkpoints_come_every_so_many_updates(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, small_settings(checkpoint__every_updates=2)) as node:
        player = join(node)
        last = play(player)
        node.wait_for_updates(1)
        assert not (tmp_path / "checkpoint").exists()
        last = play(player, last=last)
        state = node.wait_for(lambda now: now.checkpoint_env_steps is not None, "the checkpoint")
        assert state.checkpoint_env_steps == 4 * STEPS


def test_a_run_goes_on_from_its_checkpoint_with_newer_ids(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path) as node:
        player = join(node)
        published = next_round(player, play(player, rounds=2)).round_id
    with running_node(redis_address, tmp_path, resume=True) as node:
        following = next_round(player, published)  # never back
        assert following.round_id == published + 1
        header, _ = player.weights()
        assert (header.update, header.attempt) == (2, 2)
        assert node.node.training.env_steps == 4 * STEPS
        play(player, last=published)  # in its session: it needs no new hello
        assert node.wait_for_updates(3).env_steps == 6 * STEPS
        attempts = [row for row in node.rows() if isinstance(row, AttemptRow)]
        assert [(row.attempt, row.env_steps) for row in attempts] == [(1, 0), (2, 4 * STEPS)]


def test_ids_go_on_after_everything_on_the_server_is_lost(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path) as node:
        play(join(node), rounds=2)
        node.wait_for_updates(2)
    client = connect(redis_address)
    for key in client.scan_iter(f"{redis_address.prefix}*"):
        client.delete(key)
    client.close()
    with running_node(redis_address, tmp_path, resume=True) as node:
        player = join(node)
        assert next_round(player).round_id == 4
        player.connection.delete(node.keys.weights)
        player.beat(model_id=40)
    with running_node(redis_address, tmp_path) as node:  # a new start, and a client that has seen more
        until(lambda: node.node.training.model_id > 0, "the first weights")
        assert node.node.training.model_id == 41


def test_going_on_from_an_older_checkpoint_keeps_the_newer_one(
    redis_address: Address, tmp_path: Path
) -> None:
    with running_node(redis_address, tmp_path) as node:
        player = join(node)
        last = play(player)
        node.wait_for_updates(1)
        older = tmp_path / node.answer(node.ask("save", kind="manual")).result["path"]
        play(player, last=last)
        node.wait_for_updates(2)
    run = RunFolder(tmp_path)
    assert newest_resumable(run) == run.checkpoint
    node = PPOTrainingNode(small_settings(), run, redis_address)
    node.load_checkpoint(older)
    node.shutdown()
    node.run()
    kept = [path for path in run.manual_saves.iterdir() if path != older]
    assert [read_checkpoint(path).info.updates for path in kept] == [2]
    found = newest_resumable(run)
    assert found == run.checkpoint
    assert (read_checkpoint(found).info.attempt, read_checkpoint(found).info.updates) == (2, 1)


def test_checkpoints_of_other_runs_and_networks_are_refused(redis_address: Address, tmp_path: Path) -> None:
    made = PPOTrainingNode(small_settings(), RunFolder(tmp_path / "a"), redis_address)
    made.checkpoint(tmp_path / "c", {"note": "by hand"})
    assert read_checkpoint(tmp_path / "c").info.kind == "manual"
    others = {
        "network": small_settings(network__hidden_sizes=[9]),
        "activation": small_settings(network__activation="relu"),
        "environment": small_settings(env__id="Acrobot-v1"),
    }
    for name, settings in others.items():
        with pytest.raises(CheckpointMisfitError, match="was saved for") as refused:
            PPOTrainingNode(settings, RunFolder(tmp_path / name), redis_address).load_checkpoint(
                tmp_path / "c"
            )
        assert refused.value.exit_code == UsageError.exit_code, "a trainer is not started again after that"
    made.checkpoint(tmp_path / "d")
    (tmp_path / "d" / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"state\.json has 2 bytes") as damaged:
        made.load_checkpoint(tmp_path / "d")
    assert damaged.value.exit_code != UsageError.exit_code, "it may be readable a moment later"


def test_the_configuration_is_saved_and_loaded(redis_address: Address, tmp_path: Path) -> None:
    node = PPOTrainingNode({"ppo": {"gamma": 0.5}}, RunFolder(tmp_path / "a"), redis_address)
    node.save_config(tmp_path / "config.json")
    assert load_run_settings(tmp_path / "config.json") == node.training.settings
    (tmp_path / "other.json").write_text(json.dumps({"env": {"id": "Acrobot-v1"}}))
    node.load_config(tmp_path / "other.json")
    assert node.training.settings == combine([Layer("x", {"env.id": "Acrobot-v1"})])
    assert node.training.spaces.observation.shape == (6,)
    assert node.agent.spaces == node.training.spaces


@pytest.mark.allow_warnings
def test_a_diverged_agent_is_not_saved(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = RunningNode(redis_address, tmp_path, small_settings(checkpoint__every_updates=1))
    player = join(node)
    last = play(player)
    node.wait_for(lambda now: now.checkpoint_env_steps, "the good checkpoint")

    def diverge(*_: Any) -> None:
        node.node.agent.updates += 1
        raise ServiceError("the numbers are not finite any more")

    monkeypatch.setattr(node.node.agent, "update", diverge)
    play(player, last=last)
    node.join()
    assert isinstance(node.failure, ServiceError)
    assert read_checkpoint(tmp_path / "checkpoint").info.updates == 1
    state = node.told()
    assert (state.error, state.farewell) == ("the numbers are not finite any more", "")
    node.connection.close()


def _digest(node: RunningNode) -> str:
    data = node.connection.get(node.keys.weights)
    assert isinstance(data, bytes)
    return unpack_weights(data)[0].digest


def _train(address: Address, root: Path, updates: int, stop_after: int | None) -> str:
    """Train on a fixed stream of rounds, perhaps with a stop in between; return the digest of the weights."""
    settings = small_settings(ppo__learning_rate=FALLING, stop__env_steps=10_000)
    parts = [updates] if stop_after is None else [stop_after, updates - stop_after]
    done, digest = 0, ""
    for part in parts:
        with running_node(address, root, settings, resume=done > 0) as node:
            for n in range(part):
                player = _FixedPlayer(node, seed=done + n)
                player.play_round()
                node.wait_for_updates(done + n + 1)
            next_round(player.player, player.share.round_id)
            digest = _digest(node)
        done += part
    return digest


class _FixedPlayer:
    """Plays one round, the same for the same seed and the same weights."""

    def __init__(self, node: RunningNode, seed: int) -> None:
        self.player = join(node)
        self.player._rng = np.random.default_rng(seed)
        self.share = next_round(self.player)

    def play_round(self) -> None:
        self.player.deliver(self.share.steps // self.player.num_envs)


@pytest.mark.allow_warnings
def test_updates_after_a_resume_are_equal_to_the_bit(redis_server: Address, tmp_path: Path) -> None:
    digests = []
    for name, stop_after in (("whole", None), ("stopped", 3)):
        address = with_fresh_prefix(redis_server)
        digests.append(_train(address, tmp_path / name, 6, stop_after))
        delete_prefix(address)
    assert digests[0] == digests[1]


def test_100_updates_after_a_resume_are_equal_to_the_bit(redis_address: Address, tmp_path: Path) -> None:
    def batch(number: int) -> Segments:
        rng = np.random.default_rng(number)
        return segments_of(
            obs=rng.normal(size=(4 * 17, 4)).astype(np.float32),
            length=np.full(4, 16),
            action=rng.integers(0, 2, 64),
            log_prob=np.full(64, np.log(0.5), np.float32),
            reward=rng.normal(size=64).astype(np.float32),
            terminated=np.array([True, False, False, True]),
            truncated=np.array([False, True, False, False]),
        )

    whole = PPOTrainingNode(small_settings(), RunFolder(tmp_path / "a"), redis_address)
    for number in range(10):
        whole.agent.update(batch(number), START)
    whole.checkpoint(tmp_path / "c")
    resumed = PPOTrainingNode(small_settings(seed=99), RunFolder(tmp_path / "b"), redis_address)
    resumed.load_checkpoint(tmp_path / "c")
    for number in range(10, 110):
        assert whole.agent.update(batch(number), START) == resumed.agent.update(batch(number), START)
    first, second = whole.agent.state(), resumed.agent.state()
    assert first[1] == second[1]
    assert set(first[0]) == set(second[0])
    for name, tensor in first[0].items():
        np.testing.assert_array_equal(tensor, second[0][name], err_msg=name)


def test_at_rest_the_node_takes_nothing_in_but_saves(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path) as node:
        player = join(node)
        last = play(player)
        node.wait_for_updates(1)
        share = next_round(player, last)
        assert node.answer(node.ask("rest")).ok
        player.deliver(share.steps // player.num_envs)
        assert node.answer(node.ask("save", kind="manual")).ok
        assert node.wait_for_updates(1).rejected == {}
    assert node.node.agent.updates == 1
