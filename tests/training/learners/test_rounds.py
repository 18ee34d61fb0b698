"""The PPO node, whole, on a real server: rounds with clients that come, go and cheat."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.config.sections.run import MAX_NUM_ENVS
from soulsgui.training.learners.rounds import RoundLearner, most_envs
from soulsgui.wire.connection import Address, connect
from tests.faults.waiting import until
from tests.servers import delete_prefix, with_fresh_prefix
from tests.training.nodes import (
    STEPS,
    RunningNode,
    RunNode,
    faulty_node,
    join,
    next_round,
    play,
    running_node,
    small_settings,
)

FALLING = {"schedule": "linear", "from": 1e-3, "to": 0}

pytestmark = pytest.mark.allow_warnings


@pytest.mark.parametrize(
    ("n_steps", "observation_bytes", "envs"),
    [(2048, 16, 2730), (64, 16_000, 261), (2048, 28_224, 4), (10**9, 10**9, 1), (1, 4, MAX_NUM_ENVS)],
)
def test_a_share_of_a_round_fits_into_memory(n_steps: int, observation_bytes: int, envs: int) -> None:
    assert most_envs(n_steps, observation_bytes) == envs


def test_the_first_round_waits_for_enough_clients_and_what_is_late_or_too_much_is_counted(
    run_node: RunNode,
) -> None:
    with run_node(small_settings(ppo__n_clients=2)) as node:
        first = join(node, "a")
        node.wait_for(lambda state: state.detail == "1 of 2 clients are ready", "one is not enough")
        assert first.share() is None
        second = join(node, "b")
        next_round(first, -1, second)
        stale = first.play(STEPS)
        first.deliver(STEPS)
        first.deliver(STEPS)  # more than its share
        second.deliver(STEPS)
        node.wait_for_updates(1)
        last = next_round(first, 1).round_id
        first.send(first.packed(stale))
        state = node.wait_for(lambda now: now.rejected.get("late"), "late ones are counted")
        assert state.rejected == {"not_admitted": 2, "late": 2}
        assert state.rejected_by_client == {"a": {"not_admitted": 2, "late": 2}}
        assert state.env_steps == 2 * 2 * STEPS
        first.beat(leaving=True)
        play(second, last=last - 1, rounds=2)  # later rounds need one
        node.wait_for_updates(3)
        second.beat(leaving=True)
    settings = small_settings(ppo__round_timeout=600.0, ppo__n_clients=None, clients__local=2)
    with run_node(settings) as node:  # local ones that were taken away are not waited for without an end
        player, learner = join(node, "c"), node.node.learner
        until(lambda: learner._first_client_at, "the others are waited for")
        learner._first_client_at -= 1000.0
        play(player)
        assert node.wait_for_updates(1).env_steps == 2 * STEPS


def _time_is_up(node: RunningNode) -> None:
    """Let the time of the present round be over."""
    now = node.node.learner.round

    def over() -> bool:
        now.elapsed_s = 1000.0  # again and again: the node adds to it meanwhile
        return node.node.learner.round is not now

    until(over, "the next round")


def test_who_is_absent_or_begins_anew_shrinks_the_round_and_enters_the_next_one(run_node: RunNode) -> None:
    settings = small_settings(ppo__round_timeout=600.0, ppo__n_clients=2)
    with run_node(settings) as node:
        diligent, idle = join(node, "a"), join(node, "b")
        last = next_round(diligent, -1, idle).round_id
        diligent.deliver(STEPS)
        idle.deliver(STEPS // 4)  # and no more: what it delivered counts
        members = node.node.learner.round.members
        node.wait_for(lambda _: members["a"].complete and members["b"].delivered, "both are taken in")
        _time_is_up(node)
        state = node.wait_for_updates(1)
        assert state.env_steps == 2 * (STEPS + STEPS // 4)
        idle.beat()
        assert next_round(idle, last).round_id == last + 1
        idle.hello()  # its older session is over, and with it its part of this round
        idle.beat()
        next_round(diligent, last)
        diligent.deliver(STEPS)
        assert node.wait_for_updates(2).env_steps == state.env_steps + 2 * STEPS
        assert next_round(idle, last + 1).round_id == last + 2


def test_who_pauses_is_told_at_once_that_the_round_goes_on_without_it(run_node: RunNode) -> None:
    with run_node(small_settings(ppo__round_timeout=600.0, ppo__n_clients=2)) as node:
        staying, going = join(node, "a"), join(node, "b")
        share = next_round(going, -1, staying)
        going.beat(phase="paused")
        until(lambda: going.share() is None, "what it would play now would be late")
        going.beat()
        until(lambda: not node.node.attempt.intake.why_absent("b"), "it is back")
        staying.deliver(STEPS)
        assert next_round(going, share.round_id, staying).steps == share.steps


def test_an_empty_round_is_published_again_and_a_long_update_gives_signs_of_life(run_node: RunNode) -> None:
    with run_node(small_settings(ppo__round_timeout=600.0)) as node:
        player = join(node)
        share = next_round(player)
        before, _ = player.weights()
        _time_is_up(node)
        following = next_round(player, share.round_id)
        after, _ = player.weights()
        assert following.round_id == share.round_id + 1
        assert (after.update, after.digest) == (0, before.digest)
        agent, told = node.node.agent, []
        alive = agent.after_step
        agent.after_step = lambda: (alive(), told.append(node.node.state().tick))
        player.deliver(STEPS)
        node.wait_for_updates(1)
        assert len(set(told)) == len(told) > 1


@pytest.mark.parametrize("policy", ["shrink", "wait"])
def test_a_member_whose_chunks_are_damaged_is_asked_again_at_once(
    run_node: RunNode, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = small_settings(ppo__n_clients=2, ppo__round_timeout=600.0, ppo__lost_member=policy)
    with run_node(settings) as node:
        good, damaged = join(node, "a"), join(node, "b")
        share = next_round(damaged, -1, good)
        good.deliver(STEPS)
        damaged.deliver(STEPS // 4)
        for refused in (1, 2):
            damaged.send(b"garbage")
            words = f"asking again for chunks of b ({refused} refused)"
            node.wait_for(lambda now: now.detail == words, "said in the state")  # noqa: B023
        until(lambda: (now := damaged.share()) and now.steps == 2 * STEPS * 5 // 2, "its part has grown")
        assert node.node.agent.updates == 0
        damaged.deliver(STEPS * 3 // 4)
        node.wait_for_updates(1)
        state = node.wait_for(lambda now: now.rejected == {"unreadable": 2}, "they are counted")
        assert state.env_steps == 2 * 2 * STEPS
        assert next_round(damaged, share.round_id).steps == 2 * STEPS, "the next round is as any other"
    assert len([line for line in caplog.messages if "asked for the rest" in line]) == 1


def test_what_changes_over_the_run_is_on_the_curves(run_node: RunNode) -> None:
    told = {"normalize__rewards": True, "ppo__normalize_value": True}
    settings = small_settings(stop__env_steps=6 * STEPS, ppo__learning_rate=FALLING, **told)
    with run_node(settings) as node:
        play(join(node), rounds=3)
        node.wait_for(lambda now: now.stop_reached, "the goal")
        until(lambda: len(node.update_rows()) == 3, "the rows")
        rows = [row.values for row in node.update_rows()]
        rates = [values["learning_rate"] for values in rows]
        assert all(values["reward_std"] > 0 and values["value_std"] > 0 for values in rows)
        np.testing.assert_allclose(rates, 1e-3 * np.array([1, 2 / 3, 1 / 3]))


def test_a_stop_in_between_leaves_the_weights_equal_to_the_bit(redis_server: Address, tmp_path: Path) -> None:
    settings = small_settings(ppo__learning_rate=FALLING, stop__env_steps=10_000)
    digests = []
    for name, parts in (("whole", [6]), ("stopped", [3, 3])):
        address = with_fresh_prefix(redis_server)
        done = 0
        for part in parts:
            with running_node(address, tmp_path / name, settings, resume=done > 0) as node:
                for _ in range(part):
                    player = join(node)
                    player._rng = np.random.default_rng(done)
                    share = next_round(player)
                    player.deliver(share.steps // player.num_envs)
                    done += 1
                    node.wait_for_updates(done)
                next_round(player, share.round_id)
                digest = player.weights()[0].digest
        digests.append(digest)
        delete_prefix(address)
    assert digests[0] == digests[1]


def test_absences_and_updates_are_no_collecting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long_s = 1.0
    passed: list[float] = []
    advance = RoundLearner.update

    def record(learner: RoundLearner, seconds: float) -> None:
        passed.append(seconds)
        advance(learner, seconds)

    monkeypatch.setattr(RoundLearner, "update", record)
    with faulty_node(tmp_path, keeps_data=True) as (server, node):
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


def test_a_refusing_server_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with faulty_node(tmp_path) as (server, node), connect(server.address) as admin:
        player = join(node)
        last = play(player)
        node.wait_for_updates(1)
        share = next_round(player, last)
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
        tick = node.told().tick
        until(lambda: node.told().tick > tick, "the state is told again")
        node.wait_for_updates(2)
        play(player, last=share.round_id)
        assert node.wait_for_updates(3).rejected == {}
