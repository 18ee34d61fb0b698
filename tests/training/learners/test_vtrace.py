"""Learning from segments as they come, in a whole node on a real server."""

import math

import numpy as np
import pytest

from soulsgui.training.learners import asynchronous
from tests.faults.waiting import until
from tests.training.nodes import BATCH, RunNode, Training, heard_batches, join, vtrace_settings
from tests.training.players import played_with

HALF = BATCH // 2  # steps per environment: with two of them, a batch


def test_every_transition_is_learned_from_once_as_it_comes(run_node: RunNode) -> None:
    goal = 12 * BATCH + 2
    with run_node(vtrace_settings(stop__env_steps=goal)) as node:
        one, other = join(node, "a"), join(node, "b")
        grant = one.granted()
        # Nobody is given a part of a round, or told to act at random.
        assert (grant.round, grant.epsilon, grant.credit_steps) == (None, None, 48)  # six of eight updates
        one.deliver(HALF - 1)
        node.quiet()
        assert (node.node.agent.updates, node.node.learner.waiting.steps) == (0, BATCH - 2)
        other.deliver(HALF)  # it takes a segment of the other to fill the first batch
        state = node.wait_for_updates(1)
        assert state.env_steps == BATCH - 2 + HALF
        for count in range(2, 12):
            one.deliver(HALF)
            state = node.wait_for_updates(count)
        assert (state.rejected, state.env_steps + node.node.learner.waiting.steps) == ({}, 12 * BATCH - 2)
        one.deliver(2)
        state = node.wait_for(lambda now: now.stop_reached, "the goal is told")
        assert state.env_steps == goal, "what is left at the goal makes a smaller batch"


def test_an_episode_in_two_chunks_is_one_trace(run_node: RunNode, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_node(vtrace_settings()) as node:
        learned = heard_batches(node, monkeypatch)
        player, begun = join(node), HALF // 2
        goes_on = np.zeros(2, np.uint8)
        first = player.play(begun, flags=goes_on)
        rest = {"first_step": np.full(2, begun), "episode": first.episode}
        second = player.play(HALF - begun, flags=goes_on, **rest)
        second.obs[:: HALF - begun + 1] = first.obs[begun :: begun + 1]
        for segments in (first, second):
            player.send(player.packed(segments))
        node.wait_for_updates(1)
        (batch,) = learned
        assert batch.length.tolist() == [begun, HALF - begun] * 2
        assert np.flatnonzero(batch.ends).tolist() == [HALF - 1, BATCH - 1]


def test_what_became_too_old_waiting_is_counted(run_node: RunNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asynchronous, "_ROW_EVERY_S", math.inf)  # one row, at the end
    settings = vtrace_settings(vtrace__max_model_delay=1, publish__min_seconds=1000.0)
    with run_node(settings) as node:
        training = Training(node)
        player = training.player
        old, _ = player.weights()
        made_then = played_with(old)
        training.deliver()
        node.wait_for_updates(1)
        node.node.learner.published_at = -math.inf
        until(lambda: player.weights()[0].update == 1, "newer weights")
        training.deliver(**made_then)
        node.wait_for_updates(2)
        player.deliver(1, **made_then)  # good when it came, too old when it would be learned from
        until(lambda: node.node.learner.waiting.steps == 2, "it waits")
        node.node.training.model_id += 1  # as if newer weights had been published
        until(lambda: node.node.learner.waiting.steps == 0, "it is dropped")
        state = node.node.state()
        assert (state.rejected, state.env_steps) == ({}, 2 * BATCH)
    (row,) = node.update_rows()
    node.connection.close()
    assert row.values["too_old_steps"] == 2
    assert row.values["policy_lag"] == pytest.approx((0 + 1) / 2)
    assert {"entropy", "rho_mean", "rho_clip_fraction", "behaviour_kl"} <= set(row.values)
