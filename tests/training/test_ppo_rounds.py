"""The PPO node, whole, on a real server: rounds with clients that come, go and cheat."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

from soulsgui.config.layers import load_run_settings
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk import pack_chunk
from soulsgui.wire.messages.metrics import AttemptRow, UpdateRow
from tests.faults.waiting import until
from tests.training.nodes import STEPS, join, next_round, play, running_node, small_settings

FALLING = {"schedule": "linear", "from": 1e-3, "to": 0}


def test_rounds_are_collected_trained_and_published(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path) as node:
        player = join(node)
        first = next_round(player)
        before = player.weights()
        last = play(player, rounds=3)
        state = node.wait_for_updates(3)
        next_round(player, last)
        header, tensors = player.weights()
        assert (state.updates, state.env_steps, state.episodes) == (3, 3 * 2 * STEPS, 3 * 2)
        assert state.rejected == {}
        assert last == first.round_id + 2
        assert header.model_id == last + 1
        assert header.update == 3
        assert header.digest != before[0].digest
        assert not np.array_equal(tensors["policy.0.weight"], before[1]["policy.0.weight"])
        until(lambda: len([row for row in node.rows() if isinstance(row, UpdateRow)]) == 3, "the rows")
        updates = [row for row in node.rows() if isinstance(row, UpdateRow)]
        assert [row.update for row in updates] == [1, 2, 3]
        assert [row.env_steps for row in updates] == [32, 64, 96]
        assert updates[0].values["clients"] == 1
        assert isinstance(node.rows()[0], AttemptRow)


def test_a_long_update_gives_signs_of_life(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path) as node:
        player = join(node)
        agent, told = node.node.agent, []
        alive = agent.after_step

        def step() -> None:
            alive()
            told.append(node.node.state().tick)

        agent.after_step = step
        play(player)
        node.wait_for_updates(1)
        assert len(set(told)) == len(told) > 1


@pytest.mark.allow_warnings
def test_the_first_round_waits_for_enough_clients(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, small_settings(ppo__n_clients=2)) as node:
        first = join(node, "a")
        node.wait_for(lambda state: state.detail == "1 of 2 clients", "one is not enough")
        assert first.share() is None
        second = join(node, "b")
        last = play(first, second)
        node.wait_for_updates(1)
        first.beat(leaving=True)
        play(second, last=last)  # later rounds need one
        node.wait_for_updates(2)


@pytest.mark.allow_warnings
def test_an_absent_client_shrinks_the_round(redis_address: Address, tmp_path: Path) -> None:
    settings = small_settings(ppo__round_timeout=1.0, ppo__n_clients=2)
    with running_node(redis_address, tmp_path, settings) as node:
        diligent, idle = join(node, "a"), join(node, "b")
        share = next_round(diligent)
        diligent.deliver(STEPS)
        idle.deliver(STEPS // 4)  # and no more: what it delivered counts
        state = node.wait_for_updates(1)
        assert state.env_steps == 2 * (STEPS + STEPS // 4)
        idle.beat()
        assert next_round(idle, share.round_id)  # it has a part again


@pytest.mark.parametrize("how", [{"leaving": True}, {"phase": "paused"}, {"phase": "stopping"}], ids=str)
@pytest.mark.allow_warnings
def test_a_client_that_goes_is_not_waited_for(
    redis_address: Address, tmp_path: Path, how: dict[str, Any]
) -> None:
    with running_node(redis_address, tmp_path, small_settings(ppo__n_clients=2)) as node:
        staying, going = join(node, "a"), join(node, "b")
        next_round(staying)
        staying.deliver(STEPS)
        going.beat(**how)
        assert node.wait_for_updates(1).env_steps == 2 * STEPS


@pytest.mark.allow_warnings
def test_a_client_that_comes_again_enters_the_next_round(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, small_settings(ppo__n_clients=2)) as node:
        first, second = join(node, "a"), join(node, "b")
        share = next_round(second)
        first.deliver(STEPS)
        second.hello()  # its older session is over, and with it its part of this round
        second.beat()
        node.wait_for_updates(1)
        assert next_round(second, share.round_id).round_id == share.round_id + 1


@pytest.mark.allow_warnings
def test_an_empty_round_is_published_again_under_a_new_id(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, small_settings(ppo__round_timeout=1.0)) as node:
        player = join(node)
        share = next_round(player)
        before, _ = player.weights()
        following = next_round(player, share.round_id)
        after, _ = player.weights()
        assert following.round_id == share.round_id + 1
        assert (after.update, after.digest) == (0, before.digest)
        player.deliver(STEPS)
        node.wait_for_updates(1)


@pytest.mark.allow_warnings
def test_late_and_surplus_segments_are_counted_and_not_trained_on(
    redis_address: Address, tmp_path: Path
) -> None:
    with running_node(redis_address, tmp_path, small_settings(ppo__n_clients=2)) as node:
        player, other = join(node, "a"), join(node, "b")
        next_round(player)
        stale = player.play(STEPS)
        player.deliver(STEPS)
        player.deliver(STEPS)  # more than its share
        other.deliver(STEPS)
        node.wait_for_updates(1)
        next_round(player, 1)
        config = player.config()
        assert config is not None
        player.send(pack_chunk(config.run_id, config.contract, stale))
        state = node.wait_for(lambda now: now.rejected.get("late"), "late ones are counted")
        assert state.rejected == {"not_admitted": 2, "late": 2}
        assert state.rejected_by_client == {"a": {"not_admitted": 2, "late": 2}}
        assert state.env_steps == 2 * 2 * STEPS


@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        ({"digest": np.array([1, 1], np.uint64)}, "lineage"),
        ({"log_prob": np.full(2 * STEPS, np.nan, np.float32)}, "not_finite"),
        ({"action": np.full(2 * STEPS, 9)}, "out_of_bounds"),
    ],
)
def test_bad_segments_never_reach_the_learner(
    redis_address: Address, tmp_path: Path, spoilt: dict[str, Any], reason: str
) -> None:
    with running_node(redis_address, tmp_path, small_settings(ppo__n_clients=2)) as node:
        good, bad = join(node, "a"), join(node, "b")
        next_round(good)
        good.deliver(STEPS)
        bad.deliver(STEPS, **spoilt)
        node.wait_for_updates(1)
        state = node.wait_for(lambda now: now.rejected, "they are counted")
        assert state.rejected == {reason: 2}
        assert state.env_steps == 2 * STEPS  # delivered, but not trained on


def test_the_goal_in_steps_ends_the_rounds(redis_address: Address, tmp_path: Path) -> None:
    settings = small_settings(stop__env_steps=4 * STEPS)
    with running_node(redis_address, tmp_path, settings) as node:
        player = join(node)
        last = play(player, rounds=2)
        state = node.wait_for(lambda now: now.stop_reached, "the goal is told")
        assert (state.env_steps, state.detail) == (4 * STEPS, "goal reached")
        # The last weights go out, without a round.
        until(lambda: player.weights()[0].model_id == last + 1, "the last weights")
        grant = player.grant()
        assert grant is not None
        assert grant.round is None or grant.round.round_id <= last


def test_what_changes_over_the_run_is_on_the_curves(redis_address: Address, tmp_path: Path) -> None:
    told = {"normalize__rewards": True, "ppo__normalize_value": True}
    settings = small_settings(stop__env_steps=6 * STEPS, ppo__learning_rate=FALLING, **told)
    with running_node(redis_address, tmp_path, settings) as node:
        play(join(node), rounds=3)
        node.wait_for(lambda now: now.stop_reached, "the goal")
        until(lambda: len([row for row in node.rows() if isinstance(row, UpdateRow)]) == 3, "the rows")
        rows = [row.values for row in node.rows() if isinstance(row, UpdateRow)]
        rates = [values["learning_rate"] for values in rows]
        assert all(values["reward_std"] > 0 and values["value_std"] > 0 for values in rows)
        np.testing.assert_allclose(rates, 1e-3 * np.array([1, 2 / 3, 1 / 3]))


def test_settings_of_the_run_are_written_for_those_who_come_later(
    redis_address: Address, tmp_path: Path, redis_client: redis.Redis
) -> None:
    with running_node(redis_address, tmp_path) as node:
        until(lambda: redis_client.exists(node.keys.config), "the run is told")
        assert load_run_settings(tmp_path / "config.json") == small_settings()
        config = redis_client.get(node.keys.config)
        assert isinstance(config, bytes)
        assert json.loads(config)["run_id"] == tmp_path.name
