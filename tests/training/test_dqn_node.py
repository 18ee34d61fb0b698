"""The DQN node, whole, on a real server: what it takes in, draws, publishes and tells."""

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.errors import ServiceError
from soulsgui.training.checkpoint import read_checkpoint
from soulsgui.training.learners import asynchronous
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk import digest_number
from soulsgui.wire.messages.metrics import UpdateRow
from tests.faults.waiting import until
from tests.training.nodes import BATCH, STARTS, RunningNode, dqn_settings, join, running_node
from tests.training.players import Player

HALF = STARTS // 4  # steps per environment: with two of them, half of what learning begins with
SLACK_UPDATES = 1  # the band is a batch wide


def _taken_in(node: RunningNode, steps: int) -> None:
    node.wait_for(lambda state: state.env_steps >= steps, f"{steps} steps")


def _quiet(node: RunningNode, turns: int = 5) -> None:
    """Wait until the node has turned a few times."""
    tick = node.node.training.status.tick
    until(lambda: node.node.training.status.tick >= tick + turns, "some turns")


def _updates(node: RunningNode) -> list[UpdateRow]:
    return [row for row in node.rows() if isinstance(row, UpdateRow)]


def _play_on(player: Player, node: RunningNode, chunks: int) -> None:
    """Deliver chunks one by one, each with the newest weights."""
    for _ in range(chunks):
        before = node.node.training.env_steps
        player.deliver(HALF)
        _taken_in(node, before + 2 * HALF)


def test_nothing_is_drawn_before_learning_starts(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, dqn_settings()) as node:
        player = join(node)
        player.deliver(HALF)
        _taken_in(node, STARTS // 2)
        _quiet(node)
        state = node.wait_for(lambda now: now.phase == "collecting", "it collects")
        assert (state.updates, state.detail) == (0, "learning begins in 16 steps")
        player.deliver(HALF)
        _taken_in(node, STARTS)
        _quiet(node)
        # Nothing was taken in since: the learner may be ahead by the width of the band, and no more.
        assert node.node.agent.updates == SLACK_UPDATES


def test_so_much_is_drawn_as_the_ratio_says(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, dqn_settings()) as node:
        player = join(node)
        _play_on(player, node, 10)
        drawn = 8 * 2 * HALF // BATCH + SLACK_UPDATES
        state = node.wait_for_updates(drawn)
        _quiet(node)
        assert node.node.agent.updates == drawn
        assert (state.env_steps, state.rejected) == (10 * 2 * HALF, {})
        # One of two environments ended its episode in each chunk, the other one was cut off.
        assert state.episodes == 10 * 2
        assert node.node.learner.memory.inserted == state.env_steps


def test_below_the_band_nothing_is_read(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node(redis_address, tmp_path, dqn_settings(dqn__replay_ratio=20.0)) as node:
        trainer, player = node.node, join(node)
        held, rooms = threading.Semaphore(0), []
        take, update = trainer.attempt.intake.take, trainer.agent.update

        def look(*args: Any) -> None:
            if trainer.learner.learning:
                rooms.append(trainer.learner.band.room)
            take(*args)

        def wait_and_update(batch: Any, tell: bool) -> None:
            assert trainer.learner.band.may_draw
            held.acquire()
            update(batch, tell)

        monkeypatch.setattr(trainer.attempt.intake, "take", look)
        monkeypatch.setattr(trainer.agent, "update", wait_and_update)
        for _ in range(10):
            player.deliver(HALF)
        until(lambda: trainer.learner.learning, "learning begins")
        assert node.connection.xlen(node.keys.chunks("c")) > 0
        held.release(10_000)
        _taken_in(node, 10 * 2 * HALF)
        needed = int(
            (trainer.learner.band.ratio * trainer.learner.band.inserted + trainer.learner.band.slack) // BATCH
        )
        node.wait_for_updates(needed)
        assert min(rooms) >= 0
        assert trainer.learner.band.value == pytest.approx(20, rel=0.1)
        assert node.connection.xlen(node.keys.chunks("c")) == 0


def _publish(player: Player, node: RunningNode) -> None:
    """Let new weights be published once, where otherwise none would be."""
    before = player.weights()[0].model_id
    _play_on(player, node, 1)
    node.node.learner.published_at = -math.inf
    until(lambda: player.weights()[0].model_id == before + 1, "newer weights")


def test_weights_of_a_while_ago_are_good_enough_older_ones_are_not(
    redis_address: Address, tmp_path: Path
) -> None:
    settings = dqn_settings(dqn__max_model_delay=2, publish__min_seconds=1000.0)
    with running_node(redis_address, tmp_path, settings) as node:
        player = join(node)
        old, _ = player.weights()
        made_then = {
            "model_id_first": np.full(2, old.model_id),
            "model_id_last": np.full(2, old.model_id),
            "digest": np.full(2, digest_number(old.digest), np.uint64),
        }
        _play_on(player, node, 2)
        for _ in range(2):
            _publish(player, node)
        before = node.node.training.env_steps
        player.deliver(HALF, **made_then)
        _taken_in(node, before + 2 * HALF)
        _publish(player, node)
        player.deliver(HALF, **made_then)
        state = node.wait_for(lambda now: now.rejected, "they are counted")
        assert (state.rejected, state.env_steps) == ({"late": 2}, before + 4 * HALF)


def test_other_weights_under_a_known_id_are_another_lineage(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, dqn_settings()) as node:
        player = join(node)
        player.deliver(HALF, digest=np.array([1, 1], np.uint64))
        state = node.wait_for(lambda now: now.rejected, "they are counted")
        assert (state.rejected, state.env_steps) == ({"lineage": 2}, 0)


def test_the_agent_is_published_when_it_has_changed(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, dqn_settings()) as node:
        player = join(node)
        first, _ = player.weights()
        _play_on(player, node, 2)
        node.wait_for_updates(1)
        until(lambda: player.weights()[0].update == 1, "the first update is published")
        second, _ = player.weights()
        assert second.model_id == first.model_id + 1
        assert second.digest != first.digest
        threading.Event().wait(0.1)  # five times the least time between two publishes
        assert player.weights()[0] == second
        _play_on(player, node, 1)
        until(lambda: player.weights()[0].model_id == second.model_id + 1, "the next ones")


def test_no_more_is_published_than_is_set(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, dqn_settings(publish__min_seconds=1000.0)) as node:
        player = join(node)
        first, _ = player.weights()
        _play_on(player, node, 4)
        node.wait_for_updates(3)
        assert player.weights()[0] == first


def test_grants_hold_the_clients_and_tell_how_to_explore(redis_address: Address, tmp_path: Path) -> None:
    settings = dqn_settings(dqn__epsilon={"schedule": "linear", "from": 1, "to": 0, "over": 100})
    with running_node(redis_address, tmp_path, settings) as node:
        player = join(node)
        grant = player.grant()
        assert grant is not None
        assert (grant.credit_steps, grant.epsilon) == (180, 1.0)  # 22.5 of 30 updates: 8 transitions each
        _play_on(player, node, 3)
        node.wait_for_updates(1)
        wanted = 0.52
        until(lambda: (now := player.grant()) and now.epsilon == pytest.approx(wanted), "it is told")
        grant = player.grant()
        assert grant is not None
        assert grant.credit_steps is not None
        assert grant.credit_steps >= 180  # what was granted is not taken back


def test_credits_follow_what_was_taken_in(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, dqn_settings(dqn__buffer_size=100)) as node:
        player = join(node)
        for sent in range(1, 20):
            player.deliver(HALF)
            _taken_in(node, sent * 2 * HALF)
            granted = node.node.attempt.intake.sessions.by_client["c"].granted_steps
            assert granted - sent * 2 * HALF >= player.num_envs  # it can always make a step
            assert granted - sent * 2 * HALF <= 100


def test_rows_tell_of_the_updates_since_the_one_before(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asynchronous, "_ROW_EVERY_S", 0.05)
    with running_node(redis_address, tmp_path, dqn_settings()) as node:
        player = join(node)
        _play_on(player, node, 4)
        until(lambda: len(_updates(node)) >= 1, "a row")
        count = len(_updates(node))
        _play_on(player, node, 4)
        until(lambda: len(_updates(node)) > count, "another row")
    rows = _updates(node)
    node.connection.close()
    assert [row.previous for row in rows] == [0, *[row.update for row in rows[:-1]]]
    last = rows[-1]
    assert last.env_steps == 8 * 2 * HALF
    assert last.update == 6 * 2 * HALF // BATCH + SLACK_UPDATES  # the end of the run tells of the rest
    assert last.values["replay_ratio"] == pytest.approx(last.update * BATCH / (6 * 2 * HALF))
    assert last.values["buffer_fill"] == 8 * 2 * HALF / 1000
    assert last.values["clients"] == 1
    assert {"loss", "q_mean", "policy_lag", "epsilon", "learner_wait_s", "ingest_wait_s"} <= set(last.values)


@pytest.mark.allow_warnings
def test_returns_that_leave_the_support_are_warned_of_once(
    redis_address: Address, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asynchronous, "_ROW_EVERY_S", 0.05)
    settings = dqn_settings(dqn__agent="c51", dqn__value_min=-0.1, dqn__value_max=0.1)
    with running_node(redis_address, tmp_path, settings) as node:
        player = join(node)
        for rows in (1, 2):
            _play_on(player, node, 4)
            until(lambda rows=rows: len(_updates(node)) >= rows, "a row")
    told = [row.values["beyond_support"] for row in _updates(node)]
    node.connection.close()
    assert min(told) > 0.01
    warnings = [record.getMessage() for record in caplog.records if "value_max" in record.getMessage()]
    assert len(warnings) == 1
    assert "qr_dqn" in warnings[0]


def test_the_lag_is_told_in_updates(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, dqn_settings(publish__min_seconds=1000.0)) as node:
        player = join(node)
        _play_on(player, node, 2)
        node.wait_for_updates(1)
        _play_on(player, node, 1)  # with the weights before the first update, after 1 of them
        until(lambda: node.node.agent.updates == 1 + 2, "its updates")
        _play_on(player, node, 1)  # with the same, after 3 of them
        until(
            lambda: node.node.learner.tally.policy_lag == pytest.approx((1 + 3) / 2),
            "the mean since the last row",
        )
        told = node.wait_for(lambda now: sum(now.staleness.accepted) == 4 * 2 * HALF, "their ages").staleness
        ages = dict(zip(told.bounds, told.accepted, strict=False))
        assert ages == dict.fromkeys(told.bounds, 0) | {0: 4 * HALF, 1: 2 * HALF, 4: 2 * HALF}


def test_the_goal_in_steps_ends_the_taking_in(redis_address: Address, tmp_path: Path) -> None:
    settings = dqn_settings(stop__env_steps=STARTS + 4 * BATCH)
    with running_node(redis_address, tmp_path, settings) as node:
        player = join(node)
        _play_on(player, node, 4)
        state = node.wait_for(lambda now: now.stop_reached, "the goal is told")
        assert (state.env_steps, state.phase, state.detail) == (STARTS + 4 * BATCH, "waiting", "goal reached")
        # What was taken in is trained on, and no more than that.
        assert state.updates == 4
        player.deliver(HALF)
        _quiet(node)
        assert node.connection.xlen(node.keys.chunks("c")) == 1
        assert node.node.training.env_steps == state.env_steps
        until(lambda: player.weights()[0].update == 4, "the last weights are published")


def test_regular_checkpoints_come_every_so_many_updates(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asynchronous, "_CHECKPOINT_EVERY_S", 0.0)
    with running_node(redis_address, tmp_path, dqn_settings(checkpoint__every_updates=4)) as node:
        player = join(node)
        _play_on(player, node, 3)
        node.wait_for_updates(3)
        _quiet(node)
        assert not node.run.checkpoint.exists()
        _play_on(player, node, 1)
        until(node.run.checkpoint.exists, "the checkpoint")
        assert read_checkpoint(node.run.checkpoint).info.updates in (4, 5)


def test_regular_checkpoints_come_not_too_often(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, dqn_settings(checkpoint__every_updates=1)) as node:
        node.node.learner.next_save = math.inf
        player = join(node)
        _play_on(player, node, 4)
        node.wait_for_updates(5)
        _quiet(node)
        assert not node.run.checkpoint.exists()
        node.node.learner.next_save = 0.0
        until(node.run.checkpoint.exists, "the checkpoint")
        assert node.node.learner.next_save > 0


@pytest.mark.allow_warnings
def test_a_diverged_agent_is_not_saved(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = RunningNode(redis_address, tmp_path, dqn_settings(checkpoint__every_updates=1))
    player = join(node)
    _play_on(player, node, 2)
    node.wait_for_updates(1)
    good = node.answer(node.ask("save", kind="manual"))
    assert good.ok

    def diverge(_: Any, tell: bool) -> None:
        node.node.agent.updates += 1
        for parameter in node.node.agent.online.parameters():
            parameter.data.fill_(float("nan"))

    monkeypatch.setattr(node.node.agent, "update", diverge)
    player.deliver(HALF)
    node.join()
    assert isinstance(node.failure, ServiceError)
    assert "the network gives numbers that are not finite" in node.told().error
    assert player.weights()[0].update <= 1
    assert not node.run.checkpoint.exists()
    node.connection.close()


def test_a_run_without_clients_does_not_spin(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, dqn_settings()) as node:
        node.wait_for(lambda now: (now.phase, now.detail) == ("waiting", "no clients"), "it waits")
        before = node.node.training.status.tick
        threading.Event().wait(0.5)
        assert 0 < node.node.training.status.tick - before < 30
