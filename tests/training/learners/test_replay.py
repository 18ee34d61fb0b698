"""Learning from a memory, or from segments as they come, in a whole node: DQN, SAC, V-trace."""

import math
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from soulsgui.sampling import DQNConnector
from soulsgui.training.intake.sessions import Exploration
from soulsgui.training.learners import asynchronous
from soulsgui.training.learners.replay import EpisodeStarts
from tests.experience.segments import segments_of
from tests.faults.waiting import until
from tests.sampling.loops import play_by_hand
from tests.training.nodes import (
    BATCH,
    STARTS,
    RunningNode,
    RunNode,
    Training,
    dqn_settings,
    heard_batches,
    join,
    let_play,
    settings_of,
    vtrace_settings,
)
from tests.training.players import Player, played_with

HALF = STARTS // 4  # steps per environment: with two of them, half of what learning begins with
SLACK_UPDATES = 1  # the band is a batch wide


def _play_on(player: Player, node: RunningNode, chunks: int) -> None:
    for _ in range(chunks):
        before = node.node.training.env_steps
        player.deliver(HALF)
        node.wait_for(lambda state: state.env_steps >= before + 2 * HALF, "they are taken in")  # noqa: B023


def test_learning_starts_late_and_draws_as_much_as_the_ratio_says(run_node: RunNode) -> None:
    with run_node(dqn_settings()) as node:
        player = join(node)
        _play_on(player, node, 1)
        node.quiet()
        state = node.wait_for(lambda now: now.phase == "collecting", "it collects")
        assert (state.updates, state.detail) == (0, "learning begins in 16 steps")
        _play_on(player, node, 1)
        node.quiet()
        # Nothing was taken in since: the learner may be ahead by the width of the band, and no more.
        assert node.node.agent.updates == SLACK_UPDATES
        _play_on(player, node, 8)
        drawn = 8 * 2 * HALF // BATCH + SLACK_UPDATES
        state = node.wait_for_updates(drawn)
        node.quiet()
        assert node.node.agent.updates == drawn
        assert (state.env_steps, state.rejected) == (10 * 2 * HALF, {})
        assert node.node.learner.memory.inserted == state.env_steps
    last = node.update_rows()[-1]
    node.connection.close()
    assert last.values["replay_ratio"] == pytest.approx(drawn * BATCH / (8 * 2 * HALF))
    assert last.values["buffer_fill"] == 10 * 2 * HALF / 1000
    assert {"loss", "q_mean", "policy_lag", "epsilon", "td_error_max", "start_value"} <= set(last.values)


def test_with_few_updates_a_second_the_goal_waits_for_those_that_are_owed(run_node: RunNode) -> None:
    steps = 10 * 2 * HALF
    with run_node(dqn_settings(stop__env_steps=steps, learner__max_updates_per_s=20)) as node:
        _play_on(join(node), node, 10)
        state = node.wait_for(lambda now: now.stop_reached, "the goal is told")
        assert state.env_steps == steps
        assert node.node.agent.updates >= 8 * 2 * HALF // BATCH


def test_credits_follow_what_was_taken_in_or_lost_and_go_on_after_a_restart(run_node: RunNode) -> None:
    settings = dqn_settings(dqn__buffer_size=100)
    with run_node(settings) as node:
        player = join(node)
        session = node.node.attempt.intake.sessions.by_client["c"]
        for sent in range(1, 12):
            _play_on(player, node, 1)
            ahead = session.granted_steps - sent * 2 * HALF
            assert player.num_envs <= ahead <= 100, "it can always make a step"
        granted = session.granted_steps
        # One more never came, and never will; with it all its credit is used up, so that it sends no more.
        player.beat(sent_chunks=12, sent_bytes=2 * session.size, sent_steps=granted)
        until(lambda: session.entries == 12, "its loss is noticed")
        assert session.steps == granted
        until(lambda: player.granted().credit_steps == granted + 100, "credit")
        player.number += 1
    before = player.grant()
    player.deliver(HALF)  # nobody has taken it in when the next trainer comes
    sent_steps = granted + 2 * HALF
    player.beat(sent_chunks=13, sent_bytes=3000, sent_steps=sent_steps)
    with run_node(settings) as node:
        node.wait_for(lambda state: state.env_steps == 2 * HALF, "it is taken in")
        until(lambda: player.grant() != before, "another grant")
        # As far ahead as at the beginning: what was on its way then is not granted twice.
        assert player.granted().credit_steps == sent_steps + 100


@pytest.mark.allow_warnings
def test_returns_that_leave_the_support_are_warned_of_once(
    run_node: RunNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asynchronous, "_ROW_EVERY_S", 0.05)
    settings = dqn_settings(dqn__agent="c51", dqn__value_min=-0.1, dqn__value_max=0.1)
    with run_node(settings) as node:
        player = join(node)
        for rows in (1, 2):
            _play_on(player, node, 4)
            until(lambda rows=rows: len(node.update_rows()) >= rows, "a row")
    told = node.update_rows()
    node.connection.close()
    assert [row.previous for row in told] == [0, *[row.update for row in told[:-1]]]
    assert min(row.values["beyond_support"] for row in told) > 0.01
    warnings = [record.getMessage() for record in caplog.records if "value_max" in record.getMessage()]
    assert len(warnings) == 1
    assert "qr_dqn" in warnings[0]


def test_the_lag_is_told_in_updates(run_node: RunNode) -> None:
    with run_node(dqn_settings(publish__min_seconds=1000.0)) as node:
        player = join(node)
        _play_on(player, node, 2)
        node.wait_for_updates(1)
        _play_on(player, node, 1)  # with the weights before the first update, after 1 of them
        until(lambda: node.node.agent.updates == 1 + 2, "its updates")
        _play_on(player, node, 1)  # with the same, after 3 of them
        until(
            lambda: node.node.learner.interval.policy_lag == pytest.approx((1 + 3) / 2),
            "the mean since the last row",
        )
        told = node.wait_for(lambda now: sum(now.staleness.accepted) == 4 * 2 * HALF, "their ages").staleness
        ages = dict(zip(told.bounds, told.accepted, strict=False))
        assert ages == dict.fromkeys(told.bounds, 0) | {0: 4 * HALF, 1: 2 * HALF, 4: 2 * HALF}


def test_exploration_goes_on_after_a_resume_and_samples_of_the_weights_before_are_taken_in(
    run_node: RunNode,
) -> None:
    settings = dqn_settings(dqn__epsilon={"schedule": "linear", "from": 1, "to": 0, "over": 100})
    with run_node(settings) as node:
        training = Training(node)
        player = training.player
        grant, (oldest, _) = player.granted(), player.weights()
        assert (grant.credit_steps, grant.epsilon) == (180, 1.0)  # 22.5 of 30 updates: 8 transitions each
        training.update(2)
        newest, _ = player.weights()
        epsilon = pytest.approx(1 - (STARTS + BATCH) / 100)
        until(lambda: player.granted().epsilon == epsilon, "it is told")
        assert (player.granted().credit_steps or 0) >= 180  # what was granted is not taken back
    for header in (newest, oldest):
        player.deliver(HALF, **played_with(header))
    with run_node(settings, resume=True) as node:
        state = node.wait_for(lambda now: now.rejected, "those of weights that nobody remembers")
        # Late is no fault of the client: it is not cut off for it.
        assert (state.rejected, state.env_steps) == ({"late": 2}, STARTS + BATCH + 2 * HALF)
        sessions = node.node.attempt.intake.sessions
        following = Exploration(pytest.approx(1 - state.env_steps / 100))
        until(lambda: sessions.exploration == following, "it explores as before")


@pytest.mark.allow_warnings
def test_a_memory_in_a_file_goes_with_the_run(run_node: RunNode, caplog: pytest.LogCaptureFixture) -> None:
    settings = dqn_settings(learner__memory_limit=0, checkpoint__with_buffer=True)
    with run_node(settings) as node:
        player = join(node)
        _play_on(player, node, 4)
        node.wait_for_updates(5)
        assert node.node.training.folder.replay.is_dir()
    with run_node(dqn_settings(learner__memory_limit=0), resume=True) as node:
        until(lambda: player.weights()[0].attempt == 2, "the next attempt")
        assert len(node.node.learner.memory) == 4 * 2 * HALF
        _play_on(player, node, 1)
        node.wait_for_updates(6)  # at once: nothing has to be collected again
    assert any("lie in" in record.message for record in caplog.records)
    assert not node.node.training.folder.replay.exists()


def _play_by_hand(node: RunningNode) -> None:
    node.connection.hset(node.keys.clients, "c", "{}")
    with closing(DQNConnector({"env": {"id": "Pendulum-v1"}}, node.address, "c")) as connector:
        env, steps = gym.make("Pendulum-v1"), iter(range(161))
        play_by_hand(connector, env, lambda: next(steps) < 60)
        until(lambda: node.node.learner.learning, "learning begins")
        play_by_hand(connector, env, lambda: next(steps, None))
        # What comes in from then on is learned from.
        assert node.wait_for_updates(3).rejected == {}
        until(lambda: node.node.training.env_steps == 160, "all is taken in")


@pytest.mark.parametrize("sample", [partial(let_play, updates=20), _play_by_hand], ids=["client", "by hand"])
def test_the_memory_of_sac_holds_what_was_drawn(run_node: RunNode, sample: Any) -> None:
    with run_node(settings_of("sac", env__num_envs=2)) as node:
        sample(node)
        assert node.node.attempt.intake.sessions.exploration is None
        drawn = node.node.learner.memory.draw(500, np.random.default_rng(0)).batch
    told = set(node.update_rows()[-1].values)
    node.connection.close()
    assert {"critic_loss", "actor_loss", "q_mean", "entropy", "temperature", "replay_ratio"} <= told
    assert "epsilon" not in told
    assert (drawn.action.shape, drawn.action.dtype) == ((500, 1), np.float32)
    cosine, sine, speed = drawn.obs.T
    torque = 2 * np.tanh(drawn.action[:, 0])
    assert torque.std() > 0.3
    # Each reward is the one Pendulum gives for the action stored with it.
    expected = -(np.arctan2(sine, cosine) ** 2 + 0.1 * speed**2 + 0.001 * torque**2)
    np.testing.assert_allclose(drawn.reward, expected, atol=1e-4)
    assert (drawn.discount == np.float32(0.99)).all(), "an episode of Pendulum is only ever cut off"


PART = BATCH // 2  # steps per environment: with two of them, a batch


def test_every_transition_is_learned_from_once_as_it_comes(run_node: RunNode) -> None:
    goal = 12 * BATCH + 2
    with run_node(vtrace_settings(stop__env_steps=goal)) as node:
        one, other = join(node, "a"), join(node, "b")
        grant = one.granted()
        # Nobody is given a part of a round, or told to act at random.
        assert (grant.round, grant.epsilon, grant.credit_steps) == (None, None, 48)  # six of eight updates
        one.deliver(PART - 1)
        node.quiet()
        assert (node.node.agent.updates, node.node.learner.waiting.steps) == (0, BATCH - 2)
        other.deliver(PART)  # it takes a segment of the other to fill the first batch
        state = node.wait_for_updates(1)
        assert state.env_steps == BATCH - 2 + PART
        for count in range(2, 12):
            one.deliver(PART)
            state = node.wait_for_updates(count)
        assert (state.rejected, state.env_steps + node.node.learner.waiting.steps) == ({}, 12 * BATCH - 2)
        one.deliver(2)
        state = node.wait_for(lambda now: now.stop_reached, "the goal is told")
        assert state.env_steps == goal, "what is left at the goal makes a smaller batch"


def test_an_episode_in_two_chunks_is_one_trace(run_node: RunNode, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_node(vtrace_settings()) as node:
        learned = heard_batches(node, monkeypatch)
        player, begun = join(node), PART // 2
        goes_on = np.zeros(2, np.uint8)
        first = player.play(begun, flags=goes_on)
        rest = {"first_step": np.full(2, begun), "episode": first.episode}
        second = player.play(PART - begun, flags=goes_on, **rest)
        second.obs[:: PART - begun + 1] = first.obs[begun :: begun + 1]
        for segments in (first, second):
            player.send(player.packed(segments))
        node.wait_for_updates(1)
        ((batch, _),) = learned
        assert batch.length.tolist() == [begun, PART - begun] * 2
        assert np.flatnonzero(batch.ends).tolist() == [PART - 1, BATCH - 1]


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


class _Tenfold:
    """Episodes are worth ten times what they begin with, where the first action is valid."""

    def start_values(self, obs: Any, mask: Any = None) -> Any:
        return obs[:, 0] * 10 * (1 if mask is None else mask[:, 0])


def test_the_start_value_is_that_of_beginnings_alone_and_of_the_newest() -> None:
    starts = EpisodeStarts()
    assert starts.figures(_Tenfold()) == {}
    obs = np.arange(7.0, dtype=np.float32)[:, None]  # of steps 0 and 1, 3 and 4, and what followed them
    starts.note(segments_of([2, 1, 1], obs, first_step=np.array([5, 0, 0])))
    assert starts.figures(_Tenfold()) == {"start_value": 10 * (3.0 + 5.0) / 2}
    for number in range(64):
        one = np.full((2, 1), number, np.float32)
        starts.note(segments_of([1], one, first_step=np.array([0])))
        starts.note(segments_of([1], one + 1000, first_step=np.array([1])))
    assert starts.figures(_Tenfold()) == {"start_value": 10 * 31.5}


def test_which_actions_are_valid_at_a_start_is_told() -> None:
    starts = EpisodeStarts()
    mask = np.array([[False, True], [True, True], [True, False], [False, False]])
    obs = np.ones((4, 1), np.float32)
    starts.note(segments_of([1, 1], obs, first_step=np.array([0, 0]), action_mask=mask))
    assert starts.figures(_Tenfold()) == {"start_value": 5.0}
