"""The V-trace node, whole, on a real server: what it takes in, learns from, drops, publishes and saves."""

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import Moment
from soulsgui.training.checkpoint import read_checkpoint
from soulsgui.training.learners import asynchronous
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk import digest_number, pack_chunk
from soulsgui.wire.messages.metrics import UpdateRow
from tests.faults.waiting import until
from tests.training.nodes import BATCH, RunningNode, join, running_node, vtrace_settings

HALF = BATCH // 2  # steps per environment: with two of them, a batch


def _quiet(node: RunningNode, turns: int = 5) -> None:
    """Wait until the node has turned a few times."""
    tick = node.node.training.status.tick
    until(lambda: node.node.training.status.tick >= tick + turns, "some turns")


def _updates(node: RunningNode) -> list[UpdateRow]:
    return [row for row in node.rows() if isinstance(row, UpdateRow)]


def test_every_transition_is_learned_from_once_as_it_comes(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, vtrace_settings()) as node:
        one, other = join(node, "a"), join(node, "b")
        grant = one.grant()
        assert grant is not None
        # Nobody is given a part of a round, or told to act at random.
        assert (grant.round, grant.epsilon, grant.credit_steps) == (None, None, 48)  # six of eight updates
        one.deliver(HALF - 1)
        _quiet(node)
        assert (node.node.agent.updates, node.node.learner.waiting.steps) == (0, BATCH - 2)
        other.deliver(HALF)  # it takes a segment of the other to fill the first batch
        state = node.wait_for_updates(1)
        assert state.env_steps == BATCH - 2 + HALF
        for count in range(2, 12):
            one.deliver(HALF)
            state = node.wait_for_updates(count)
        assert (state.rejected, state.env_steps + node.node.learner.waiting.steps) == ({}, 12 * BATCH - 2)


def test_an_episode_that_came_in_two_chunks_is_one_trace(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node(redis_address, tmp_path, vtrace_settings()) as node:
        learned: list[Segments] = []
        update = node.node.agent.update

        def note(batch: Segments, moment: Moment) -> None:
            learned.append(batch)
            update(batch, moment)

        monkeypatch.setattr(node.node.agent, "update", note)
        player, begun = join(node), HALF // 2
        config = player.config()
        assert config is not None
        goes_on = np.zeros(2, np.uint8)
        first = player.play(begun, flags=goes_on)
        rest = {"first_step": np.full(2, begun), "episode": first.episode}
        second = player.play(HALF - begun, flags=goes_on, **rest)
        second.obs[:: HALF - begun + 1] = first.obs[begun :: begun + 1]
        for segments in (first, second):
            player.send(pack_chunk(config.run_id, config.contract, segments))
        node.wait_for_updates(1)
        (batch,) = learned
        assert batch.length.tolist() == [begun, HALF - begun] * 2
        assert np.flatnonzero(batch.ends).tolist() == [HALF - 1, BATCH - 1]


def test_weights_go_out_while_clients_play(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, vtrace_settings()) as node:
        player = join(node)
        first, _ = player.weights()
        player.deliver(HALF)
        until(lambda: player.weights()[0].update == 1, "the first update is published")
        second, tensors = player.weights()
        assert (second.model_id, second.digest != first.digest) == (first.model_id + 1, True)
        assert np.array_equal(tensors["policy.0.weight"], node.node.agent.export_weights()["policy.0.weight"])


def test_weights_of_a_while_ago_are_good_enough_older_ones_are_not(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asynchronous, "_ROW_EVERY_S", math.inf)  # one row, at the end
    settings = vtrace_settings(vtrace__max_model_delay=1, publish__min_seconds=1000.0)
    with running_node(redis_address, tmp_path, settings) as node:
        player = join(node)
        old, _ = player.weights()
        made_then = {
            "model_id_first": np.full(2, old.model_id),
            "model_id_last": np.full(2, old.model_id),
            "digest": np.full(2, digest_number(old.digest), np.uint64),
        }

        def publish_once(count: int) -> None:
            player.deliver(HALF)
            node.wait_for_updates(count)
            node.node.learner.published_at = -math.inf
            until(lambda: player.weights()[0].update == count, "newer weights")

        publish_once(1)
        player.deliver(HALF, **made_then)
        state = node.wait_for_updates(2)
        assert (state.rejected, state.env_steps) == ({}, 2 * BATCH)
        player.deliver(1, **made_then)  # good when it came, too old when it would be learned from
        until(lambda: node.node.learner.waiting.steps == 2, "it waits")
        node.node.training.model_id += 1  # as if newer weights had been published
        until(lambda: node.node.learner.waiting.steps == 0, "it is dropped")
        assert node.node.training.env_steps == 2 * BATCH
        player.deliver(HALF, **made_then)
        state = node.wait_for(lambda now: now.rejected, "they are counted")
        assert (state.rejected, state.env_steps) == ({"late": 2}, 2 * BATCH)
    (row,) = _updates(node)
    assert row.values["too_old_steps"] == 2
    assert row.values["policy_lag"] == pytest.approx((0 + 1) / 2)
    assert {"entropy", "rho_mean", "rho_clip_fraction", "behaviour_kl", "learner_wait_s"} <= set(row.values)
    assert (row.previous, row.update) == (0, 2)


@pytest.mark.parametrize(
    ("value", "reason"), [(math.nan, "not_finite"), (-math.inf, "not_finite"), (1.0, "out_of_bounds")]
)
def test_probabilities_are_checked(redis_address: Address, tmp_path: Path, value: float, reason: str) -> None:
    with running_node(redis_address, tmp_path, vtrace_settings()) as node:
        player = join(node)
        player.deliver(HALF, log_prob=np.array([value] + [-0.5] * (BATCH - 1), np.float32))
        state = node.wait_for(lambda now: now.rejected, "they are counted")
        assert state.rejected == {reason: 1}
        until(lambda: node.node.learner.waiting.steps == HALF, "the other environment's are good")


def test_while_enough_waits_nothing_is_read(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node(redis_address, tmp_path, vtrace_settings(vtrace__buffer_size=2 * BATCH)) as node:
        trainer, player = node.node, join(node)
        held, waited = threading.Semaphore(0), []
        take, update = trainer.attempt.intake.take, trainer.agent.update

        def look(*args: Any) -> None:
            waited.append(trainer.learner.waiting.steps)
            take(*args)

        def wait_and_update(*args: Any) -> None:
            held.acquire()
            update(*args)

        monkeypatch.setattr(trainer.attempt.intake, "take", look)
        monkeypatch.setattr(trainer.agent, "update", wait_and_update)
        for _ in range(10):
            player.deliver(HALF)
        held.release(10)
        node.wait_for_updates(10)
        assert max(waited) < 2 * BATCH
        grant = node.node.attempt.intake.sessions.by_client["c"]
        assert grant.granted_steps <= 10 * BATCH + 2 * BATCH


def test_the_goal_in_steps_is_met_and_what_is_left_at_it_is_learned_from(
    redis_address: Address, tmp_path: Path
) -> None:
    with running_node(redis_address, tmp_path, vtrace_settings(stop__env_steps=2 * BATCH + 2)) as node:
        player = join(node)
        player.deliver(HALF)
        node.wait_for_updates(1)
        player.deliver(HALF)
        node.wait_for_updates(2)
        player.deliver(1)
        state = node.wait_for(lambda now: now.stop_reached, "the goal is told")
        assert (state.env_steps, state.updates, state.detail) == (2 * BATCH + 2, 3, "goal reached")
        player.deliver(HALF)
        _quiet(node)
        assert node.connection.xlen(node.keys.chunks("c")) == 1


def test_a_resumed_run_goes_on_with_the_agent_to_the_bit(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asynchronous, "_CHECKPOINT_EVERY_S", 0.0)
    settings = vtrace_settings(checkpoint__every_updates=2)
    with running_node(redis_address, tmp_path, settings) as node:
        player = join(node)
        for count in range(1, 4):
            player.deliver(HALF)
            node.wait_for_updates(count)
        until(node.run.checkpoint.exists, "the checkpoint")
        assert read_checkpoint(node.run.checkpoint).info.algorithm == "vtrace"
    saved, meta = node.node.agent.state()
    with running_node(redis_address, tmp_path, settings, resume=True) as again:
        again.wait_for(lambda now: now.phase in ("collecting", "waiting"), "it has begun")
        resumed, resumed_meta = again.node.agent.state()
        assert resumed_meta == meta
        assert all(np.array_equal(saved[name], resumed[name]) for name in saved)
        assert again.node.training.env_steps == 3 * BATCH
        assert again.node.training.model_id > node.node.training.model_id
        other = join(again, "d")
        other.deliver(HALF)
        assert again.wait_for_updates(4).rejected == {}
